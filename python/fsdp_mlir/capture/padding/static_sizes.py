"""Makes sizes that depend on values static: `x[mask]`, `nonzero`, and what is computed of them.

Capture gives such a size a symbol, `u0`. Here it becomes the largest that it can be, and each tensor
of that size has its elements in front, in eager's order, and padding behind. How many count is a
tensor of the graph. Each operator that sees padding has a rule (`rules`) that keeps it from
what is not padding; an operator without one is refused. So padding may hold anything, NaN too, and
is left out by a choice, never by a multiplication with zero.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Optional

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ...errors import ExportError, note
from ...step.places import at_line
from ..graph.memory_orders import is_view
from ..graph.nodes import is_random, laid_out, location, same_strides, tensors_of
from .static_form import Rule, StaticForm, aten, is_dynamic

_CHECKS = (
    aten._assert_scalar.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
)


def dynamic_calls(graph: fx.Graph) -> list[fx.Node]:
    """Calls whose result has a size that depends on values."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function" and any(map(is_dynamic, tensors_of(node.meta.get("val"))))
    ]


def make_static(module: fx.GraphModule, rules: Callable[[Any], Optional[Rule]]) -> None:
    """Rewrites the graph of `module`, whose values are eager's as before.

    `rules` gives an operator's rule, or None.

    Raises:
        ExportError: an operator has no form with padding.
    """
    numbers = (torch.SymInt, torch.SymFloat)
    read = [n for n in module.graph.nodes if isinstance(n.meta.get("val"), numbers)]
    if read or dynamic_calls(module.graph):
        tensors = (t for n in module.graph.nodes for t in tensors_of(n.meta.get("val")))
        mode = next(t.fake_mode for t in tensors)
        for node in module.graph.find_nodes(op="get_attr"):
            node.meta.setdefault("val", mode.from_tensor(getattr(module, node.target)))
        _Rewriter(module.graph, mode.shape_env, rules).run()
        module.recompile()


def _view_of_copy(form: StaticForm, node: fx.Node) -> fx.Node:
    """A view of a part of a tensor that became a copy of it."""
    if node.target is aten.as_strided.default:
        raise form.refused(node, "it has strides of its own")
    return form.again(node)


class _Rewriter:
    """Puts in the place of each call that sees padding what its operator's rule makes of it."""

    def __init__(
        self, graph: fx.Graph, environment: ShapeEnv, rules: Callable[[Any], Optional[Rule]]
    ) -> None:
        self._graph = graph
        self._rules = rules
        self._form = StaticForm(graph, environment)
        self._dynamic = {node for node in graph.nodes if self._form.note_captured(node)}
        # Static results that lie otherwise than capture says: parts of a tensor that became copies.
        self._moved: set[fx.Node] = set()

    def run(self) -> None:
        for node in list(self._graph.nodes):
            if node._erased:
                continue
            touched = node in self._dynamic or any(n in self._dynamic for n in node.all_input_nodes)
            if node.op == "output":
                self._check_results(node)
            elif node.target in _CHECKS:
                self._need_equal(node)
                self._graph.erase_node(node)
            elif touched and (not self._form.is_number(node) or self._rules(node.target)):
                self._rewrite(node, self._rules(node.target))
            elif is_view(node) and any(n in self._moved for n in node.all_input_nodes):
                self._rewrite(node, _view_of_copy)
        # Numbers are read from what they are computed of.
        self._graph.eliminate_dead_code()

    def _need_equal(self, check: fx.Node) -> None:
        """Notes that the step needs two sizes to be equal that are counted apart, as those of two parts
        which are added. What else a check says of a size follows from what it is a size of."""
        condition, form = check.args[0], self._form
        if isinstance(condition, fx.Node) and condition.target is operator.eq:
            sizes = [form.size_of(size) for size in condition.args]
            if sizes[0] != sizes[1] and all(form.is_counted(size) for size in sizes):
                form.line = condition.all_input_nodes[0]
                with self._graph.inserting_before(check):
                    holds = form.call(aten.eq.Tensor, *map(form.count, sizes))
                text = at_line(location(check), "the step needs sizes to be equal here")
                form.needed.append((holds, text))

    def _rewrite(self, node: fx.Node, rule: Optional[Rule]) -> None:
        if node.target is operator.getitem:
            node.meta["val"] = node.args[0].meta["val"][node.args[1]]
            return
        if rule is None:
            raise self._form.refused(node)
        self._form.line = node
        if is_random(node.target):
            what = (
                "random numbers are drawn for as many elements as there can be, where eager draws as "
                "many as values say: others than eager's"
            )
            note(at_line(location(node), what))
        try:
            with self._graph.inserting_before(node):
                new = rule(self._form, node)
        except ExportError:
            raise
        except (IndexError, RuntimeError) as error:  # of an operator that cannot be computed so
            raise self._form.refused(node, str(error).partition("\n")[0]) from error
        self._replace(node, new)

    def _replace(self, node: fx.Node, new: Any) -> None:
        if isinstance(new, tuple):
            for user in list(node.users):
                user.replace_all_uses_with(new[user.args[1]])
                self._move(user, new[user.args[1]])
                self._graph.erase_node(user)
            self._graph.erase_node(node)
            return
        if new is None:
            return  # a number, which its readers compute
        wanted = self._form.bounds_of(node)
        found = [tuple(tensor.shape) for tensor in tensors_of(new.meta["val"])]
        if wanted != found:
            raise self._form.refused(node, f"its result has the shape {found} for {wanted}")
        # The readers of static results keep the strides that they are captured with.
        if node not in self._dynamic and isinstance(node.meta["val"], torch.Tensor):
            with self._graph.inserting_before(node):
                new = laid_out(node, new, node.meta["val"])
            if not same_strides(node.meta["val"], new.meta["val"]):
                self._moved.add(new)
        node.replace_all_uses_with(new)
        self._move(node, new)
        self._graph.erase_node(node)

    def _move(self, node: fx.Node, new: fx.Node) -> None:
        self._form.inherit(new, node)
        if node in self._dynamic:
            self._dynamic.add(new)

    def _check_results(self, output: fx.Node) -> None:
        for node in output.all_input_nodes:
            if self._form.is_number(node) or any(
                not isinstance(size, int) for shape in self._form.shapes(node) for size in shape
            ):
                raise self._form.refused(node, "it is a result of the step")
        self._check_needed(output)

    def _check_needed(self, output: fx.Node) -> None:
        """Gives the loss only to a step of which all holds that it needs."""
        loss, *others = output.args[0]
        self._form.line = loss
        with self._graph.inserting_before(output):
            for condition, text in self._form.needed:
                loss = self._form.check(condition, text, loss)
        output.args = ((loss, *others),)

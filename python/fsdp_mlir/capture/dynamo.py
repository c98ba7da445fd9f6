"""Captures a step by following its Python code: Dynamo gives the forward graph."""

from __future__ import annotations

import builtins
import contextlib
import os
import re
import sys
import warnings
from typing import Any, Iterator, Mapping, Sequence

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx._lazy_graph_module import _make_graph_module
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import E, ExportError
from ..package import is_local
from ..step.names import StateNames
from .context import capture_settings
from .graph.memory_orders import without_gaps
from .graph.nodes import is_answered, location, refused_higher_order, state_of
from .lost_output import named_where_run
from .operators.autocast import check_autocast
from .operators.higher_order import BY_CODE
from .state.late_decisions import numbers_to_keep
from .state.python_state import PythonState, warn_changed
from .state.reached import Reached
from .state.replaced_buffers import NeedsCopies
from .state.trials import Trials
from .state.without_values import raised_by_step
from .values.draws import note_drawn
from .values.python_floats import as_number
from .values.value_checks import AnyNumber


class NotFollowed(Exception):
    """Raised where a graph of Dynamo's cannot be differentiated as it is."""


def follow(
    loss: torch.nn.Module, inputs: Mapping[str, torch.Tensor], names: StateNames
) -> tuple[fx.GraphModule, dict[str, tuple[str, str]], tuple[Any, Mapping[str, Any]]]:
    """The forward graph of `loss` as a module of the batch alone, all else under names of its own.

    Returns the module, the role and name of each of its attributes, and its outputs, the loss and
    the metrics. Outputs that are tensors are given without values.
    """
    forward, changed = _follow_python(loss, tuple(inputs.values()))
    tables = [name for name in changed if name.endswith("._parameters")]
    if tables and not _moves_parameters(loss, inputs):
        changed = [name for name in changed if name not in tables]
    if Reached(loss).has_kept_defaults:  # of which Dynamo makes new ones
        changed += _changed_where_run(loss, inputs)
    if changed:
        trials = Trials(loss, inputs, names)
        if not trials.are_alike():
            raise NotFollowed("it computes with Python state that it changes")
        kept = numbers_to_keep(trials)
        if kept:
            raise NotFollowed("it computes with numbers that it changes")
        warn_changed(changed, is_seen=trials.leave_something and kept is not None)
    check_autocast(forward)
    _check_data(forward)
    _check_answers(forward)
    _note_draws(forward)
    _read_numbers(forward)
    return _name_states(forward, inputs, names)


def _follow_python(
    wrapper: torch.nn.Module, batch: tuple[torch.Tensor, ...]
) -> tuple[fx.GraphModule, list[str]]:
    """The forward graph, and names of the Python state that the step changes."""
    from torch._dynamo.functional_export import dynamo_graph_capture_for_export

    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught, capture_settings():
        warnings.simplefilter("always")
        forward = dynamo_graph_capture_for_export(wrapper)(*batch)
    names: list[str] = []
    for warning in caught:
        if "side effects happened" in str(warning.message):
            changed = list(_changed_state(str(warning.message)))
            if any(name.endswith("._buffers") for name in changed):
                raise NeedsCopies("it puts another tensor in the place of a buffer")
            names += changed
        elif issubclass(warning.category, UserWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return forward, names


def _moves_parameters(loss: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> bool:
    """Whether a step leaves modules with other parameters than it finds; `functional_call` puts
    others in their places only while it runs."""
    tables = [module._parameters for module in loss.modules()]
    found: list[dict[str, Any]] = []
    left: list[dict[str, Any]] = []
    hooks = (
        loss.register_forward_pre_hook(lambda *_: found.extend(map(dict, tables))),
        loss.register_forward_hook(lambda *_: left.extend(map(dict, tables))),
    )
    try:
        with named_where_run():
            raised_by_step(loss, inputs, AnyNumber())
    finally:
        for hook in hooks:
            hook.remove()
    as_found = [[(name, id(tensor)) for name, tensor in table.items()] for table in found]
    return as_found != [[(name, id(tensor)) for name, tensor in table.items()] for table in left]


def _changed_where_run(loss: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> list[str]:
    """Names of the Python state that a step changes when it runs."""
    state = PythonState(loss)
    try:
        raised_by_step(loss, inputs, AnyNumber())
        return state.changed()
    finally:
        state.restore()


def _lifted(forward: fx.GraphModule, batch: tuple[torch.Tensor, ...]) -> Sequence[Any]:
    """The values of the placeholders of a graph of Dynamo's: all that the code reads."""
    # What makes a library's object again, such as an output that metrics read by name, calls `type`,
    # which Dynamo looks for among the module's own names alone.
    for code in (forward._dynamo_bytecode_flatten, forward._dynamo_bytecode_unflatten):
        code.f_globals = {**vars(builtins), **code.f_globals}
    return forward._dynamo_bytecode_flatten(*batch)


# Of SharedForward, and of the casts at a unit's border.
_OUR_STATE = r"\.forward\.__closure__|\._border_(waiting|known|sharing)"


def _changed_state(message: str) -> Iterator[str]:
    """Names of the Python state that the step changes, from PyTorch's own warning.

    Its sources read L['self']._modules['model']._modules['0'].calls, of the model;
    L['self'].loss_functions[0].__closure__[0].cell_contents, of what the loss refers to;
    G['__import_package_dot_module'].NAME, or without the name; and of what a method refers to
    dict(type(L['self']._modules['model']).__dict__)['forward'].__closure__[0].
    """
    for source in re.findall(r'"([^"]+)"', message):
        path = re.sub(r"\._modules\['([^']+)'\]", r".\1", source)
        if path.startswith("L['self'].model") and not re.search(_OUR_STATE, path):
            yield "model" + path.removeprefix("L['self'].model")
        elif found := re.match(r"L\['self'\]\.(loss|metrics|outputs)_function", path):
            yield f"a variable around {found[1]}"
        elif found := re.match(r"G\['__import_(\w+)'\](?:\.(.+))?", path):
            file = getattr(sys.modules.get(found[1].replace("_dot_", ".")), "__file__", None) or ""
            if is_local(file):
                # Of a variable that the step sets (`global count`) the module alone is told.
                yield found[2] or f"a global variable of {os.path.basename(file)}"
        elif not path.startswith(("L['self']", "G[")):
            *_, last = ["the step", *re.findall(r"\['(\w+)'\]", source)]
            yield f"a variable around {last}"


def _check_data(forward: fx.GraphModule) -> None:
    """Raises NotFollowed where a step with checkpoints reads `.data` of what it computes: a checkpoint is
    computed again without what is written there, and nothing says that it is."""
    graphs = [module.graph for module in forward.modules() if isinstance(module, fx.GraphModule)]
    if not any(graph.find_nodes(op="call_function", target=_CHECKPOINT) for graph in graphs):
        return
    of_data = torch._C._autograd._get_data_attr
    for graph in graphs:
        read = [node.args[0] for node in graph.find_nodes(op="call_function", target=of_data)]
        if any(value.op != "placeholder" for value in read):
            raise NotFollowed("it has checkpoints, and reads .data of what it computes")


def _check_answers(forward: fx.GraphModule) -> None:
    """Raises NotFollowed where the step goes on behind an assertion that fails: a graph has no way for
    that."""
    asserts = forward.graph.find_nodes(op="call_function", target=torch._assert_async)
    if any(is_answered(node, AssertionError.__name__) for node in asserts):
        raise NotFollowed("it goes on behind an assertion that fails")


def _note_draws(forward: fx.GraphModule) -> None:
    """Says where the code draws random numbers from NumPy, for whose functions Dynamo has torch's."""
    for module in forward.modules():
        for node in getattr(module, "graph", fx.Graph()).nodes:
            function = getattr(node.target, "f", None)
            if getattr(function, "__module__", None) == torch._numpy.random.__name__:
                note_drawn(location(node))


def _read_numbers(forward: fx.GraphModule) -> None:
    """Numbers with a fraction that the code reads, in checkpoints too, compute as Python's."""
    for module in forward.modules():
        nodes = getattr(module, "graph", fx.Graph()).find_nodes(op="call_method", target="item")
        for node in nodes:
            if isinstance(node.meta.get("example_value"), torch.SymFloat):
                node.op, node.target = "call_function", as_number
                for of_symbol in ("example_value", "unbacked_bindings"):
                    node.meta.pop(of_symbol, None)
        if nodes:
            module.recompile()


def _name_states(
    forward: fx.GraphModule, inputs: Mapping[str, torch.Tensor], names: StateNames
) -> tuple[fx.GraphModule, dict[str, tuple[str, str]], tuple[Any, Mapping[str, Any]]]:
    """`follow`'s result, from a graph of Dynamo's."""
    batch = tuple(inputs.values())
    copy = _NamedCopy(forward, inputs, names)
    flat = copy.copy_nodes()
    loss, metrics = forward._dynamo_bytecode_unflatten(tuple(flat), batch)
    metrics = metrics if isinstance(metrics, dict) else {}
    copy.give(loss, metrics)
    module = _make_graph_module(copy.root, copy.graph)
    module.meta = {k: v for k, v in forward.meta.items() if k in ("fake_mode", "tracing_context")}

    def value(output: Any) -> Any:
        return output.meta.get("example_value") if isinstance(output, fx.Node) else output

    return module, copy.states, (value(loss), {name: value(m) for name, m in metrics.items()})


class _NamedCopy:
    """A copy of a graph of Dynamo's whose placeholders are the batch, and whose attributes are all
    else that the code reads.

    Attributes:
        root: a module that has the attributes.
        graph: the copy.
        states: the role and name of each state by its attribute.
    """

    def __init__(
        self, forward: fx.GraphModule, inputs: Mapping[str, torch.Tensor], names: StateNames
    ) -> None:
        self.root = torch.nn.Module()
        self.graph = fx.Graph()
        self.states: dict[str, tuple[str, str]] = {}
        self._forward = forward
        self._names = names
        self._places = {name: self.graph.placeholder(f"input_{name}") for name in inputs}
        self._copies: dict[fx.Node, fx.Node] = {}
        of_input = {id(tensor): self._places[name] for name, tensor in inputs.items()}
        lifted = [node for node in forward.graph.nodes if node.op == "placeholder"]
        for node, value in zip(lifted, _lifted(forward, tuple(inputs.values()))):
            place = of_input.get(id(value))
            self._copies[node] = self._state(node, value) if place is None else place

    def _state(self, node: fx.Node, value: Any) -> fx.Node:
        """The attribute for a value that is no input."""
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                E.PYTHON_STATE,
                f"the step reads {node.name}, a {type(value).__name__}, as if it changed between "
                "steps; make it a tensor among the inputs, or a constant",
            )
        role, fqn = state_of(node, value, self._names)
        target = f"{role}_{len(self.states)}"
        if isinstance(value, torch.nn.Parameter):
            self.root.register_parameter(target, without_gaps(value))
        else:
            held = value if role == "constant" else without_gaps(value)
            self.root.register_buffer(target, held)
        self.states[target] = (role, fqn)
        attribute = self.graph.get_attr(target)
        attribute.meta = dict(node.meta)
        return attribute

    def copy_nodes(self) -> Sequence[Any]:
        """Copies the calls; returns the results of the graph that is copied."""
        nodes = [node for node in self._forward.graph.nodes if node.op != "placeholder"]
        *calls, output = nodes
        for node in calls:
            self._copies[node] = self.graph.node_copy(node, lambda n: self._copies[n])
            if node.op == "get_attr":
                _copy_attribute(self._forward, self.root, node)
        return output.args[0]

    def give(self, loss: Any, metrics: Mapping[str, Any]) -> None:
        """Ends the copy with the loss and the metrics, of those that are tensors."""
        if not isinstance(loss, fx.Node):
            self.graph.output(())
            return
        copy = self._copies[loss]
        example = loss.meta.get("example_value")
        if loss.op == "placeholder" or (example is not None and example._is_view()):
            # A result that is a view of another value would be returned as both.
            copy = self.graph.call_function(torch.clone, (copy,))
            copy.meta = {k: v for k, v in loss.meta.items() if k != "example_value"}
        self._check_gradients()
        others = [self._copies[m] for m in metrics.values() if isinstance(m, fx.Node)]
        self.graph.output((copy, *others))

    def _check_gradients(self) -> None:
        """Eager mode itself writes nothing with a gradient into what requires one."""
        checked = {
            target
            for target, (role, fqn) in self.states.items()
            if role == "buffer" and fqn not in self._names.unfrozen
        }
        buffers = [node for node in self._copies.values() if node.target in checked]
        for written in (*buffers, *self._places.values()):
            self.graph.call_function(_check_no_gradient, (written,))


def _check_no_gradient(tensor: torch.Tensor) -> None:
    """Raises NotFollowed where the step has written what has a gradient into a buffer or its batch: a
    graph of Dynamo's asks for a gradient of that, which the loss has not."""
    if tensor.grad_fn is not None:
        raise NotFollowed("it writes what has a gradient into a buffer, or into its batch")


_FUNCTION = torch.ops.higher_order.autograd_function_apply
# Calls of graphs that autograd sees through: a checkpoint's leaves its mark on each op.
_CHECKPOINT = torch.ops.higher_order.tag_activation_checkpoint
_DIFFERENTIATED = (_CHECKPOINT, _FUNCTION, *BY_CODE)


def _copy_attribute(source: torch.nn.Module, target: torch.nn.Module, node: fx.Node) -> None:
    value = source
    for part in node.target.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.nn.Module):
        for user in node.users:
            _check_differentiated(user)
            if user.target is _FUNCTION and user.args[0] is node:
                _check_no_writes(user, value)
        _check_body(value)
        # Differentiating follows its body.
        setattr(target, node.target, value)
    elif node.target not in dict(target.named_buffers()):
        target.register_buffer(node.target, value)


def _check_body(body: torch.nn.Module) -> None:
    """Raises NotFollowed where a function of autograd's own, or a checkpoint, calls NumPy: Dynamo has
    tensors for its arrays, through which the function's gradient is lost; and where it calls another
    such function, of which nobody asks whether it writes."""
    from torch._dynamo import utils

    # NumPy's functions, methods and operators.
    numpy = utils.numpy_to_tensor_wrapper, utils.numpy_method_wrapper, utils.numpy_operator_wrapper
    for module in body.modules():
        for node in getattr(module, "graph", fx.Graph()).nodes:
            if isinstance(node.target, numpy):
                raise NotFollowed("a function of autograd's gives a tensor to NumPy")
            if node.target is _FUNCTION:
                raise NotFollowed("an autograd.Function is in a checkpoint, or in another one")


class _NoWrites(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable:
            raise NotFollowed("the forward of an autograd.Function writes into a tensor")
        return func(*args, **(kwargs or {}))


def _check_no_writes(call: fx.Node, forward: torch.nn.Module) -> None:
    """Raises NotFollowed where the forward of a function of autograd's own writes into a tensor: in a graph
    that calls such a function, a result that was written has no gradient."""
    operands = [operand.meta["example_value"] for operand in call.args[2:]]
    with contextlib.ExitStack() as stack:
        for mode in (detect_fake_mode(operands), torch.no_grad(), _NoWrites()):
            stack.enter_context(mode or contextlib.nullcontext())
        forward(*operands)


def _check_differentiated(call: fx.Node) -> None:
    if call.target in _DIFFERENTIATED:
        return
    if str(call.target) == "trace_wrapped":
        raise NotFollowed("a tensor has a hook")
    raise refused_higher_order(call)

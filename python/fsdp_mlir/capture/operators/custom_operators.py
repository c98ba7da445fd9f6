"""Operators of `torch.library.custom_op`: what their Python bodies compute, in their place.

Their gradients, which `register_autograd` gives, are tensor code in the graph already.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional

import torch
from torch import fx
from torch._library.custom_ops import OPDEFS
from torch.fx.experimental.proxy_tensor import make_fx

from ...errors import E
from ..graph.nodes import place_of, refusal, replace


@contextlib.contextmanager
def bodies_say_shapes() -> Iterator[None]:
    """Within it, an operator without a `register_fake` has the results that its body gives on tensors
    without values."""
    bare = [known for known in OPDEFS.values() if known._abstract_fn is None]
    bare = [known for known in bare if _body_of(known._opoverload) is not None]
    for known in bare:
        known._abstract_fn = _body_of(known._opoverload)
    try:
        yield
    finally:
        for known in bare:
            known._abstract_fn = None


def inline_custom_operators(module: fx.GraphModule) -> None:
    """Replaces each call of such an operator by the operators that its body calls.

    Raises:
        ExportError: a body is more than tensor code, such as NumPy's.
    """
    while calls := [node for node in module.graph.nodes if _body_of(node.target)]:
        # A body may call other ones.
        for node in calls:
            _inline(module, node, _body_of(node.target))
        module.recompile()


def _body_of(op: Any) -> Optional[Callable[..., Any]]:
    """The Python code of an operator that `custom_op` made and that changes no argument."""
    if not isinstance(op, torch._ops.OpOverload) or op._schema.is_mutable:
        return None
    known = OPDEFS.get(op._schema.name)
    return known and (known._backend_fns.get("cpu") or known._init_fn)


def _inline(module: fx.GraphModule, node: fx.Node, body: Callable[..., Any]) -> None:
    operands = list(node.all_input_nodes)

    def of_tensors(*tensors: Any) -> Any:
        values = dict(zip(operands, tensors))
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: values[n])
        return body(*args, **kwargs)

    # Tensors stand in for those of the graph; numbers are the code's own.
    stand_ins = [operand.meta["val"] for operand in operands]
    mode = next((v.fake_mode for v in stand_ins if hasattr(v, "fake_mode")), None)
    try:
        with torch.no_grad():
            traced = make_fx(of_tensors, pre_dispatch=False)(*stand_ins)
    except Exception as error:  # whatever Python raises without values
        raise refusal(
            E.OPERATOR_REFUSED,
            node,
            f"the step calls {node.target._schema.name}, whose body is more than tensor code "
            f"({type(error).__name__}), and no Python runs while a plan does; write it, and its "
            "gradient, by torch's operators, which take its place, or compute it where batches are "
            "made",
        ) from error
    copies: dict[fx.Node, Any] = {}
    with module.graph.inserting_before(node):
        for inner, outer in zip(traced.graph.find_nodes(op="placeholder"), operands):
            copies[inner] = outer
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":
                name = f"{node.name}_{inner.target}"
                module.register_buffer(name, getattr(traced, inner.target))
                copies[inner] = module.graph.get_attr(name)
                if mode is not None:
                    copies[inner].meta["val"] = mode.from_tensor(getattr(traced, inner.target))
            elif inner.op == "call_function":
                copies[inner] = module.graph.node_copy(inner, lambda n: copies[n])
                copies[inner].meta = {**place_of(node), "val": inner.meta["val"]}
            elif inner.op == "output":
                results = fx.map_arg(inner.args[0], lambda n: copies[n])
    replace(node, results)

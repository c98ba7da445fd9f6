"""Tests in which order the graph that several ways make together has its calls."""

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from fsdp_mlir.capture.ways.shared_values import SharedValues

aten = torch.ops.aten


def draws_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    first = torch.rand_like(x)
    second = torch.randn_like(x)
    return first, second, x.cos()


def test_draws_stay_in_order_where_the_first_waits_for_a_choice() -> None:
    """As of an encoder whose mask is chosen, with a decoder that needs no mask behind it."""
    module: fx.GraphModule = make_fx(draws_twice, tracing_mode="fake")(torch.zeros(2))
    output = module.graph.find_nodes(op="output")[0]
    output.meta["desc"] = ["first", "second", "late"]
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        node.meta["desc"] = number
    values = SharedValues()
    results, _ = values.add(module)
    first, late = results["first"], results["late"]
    (x,) = first.operands
    chosen = values.call(late, aten.mul.Tensor, x, late)  # behind both draws in the code
    results["first"] = values.again(first, ((chosen, *first.arguments[0][1:]), first.arguments[1]))
    calls = [node.target for node in values.graph(results).graph.nodes]
    assert calls.index(aten.rand_like.default) < calls.index(aten.randn_like.default)

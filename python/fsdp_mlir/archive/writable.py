"""What a call of a captured graph must be to stand in an archive."""

from __future__ import annotations

import torch
from torch import fx

from ..capture.graph import own_operators
from ..capture.graph.nodes import of_a_library, refusal
from ..errors import E
from ..step.dense import REMEDY

# Of operators that PyTorch's own libraries register; the others come with a Python package.
_OWN = ("aten", "fsdp", "mkldnn", "quantized", own_operators.NAMESPACE)


def check_writable(node: fx.Node) -> None:
    """Raises ExportError, with the user's line, where no plan can call what `node` calls."""
    op = node.target
    if str(op).startswith("auto_functionalized"):
        raise refusal(
            E.OPERATOR_REFUSED,
            node,
            f"the step calls {node.args[0]._schema.name}, an operator of torch.library that changes "
            "its arguments; let it return what is new",
        )
    if not isinstance(op, torch._ops.OpOverload):
        raise refusal(
            E.OPERATOR_REFUSED,
            node,
            f"the step uses {op}, which is not a tensor op and cannot be exported; write it as "
            "plain tensor code",
        )
    name = op._schema.name
    if name in _defined_in_python() and op.namespace != own_operators.NAMESPACE:
        raise refusal(
            E.OPERATOR_REFUSED,
            node,
            f"the step calls {name}, an operator with a body in Python alone, and no Python runs "
            "while a plan does; call the tensor code in it as a plain function",
        )
    if op.namespace not in _OWN:
        raise refusal(
            E.OPERATOR_REFUSED,
            node,
            of_a_library(name),
        )
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.layout != torch.strided:
        raise refusal(
            E.OPERATOR_REFUSED, node, f"the step makes a sparse tensor ({op}), and {REMEDY}"
        )
    if op is torch.ops.aten._local_scalar_dense.default:
        raise refusal(
            E.VALUE_DEPENDENT,
            node,
            "the step reads a tensor's value as a Python number; keep it a tensor",
        )


def _defined_in_python() -> set[str]:
    """Names of the operators that `torch.library` made."""
    return {name.partition(".")[0] for name in torch.library._defs}

"""What operators do with tensors whose last elements along a dimension are padding.

A rule proves, by what its operator is, that what is not padding is as without it. Padding of a
result may hold anything.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import fx

from ..graph.nodes import arguments_of
from .boxes import BOXES
from .draws import DRAWS
from .layers import LAYERS
from .losses import LOSSES
from .parts import PARTS
from .places import PLACES
from .shapes import SHAPES
from .sources import SOURCES
from .static_form import Rule, StaticForm, aten, dims_of
from .sums import SUMS
from .views import VIEWS


def rule_of(op: Any) -> Optional[Rule]:
    """The rule of an operator; None where it has none."""
    if op in SOURCES:
        return SOURCES[op]
    if not isinstance(op, torch._ops.OpOverload):
        return None
    name = op._schema.name.removeprefix("aten::")
    if name in _RULES:
        return _RULES[name]
    if torch.Tag.pointwise in op.tags or name in _POINTWISE:
        return _integers_divide if name in _DIVISIONS else StaticForm.again
    return None


_MIXES = "it mixes elements along the dimension of that size"
# Each element of the result is one of the operands', at the same place; PyTorch's tag is missing.
_POINTWISE = frozenset(
    """_conj _conj_physical _neg_view _prelu_kernel _prelu_kernel_backward _to_copy alias cauchy
    complex copy copysign detach elu_backward empty_like exponential
    fake_quantize_per_tensor_affine_cachemask fill floor_divide full_like geometric
    hardshrink_backward hardsigmoid_backward hardswish hardswish_backward hardtanh_backward imag
    ldexp leaky_relu leaky_relu_backward lift_fresh_copy log_normal log_sigmoid_backward
    log_sigmoid_forward masked_fill mish_backward native_dropout normal_functional ones_like polar
    rand_like randint_like randn_like real resolve_conj resolve_neg rrelu_with_noise rsub
    softplus_backward softshrink_backward uniform view_as_complex view_as_real where zero zeros_like""".split()
)
_DIVISIONS = frozenset("div divide floor_divide fmod remainder".split())
# Sizes among the arguments say how large the result is, and nothing else.
_FACTORIES = """empty full new_empty new_empty_strided new_full new_ones new_zeros ones rand randn
zeros""".split()


def _integers_divide(form: StaticForm, node: fx.Node) -> fx.Node:
    """Integers are not divided by padding, which may be zero: that ends a process."""
    values = arguments_of(node)
    other = values["other"]
    if form.padded(other) and not other.meta["val"].dtype.is_floating_point:
        return form.again(node, other=form.filled(other, 1))
    return form.again(node)


def _isin(form: StaticForm, node: fx.Node) -> fx.Node:
    """Whether an element is equal to one of those that count."""
    values = arguments_of(node)
    elements, test = values.get("elements"), values.get("test_elements")
    if not form.is_tensor(elements) or not form.padded(test):
        return form.again(node)
    if len(form.shape(test)) != 1:
        raise form.refused(node, "it looks for elements of several dimensions")
    among = form.call(aten.eq.Tensor, form.call(aten.unsqueeze.default, elements, -1), test)
    counted = form.counted(form.shape(test)[0])
    among = form.call(aten.logical_and.default, among, counted)
    found = form.call(aten.any.dim, among, -1)
    return form.call(aten.logical_not.default, found) if values["invert"] else found


def _bucketize(form: StaticForm, node: fx.Node) -> fx.Node:
    """Each element is looked for among boundaries, all of which must be known."""
    if form.padded(arguments_of(node)["boundaries"]):
        raise form.refused(node, "it looks among boundaries of that size")
    return form.again(node)


def _scalar_tensor(form: StaticForm, node: fx.Node) -> fx.Node:
    """A number as a tensor, which it is in the graph."""
    values = arguments_of(node)
    number = form.count(form.size_of(values["s"]))
    return form.call(aten._to_copy.default, number, dtype=node.meta["val"].dtype)


def _apart(*names: str) -> Rule:
    """The rule of operators that mix elements only along the dimensions in these arguments."""

    def rule(form: StaticForm, node: fx.Node) -> fx.Node:
        values = arguments_of(node)
        tensor = next(v for v in values.values() if form.is_tensor(v))
        for name in names:
            mixed = dims_of(values[name], len(form.shape(tensor)))
            if set(mixed) & set(form.padded(tensor)):
                raise form.refused(node, _MIXES)
        return form.again(node)

    return rule


def _batches(first: Callable[[dict[str, Any]], int]) -> Rule:
    """The rule of operators whose first dimensions are a batch of independent samples."""

    def rule(form: StaticForm, node: fx.Node) -> fx.Node:
        batch = first(arguments_of(node))
        for operand in node.all_input_nodes:
            if any(dim >= batch for dim in form.padded(operand)):
                raise form.refused(node, _MIXES)
        return form.again(node)

    return rule


def _summing(first: Callable[[dict[str, Any]], int]) -> Rule:
    """The rule of backward formulas that also sum over a batch: they sum zeros for padding."""

    def rule(form: StaticForm, node: fx.Node) -> fx.Node:
        values = arguments_of(node)
        changed = {}
        for name, value in values.items():
            padded = form.padded(value)
            if any(dim >= first(values) for dim in padded):
                raise form.refused(node, _MIXES)
            if padded:
                changed[name] = form.filled(value, 0)
        return form.again(node, **changed)

    return rule


def _cdist_backward(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    if any(_last(values) in form.padded(values[name]) for name in ("x1", "x2")):
        raise form.refused(node, _MIXES)
    names = ("grad", "x1", "x2", "cdist")
    return form.again(node, **{name: form.filled(values[name], 0) for name in names})


def _last(values: dict[str, Any]) -> int:
    return values["x1"].meta["val"].dim() - 1


def _layer_norm_batch(values: dict[str, Any]) -> int:
    return values["input"].meta["val"].dim() - len(values["normalized_shape"])


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        "clone contiguous permute squeeze stack t transpose unsqueeze".split(),
        StaticForm.again,
    ),
    **dict.fromkeys(_FACTORIES, StaticForm.again),
    **dict.fromkeys(
        "_weight_norm_interface glu glu_backward split unbind".split(),
        _apart("dim"),
    ),
    **dict.fromkeys(
        "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d "
        "avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward "
        "native_group_norm upsample_nearest2d upsample_bilinear2d".split(),
        _batches(lambda _: 1),
    ),
    "native_group_norm_backward": _summing(lambda _: 1),
    **dict.fromkeys("native_layer_norm _fused_rms_norm".split(), _batches(_layer_norm_batch)),
    **dict.fromkeys(
        "native_layer_norm_backward _fused_rms_norm_backward".split(), _summing(_layer_norm_batch)
    ),
    "isin": _isin,
    "scalar_tensor": _scalar_tensor,
    "unfold": _apart("dimension"),
    "bucketize": _bucketize,
    "_cdist_forward": _batches(_last),
    "_cdist_backward": _cdist_backward,
    **BOXES,
    **DRAWS,
    **LAYERS,
    **LOSSES,
    **PARTS,
    **PLACES,
    **SHAPES,
    **SUMS,
    **VIEWS,
}

"""Rules for losses of tensors with padding (see `rules`)."""

from __future__ import annotations

import sympy
from torch import fx

from ..graph.nodes import arguments_of
from .static_form import Rule, StaticForm, aten

_NONE, _MEAN, _SUM = 0, 1, 2


def _elementwise(form: StaticForm, node: fx.Node) -> fx.Node:
    """Computes the loss of each element, and then the sum or mean of those that count."""
    values = arguments_of(node)
    reduction = values["reduction"]
    if reduction == _NONE:
        return form.again(node)
    each = form.again(node, reduction=_NONE)
    shape = max((form.shape(values[name]) for name in ("self", "target")), key=len)
    form.note(each, shape)
    whole = form.call(aten.sum.default, form.filled(each, 0))
    if reduction == _SUM:
        return whole
    return form.call(aten.div.Tensor, whole, form.count(sympy.prod(shape)))


def _elementwise_backward(form: StaticForm, node: fx.Node) -> fx.Node:
    """The gradient of a mean is that of a sum, divided by how many count."""
    values = arguments_of(node)
    if values["reduction"] != _MEAN:
        return form.again(node)
    number = form.count(sympy.prod(form.shape(node)))
    gradient = form.call(aten.div.Tensor, values["grad_output"], number)
    return form.again(node, grad_output=gradient, reduction=_SUM)


def _nll(form: StaticForm, node: fx.Node) -> fx.Node:
    """Gives padding the class that the loss ignores."""
    values = arguments_of(node)
    if 1 in form.padded(values["self"]):
        raise form.refused(node, "it mixes elements along the dimension of that size")
    target = form.filled(values["target"], values["ignore_index"])
    return form.again(node, target=target)


LOSSES: dict[str, Rule] = {
    **dict.fromkeys(
        "binary_cross_entropy binary_cross_entropy_with_logits huber_loss mse_loss smooth_l1_loss "
        "soft_margin_loss".split(),
        _elementwise,
    ),
    **dict.fromkeys(
        "binary_cross_entropy_backward huber_loss_backward mse_loss_backward "
        "smooth_l1_loss_backward soft_margin_loss_backward".split(),
        _elementwise_backward,
    ),
    **dict.fromkeys(
        "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward".split(), _nll
    ),
}

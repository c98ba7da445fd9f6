"""What well-known libraries do by default that no graph can hold, and the choice that it can."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from typing import Any, Iterator, Sequence
from unittest import mock

import torch
from torch import fx
from torch.nn import functional as F

from ...errors import E, ExportError, note
from ...step.places import at_line, said_location
from .spec_augment import spans_by_torch


@contextlib.contextmanager
def choices_for_graphs(model: torch.nn.Module) -> Iterator[None]:
    """Within it, all of these, for `model`."""
    with contextlib.ExitStack() as stack:
        for choice in (
            unchecked_distributions(),
            static_experts(model),
            padded_targets(),
            every_layer(model),
            one_size_of_images(),
            masks_left_out(),
            masks_of_one_kind(model),
            spans_by_torch(model),
        ):
            stack.enter_context(choice)
        yield


@contextlib.contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Within it, `torch.distributions` do not look at the values that they are given."""
    from torch.distributions import Distribution

    with mock.patch.object(Distribution, "_validate_args", False):
        yield


def note_unchecked(graph: fx.Graph) -> None:
    """Says which checks of values `graph` has, which no plan does."""
    for node in graph.nodes:
        trace = node.meta.get("stack_trace") or ""
        what = ""
        if node.target in _ASSERTS:
            what = "asserts on values are left out of the exported step"
        elif _DISTRIBUTIONS in trace:
            what = "values given to torch.distributions are not checked in the exported step"
        if what:
            note(at_line(said_location(trace), what))
            return


_ASSERTS = (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default)
_DISTRIBUTIONS = os.path.dirname(torch.distributions.__file__)


@contextlib.contextmanager
def static_experts(model: torch.nn.Module) -> Iterator[None]:
    """Within it, models of Hugging Face compute all experts in one product by groups of rows
    (`aten::_grouped_mm`), whose shapes do not depend on values. A note says so where the model
    computes them otherwise."""
    replaced = set()
    with contextlib.ExitStack() as stack:
        for module in filter(_are_experts, model.modules()):
            implementation = module.config._experts_implementation
            if implementation not in ("grouped_mm", "batched_mm"):
                wanted = "grouped_mm" if _can_be_grouped(module) else "batched_mm"
                stack.enter_context(_changed(module.config, _EXPERTS, wanted))
                replaced.add((wanted, implementation))
        for wanted, implementation in sorted(replaced):
            note(
                f"experts are computed by experts_implementation={wanted}, where the model has "
                f"{implementation}, whose shapes depend on values: the same products, added in "
                "another order"
            )
        products = sys.modules.get("transformers.integrations.moe")
        if products is not None:
            # Where it sees Dynamo it takes an operator of its own, in Python, for the same.
            stack.enter_context(mock.patch.object(products, "_can_use_grouped_mm", lambda *_: True))
        yield


# Where a configuration keeps it; assigning the property would change configurations of parts too.
_EXPERTS = "_experts_implementation_internal"


def _are_experts(module: torch.nn.Module) -> bool:
    """Whether transformers gives the module a choice of implementations."""
    config = vars(module).get("config")
    return "_is_expert_parallel" in vars(module) and _EXPERTS in getattr(config, "__dict__", {})


def _can_be_grouped(experts: torch.nn.Module) -> bool:
    """Whether the rows of all matrices are multiples of 16 bytes, as `aten::_grouped_mm` wants."""
    return all(
        size * weight.element_size() % 16 == 0
        for weight in experts.parameters()
        if weight.dim() == 3
        for size in weight.shape[1:]
    )


@contextlib.contextmanager
def every_layer(model: torch.nn.Module) -> Iterator[None]:
    """Within it, models of Hugging Face leave out no layer by chance (LayerDrop). A note says so.

    Ranks that leave out different layers cannot gather these together; under FSDP transformers has
    no LayerDrop either, where it says anything about it (`synced_gpus`).
    """
    owners = {id(owner): owner for owner in _of_transformers(model)}
    with contextlib.ExitStack() as stack:
        found = False
        # Some draw a number from Python also where LayerDrop is off, and compare it with that rate.
        for name in {type(owner).__module__ for owner in owners.values()}:
            module = sys.modules.get(name)
            if getattr(module, "random", None) is random:
                stack.enter_context(mock.patch.object(module, "random", _NoLayerDrop()))
        for owner in owners.values():
            for name, value in list(vars(owner).items()):
                if name.endswith("layerdrop") and isinstance(value, float) and value > 0:
                    stack.enter_context(_changed(owner, name, 0.0))
                    found = True
        if found:
            note(
                "LayerDrop is off, as transformers has it under FSDP: ranks that leave out different "
                "layers could not gather these together"
            )
        yield


class _NoLayerDrop:
    """In the place of Python's `random`, in modules that draw from `uniform` for LayerDrop alone."""

    def uniform(self, a: float, b: float) -> float:
        return b

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)


@contextlib.contextmanager
def padded_targets() -> Iterator[None]:
    """Within it, CTC losses of Hugging Face get each sample's targets as a row, not all of a batch
    side by side, whose number depends on values."""
    losses = sys.modules.get("transformers.loss.loss_utils")
    if losses is None:
        yield
        return
    with mock.patch.dict(losses.LOSS_MAPPING, {"ForCTC": _ctc_of_rows}):
        yield


@contextlib.contextmanager
def one_size_of_images() -> Iterator[None]:
    """Within it, torchvision's detectors draw no size for an image where they have just one."""
    transform = sys.modules.get("torchvision.models.detection.transform")
    if transform is None:
        yield
        return
    owner = transform.GeneralizedRCNNTransform
    draw = owner.torch_choice

    def choose(self: Any, sizes: Sequence[int]) -> int:
        return sizes[0] if len(sizes) == 1 else draw(self, sizes)

    with mock.patch.object(owner, "torch_choice", choose):
        yield


@contextlib.contextmanager
def masks_left_out() -> Iterator[None]:
    """Within it, models of Hugging Face leave out a mask where they do so in eager mode: of
    attention that is causal or whole, to which no padding is given. While they are exported they
    never do, since an exported model may be given sequences of other lengths, and a step is not;
    and under a mask they repeat the keys of several heads, whose gradients are then summed in
    another order.
    """
    masks = sys.modules.get("transformers.masking_utils")
    if not hasattr(masks, "is_torchdynamo_exporting"):
        yield
        return
    with mock.patch.object(masks, "is_torchdynamo_exporting", lambda: False):
        yield


@contextlib.contextmanager
def masks_of_one_kind(model: torch.nn.Module) -> Iterator[None]:
    """Within it, models of Hugging Face whose attention is whole by a flag, and whose masks are causal,
    are refused where they are given padding. In eager mode they leave out a mask without padding.
    """
    masks = sys.modules.get("transformers.masking_utils")
    if not hasattr(masks, _LEAVES_OUT) or not any(map(_is_whole_by_a_flag, model.modules())):
        yield
        return
    leaves_out = getattr(masks, _LEAVES_OUT)

    def of_one_kind(padding_mask: Any, *args: Any, **kwargs: Any) -> bool:
        if padding_mask is not None:
            raise ExportError(
                E.VALUE_DEPENDENT,
                "the configuration has use_bidirectional_attention, with which attention is causal "
                "where attention_mask has padding, and whole where it has none; leave out "
                "attention_mask, or set use_bidirectional_attention=False (causal) or "
                "is_causal=False (whole) in the configuration of the text model",
            )
        return leaves_out(padding_mask, *args, **kwargs)

    with mock.patch.object(masks, _LEAVES_OUT, of_one_kind):
        yield


_LEAVES_OUT = "_ignore_causal_mask_sdpa"


def _is_whole_by_a_flag(module: torch.nn.Module) -> bool:
    config = getattr(module, "config", None)
    flag = getattr(config, "use_bidirectional_attention", None)
    return flag is True and getattr(module, "is_causal", None) is False


def _ctc_of_rows(
    logits: torch.Tensor,
    labels: torch.Tensor,
    logit_lengths: torch.Tensor,
    blank_token_id: int,
    reduction: str = "mean",
    zero_infinity: bool = False,
    ignore_index: int = -100,
    **_: Any,
) -> torch.Tensor:
    """`ForCTCLoss` of transformers."""
    kept = (labels != ignore_index) & (labels != blank_token_id)
    first = kept.logical_not().to(torch.uint8).sort(dim=-1, stable=True).indices
    return F.ctc_loss(
        F.log_softmax(logits, -1, dtype=torch.float32).transpose(0, 1),
        labels.gather(-1, first),
        logit_lengths,
        kept.sum(-1),
        blank=blank_token_id,
        reduction=reduction,
        zero_infinity=zero_infinity,
    )


def _of_transformers(model: torch.nn.Module) -> Iterator[Any]:
    """Modules of Hugging Face's, and configurations."""
    for module in model.modules():
        for owner in (module, vars(module).get("config")):
            if type(owner).__module__.startswith("transformers."):
                yield owner


@contextlib.contextmanager
def _changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner)[name]
    vars(owner)[name] = value
    try:
        yield
    finally:
        vars(owner)[name] = before

"""What `MixedPrecisionPolicy` changes in a model, while its step is captured.

The model is captured as FSDP2 computes it: each parameter of a unit is a leaf in the unit's
`param_dtype`, so that every use reads one cast of it, Python code sees that dtype, and autograd
adds gradients up in it. The archive's graphs take such a leaf as their argument; import puts the
cast in front of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

import torch
from torch import nn

from ..step.names import StateNames
from ..step.unit import Unit
from .context import SharedForward


class MixedPrecision:
    """The policies of a model's units, put in force for a capture by `applied`.

    Args:
        units: all units of the model.
        dtypes: what each parameter is computed with, where that is not its own dtype, by the
            parameter's first name.
        names: gets the leaves as further tensors of these parameters.

    Attributes:
        dtypes: as given.
    """

    def __init__(
        self, units: Iterable[Unit], dtypes: Mapping[str, torch.dtype], names: StateNames
    ) -> None:
        self.dtypes = dict(dtypes)
        self._units = list(units)
        self._leaves: dict[int, nn.Parameter] = {}
        for fqn, dtype in dtypes.items():
            own = names.parameters[fqn]
            # No value is read while Python is followed, so that none is computed.
            leaf = nn.Parameter(torch.empty_like(own, dtype=dtype, requires_grad=False), False)
            leaf.requires_grad_(own.requires_grad)
            self._leaves[id(own)] = leaf
            names.add_leaf(fqn, leaf)

    @contextlib.contextmanager
    def applied(self, model: nn.Module, shared: Optional[SharedForward]) -> Iterator[None]:
        """Parameters are leaves in their unit's dtype, and units cast what they take and give.

        Args:
            model: the model of the units; all is as it was when the block ends.
            shared: where metrics repeat the loss's calls of the model with the same tensors: the
                casts of these tensors are then the loss's too. None: there are no metrics.
        """
        with contextlib.ExitStack() as stack:
            for module in model.modules():
                for name, own in list(module._parameters.items()):
                    if own is not None and id(own) in self._leaves:
                        stack.callback(module._parameters.__setitem__, name, own)
                        module._parameters[name] = self._leaves[id(own)]
            for unit in self._units:
                if unit.mp_policy.casts:
                    _Border(unit, shared if model in unit.modules else None).hook(stack)
            yield


class _Border:
    """Casts what a unit's forward takes and gives. Of a list of modules these are the inputs of
    the one that runs first, and the outputs of the one that runs last."""

    def __init__(self, unit: Unit, shared: Optional[SharedForward]) -> None:
        self._unit = unit
        self._border_sharing = shared
        # Nothing may change inside a checkpoint, so that only a list counts.
        self._counts = len(unit.modules) > 1
        self._border_waiting: set[int] = set()
        self._border_known: list[tuple[torch.Tensor, torch.Tensor]] = []

    def hook(self, stack: contextlib.ExitStack) -> None:
        """Puts hooks on the modules, as the first to take and the last to give."""
        for index, module in enumerate(self._unit.modules):
            before = module.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True)
            after = module.register_forward_hook(
                lambda module, args, output, index=index: self._after(index, output)
            )
            stack.callback(before.remove)
            stack.callback(after.remove)
        for module, name in self._unit.forward_methods:
            self._wrap(stack, module, name)

    def _wrap(self, stack: contextlib.ExitStack, module: nn.Module, name: str) -> None:
        """Makes a method of a module one of its forwards."""
        method = getattr(module, name)
        index = self._unit.modules.index(module)

        def forward(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = self._before(module, args, kwargs)
            return self._after(index, method(*args, **kwargs))

        own = vars(module).get(name)
        vars(module)[name] = forward
        restore = vars(module).pop if own is None else vars(module).__setitem__
        stack.callback(restore, name, own)

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if self._border_waiting:
            return args, kwargs
        if self._counts:
            self._border_waiting.update(range(len(self._unit.modules)))
        policy = self._unit.mp_policy
        if not policy.cast_forward_inputs or policy.param_dtype is None:
            return args, kwargs
        return _map_tensors(self._cast_input, args), _map_tensors(self._cast_input, kwargs)

    def _cast_input(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._border_sharing is None:
            return _to(tensor, self._unit.mp_policy.param_dtype)
        if self._border_sharing.in_metrics:
            for original, cast in self._border_known:
                if original is tensor:
                    return cast
        cast = _to(tensor, self._unit.mp_policy.param_dtype)
        self._border_known.append((tensor, cast))
        return cast

    def _after(self, index: int, output: Any) -> Any:
        if self._counts:
            self._border_waiting.discard(index)
        dtype = self._unit.mp_policy.output_dtype
        if self._border_waiting or dtype is None:
            return output
        return _map_tensors(lambda tensor: _to(tensor, dtype), output)


def _to(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not tensor.is_floating_point() or tensor.dtype == dtype:
        return tensor
    return tensor.to(dtype)


def _map_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """`value` with `function` of each tensor in it, through the containers FSDP2 looks into."""
    if isinstance(value, torch.Tensor):
        return function(value)
    # Dynamo follows neither dataclasses.is_dataclass nor dataclasses.replace.
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        members = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return type(value)(**_map_tensors(function, members))
    if isinstance(value, OrderedDict):
        mapped = value.__class__()
        for key, member in value.items():
            mapped[key] = _map_tensors(function, member)
        return mapped
    if isinstance(value, dict):
        return {key: _map_tensors(function, member) for key, member in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_tensors(function, member) for member in value))
    if isinstance(value, (list, tuple, set)):
        return type(value)(_map_tensors(function, member) for member in value)
    return value

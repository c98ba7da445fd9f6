"""The names of a model's tensors, and of the tensors that its graph holds besides."""

from __future__ import annotations

import contextlib
from types import MappingProxyType
from typing import Any, Collection, Iterable, Iterator, Mapping, Optional

import torch

from ..errors import E, ExportError
from .dense import require_dense
from .memory import FREED, Memory, is_freed, is_same
from .meta_start import FirstValues, is_meta, stand_ins
from .training_step import TrainingStep


def plain_path(path: str) -> str:
    """`path` without the component that PyTorch's checkpoint_wrapper adds, as in `state_dict()`."""
    return ".".join(part for part in path.split(".") if part != "_checkpoint_wrapped_module")


class SettledChanged(Exception):
    """A way through a step changes settled buffers (`StateNames.settled`): `args[0]`, their names."""


class StateNames:
    """Parameters, buffers and constants by name, each tensor once, with its further names.

    Attributes:
        parameters, buffers, constants: tensor by its first name, in the model's order.
        changed: names of the parameters that are buffers here, as the step changes them and nothing
            trains them.
        unfrozen: those of them that require gradients, and get none.
        trainable: names of the parameters that require gradients when the step is made.
        aliases: the further names of a tied tensor, by its first name.
        kept: the Python numbers that are buffers, by the buffer's name.
        persistent: whether `state_dict()` holds the buffer, by its first name.
        modules: path of the first name of every module object, by its identity.
        fake_mode: the mode the model was built under, or None for real tensors.
        on_meta: whether the model has tensors on meta.
        first_values: how parameters and buffers get their first values.
        settled: the buffers that no program may change, as one asks in Python what they hold; by
            name, the refusal of one that does.
        deciding: the buffers that one asks for what they hold, and that the step changes.

    Args:
        step: whose model's tensors they are.
        changed: names of parameters that the step changes and nothing trains, as a teacher's: they
            are buffers.
        kept: by the name of its buffer, each number and tensor that the step keeps in Python for the next
            one.
    """

    def __init__(
        self,
        step: TrainingStep,
        changed: Collection[str] = (),
        kept: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.step = step
        self.parameters: dict[str, torch.Tensor] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.aliases: dict[str, list[str]] = {}
        self.persistent: dict[str, bool] = {}
        self._known: dict[int, tuple[str, str]] = {}
        self._leaves: dict[str, torch.Tensor] = {}
        self._memory = Memory()
        named = step.model.named_modules(remove_duplicate=False)
        self._modules = {plain_path(path): module for path, module in named}
        _check_whole(step.model)
        parameters = list(step.model.named_parameters(remove_duplicate=False))
        moved = {id(tensor) for path, tensor in parameters if plain_path(path) in changed}
        self._add("parameter", self.parameters, (n for n in parameters if id(n[1]) not in moved))
        self._add("buffer", self.buffers, (n for n in parameters if id(n[1]) in moved))
        self.changed = frozenset(self.buffers)
        self.unfrozen = frozenset(fqn for fqn, t in self.buffers.items() if t.requires_grad)
        self._add("buffer", self.buffers, step.model.named_buffers(remove_duplicate=False))
        self.trainable = frozenset(fqn for fqn, t in self.parameters.items() if t.requires_grad)
        for fqn in self.buffers:
            self.persistent[fqn] = self._is_persistent(fqn)
        self.kept = kept
        for fqn, one in kept.items():
            self.buffers[fqn], self.aliases[fqn], self.persistent[fqn] = one.tensor, [], False
            self._known[id(one.tensor)] = ("buffer", fqn)
        self.fake_mode = _common_fake_mode(step, self)
        self.on_meta = any(map(is_meta, (*self.parameters.values(), *self.buffers.values())))
        self.first_values = FirstValues(step.recorder, step.seed)
        self.first_values.check({**self.parameters, **self.buffers})
        self.settled: dict[str, ExportError] = {}
        self.deciding: set[str] = set()
        self._updated: set[str] = set()
        self._originals: dict[int, torch.Tensor] = {}
        self.paths: dict[int, list[str]] = {}
        for path, module in step.model.named_modules(remove_duplicate=False):
            self.paths.setdefault(id(module), []).append(plain_path(path))
        self.first_path = {path: paths[0] for paths in self.paths.values() for path in paths}

    def _add(self, role: str, table: dict[str, torch.Tensor], tensors: Any) -> None:
        for path, tensor in tensors:
            fqn = plain_path(path)
            if id(tensor) in self._known:
                self.aliases[self._known[id(tensor)][1]].append(fqn)
                continue
            if fqn.startswith("fsdp."):
                raise ExportError(
                    E.NAME_TAKEN, f"{fqn}: names that start with fsdp. are reserved; rename it"
                )
            if (owner := self._tied(role, fqn, tensor)) is not None:
                self._known[id(tensor)] = owner
                if role == "parameter" or self._is_persistent(fqn):
                    self.aliases[owner[1]].append(fqn)
                continue
            require_dense(role, fqn, tensor, self._modules[fqn.rpartition(".")[0]])
            if is_freed(tensor):
                raise ExportError(E.FIRST_VALUES, f"the {role} {fqn} {FREED}")
            self._known[id(tensor)] = (role, fqn)
            self._memory.add(fqn, tensor)
            self.aliases[fqn] = []
            table[fqn] = tensor

    def _is_persistent(self, fqn: str) -> bool:
        path, _, last = fqn.rpartition(".")
        return last not in self._modules[path]._non_persistent_buffers_set

    def _tied(self, role: str, fqn: str, tensor: torch.Tensor) -> Optional[tuple[str, str]]:
        """Role and name of the state whose memory `tensor` is, or None: it has memory of its own.

        Raises:
            ExportError: it is a part of that memory, or both are trained.
        """
        found = self._memory.overlapping(tensor)
        if found is None:
            return None
        first, other = found
        if not is_same(tensor, other):
            raise ExportError(
                E.MEMORY_SHARED,
                f"{first} and {fqn} share memory without being one tensor: a change of one changes "
                f"the other. Register one of them, and compute the other from it in the forward",
            )
        if tensor.requires_grad:
            raise ExportError(
                E.MEMORY_SHARED,
                f"{first} and {fqn} are two parameters over the same memory, which PyTorch's "
                "optimizer updates twice; make them one, by assigning the parameter itself instead "
                "of its data",
            )
        return self._known[id(other)]

    def add_leaf(self, fqn: str, leaf: torch.Tensor) -> None:
        """Makes `leaf` what programs read of the parameter `fqn`: its cast to another dtype."""
        self._known[id(leaf)] = ("parameter", fqn)
        self._leaves[fqn] = leaf

    def of(self, tensor: torch.Tensor) -> tuple[str, str]:
        """Role and name of a tensor that the graph reads; a new one becomes a constant.

        Raises:
            ExportError: a tensor that is not the model's and requires gradients, or a parameter
                that is read past the module that has its cast.
        """
        tensor = self._originals.get(id(tensor), tensor)
        if id(tensor) not in self._known:
            if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad:
                raise ExportError(
                    E.TENSOR_ELSEWHERE,
                    f"the loss uses a parameter of shape {list(tensor.shape)} that is not in the "
                    "model; register its module as a part of the model, or freeze it by "
                    "requires_grad_(False), as a teacher that nothing trains",
                )
            if tensor.requires_grad:
                raise ExportError(
                    E.TENSOR_ELSEWHERE,
                    f"the step reads a tensor of shape {list(tensor.shape)} that requires "
                    "gradients and is not in the model; make it a parameter of the model",
                )
            fqn = f"fsdp.constant.{len(self.constants)}"
            shown = f"a tensor of shape {list(tensor.shape)} that the step reads"
            owner = self._tied("constant", shown, tensor)
            self._known[id(tensor)] = owner or ("constant", fqn)
            if owner is None:
                self.first_values.check({fqn: tensor})
                self.constants[fqn] = tensor
        role, fqn = self._known[id(tensor)]
        if self._leaves.get(fqn, tensor) is not tensor:
            raise ExportError(
                E.TENSOR_ELSEWHERE,
                f"the step reads {fqn} from somewhere else than its module, where its unit's "
                "param_dtype does not reach it; read it as an attribute of the module",
            )
        return role, fqn

    def is_trained(self, tensor: torch.Tensor) -> bool:
        """Whether a program trains what `tensor`, a parameter or buffer of the model, is; so says
        one that is not known."""
        known = self._known.get(id(self._originals.get(id(tensor), tensor)))
        return known is None or known[1] in self.trainable

    @property
    def settled_buffers(self) -> Iterator[torch.Tensor]:
        return (self.buffers[fqn] for fqn in self.settled if fqn in self.buffers)

    def unsettled(self, paths: Iterable[str]) -> set[str]:
        """The named buffers that may still be settled."""
        return set(map(plain_path, paths)) - self.settled.keys() - self.deciding

    def check_settled(self, updated: Iterable[str]) -> None:
        """Raises the refusal of a settled buffer that a program changes: this one, whose are `updated`,
        or one before it."""
        self._updated.update(updated)
        for fqn in self._updated & self.settled.keys():
            raise self.settled[fqn]

    def forget_constants(self, kept: int) -> None:
        """Forgets all but the first `kept` constants: those of a capture that failed."""
        for fqn in list(self.constants)[kept:]:
            del self._known[id(self.constants.pop(fqn))]

    @contextlib.contextmanager
    def captured_on(self, fake_mode: Optional[Any]) -> Iterator[None]:
        """For a model on meta: fake tensors of `fake_mode` in the places of its tensors, and under
        their names."""
        if fake_mode is None:
            yield
            return
        with stand_ins(self.step.model, fake_mode) as originals:
            self._originals = {id(fake): tensor for fake, tensor in originals}
            yield
        self._originals = {}


# What PyTorch's own wrappers do is the plan's here.
_WRAPPERS = {
    "DataParallel": "give the module inside it; ranks have one device each",
    "DistributedDataParallel": (
        "give the module inside it; the plan averages gradients, with the pipeline's mesh=Nx1 as DDP"
    ),
    "FullyShardedDataParallel": "use the one of fsdp_mlir, or fully_shard",
}


def _check_whole(model: torch.nn.Module) -> None:
    """Refuses a model that PyTorch itself distributes, and hooks that would not run."""
    for path, module in model.named_modules():
        name = type(module).__name__
        if name in _WRAPPERS and type(module).__module__.startswith("torch."):
            raise ExportError(
                E.MODEL_WRAPPED, f"{path or 'the model'} is torch's {name}; {_WRAPPERS[name]}"
            )
    for fqn, parameter in model.named_parameters():
        if any(cls.__name__ == "DTensor" for cls in type(parameter).__mro__):
            raise ExportError(
                E.MODEL_WRAPPED,
                f"{fqn} is a DTensor, as torch.distributed.fsdp's fully_shard makes them; import "
                "fully_shard from fsdp_mlir, which needs no process group",
            )
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ExportError(
                E.MODEL_WRAPPED,
                f"{fqn} has a hook on its gradient, and no Python runs while a plan does; remove it",
            )


def _common_fake_mode(step: TrainingStep, names: StateNames) -> Optional[Any]:
    """The fake mode of the model's tensors; refuses those that hold no values to capture by."""
    from torch._subclasses.fake_tensor import FakeTensor

    named = {
        **names.parameters,
        **names.buffers,
        **{f"inputs[{name!r}]": t for batch in step.batches for name, t in batch.items()},
    }
    modes = {}
    for name, tensor in named.items():
        fake = isinstance(tensor, FakeTensor)
        if is_meta(tensor) and name not in names.aliases:
            raise ExportError(
                E.FIRST_VALUES, f"{name} is on the meta device, and has no values; give real inputs"
            )
        if tensor.device.type not in ("cpu", "meta"):
            raise ExportError(
                E.FIRST_VALUES,
                f"{name} is on {tensor.device}; build the step on the cpu, the plan names the device",
            )
        if fake:
            modes[id(tensor.fake_mode)] = tensor.fake_mode
    if len(modes) > 1:
        raise ExportError(
            E.FIRST_VALUES, "the step has tensors of two fake modes; build all of it under one"
        )
    return next(iter(modes.values()), None)

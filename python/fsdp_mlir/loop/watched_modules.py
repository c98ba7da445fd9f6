"""Notices modules that a script puts in the place of a model's, and hooks that it registers, after
the step was compiled: a plan has the modules and the hooks that there were."""

from __future__ import annotations

import weakref
from typing import Iterator, Optional

from torch.utils.hooks import RemovableHandle

from ..step.names import plain_path
from ..step.optimizer_list import parts_of
from ..step.training_step import TrainingStep

# The attributes in which PyTorch keeps hooks, by a number that it counts up for each of all hooks.
_OF_MODULES = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"
_OF_TENSORS = "_backward_hooks", "_post_accumulate_grad_hooks"
_OF_OPTIMIZERS = "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"

_Place = tuple[str, weakref.ref[object], str]  # a name, whose hooks, and in which attribute


class WatchedModules:
    """The modules inside a model, and the hooks of these, of its parameters and of the optimizers.
    None is kept alive."""

    def __init__(self, step: TrainingStep) -> None:
        self._modules = [
            (path, weakref.ref(parent), children)
            for path, parent in step.model.named_modules()
            if (children := [(name, weakref.ref(m)) for name, m in parent.named_children()])
        ]
        self._places = list(_places(step))
        self._first_hook = self._next_hook = RemovableHandle.next_id

    def replaced(self) -> Optional[str]:
        """The name of a module that has another one in its place, or none; None where all are
        there."""
        for path, parent, children in self._modules:
            if (owner := parent()) is None:  # the whole model may be gone
                continue
            modules = owner._modules
            for name, child in children:
                now = modules.get(name)
                if now is None or now is not child():
                    return plain_path(f"{path}.{name}".lstrip("."))
        return None

    def hooked(self) -> Optional[str]:
        """What has a hook that was registered since. It costs nothing where no hook was, of any."""
        if self._next_hook == RemovableHandle.next_id:
            return None
        self._next_hook = RemovableHandle.next_id
        for name, reference, attribute in self._places:
            hooks = getattr(reference(), attribute, None) or ()
            if any(key >= self._first_hook for key in hooks):
                return name
        return None


def _places(step: TrainingStep) -> Iterator[_Place]:
    for path, module in step.model.named_modules():
        for attribute in _OF_MODULES:
            name = f"{plain_path(path)} of the model" if path else "the model"
            yield name, weakref.ref(module), attribute
    for path, parameter in step.model.named_parameters():
        for attribute in _OF_TENSORS:
            yield f"{plain_path(path)} of the model", weakref.ref(parameter), attribute
    for optimizer in parts_of(step.optimizer):
        for attribute in _OF_OPTIMIZERS:
            yield "the optimizer", weakref.ref(optimizer), attribute

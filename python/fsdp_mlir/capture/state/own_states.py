"""The states of the module that is captured, in the places of the model's while its step runs."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Iterator, Mapping
from unittest import mock

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import E, ExportError
from ...step.names import StateNames
from ..graph.memory_orders import without_gaps
from .places import MISSING
from .replaced_buffers import NeedsCopies, take_over

# A table of the model, a name in it, what stands there, and what stands there while the step runs.
_Swapped = list[tuple[dict[str, Any], str, Any, Any]]


class OwnStates:
    """Makes `owner` have a tensor for each of the model's, under a name of its own.

    Attributes:
        states: role and name of each, by the owner's name.
        dropped: of the owner's names, those of buffers that are in no state_dict and in whose place a
            step leaves what they cannot hold; with the refusal of a step that reads one.
        replaced: what the last forward found and has put others in the places of.
    """

    def __init__(self, owner: torch.nn.Module, model: torch.nn.Module, names: StateNames) -> None:
        self.states: dict[str, tuple[str, str]] = {}
        self.dropped: dict[str, ExportError] = {}
        self.replaced: list[torch.Tensor] = []
        self._owner, self._model, self._names = owner, model, names
        self._targets: dict[int, str] = {}
        self._copied: set[str] = set()  # targets of which a run has copies
        self._copies: dict[str, torch.Tensor] = {}  # of this run
        # Targets of buffers that a step replaces, of which attributes keep what they were before it.
        self._left_behind: dict[str, torch.Tensor] = {}
        self._swapped_now: _Swapped = []
        self._found_behind: list[Any] = []  # in their places, when forward has ended
        for module in model.modules():
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None and id(tensor) not in self._targets:
                    self.register(tensor)

    def register(self, tensor: torch.Tensor) -> None:
        role, fqn = self._names.of(tensor)
        target = f"{role}_{len(self.states)}"
        self._targets[id(tensor)] = target
        self.states[target] = (role, fqn)
        if isinstance(tensor, torch.nn.Parameter):
            self._owner.register_parameter(target, without_gaps(tensor))
        else:
            self._owner.register_buffer(target, without_gaps(tensor))

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the owner has now for `tensor`."""
        return getattr(self._owner, self._targets[id(tensor)])

    def names(self, role: str) -> dict[int, str]:
        """Names of what the owner has now for the model's tensors of this role."""
        named = self.states.items()
        return {id(getattr(self._owner, target)): fqn for target, (r, fqn) in named if r == role}

    @contextlib.contextmanager
    def in_their_places(self) -> Iterator[None]:
        """The model with what the owner has now in the places of its tensors, until `put_back`: the
        code of a backward pass reads what forward has left.

        Raises:
            ExportError: the step leaves something there that cannot be a value of the next one.
            NeedsCopies: it is to have copies of some, which the next run has.
        """
        swapped = self._swapped_now
        self._copies.clear()
        self.replaced.clear()
        for module in self._model.modules():
            for table in (module._parameters, module._buffers, vars(module)):
                for name, value in table.items():
                    new = self._swapped(value)
                    if new is not value:
                        if table is vars(module) and isinstance(value, torch.Tensor):
                            new = self._left_behind.get(self._targets[id(value)], new)
                        swapped.append((table, name, value, new))
        for table, name, _, new in swapped:
            table[name] = new
        found = self._attributes(swapped)
        try:
            with _no_hooks_on({id(new) for *_, new in swapped if isinstance(new, torch.Tensor)}):
                yield
            self._check_attributes(found, self._attributes(swapped))
            self._take_over(self._left(swapped))
            self._found_behind = [_read(table, name) for table, name, *_ in swapped]
        except BaseException:
            self.put_back()
            raise

    def _attributes(self, swapped: _Swapped) -> dict[str, dict[str, Any]]:
        """What the states have as attributes, by name."""
        tensors = [(old, new) for _, _, old, new in swapped if isinstance(new, torch.Tensor)]
        return {self.states[self._targets[id(old)]][1]: dict(vars(new)) for old, new in tensors}

    def _check_attributes(self, found: dict[str, Any], left: dict[str, Any]) -> None:
        for fqn, attributes in left.items():
            for name, value in attributes.items():
                is_own = name != "elem"  # and not how PyTorch traces it
                if is_own and found[fqn].get(name, MISSING) is not value:
                    raise ExportError(
                        E.PYTHON_STATE,
                        f"the step changes {name}, an attribute of {fqn}, which a plan does not keep; "
                        "keep it in an attribute of the module",
                    )

    def put_back(self) -> None:
        """Leaves the model's tensors where they were.

        Raises:
            ExportError: a backward pass has put another one somewhere.
        """
        swapped, self._swapped_now = self._swapped_now, []
        behind, self._found_behind = self._found_behind, []
        replaced = [
            self.states[self._targets[id(old)]][1]
            for (table, name, old, _), value in zip(swapped, behind)
            if _read(table, name) is not value and id(old) in self._targets
        ]
        for table, name, old, _ in swapped:
            table[name] = old
        if replaced:
            raise ExportError(
                E.CHANGED_IN_PLACE,
                f"a backward pass puts another tensor in the place of {replaced[0]}; change it in "
                "place (copy_), which the exported step does too",
            )

    def _left(self, swapped: _Swapped) -> dict[str, Any]:
        """What is left for the next step other than by a change of the owner's, by target."""
        modules = list(self._model.modules())
        buffers = {id(module._buffers) for module in modules}
        registered = buffers | {id(module._parameters) for module in modules}
        values: dict[str, Any] = {}
        parted = ""
        for table, name, old, new in swapped:
            if not isinstance(old, torch.Tensor):
                continue  # Python state, of which the caller tells
            left = _read(table, name)
            target = self._targets[id(old)]
            role, fqn = self.states[target]
            if new is self._left_behind.get(target):
                continue  # Python state too
            if left is new:
                may_have = role == "buffer" and fqn not in self._names.unfrozen
                has_gradient = new.grad_fn is not None and may_have
                if has_gradient or target in self._copied:
                    values[target] = new.detach()
                continue
            places = [(id(t), n) for t, n, _, other in swapped if other is new]
            others = {id(t) for t, n in places if (t, n) != (id(table), name)}
            if id(table) not in buffers or others & registered:
                raise ExportError(
                    E.CHANGED_IN_PLACE,
                    f"the forward puts another tensor in the place of {fqn}; change it in "
                    "place (copy_), which the exported step does too",
                )
            values[target] = left
            self.replaced.append(new)
            if others:
                with _disable_current_modes():
                    self._left_behind[target] = old.detach().clone()
                parted = fqn
        if parted:
            raise NeedsCopies(f"other attributes keep what it replaces in {parted}")
        return values

    def _take_over(self, values: Mapping[str, Any]) -> None:
        names = {target: self.states[target][1] for target in values}
        if not values.keys() <= self._copied:
            self._copied |= values.keys()
            written = ", ".join(names.values())
            raise NeedsCopies(f"it puts other tensors, or values with a gradient, into {written}")
        for target, value in values.items():
            try:
                take_over(getattr(self._owner, target), value, names[target])
            except ExportError as error:
                in_files = self._names.persistent.get(names[target], True)
                if in_files or not isinstance(value, torch.Tensor):
                    raise
                self.dropped[target] = error

    def _swapped(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and id(value) in self._targets:
            target = self._targets[id(value)]
            own = getattr(self._owner, target)
            if isinstance(value, torch.nn.Parameter):
                own._is_param = True  # as code finds that asks for it
            # Backward reads what the buffer was before.
            if target in self._copied and target not in self._copies:
                self._copies[target] = own.clone()
            return self._copies.get(target, own)
        if isinstance(value, weakref.ref):
            new = self._swapped(value())
            return value if new is value() else weakref.ref(new)
        if type(value) is list and any(isinstance(v, (torch.Tensor, weakref.ref)) for v in value):
            # Of recurrent layers, who keep lists of their weights.
            new = [self._swapped(member) for member in value]
            return new if any(a is not b for a, b in zip(new, value)) else value
        return value


def _read(table: dict[str, Any], name: str) -> Any:
    return table[name] if name in table else None  # TorchScript's tables have no get()


@contextlib.contextmanager
def _no_hooks_on(parameters: set[int]) -> Iterator[None]:
    original = torch.Tensor.register_hook

    def register_hook(tensor: torch.Tensor, hook: Any) -> Any:
        if id(tensor) in parameters:
            raise ExportError(
                E.PYTHON_STATE,
                "the loss gives a parameter a hook, one more in each step, and no Python runs "
                "while a plan does; change the gradient of what the parameter computes",
            )
        return original(tensor, hook)

    with mock.patch.object(torch.Tensor, "register_hook", register_hook):
        yield

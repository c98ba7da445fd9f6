"""Classes that stand in for others while a step is captured, and make their objects otherwise."""

from __future__ import annotations

from typing import Any, Callable


class StandInType(type):
    """Of such a class: what it makes, and what else, are what the original's are."""

    original: Any
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)


def stand_in_for(original: Any, make: Callable[..., Any]) -> StandInType:
    """A class like `original`, a class or a type of tensors, whose objects are what `make` gives."""
    return StandInType(original.__name__, (), {"original": original, "make": staticmethod(make)})

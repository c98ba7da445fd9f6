"""Names of values in TorchScript's source, of which each stands for one."""

from __future__ import annotations

import keyword
import re

# What means something else there.
_RESERVED = set(keyword.kwlist) | {
    "torch", "ops", "self", "annotate", "inf", "nan", "infj", "nanj", "List", "Optional", "Tensor",
    "Tuple", "Dict", "device", "complex", "int", "float", "bool", "str", "fork", "CONSTANTS",
    "uninitialized", "print", "len", "number", "unchecked_cast", "Module", "rpc_async", "awaitable",
}  # fmt: skip


class FreeNames:
    """The names of one method."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def take(self, wish: str) -> str:
        """A name like `wish` that no other value has."""
        wish = re.sub(r"[^A-Za-z0-9_]", "_", wish)
        # The loader drops names like _12, which it takes for generated ones.
        if wish in _RESERVED or not re.match(r"[A-Za-z]|_+[A-Za-z]", wish):
            wish = f"v_{wish}"
        name, count = wish, 0
        while name in self._used:
            count += 1
            name = f"{wish}_{count}"
        self._used.add(name)
        return name

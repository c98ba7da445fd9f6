"""What `unbind` gives, or a loop over a tensor, where sizes depend on values: `rows, columns = places.T`."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class UnbindSelects(TorchFunctionMode):
    """Within it, such tensors are selected one by one. A write into what `unbind` gives, as
    `rows.clamp_(0, 8)`, asks in C++ for the sizes of the whole as numbers. Autograd lets nobody write
    there, so that what has a gradient stays as it is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.unbind, torch.Tensor.unbind) and args and not args[0].requires_grad:
            tensor, dim = args[0], (*args[1:], *(kwargs or {}).values(), 0)[0]
            sizes = tensor.shape
            if any(isinstance(size, torch.SymInt) for size in sizes) and type(sizes[dim]) is int:
                return tuple(tensor.select(dim, i) for i in range(sizes[dim]))
        return func(*args, **(kwargs or {}))

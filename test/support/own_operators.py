"""The runtime's own operators in this process, for tests that call them."""

from __future__ import annotations

import torch

from support import chain


def load() -> None:
    """Has PyTorch's dispatcher know them, where no run of this process has done so."""
    on_cpus = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
    if "fsdp_mlir::batched_nms" not in on_cpus:
        torch.ops.load_library(str(chain.binary("own_operators.so")))

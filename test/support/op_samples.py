"""PyTorch's samples of its operators (`op_db`), outside of its unit tests."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

# For each sample they look for the unit test that asks for it, through the source of the whole stack.
for _module in (common_utils, core):
    _module.extract_test_fn = lambda: None

__all__ = ["op_db"]

"""Captures batch norms whose running statistics are averages of all batches so far.

With `momentum=None` PyTorch reads the number of batches as a Python number, which a graph cannot.
Here the statistics of one batch go into buffers of their own, and the average is tensor code: that
of PyTorch's kernel up to rounding.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator
from unittest import mock

import torch
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

_original = _BatchNorm.forward


def _forward(self: Any, input: torch.Tensor) -> torch.Tensor:
    """Stands for `_BatchNorm.forward`."""
    if self.momentum is not None or not self.training or not self.track_running_stats:
        return _original(self, input)
    self._check_input_dim(input)
    mean, variance = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
    result = F.batch_norm(input, mean, variance, self.weight, self.bias, True, 1.0, self.eps)
    with torch.no_grad():
        self.num_batches_tracked.add_(1)
        share = 1.0 / self.num_batches_tracked.double()
        for average, batch in ((self.running_mean, mean), (self.running_var, variance)):
            average.copy_(share * batch.double() + (1 - share) * average.double())
    return result


@contextlib.contextmanager
def cumulative_averages() -> Iterator[None]:
    """Captures, within it, batch norms with `momentum=None` in this way."""
    with mock.patch.object(_BatchNorm, "forward", _forward):
        yield

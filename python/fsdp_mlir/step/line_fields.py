"""What each line of a run's metrics has itself (docs/metrics.md)."""

from __future__ import annotations

# The keys that are not the step file's own metrics.
STANDARD = frozenset(
    "step epoch loss grad_norm loss_scale lr lr_groups samples_per_s tokens_per_s step_ms "
    "flops_per_s hfu mfu data_wait_ms data_wait_rank exposed_comm_ms launch_ms offload_bytes "
    "memory_bytes memory_peak_bytes failed_checkpoints skipped_steps nonfinite_steps units eval_loss".split()
)

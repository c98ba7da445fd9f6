"""A run's metrics at Weights & Biases, sent while it runs."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from typing import Any, Callable, Optional


def why_not() -> Optional[str]:
    """The reason why Weights & Biases cannot be used; None: it can."""
    if importlib.util.find_spec("wandb") is None:
        return "--wandb needs the package wandb: pip install wandb, then wandb login"
    return None


class WandbRun:
    """Logs rows of metrics under their names. Project and entity are those of wandb's own settings,
    such as WANDB_PROJECT. `folder` keeps the run's id, by which a run that `resumes` goes on in
    the same one. Nothing that fails there ends the training; the first failure is told."""

    def __init__(
        self,
        name: str,
        folder: Path,
        config: dict[str, Any],
        resumes: bool,
        tell: Callable[[str], None],
    ) -> None:
        import wandb

        self._tell: Optional[Callable[[str], None]] = tell
        known = folder / "wandb.id"
        if not (resumes and known.exists()):
            known.write_text(secrets.token_hex(4))
        self._run: Any = wandb.init(
            name=name, id=known.read_text(), resume="allow", dir=str(folder), config=config
        )

    def update(self, row: dict[str, Any]) -> None:
        # What a run before this one has sent.
        if row["step"] < self._run.step:
            return
        fields = {name: value for name, value in row.items() if name not in ("step", "units")}
        for unit, measured in row.get("units", {}).items():
            fields.update({f"unit_{name}/{unit}": value for name, value in measured.items()})
        numbers = {n: value for n, value in fields.items() if isinstance(value, (int, float))}
        self._try(lambda: self._run.log(numbers, step=row["step"]))

    def close(self) -> None:
        self._try(self._run.finish)

    def _try(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:  # whatever a service on the network may raise
            if self._tell:
                self._tell(f"note: metrics do not reach wandb: {error}")
            self._tell = None

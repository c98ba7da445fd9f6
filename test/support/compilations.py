"""Plans of one step file, each made once."""

from __future__ import annotations

import pathlib
from typing import Callable

from support import chain


class Compilations:
    """Exports once per flags and lowers once per options; `new_folder` makes a folder by a name."""

    def __init__(self, step_file: pathlib.Path, new_folder: Callable[[str], pathlib.Path]) -> None:
        self.step_file, self.new_folder = step_file, new_folder
        self.archives: dict[tuple[str, ...], pathlib.Path] = {}
        self.made: dict[tuple[str, ...], chain.Compiled] = {}

    def __call__(self, pipeline: str, *flags: str) -> chain.Compiled:
        if flags not in self.archives:
            self.archives[flags] = self.new_folder("archive") / "step.pt"
            chain.export(self.step_file, self.archives[flags], flags)
        if (pipeline, *flags) not in self.made:
            self.made[pipeline, *flags] = chain.lower(
                self.step_file, self.archives[flags], self.new_folder("plan"), flags, pipeline
            )
        return self.made[pipeline, *flags]

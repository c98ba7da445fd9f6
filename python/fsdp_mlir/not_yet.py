"""What `fully_shard` may be asked for and no pass does yet: refused at export, never ignored."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional

from .errors import ExportError
from .fsdp_module import Unit
from .mesh import DeviceMesh


def check_exists(units: Mapping[str, Unit], mesh: Optional[DeviceMesh]) -> None:
    """Refuses all that the units ask for and that does not exist yet, in one error.

    Args:
        units: by what a message calls them.
        mesh: of all units.

    Raises:
        ExportError: it names each argument, the units, and what to use instead.
    """
    missing: dict[tuple[str, str], list[str]] = {}
    for name, unit in units.items():
        for what in _of_unit(unit):
            missing.setdefault(what, []).append(name)
    for what in _of_mesh(mesh):
        missing[what] = []
    if missing:
        listed = "; ".join(
            what + (f" in {', '.join(where)}" if where else "") + f" ({instead})"
            for (what, instead), where in missing.items()
        )
        raise ExportError(
            f"fully_shard is asked for what does not exist yet: {listed}. See docs/porting.md"
        )


def _of_unit(unit: Unit) -> Iterator[tuple[str, str]]:
    if isinstance(reshard := unit.reshard_after_forward, int) and not isinstance(reshard, bool):
        yield f"reshard_after_forward={reshard}", "give True or False"


def _of_mesh(mesh: Optional[DeviceMesh]) -> Iterator[tuple[str, str]]:
    if mesh is None:
        return
    if mesh.ranks != mesh.size():
        yield (
            f"a mesh that is a part of one of {mesh.ranks} ranks",
            f"init_device_mesh(({mesh.ranks},)) shards over all of them",
        )
    elif not mesh.in_order:
        yield (
            "a mesh whose ranks are not in order",
            f"init_device_mesh(({mesh.ranks},)) has them in order",
        )

"""What `fully_shard` may be asked for and no pass does yet: refused at export, never ignored."""

from __future__ import annotations

from typing import Iterator, Optional

from ..errors import E, ExportError
from ..step.mesh import DeviceMesh


def check_exists(mesh: Optional[DeviceMesh]) -> None:
    """Refuses all that a mesh of units asks for and that does not exist yet, in one error.

    Raises:
        ExportError: it names what is asked for, and what to use instead.
    """
    missing = [f"{what} ({instead})" for what, instead in _of_mesh(mesh)]
    if missing:
        raise ExportError(
            E.NOT_SUPPORTED,
            f"fully_shard is asked for what does not exist yet: {'; '.join(missing)}. "
            "See docs/porting.md",
        )


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

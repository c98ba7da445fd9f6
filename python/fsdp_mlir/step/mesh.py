"""`DeviceMesh` as a description: which ranks there are, without a process group."""

from __future__ import annotations

import math
from typing import Any, NoReturn, Optional, Sequence, Union

import torch

from ..errors import E, ExportError
from ..options import checked_fields, checked_options, nearest

DEVICES = ("cpu", "cuda")


@checked_fields
class DeviceMesh:
    """Ranks in an array of named dimensions.

    Args:
        device_type: "cpu" or "cuda", without an index; None: what the step is compiled for.
        mesh: the ranks: a number of nested lists, or a tensor of integers.
        mesh_dim_names: a name for each dimension.

    Raises:
        ExportError: a rank occurs twice or is negative, names do not fit the dimensions, or the
            device is neither.
    """

    def __init__(
        self,
        device_type: Optional[str],
        mesh: Union[torch.Tensor, Sequence[Any]],
        *,
        mesh_dim_names: Optional[Sequence[str]] = None,
    ) -> None:
        self.device_type = _check_device(device_type)
        try:
            self.mesh = torch.as_tensor(mesh, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:
            raise ExportError(
                E.MESH, f"mesh is {mesh!r}; give ranks as nested lists of equal length"
            ) from error
        if self.mesh.is_floating_point() or self.mesh.dim() == 0 or self.mesh.numel() == 0:
            raise ExportError(E.MESH, f"mesh is {mesh!r}; give ranks as nested lists of integers")
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks) or min(ranks) < 0:
            raise ExportError(
                E.MESH, f"mesh is {self.mesh.tolist()}; each rank is there once, from 0"
            )
        self.mesh_dim_names = _check_names(mesh_dim_names, self.mesh.dim())
        self._root: DeviceMesh = self

    @property
    def ndim(self) -> int:
        return self.mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.mesh.shape)

    @property
    def ranks(self) -> int:
        """How many ranks a step on this mesh needs: those of the mesh it is a part of."""
        return self._root.mesh.numel()

    def size(self, mesh_dim: Optional[int] = None) -> int:
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    @property
    def num_shards(self) -> int:
        """How many ranks parameters are sharded over: those along the last dimension, as in FSDP2.
        Along all others there are replicas."""
        return self.shape[-1]

    @property
    def in_order(self) -> bool:
        """Whether the ranks count from 0 along the mesh."""
        return self._root.mesh.flatten().tolist() == list(range(self.ranks))

    def __getitem__(self, names: Union[str, tuple[str, ...]]) -> "DeviceMesh":
        """The part of the mesh along some dimensions: rank 0's slice of it."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        known = self.mesh_dim_names or ()
        for name in wanted:
            if name not in known:
                hint = f"; the nearest is {nearest(name, known)!r}" if known else "; it names none"
                raise KeyError(f"the mesh has no dimension {name!r}{hint}")
        index = tuple(slice(None) if name in wanted else 0 for name in known)
        part = DeviceMesh(self.device_type, self.mesh[index], mesh_dim_names=wanted)
        part._root = self._root
        return part

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ExportError(
            E.NOT_SUPPORTED,
            "a mesh is a description here and has neither a process group nor a rank; what a rank "
            "does is the plan's",
        )

    get_group = get_all_groups = get_rank = get_local_rank = get_coordinate = _refuse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.device_type, self.shape, self.mesh_dim_names, *self.mesh.flatten().tolist())

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}{names})"


@checked_options
def init_device_mesh(
    device_type: Union[str, Sequence[int], None] = None,
    mesh_shape: Optional[Sequence[int]] = None,
    *,
    mesh_dim_names: Optional[Sequence[str]] = None,
) -> DeviceMesh:
    """A mesh of the ranks 0, 1, … in row-major order. No process group is made.

    Args:
        device_type: "cpu" or "cuda"; it may be left out, so that the shape comes first and the
            ranks are on the device that the step is compiled for.
        mesh_shape: the size of each dimension.
        mesh_dim_names: a name for each dimension, all different.

    Raises:
        ExportError: a size is not a positive integer, or as for `DeviceMesh`.
    """
    if mesh_shape is None and not isinstance(device_type, str):
        device_type, mesh_shape = None, device_type
    sizes = tuple(mesh_shape) if isinstance(mesh_shape, (tuple, list)) else ()
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        raise ExportError(
            E.MESH,
            f"mesh_shape is {mesh_shape!r}; give the size of each dimension, as in (2,) or (2, 4)",
        )
    ranks = torch.arange(math.prod(sizes)).reshape(sizes)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)


def _check_device(device_type: Any) -> Optional[str]:
    if device_type is None or device_type in DEVICES:
        return device_type
    if isinstance(device_type, str) and device_type.partition(":")[0] in DEVICES:
        raise ExportError(
            E.MESH,
            f"device_type is {device_type!r}; give {device_type.partition(':')[0]!r}, each rank "
            "has a device of its own",
        )
    raise ExportError(E.MESH, f"device_type is {device_type!r}; there are {' and '.join(DEVICES)}")


def _check_names(names: Any, dimensions: int) -> Optional[tuple[str, ...]]:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ExportError(E.MESH, f"mesh_dim_names is {names!r}; give a tuple of names")
    if len(set(names)) != len(names):
        raise ExportError(E.MESH, f"mesh_dim_names is {tuple(names)}; each name is there once")
    if len(names) != dimensions:
        raise ExportError(
            E.MESH,
            f"mesh_dim_names has {len(names)} names for {dimensions} dimensions; give one for each",
        )
    return tuple(names)

"""Finds the state of a step among names that others gave."""

from __future__ import annotations

from typing import Collection, Iterable, Mapping, Optional

from .errors import E, CheckpointError
from .manifest import Tensor
from .sources import Source
from .step_archive import Step

# What scripts call the model's state and the optimizer's, before those of copies and others.
_MODEL = ("model.", "", "state_dict.", "model_state_dict.", "module.")
_OPTIMIZER = ("optim.", "optimizer.", "", "optimizer_state_dict.")


def some(names: Collection[str]) -> str:
    """`a, b and 3 more`."""
    shown = ", ".join(list(names)[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def find_model(
    source: Collection[str], tensors: Iterable[Tensor], wanted: Optional[str]
) -> tuple[dict[str, str], str]:
    """The source's name of each parameter and persistent buffer, and what stands before all of
    them: `wanted`, where that is given.

    Raises:
        CheckpointError: one is missing, or what stands before them is not one thing.
    """
    kept = [tensor for tensor in tensors if tensor.is_persistent]
    names = {tensor.name: (tensor.name, *tensor.aliases) for tensor in kept}
    parameters = {t.name: names[t.name] for t in kept if t.role == "parameter"} or names
    prefix = _prefix(source, parameters, _MODEL, wanted, "--model-key")
    found = _found(source, names, prefix)
    if missing := [name for name in names if name not in found]:
        raise CheckpointError(
            E.IMPORT_SOURCE,
            f"the source has no {some(missing)}; give the whole state_dict() of this model",
        )
    return found, prefix


def find_optimizer(
    source: Source, step: Step, tensors: Iterable[Tensor], wanted: Optional[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The source's name of each tensor of optimizer state, and of each parameter's count of steps
    where it has one; of a parameter that no step had to update there may be neither.

    Raises:
        CheckpointError: one is missing, the state of several optimizers is there, or the numbers
            of parameters are of other groups than the step's.
    """
    members = [name for group in step.groups for name in group["parameters"]]
    number = {name: str(index) for index, name in enumerate(members)}

    def spelled(name: str, key: str) -> tuple[str, ...]:
        # As torch.distributed.checkpoint has it, as torch.optim has it, and as checkpoints do.
        return f"state.{name}.{key}", f"state.{number[name]}.{key}", f"{name}/{key}"

    names = {
        tensor.name: spelled(tensor.parameter, tensor.key)
        for tensor in tensors
        if tensor.role == "optimizer"
    }
    counts = {name: spelled(name, "step")[:2] for name in step.updated()}
    prefix = _prefix(source, names or counts, _OPTIMIZER, wanted, "--optimizer-key")
    found = _found(source, names, prefix)
    owners = {tensor.name: tensor.parameter for tensor in tensors if tensor.role == "optimizer"}
    never = step.missed().keys() - {owners[name] for name in found}
    if missing := [name for name in names if name not in found and owners[name] not in never]:
        raise CheckpointError(
            E.IMPORT_SOURCE,
            f"the source has no optimizer state {some(missing)} of the step's {step.optimizer}; "
            "import what that optimizer left, or begin anew with train --weights",
        )
    if any(place == prefix + names[name][1] for name, place in found.items()):
        _check_groups(source, prefix, step)
    return found, _found(source, counts, prefix)


def _check_groups(source: Source, prefix: str, step: Step) -> None:
    """Raises CheckpointError where numbers of parameters are not those of the step's groups."""
    for key, what in (("params", len), ("param_names", list)):
        ours = [what(group["parameters"]) for group in step.groups]
        theirs = []
        while (place := f"{prefix}param_groups.{len(theirs)}.{key}") in source:
            members = source[place]()
            theirs.append(what(members) if isinstance(members, (list, tuple)) else members)
        if theirs and theirs != ours:
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"the source's optimizer has groups of {theirs} and the step's of {ours}, so the "
                "numbers of its parameters say nothing; save the state that "
                "get_optimizer_state_dict() gives, which has their names",
            )


def _found(
    source: Collection[str], names: Mapping[str, Iterable[str]], prefix: str
) -> dict[str, str]:
    found = {}
    for name, spellings in names.items():
        places = [prefix + spelling for spelling in spellings if prefix + spelling in source]
        if places:
            found[name] = places[0]
    return found


def _prefix(
    source: Collection[str],
    names: Mapping[str, Iterable[str]],
    usual: tuple[str, ...],
    wanted: Optional[str],
    flag: str,
) -> str:
    """What stands before `names` in the source: the usual, or the only one that most of them
    have."""
    if wanted is not None:
        return wanted + "." * bool(wanted)
    if not names:
        return usual[0]
    counted: dict[str, int] = {}
    spellings = {s for group in names.values() for s in group}
    for key in source:
        # The ends of a key that begin where a word does.
        places = [0, *(i + 1 for i, letter in enumerate(key) if letter == ".")]
        for place in places:
            if key[place:] in spellings:
                counted[key[:place]] = counted.get(key[:place], 0) + 1
    most = max(counted.values(), default=0)
    best = [prefix for prefix, count in counted.items() if count == most]
    for prefix in usual:
        if prefix in best:
            return prefix
    if len(best) > 1:
        keys = some([prefix.removesuffix(".") for prefix in best])
        raise CheckpointError(
            E.IMPORT_SOURCE, f"the source has this state under each of {keys}; choose with {flag}"
        )
    return best[0] if best else usual[0]

"""Tests that a teacher which follows its student in the step, and which nothing trains, has the bits
of eager PyTorch, on one rank and on two."""

from __future__ import annotations

import copy
import pathlib
from typing import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import ExportError, MixedPrecisionPolicy, TrainingStep, fully_shard
from fsdp_mlir.errors import ExportNote
from fsdp_mlir.export import export_step
from support import chain, reference

STEPS = 3
Follow = Callable[[nn.Module, nn.Module], None]


def by_operators(teacher: nn.Module, student: nn.Module) -> None:
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters()):
            t.mul_(0.9).add_(s, alpha=1 - 0.9)


def by_lerp(teacher: nn.Module, student: nn.Module) -> None:
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data.lerp_(s.data, 0.1)


def by_copies(teacher: nn.Module, student: nn.Module) -> None:
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters()):
            t.copy_(0.9 * t + 0.1 * s)


def by_data(teacher: nn.Module, student: nn.Module) -> None:
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data = t.data * 0.9 + s.data * 0.1


def by_data_alone(teacher: nn.Module, student: nn.Module) -> None:
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data = s.data * 0.5


def by_foreach(teacher: nn.Module, student: nn.Module) -> None:
    with torch.no_grad():
        own = list(teacher.parameters())
        torch._foreach_mul_(own, 0.9)
        torch._foreach_add_(own, list(student.parameters()), alpha=0.1)


def by_state_dicts(teacher: nn.Module, student: nn.Module) -> None:
    """BatchNorm's buffers follow as well."""
    states = student.state_dict()
    teacher.load_state_dict({name: value * 1 for name, value in states.items()})


class Distilled(nn.Module):
    def __init__(self, follow: Follow, is_frozen: bool = True) -> None:
        super().__init__()
        self.student = nn.Sequential(nn.Linear(8, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 3))
        self.teacher = copy.deepcopy(self.student).requires_grad_(not is_frozen)
        self.head = nn.Linear(3, 3)
        self.follow = follow

    def forward(self, x: Tensor) -> Tensor:
        self.follow(self.teacher, self.student)
        with torch.no_grad():
            wanted = self.teacher(x)
        return F.mse_loss(self.head(self.student(x)), wanted)


def training_step(
    follow: Follow, is_annotated: bool = False, is_frozen: bool = True
) -> TrainingStep:
    torch.manual_seed(1)
    model = Distilled(follow, is_frozen)
    if is_annotated:
        for module in (model.teacher, model.student, model):
            fully_shard(module)
    # Scripts give all parameters, of which the frozen ones have no gradient.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.randn(24, 8)
    return TrainingStep(
        model, lambda model, x: model(x), optimizer, {"x": x[:4]}, data={"x": x}, eval_data={"x": x}
    )


def in_buffers(step: TrainingStep) -> TrainingStep:
    """With the teacher's parameters as buffers, of which each emulated rank has its own."""
    teacher = step.model.teacher
    own = list(teacher.parameters())
    for module in teacher.modules():
        for name in list(module._parameters):
            module._buffers[name] = module._parameters.pop(name).detach()
    tensors = [
        buffer for t in own for buffer in teacher.buffers() if buffer.data_ptr() == t.data_ptr()
    ]
    teacher.parameters = lambda: tensors
    return step


WAYS = (by_operators, by_lerp, by_copies, by_data, by_data_alone, by_foreach, by_state_dicts)


@pytest.mark.quick
@pytest.mark.parametrize("follow", WAYS)
def test_a_teacher_is_eagers(follow: Follow, tmp_path: pathlib.Path) -> None:
    check(lambda argv=(): training_step(follow), 1, "mesh=1", tmp_path)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("follow", [by_operators, by_data])
def test_a_teacher_that_nothing_trains_need_not_be_frozen(
    follow: Follow, ranks: int, tmp_path: pathlib.Path
) -> None:
    """Tests one whose parameters require gradients, and get none."""
    make = lambda argv=(): training_step(follow, is_annotated=ranks > 1, is_frozen=False)
    check(make, ranks, f"mesh={ranks}", tmp_path)


def test_a_teacher_that_another_program_may_train(tmp_path: pathlib.Path) -> None:
    step = training_step(by_operators, is_frozen=False)
    shapes = [{"x": torch.ones(rows, 8)} for rows in (4, 2)]
    step = TrainingStep(step.model, lambda model, x: model(x), step.optimizer, shapes)
    with pytest.raises(ExportError, match=r"teacher.0.weight in place.* requires_grad_\(False\)"):
        export_step(step, tmp_path / "step.pt")


def test_a_note_names_parameters_that_nothing_trains(tmp_path: pathlib.Path) -> None:
    with pytest.warns(ExportNote, match=r"that nothing trains \(teacher.0.bias and 5 more\): each"):
        export_step(training_step(by_operators), tmp_path / "step.pt")


@pytest.mark.parametrize("is_annotated", [False, True])
@pytest.mark.parametrize("options", ["", "shard-layout=flat"])
def test_two_ranks(options: str, is_annotated: bool, tmp_path: pathlib.Path) -> None:
    make = lambda argv=(): training_step(by_operators, is_annotated)
    check(make, 2, f"mesh=2 {options}", tmp_path)


def check(make: Callable[..., TrainingStep], ranks: int, pipeline: str, path: pathlib.Path) -> None:
    trained = reference.averaged(in_buffers(make()) if ranks > 1 else make(), ranks, STEPS)
    run = chain.run_plan(chain.compile_step(make, path, pipeline=pipeline), ranks, steps=STEPS)
    reference.assert_same_bits(run.losses, run.weights, trained)


def test_a_teacher_that_its_unit_casts_is_refused(tmp_path: pathlib.Path) -> None:
    model = Distilled(by_operators)
    model.student[1], model.teacher[1] = nn.Identity(), nn.Identity()
    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = TrainingStep(model, lambda model, x: model(x), optimizer, {"x": torch.ones(4, 8)})
    with pytest.raises(
        ExportError, match="teacher.0.bias, of which its unit .* in bfloat16; shard"
    ):
        export_step(step, tmp_path / "step.pt")


@pytest.mark.provokes("FSDP-E0213")
@pytest.mark.parametrize("assigns", [False, True])
def test_a_trained_parameter_is_no_teacher(assigns: bool, tmp_path: pathlib.Path) -> None:
    def led(teacher: nn.Module, student: nn.Module) -> None:
        for t, s in zip(teacher.parameters(), student.parameters()):
            if assigns:
                s.data = s.data * 0.9 + t.data * 0.1
            else:
                s.data.lerp_(t.data, 0.1)

    line = led.__code__.co_firstlineno
    message = rf"^test_teachers.py:{line + (3 if assigns else 5)}: the step changes the parameter "
    with pytest.raises(ExportError, match=message + "student.0.weight in place, .* of a subclass"):
        export_step(training_step(led), tmp_path / "step.pt")

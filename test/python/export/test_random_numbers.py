"""Tests that torch draws the random numbers that a step draws from Python or NumPy."""

from __future__ import annotations

import pathlib
import random
import threading
from random import randint as whole_number
from typing import Any, Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exporting import classify, export, installed
from torch import nn

from fsdp_mlir import ExportError
from fsdp_mlir.capture.state.generators import held_by_torch
from fsdp_mlir.capture.state.places import Member, Place
from fsdp_mlir.capture.values.drawn_by_torch import drawn_by_torch
from fsdp_mlir.capture.values.value_checks import passed_checks

pytestmark = pytest.mark.filterwarnings("ignore:.* are drawn by torch")

LOCK = threading.Lock()  # which Dynamo does not follow
OF_PYTHONS_OWN = random.Random(3)
OF_NUMPYS_OWN = np.random.default_rng(3)
OF_TORCHS_OWN = dict.fromkeys(("noise", "order"), torch.Generator().manual_seed(3))
IN_A_TUPLE = (np.random.default_rng(3),)
HELD = [
    Place("", globals(), "OF_NUMPYS_OWN"),
    *(Member("", OF_TORCHS_OWN, name) for name in OF_TORCHS_OWN),
]
FloatTensor = torch.FloatTensor

Logits = Callable[[nn.Module, torch.Tensor], torch.Tensor]


def loss_of(logits: Logits) -> Callable[..., torch.Tensor]:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with LOCK:
            return F.cross_entropy(logits(model, x), y)

    return loss


def mixup(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    weight = np.random.beta(0.4, 0.4)
    weight = max(weight, 1 - weight)
    return model(weight * x + (1 - weight) * x[torch.randperm(len(x))])


def cutmix(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    width, kept = x.shape[1], np.random.beta(1.0, 1.0)
    cut, middle = int(width * np.sqrt(1.0 - kept)), np.random.randint(width)
    low, high = np.clip(middle - cut // 2, 0, width), np.clip(middle + cut // 2, 0, width)
    mixed = x.clone()
    mixed[:, low:high] = x.flip(0)[:, low:high]
    return model(mixed) * (1 - (high - low) / width)


def moves_a_box(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    picture, part = x.clone().view(4, 2, 4), np.sqrt(1.0 - np.random.beta(1.0, 1.0))
    ends = []
    for size in (2, 4):
        cut, middle = int(size * part), np.random.randint(size)
        ends += [np.clip(middle - cut // 2, 0, size), np.clip(middle + (cut + 1) // 2, 0, size)]
    top, bottom, left, right = ends
    picture[:, top:bottom, left:right] = picture.flip(0)[:, top:bottom, left:right]
    return model(picture.view(4, 8)) * (1 - (bottom - top) * (right - left) / 8)


def crops(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    high, wide = np.random.randint(0, 9), torch.randint(0, 9, ()).item()
    padded = F.pad(x.view(4, 1, 2, 4), (4, 4, 4, 4), "constant", 0.5)
    return model(F.avg_pool2d(padded[:, :, high : high + 2, wide : wide + 4], (1, 1)).flatten(1))


def crops_at_times(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    begin = random.randint(0, 11)
    x = F.avg_pool1d(F.pad(x, (6, 6))[:, begin : begin + 8], 1)
    return model(x).relu() if random.random() < 0.5 else model(x)


def copies_a_column_at_times(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Among a few, of which not each is a way of its own."""
    if random.random() < 0.5:
        x = x.clone()
        x[:, random.randint(0, 7)] = x[:, np.random.randint(8)]
    return model(x)


def drops_a_layer(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    logits = model(x)
    if random.random() < 0.5:
        logits = logits.relu()
    return logits if OF_PYTHONS_OWN.random() < 0.5 else logits.sin()


def repeats(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    logits = model(x)
    for _ in range(random.randint(1, 3)):
        logits = logits + logits.tanh()
    return logits


def hides(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[np.random.rand(*x.shape) < 0.3] = 0
    x[:, random.sample(range(8), 2)] = 1
    x[:, np.random.permutation(8)[:2]] = 2
    return model(x)


def from_arrays(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    noise = torch.from_numpy(np.random.normal(0, 1, x.shape).astype(np.float32) * 0.1)
    scale = FloatTensor(np.random.uniform(1, 2, (4, 1))) + torch.Tensor(np.random.random((4, 1)))
    part = np.sqrt(np.random.rand(8)) * np.float64(2) + random.random()
    x = (x * scale + noise + np.random.rand(4, 8)) * np.exp(np.random.rand(8)) > np.random.rand(8)
    return model(x + torch.tensor(np.where(part < 1, part, 0.0)).float())


def hides_by_a_generator(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    generator = np.random.default_rng()
    assert isinstance(generator, np.random.Generator)
    x, count = x.clone(), int(2 + 3 * generator.random())
    x[:, generator.choice(np.sum([5, 3]), 3, replace=False)] = 0
    x[:, :count] += torch.from_numpy(generator.standard_normal((4, 1), dtype=np.float32))
    return model(x[generator.integers(4, size=4)])


def hides_by_held_generators(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x + torch.randn(x.shape, generator=OF_TORCHS_OWN["noise"])
    x[:, OF_NUMPYS_OWN.permutation(8)[:2]] = 0
    order = torch.randperm(4, generator=OF_TORCHS_OWN["order"])
    return model(x[order]) * OF_NUMPYS_OWN.uniform(1, 2)


def as_places(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    rows = torch.LongTensor(np.random.randint(0, 4, size=4))
    weighted = np.random.choice(4, size=(4,), p=np.array([0.1, 0.2, 0.3, 0.4]))
    begin = whole_number(0, 5)
    x = x[rows] + x[torch.from_numpy(weighted)]
    x[:, begin : begin + 3] = 0
    return model(x)


@pytest.mark.parametrize(
    "logits",
    [
        lambda model, x: model(x) * random.uniform(1, 2) + random.gauss(0, 0.1),
        lambda model, x: model(x) * random.choice([0.5, 1.0, 2.0]) + np.random.randint(9) / 9,
        lambda model, x: random.choice([torch.relu, torch.tanh, torch.sin])(model(x)),
        lambda model, x: model(x) + torch.tensor([random.random() for _ in range(3)]),
        lambda model, x: model(x) * (random.Random(5).random() + random.Random().random()),
        lambda model, x: model(x) if np.random.default_rng().random() < 0.9 else model(x).relu(),
        lambda model, x: model(x) + torch.from_numpy(np.random.RandomState().randn(4, 3)),
        lambda model, x: model(x) * np.random.choice([1, 2, 3], p=[0.2, 0.3, 0.5]),
        lambda model, x: model(x) * torch.full((3,), np.random.poisson(2.0)),
        *(
            mixup,
            cutmix,
            moves_a_box,
            crops,
            crops_at_times,
            copies_a_column_at_times,
            drops_a_layer,
            repeats,
            hides,
            from_arrays,
            as_places,
        ),
        hides_by_a_generator,
        hides_by_held_generators,
    ],
)
def test_torch_draws_them(tmp_path: pathlib.Path, logits: Logits) -> None:
    """A plan draws what the step itself does where torch draws for it, and a note says so."""
    step = classify(nn.Linear(8, 3), loss=loss_of(logits))
    exported = export(step, tmp_path)
    assert [n for n in exported.notes if "drawn by torch, from the run's own seed" in n]
    values = set()
    for seed in range(6):
        with held_by_torch(HELD), passed_checks():
            torch.manual_seed(seed)
            loss = step.loss(step.model, **step.inputs)
        step.model.zero_grad()
        loss.backward()
        results = exported.run(seed=seed)
        assert torch.equal(results["loss", ""], loss)
        assert torch.equal(results["gradient", "weight"], step.model.weight.grad)
        values.add(loss.item())
    assert len(values) > 1


LIBRARY = """import numpy
import random
import torch

def seeded(x):
    return x * random.Random(torch.randint(9, ()).item()).random()

def mixed(x):
    first, second = numpy.random.rand(2).astype(numpy.float32)
    begin, weight = int(8 * first), float(second)
    x = x * weight
    x[:, begin:] = 0
    return x
"""


def test_a_library_draws_too(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes whole numbers and others of what it draws, as the user's own files do."""
    mixed = installed("mixes_samples", LIBRARY, tmp_path, monkeypatch).mixed
    step = classify(nn.Linear(8, 3), loss=loss_of(lambda model, x: model(mixed(x))))
    exported = export(step, tmp_path)
    for seed in range(3):
        with held_by_torch(HELD), passed_checks():
            torch.manual_seed(seed)
            loss = step.loss(step.model, **step.inputs)
        assert torch.equal(exported.run(seed=seed)["loss", ""], loss)


def test_dynamos_draws_are_noted(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x + torch.from_numpy(np.random.rand(4, 8)).float()), y)

    (noted,) = export(classify(nn.Linear(8, 3), loss=loss), tmp_path).notes
    assert noted.startswith("test_random_numbers.py:") and "are drawn by torch" in noted


OF_NUMPY: dict[str, Callable[[], Any]] = {
    "beta": lambda: np.random.beta(2, [3, 1], (4000, 2)),
    "binomial": lambda: np.random.binomial(5, 0.3, 4000),
    "choice": lambda: np.random.choice([1.0, 3.0], 4000, p=[0.3, 0.7]),
    "exponential": lambda: np.random.exponential(2, 4000),
    "gamma": lambda: np.random.gamma(2, 3, 4000),
    "gumbel": lambda: np.random.gumbel(1, 2, 4000),
    "laplace": lambda: np.random.laplace(1, 2, 4000),
    "lognormal": lambda: np.random.lognormal(0, 0.5, 4000),
    "normal": lambda: np.random.normal(1, 2, 4000),
    "permutation": lambda: np.random.permutation(4000),
    "poisson": lambda: np.random.poisson(3, 4000),
    "rand": lambda: np.random.rand(2000, 2),
    "randint": lambda: np.random.randint(2, 7, 4000),
    "randn": lambda: np.random.randn(4000),
    "random": lambda: np.random.random(4000),
    "standard_normal": lambda: np.random.standard_normal(4000),
    "uniform": lambda: np.random.uniform(-1, 3, 4000),
}
OF_PYTHON: dict[str, Callable[[], Any]] = {
    "betavariate": lambda: random.betavariate(2, 3),
    "choices": lambda: random.choices([1, 4], cum_weights=[0.3, 1.0])[0],
    "expovariate": lambda: random.expovariate(0.5),
    "gammavariate": lambda: random.gammavariate(2, 3),
    "gauss": lambda: random.gauss(1, 2),
    "lognormvariate": lambda: random.lognormvariate(0, 0.5),
    "randint": lambda: random.randint(1, 4),
    "randrange": lambda: random.randrange(2, 11, 3),
    "sample": lambda: random.sample([1, 5, 9], 2)[1],
    "uniform": lambda: random.uniform(-1, 3),
}


@pytest.mark.parametrize("draw", [*OF_NUMPY.values()], ids=[*OF_NUMPY])
def test_distributions_of_numpy(draw: Callable[[], Any]) -> None:
    np.random.seed(0)
    torch.manual_seed(0)
    theirs = draw()
    with drawn_by_torch():
        ours = draw()
    assert ours.shape == theirs.shape
    assert_distributed_alike(ours.tensor.double().numpy(), theirs)


@pytest.mark.parametrize("draw", [*OF_PYTHON.values()], ids=[*OF_PYTHON])
def test_distributions_of_python(draw: Callable[[], Any]) -> None:
    random.seed(0)
    torch.manual_seed(0)
    theirs = [draw() for _ in range(1500)]
    with drawn_by_torch():
        ours = [draw() for _ in range(1500)]
    assert type(ours[0]) is type(theirs[0])
    assert_distributed_alike(np.array(ours, float), np.array(theirs, float))


def assert_distributed_alike(ours: np.ndarray, theirs: np.ndarray) -> None:
    """The shares of numbers below each of some, within what chance makes of so many."""
    bounds = np.quantile(theirs, [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1])
    for at in bounds:
        assert abs((ours <= at).mean() - (theirs <= at).mean()) < 4 / np.sqrt(ours.size)


def test_what_a_step_seeds_itself_is_the_same_in_each(tmp_path: pathlib.Path) -> None:
    def logits(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x) * random.Random(5).random()

    step = classify(nn.Linear(8, 3), loss=loss_of(logits))
    exported = export(step, tmp_path)
    assert torch.equal(exported.run()["loss", ""], step.loss(step.model, **step.inputs))


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize(
    "draw, line, generator",
    [
        (lambda: random.triangular(0, 1), r"test_random_numbers.py:\d+: ", "Python or NumPy"),
        (lambda: np.random.zipf(2.0), r"test_random_numbers.py:\d+: ", "Python or NumPy"),
        (
            lambda: 1.0 if np.random.default_rng().zipf(2.0) > 0 else 0.0,
            r"test_random_numbers.py:\d+: ",
            "a generator that",
        ),
        (
            lambda: np.random.Generator(np.random.PCG64()).random(),
            r"test_random_numbers.py:\d+: ",
            "a generator that",
        ),
        (
            lambda: 1.0 if OF_NUMPYS_OWN.zipf(2.0) > 0 else 0.0,
            r"test_random_numbers.py:\d+: ",
            "OF_NUMPYS_OWN, a generator of",
        ),
        (
            lambda: 1.0 if IN_A_TUPLE[0].random() < 2 else 0.0,
            r"test_random_numbers.py:\d+: ",
            r"IN_A_TUPLE\[0\], a generator of",
        ),
        (
            lambda draw=np.random.default_rng(3).random: 1.0 if draw() < 2 else 0.0,
            r"test_random_numbers.py:\d+: ",
            "a default of <lambda>, a generator of",
        ),
        (lambda draw=random.random: draw(), r"test_random_numbers.py:\d+: ", "Python or NumPy, of"),
    ],
)
def test_what_torch_does_not_draw_is_refused(
    tmp_path: pathlib.Path, draw: Callable[[], float], line: str, generator: str
) -> None:
    def logits(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x) * draw()

    with pytest.raises(
        ExportError,
        match=f"^{line}the step draws random numbers from {generator}.*draw them with torch",
    ):
        export(classify(nn.Linear(8, 3), loss=loss_of(logits)), tmp_path)


@pytest.mark.provokes("FSDP-E0207")
def test_a_seed_that_a_library_draws_is_refused_with_its_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = installed("draws_seeds", LIBRARY, tmp_path, monkeypatch).seeded
    line = r"^test_random_numbers.py:\d+, in draws_seeds.py:6: the step draws random numbers from a"
    with pytest.raises(ExportError, match=line):
        export(classify(nn.Linear(8, 3), loss=loss_of(lambda model, x: model(seeded(x)))), tmp_path)

"""Tests that Python which Dynamo cannot follow is captured by running it: eager's bits, and what
the code decides must be the same each time."""

import collections
import contextlib
import pathlib
import threading
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, assert_trains_as_eager, classify, export
from torch import nn
from torch.utils.checkpoint import checkpoint

from fsdp_mlir import ExportError

LOCK = threading.Lock()


class Classifier(nn.Module):
    """Two blocks, of which `around` runs each."""

    def __init__(self, around: Callable = lambda block, x: block(x)) -> None:
        super().__init__()
        layers = (nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2)) for _ in "12")
        self.blocks = nn.ModuleList(layers)
        self.head = nn.Linear(8, 3)
        self.register_buffer("scale", torch.full((8,), 0.5))
        self.around = around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with LOCK:  # Dynamo gives up here
            for block in self.blocks:
                x = self.around(block, x * self.scale + torch.tensor([0.25]))
            return self.head(x)


def test_states_places_and_metrics_are_as_with_dynamo(tmp_path: pathlib.Path) -> None:
    metrics = lambda model, x, y: {"accuracy": (model(x).argmax(-1) == y).float().mean()}
    exported = assert_same_as_eager(classify(Classifier(), metrics=metrics), tmp_path)
    (said,) = exported.notes
    assert "Dynamo cannot follow the step" in said and said.startswith("test_run_capture.py:")
    assert exported.ops().count("aten::bernoulli") == 2
    modules = {(node["module"], node["phase"]) for node in exported.program()["nodes"]}
    for path in ("blocks.0.0", "blocks.1.1", "head"):
        assert {(path, "forward"), (path, "backward")} <= modules
    sources = {node["source"].split(":")[0] for node in exported.program()["nodes"]}
    assert "test_run_capture.py" in sources and sources <= {
        "test_run_capture.py",
        "exporting.py",
        "",
    }


def test_eval(tmp_path: pathlib.Path) -> None:
    step = classify(Classifier(), eval_data={"x": torch.randn(9, 8), "y": torch.randint(3, (9,))})
    exported = export(step, tmp_path)
    step.model.eval()
    with torch.no_grad():
        assert torch.equal(exported.run("eval")["loss", ""], step.loss(step.model, **step.inputs))


def test_checkpoints_keep_their_mark(tmp_path: pathlib.Path) -> None:
    around = lambda block, x: checkpoint(block, x, use_reentrant=False)
    exported = export(classify(Classifier(around)), tmp_path)
    plain = export(classify(Classifier()), tmp_path)
    numbers = {path: set() for path in ("blocks.0", "blocks.1", "head")}
    for node in exported.program()["nodes"]:
        if node["phase"] == "forward" and node["module"][:8] in numbers:
            numbers[node["module"][:8]].add(node["checkpoint"])
    assert numbers == {"blocks.0": {0}, "blocks.1": {1}, "head": {None}}
    assert exported.ops() == plain.ops()


def test_what_a_checkpoint_gives_may_be_written(tmp_path: pathlib.Path) -> None:
    """Backward computes what the checkpoint saved again."""

    def around(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = checkpoint(lambda x: torch.tanh(block[0](x)), x, use_reentrant=False)
        return y.add_(1)

    assert_same_as_eager(classify(Classifier(around)), tmp_path)


def test_python_state_that_decides() -> None:
    class Alternates(nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with LOCK:
                self.calls += 1
                y = super().forward(x)
                return y if self.calls % 2 else y.relu()

    assert_trains_as_eager(lambda: Alternates(8, 3))


GENERATOR = torch.Generator()


@pytest.mark.provokes("FSDP-E0207")
@pytest.mark.parametrize("made", [torch.Generator, lambda: GENERATOR])
def test_random_numbers_of_a_generator_that_the_step_seeds(
    tmp_path: pathlib.Path, made: Callable[[], torch.Generator]
) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        generator = made().manual_seed(5)
        return F.cross_entropy(model(x + torch.randn(x.shape, generator=generator)), y)

    text = r"^test_run_capture.py:\d+: the step draws .* from a torch.Generator .* leave out generator="
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)


@pytest.mark.provokes("FSDP-E0207")
def test_a_tensor_beside_the_model_is_written(tmp_path: pathlib.Path) -> None:
    average = torch.zeros(3)

    def loss(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with LOCK, torch.no_grad():
            average.sub_(0.1 * (average - model.bias))
        return F.cross_entropy(model(x), y)

    text = (
        r"test_run_capture.py:\d+: the step writes .* none of the model's, as an average of weights"
    )
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)


@pytest.mark.provokes("FSDP-E0213")
def test_noise_that_is_drawn_into_a_tensor_beside_the_model(tmp_path: pathlib.Path) -> None:
    noise = torch.zeros(4, 8)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with LOCK:
            return F.cross_entropy(model(x + noise.resize_(4, 8).normal_()), y)

    text = r"^test_run_capture.py:\d+: the step changes in place .* none of the model's; make it a buffer"
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)


def test_a_criterion_that_counts_in_its_buffer(tmp_path: pathlib.Path) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return F.cross_entropy(x, y) * self.calls

    criterion = Counts()
    step = classify(nn.Linear(8, 3), loss=lambda model, x, y: criterion(model(x), y))
    with pytest.raises(ExportError, match="the criterion a part of the model .model.criterion ="):
        export(step, tmp_path)


def test_a_tensor_that_is_resized(tmp_path: pathlib.Path) -> None:
    """As scripts of old do with an empty one, and before each draw."""

    class Hides(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = x.data.new().resize_((x.shape[0], 1)).bernoulli_(0.5)
            return super().forward(x.clone().resize_(4, 8) * kept)

    assert_same_as_eager(classify(Hides()), tmp_path)


class Replaces(nn.Linear):
    """Puts what `make` makes of its result in the place of a buffer."""

    def __init__(self, make: Callable[[torch.Tensor], Any], locked: bool) -> None:
        super().__init__(8, 3)
        self.register_buffer("mean", torch.full((3,), 2.0))
        self.make, self.lock = make, LOCK if locked else contextlib.nullcontext()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            y = super().forward(x) * self.mean
            self.mean = self.make(y)
            return y if self.mean is None else y - self.mean


@pytest.mark.parametrize("locked", [False, True])
def test_a_buffer_that_is_replaced(tmp_path: pathlib.Path, locked: bool) -> None:
    """Dynamo can follow one of the steps, but its graph has no such value."""
    model = Replaces(lambda y: y.detach().mean(0), locked)
    exported = assert_same_as_eager(classify(model), tmp_path)
    assert ("buffer_update", "mean") in exported.run()


class Records(nn.Linear):
    """Writes what has a gradient into its batch and, without `detach()`, into a buffer."""

    def __init__(self, locked: bool) -> None:
        super().__init__(8, 3)
        self.register_buffer("last", torch.zeros(2, 3))
        self.scale, self.other = nn.Parameter(torch.rand(8)), nn.Linear(8, 3)
        self.lock = LOCK if locked else contextlib.nullcontext()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            y = super().forward(x.mul_(self.scale))
            self.last[1] = (y + self.other(x)).mean(0)
            return y


@pytest.mark.parametrize("locked", [False, True])
def test_what_is_written_gets_no_gradient_where_it_is(tmp_path: pathlib.Path, locked: bool) -> None:
    exported = assert_same_as_eager(classify(Records(locked)), tmp_path)
    assert set(exported.results("gradient")) == {"scale", "weight", "bias"}


@pytest.mark.parametrize("locked", [False, True])
def test_what_a_teacher_says_in_inference_mode(tmp_path: pathlib.Path, locked: bool) -> None:
    """It gets no gradient, and what comes behind the block does."""
    model = nn.Linear(8, 3)
    model.teacher = nn.Linear(8, 3).requires_grad_(False)
    lock = LOCK if locked else contextlib.nullcontext()

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with lock, torch.inference_mode():
            said = model.teacher(x).softmax(-1)
            with torch.inference_mode(False):
                said = said.clone()
        return F.cross_entropy(model(x), y) + F.cross_entropy(model(x), said.clone())

    assert_same_as_eager(classify(model, loss=loss), tmp_path)


@pytest.mark.provokes("FSDP-E0213")
@pytest.mark.parametrize(
    "make, message",
    [
        (lambda y: y.mean(0), "a tensor with a gradient in the place of mean; detach"),
        (lambda y: y.detach(), r"\(4, 3\) of torch.float32 in the place of mean; keep it \(3,\)"),
        (lambda y: None, "something else in the place of mean"),
    ],
)
def test_a_buffer_that_is_replaced_by_what_it_cannot_be(
    tmp_path: pathlib.Path, make: Callable[[torch.Tensor], Any], message: str
) -> None:
    with pytest.raises(ExportError, match=message):
        export(classify(Replaces(make, locked=True)), tmp_path)


def test_a_buffer_that_the_step_makes(tmp_path: pathlib.Path) -> None:
    """Each step makes it again; the model is left as it was."""

    class Caches(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with LOCK:
                self.register_buffer("halves", torch.full((3,), 0.5))
                return super().forward(x) * self.halves

    model = Caches(8, 3)
    (warning,) = export(classify(model), tmp_path).warnings
    assert "changes Python state of model.halves, " in str(warning)
    assert "halves" not in model._buffers


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.full((3,), 0.5), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Makes(nn.Linear):
    """Makes a module, in each step or once."""

    def __init__(self, make: Callable[[], nn.Module], once: bool) -> None:
        super().__init__(8, 3)
        self.make, self.once = make, once
        self.made: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.made is None or not self.once:
            self.made = self.make()
        return self.made(super().forward(x))


@pytest.mark.parametrize(
    "make, once",
    [
        (lambda: nn.BatchNorm1d(3, affine=False, track_running_stats=False), False),
        (Halves, False),
        (Halves, True),
    ],
)
def test_a_module_that_the_step_makes(make: Callable[[], nn.Module], once: bool) -> None:
    assert_trains_as_eager(lambda: Makes(make, once))


@pytest.mark.provokes("FSDP-E0207")
def test_a_module_that_the_first_step_makes(tmp_path: pathlib.Path) -> None:
    """Its weights are drawn once, and later steps have them."""
    with pytest.raises(ExportError, match="as a module, make before: run the model on a batch"):
        export(classify(Makes(lambda: nn.Linear(3, 3).requires_grad_(False), True)), tmp_path)


class Scale:
    by = 0.5

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by + SHIFT


SHIFT = 0.25


def test_a_class_that_a_step_is_the_first_to_reach(tmp_path: pathlib.Path) -> None:
    def around(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        block.scale = globals()["Sc" + "ale"]()
        return block.scale(block(x))

    assert_same_as_eager(classify(Classifier(around)), tmp_path)
    assert (Scale.by, SHIFT) == (0.5, 0.25)


class Activations(collections.OrderedDict):
    """Makes a module of the class that a key has, as Transformers' table of activations does."""

    def __getitem__(self, key: str) -> nn.Module:
        return super().__getitem__(key)()


ACTIVATIONS = Activations(gelu=nn.GELU)


def test_a_table_that_makes_what_it_gives(tmp_path: pathlib.Path) -> None:
    around = lambda block, x: block(ACTIVATIONS["gelu"](x))
    assert_same_as_eager(classify(Classifier(around)), tmp_path)
    assert ACTIVATIONS == {"gelu": nn.GELU}


def test_a_weight_that_the_module_does_not_own(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    weight = model.weight

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with LOCK:
            return F.cross_entropy(model(x), y) + weight.square().sum()

    with pytest.raises(ExportError, match="reads weight from somewhere else than its module"):
        export(classify(model, loss=loss), tmp_path)


class KeepsABuffer:
    """A criterion that is made of the model, as a detector's of its anchors."""

    def __init__(self, model: nn.Module) -> None:
        self.mean = model[0].running_mean

    def __call__(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with LOCK:
            return F.cross_entropy(model(x), y) + (model[1].weight * self.mean).square().sum()


def normalised(training: bool) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 3))
    model[0].train(training).running_mean.normal_()
    return model


def test_a_buffer_that_is_read_past_its_module(tmp_path: pathlib.Path) -> None:
    model = normalised(training=False)
    exported = assert_same_as_eager(classify(model, loss=KeepsABuffer(model)), tmp_path)
    read = [a["fqn"] for a in exported.program()["arguments"] if a["role"] == "buffer"]
    assert read.count("0.running_mean") == 1


def test_a_buffer_that_is_changed_and_read_past_its_module(tmp_path: pathlib.Path) -> None:
    model = normalised(training=True)
    with pytest.raises(ExportError, match="reads 0.running_mean from somewhere else than its mod"):
        export(classify(model, loss=KeepsABuffer(model)), tmp_path)


def checks(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if (y < 0).any() or (y > 2).any():
        wrong = "a class that there is not"
        raise ValueError(wrong)
    torch._check_tensor_all(y >= 0)
    for label in y:
        if (label > 2).any():
            wrong: list = [label]
            torch._assert(False, f"{wrong}")  # as torchvision does
    variance = model(x).exp()
    return F.gaussian_nll_loss(x[:, :3], x[:, 3:6], variance)


def test_checks_of_values_are_left_out(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(nn.Linear(8, 3), loss=checks), tmp_path)
    first = checks.__code__.co_firstlineno
    places = [note.partition(": a check")[0] for note in exported.notes if "a check" in note]
    assert places[:3] == [f"test_run_capture.py:{first + line}" for line in (1, 4, 6)]
    assert "functional.py:" in places[3]


def clamps(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(x).all():
        bound = torch.finfo(x.dtype).max - 1000
        x = torch.clamp(x, min=-bound, max=bound)
    return F.cross_entropy(model(x), y)


def test_what_is_not_finite_is_clamped(tmp_path: pathlib.Path) -> None:
    step = classify(nn.Linear(8, 3), loss=clamps)
    assert not [note for note in assert_same_as_eager(step, tmp_path).notes if "a check" in note]
    step.inputs["x"] = torch.full((4, 8), torch.inf)
    assert_same_as_eager(step, tmp_path)


def computes_with_counts(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    many = (y == 1).sum().item()
    loss = F.cross_entropy(model(x), y, reduction="sum") / max(1, many)
    return loss + model(x).square().mean() * min(many, 2) / max(0.5, x.max())


@pytest.mark.parametrize("labels", [(0, 1, 1, 1), (0, 0, 2, 0)])
def test_counts_that_are_read_from_tensors(tmp_path: pathlib.Path, labels: tuple[int, ...]) -> None:
    inputs = {"x": torch.randn(4, 8), "y": torch.tensor(labels)}
    step = classify(nn.Linear(8, 3), loss=computes_with_counts, inputs=inputs)
    assert_same_as_eager(step, tmp_path)


def counts_what_it_selects(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    kept = torch.where(y > 0)[0]
    with LOCK:
        return F.cross_entropy(model(x)[kept], y[kept], reduction="sum") / max(1, kept.numel())


def counts_per_rank(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    kept = torch.where(y > 0)[0]
    with LOCK:
        on_a_rank = max(kept.numel() / float(2), 1.0) + min(0.5, len(kept) * 0.75)
        return F.cross_entropy(model(x)[kept], y[kept], reduction="sum") / on_a_rank


@pytest.mark.parametrize("labels", [(0, 1, 2, 0), (1, 1, 2, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("loss", [counts_what_it_selects, counts_per_rank])
def test_the_larger_of_a_size_by_values(
    tmp_path: pathlib.Path, loss: Callable[..., torch.Tensor], labels: tuple[int, ...]
) -> None:
    inputs = {"x": torch.randn(4, 8), "y": torch.tensor(labels)}
    step = classify(nn.Linear(8, 3), loss=loss, inputs=inputs)
    results = export(step, tmp_path).run()
    step.loss(step.model, **inputs).backward()
    torch.testing.assert_close(results["gradient", "weight"], step.model.weight.grad)


TABLE = torch.tensor([0.5, 2.0, 3.0])


def reads_a_table_twice(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with LOCK:
        return (
            F.cross_entropy(model(x), y) + (model(x).mean(1) * TABLE[y] * TABLE[y.flip(0)]).mean()
        )


def test_a_table_that_is_read_twice(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(nn.Linear(8, 3), loss=reads_a_table_twice), tmp_path)
    constants = [a["fqn"] for a in exported.program()["arguments"] if a["role"] == "constant"]
    assert constants == ["fsdp.constant.0"]

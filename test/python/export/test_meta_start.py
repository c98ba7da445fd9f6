"""Tests that a model built on `meta` is exported with how each tensor gets its first value."""

import copy
import math
import pathlib
from typing import Any, Callable

import pytest
import torch
from exporting import Exported, classify, export
from torch import nn

from fsdp_mlir import ExportError, MixedPrecisionPolicy, fully_shard, record_init
from fsdp_mlir.step.training_step import load_training_step
from support.freed import freed

Build = Callable[[], nn.Module]


def export_meta(build: Build, folder: pathlib.Path, **options: Any) -> Exported:
    with record_init():
        with torch.device("meta"):
            model = build()
        step = classify(model, **options)
    exported = export(step, folder)
    assert all(p.device.type == "meta" for p in model.parameters())
    return exported


def recipe(exported: Exported, name: str) -> list[tuple]:
    """Steps as (op, values...), with the region's offset, sizes and strides behind."""
    (entry,) = [
        e
        for e in exported.metadata["parameters"] + exported.metadata["buffers"]
        if e["fqn"] == name
    ]
    return [
        (s["op"], *s["values"], *((tuple(s["region"].items()),) if s["region"] else ()))
        for s in entry["init"] or []
    ]


def draw(exported: Exported, name: str) -> int:
    (entry,) = [e for e in exported.metadata["parameters"] if e["fqn"] == name]
    return entry["init"][0]["draw"]


def region(offset: int, sizes: list[int], strides: list[int]) -> tuple:
    return ("offset", offset), ("sizes", sizes), ("strides", strides)


class Initialised(nn.Module):
    """A weight of [3, 8] for each case, given values by the case's function."""

    def __init__(self, cases: dict[str, tuple]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(8, 3) for name in cases})
        with torch.no_grad():
            for name, (fill, _) in cases.items():
                fill(self.layers[name].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(layer(x) for layer in self.layers.values())


third = math.sqrt(6 / 11)  # xavier: 8 inputs, 3 outputs
CASES = {
    "constructor": (lambda w: None, [("uniform", -1 / math.sqrt(8), 1 / math.sqrt(8))]),
    "zeros": (nn.init.zeros_, [("fill", 0)]),
    "constant": (lambda w: nn.init.constant_(w, 0.25), [("fill", 0.25)]),
    "uniform": (lambda w: nn.init.uniform_(w, -2, 3), [("uniform", -2, 3)]),
    "normal": (lambda w: nn.init.normal_(w, 1, 0.5), [("normal", 1, 0.5)]),
    "xavier_uniform": (nn.init.xavier_uniform_, [("uniform", -third, third)]),
    "xavier_normal": (nn.init.xavier_normal_, [("normal", 0, math.sqrt(2 / 11))]),
    "kaiming_normal": (
        lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
        [("normal", 0, math.sqrt(2 / 8))],
    ),
    "trunc_normal": (
        lambda w: nn.init.trunc_normal_(w, std=0.5, a=-0.5, b=0.5),
        [
            ("uniform", -math.erf(math.sqrt(0.5)), math.erf(math.sqrt(0.5))),
            ("erfinv",),
            ("multiply", 0.5 * math.sqrt(2)),
            ("clamp", -0.5, 0.5),
        ],
    ),
    "in_place": (
        lambda w: w.normal_().mul_(0.02).add_(1).sub_(3, alpha=2).div_(4),
        [("normal", 0, 1), ("multiply", 0.02), ("add", 1), ("add", -6), ("multiply", 0.25)],
    ),
    "what_was_before_is_gone": (lambda w: w.normal_().mul_(2).fill_(1), [("fill", 1)]),
    "through_data": (
        lambda w: w.data.copy_(torch.randn(3, 8) * 0.5),
        [("normal", 0, 1), ("multiply", 0.5)],
    ),
    "a_row": (
        lambda w: (w.fill_(1), w[1].zero_()),
        [("fill", 1), ("fill", 0, region(8, [8], [1]))],
    ),
    "a_column_by_assignment": (
        lambda w: (w.fill_(1), w.__setitem__((slice(None), 2), 5.0)),
        [("fill", 1), ("fill", 5, region(2, [3], [8]))],
    ),
    "a_transposed_block": (
        lambda w: (w.zero_(), w.t()[1:3].uniform_()),
        [("fill", 0), ("uniform", 0, 1, region(1, [2, 3], [1, 8]))],
    ),
}


def test_initialisers_become_recipes(tmp_path: pathlib.Path) -> None:
    exported = export_meta(lambda: Initialised(CASES), tmp_path)
    for case, (_, expected) in CASES.items():
        found = recipe(exported, f"layers.{case}.weight")
        assert [step[0] for step in found] == [step[0] for step in expected], case
        for step, wanted in zip(found, expected):
            numbers = [v for v in wanted[1:] if not isinstance(v, tuple)]
            assert list(step[1 : 1 + len(numbers)]) == pytest.approx(numbers), case
            assert step[1 + len(numbers) :] == wanted[1 + len(numbers) :], case
    assert {name for name in exported.weights if not name.startswith("fsdp.")} == set()


COMPUTED = {
    "orthogonal": (
        nn.init.orthogonal_,
        lambda w: torch.testing.assert_close(w @ w.T, torch.eye(3)),
    ),
    "eye": (nn.init.eye_, lambda w: torch.testing.assert_close(w, torch.eye(3, 8))),
    "table": (
        lambda w: w.copy_(torch.linspace(0, 1, 24).reshape(3, 8).cos()),
        lambda w: torch.testing.assert_close(w, torch.linspace(0, 1, 24).reshape(3, 8).cos()),
    ),
    "from_real_values": (
        lambda w: w.copy_(torch.full((3, 8), 7.0, device="cpu")),
        lambda w: torch.testing.assert_close(w, torch.full((3, 8), 7.0)),
    ),
    "from_numbers": (
        lambda w: w.copy_(torch.tensor([float(i) for i in range(8)])),
        lambda w: torch.testing.assert_close(w, torch.arange(8.0).expand(3, 8)),
    ),
}


def test_what_no_element_can_do_alone_is_computed(tmp_path: pathlib.Path) -> None:
    exported = export_meta(lambda: Initialised(COMPUTED), tmp_path)
    for case, (_, check) in COMPUTED.items():
        assert recipe(exported, f"layers.{case}.weight") == []
        check(exported.weights[f"layers.{case}.weight"])


class Frequencies(nn.Linear):
    """With a table among its buffers, and a tensor that is none of them."""

    def __init__(self) -> None:
        super().__init__(8, 3)
        inverse = 1.0 / (10_000 ** (torch.arange(0, 8).float() / 8))
        self.register_buffer("inverse", inverse, persistent=False)
        self.scale = torch.tensor([0.5])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x * self.inverse * self.scale)


def test_buffers_and_constants(tmp_path: pathlib.Path) -> None:
    build = lambda: nn.Sequential(nn.BatchNorm1d(8), Frequencies())
    exported = export_meta(build, tmp_path)
    assert recipe(exported, "0.running_mean") == [("fill", 0)]
    assert recipe(exported, "0.running_var") == [("fill", 1)]
    assert recipe(exported, "0.num_batches_tracked") == [("fill", 0)]
    expected = 1.0 / (10_000 ** (torch.arange(0, 8).float() / 8))
    torch.testing.assert_close(exported.weights["fsdp.buffer.1.inverse"], expected)
    assert exported.weights["fsdp.constant.0"].tolist() == [0.5]
    names = {name for name in exported.weights if not name.startswith("fsdp.")}
    assert not names


def test_an_embeddings_padding_is_zero(tmp_path: pathlib.Path) -> None:
    build = lambda: nn.Sequential(
        nn.Embedding(10, 4, padding_idx=3), nn.Flatten(1), nn.Linear(32, 3)
    )
    inputs = {"x": torch.randint(10, (4, 8)), "y": torch.randint(3, (4,))}
    exported = export_meta(build, tmp_path, inputs=inputs)
    assert recipe(exported, "0.weight") == [("normal", 0, 1), ("fill", 0, region(12, [4], [1]))]


def test_to_empty_and_apply_are_recorded(tmp_path: pathlib.Path) -> None:
    def init(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def build() -> nn.Module:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
        model.to_empty(device="cuda")
        model.apply(init)
        return model

    exported = export_meta(build, tmp_path)
    assert recipe(exported, "0.weight") == [("normal", 0, 0.02)]
    assert recipe(exported, "1.bias") == [("fill", 0)]
    assert draw(exported, "0.weight") != draw(exported, "1.weight")


def test_a_copy_starts_with_the_same_numbers(tmp_path: pathlib.Path) -> None:
    def build() -> nn.Module:
        layer = nn.Linear(8, 8)
        return nn.Sequential(layer, copy.deepcopy(layer), nn.Linear(8, 8), nn.Linear(8, 3))

    exported = export_meta(build, tmp_path)
    assert draw(exported, "0.weight") == draw(exported, "1.weight") == 0
    assert draw(exported, "2.weight") > 0


def test_another_dtype_keeps_the_recipe(tmp_path: pathlib.Path) -> None:
    build = lambda: nn.Linear(8, 3).to(torch.bfloat16)
    inputs = {"x": torch.randn(4, 8, dtype=torch.bfloat16), "y": torch.randint(3, (4,))}
    exported = export_meta(build, tmp_path, inputs=inputs)
    assert [step[0] for step in recipe(exported, "weight")] == ["uniform"]


def test_a_step_file_is_recorded(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a_step.py"
    file.write_text(
        "import torch\n"
        "from torch import nn\n"
        "from fsdp_mlir import TrainingStep\n"
        "def training_step(argv):\n"
        "    with torch.device('meta'):\n"
        "        model = nn.Linear(8, 3)\n"
        "    loss = lambda model, x: model(x).square().mean()\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    return TrainingStep(model, loss, optimizer, {'x': torch.ones(4, 8)}, steps=1)\n"
    )
    exported = export(load_training_step(file), tmp_path)
    assert [step[0] for step in recipe(exported, "weight")] == ["uniform"]
    assert recipe(exported, "bias") and set(exported.weights) == {"fsdp.input.x"}


def test_real_tensors_have_no_recipe(tmp_path: pathlib.Path) -> None:
    exported = export(classify(nn.Linear(8, 3)), tmp_path)
    assert recipe(exported, "weight") == [] and "weight" in exported.weights


def test_what_nothing_initialises_is_named(tmp_path: pathlib.Path) -> None:
    def build() -> nn.Module:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3)).to_empty(device="cpu")
        nn.init.zeros_(model[0].bias)
        return model

    with pytest.raises(
        ExportError, match=r"nothing initialises 0.weight, 1.weight, 1.bias; .*init"
    ):
        export_meta(build, tmp_path)


def test_nobody_recorded(tmp_path: pathlib.Path) -> None:
    with torch.device("meta"):
        model = nn.Linear(8, 3)
    with pytest.raises(ExportError, match="weight is on the meta device.*record_init"):
        export(classify(model), tmp_path)


@pytest.mark.provokes("FSDP-E0218")
def test_inputs_have_values(tmp_path: pathlib.Path) -> None:
    inputs = {"x": torch.ones(4, 8, device="meta"), "y": torch.zeros(4, dtype=torch.int64)}
    with pytest.raises(ExportError, match=r"inputs\['x'\] is on the meta device"):
        export_meta(lambda: nn.Linear(8, 3), tmp_path, inputs=inputs)


def test_a_parameter_has_memory(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    model.weight.data = freed(model.weight)
    with pytest.raises(ExportError, match="the parameter weight has no memory for its elements"):
        export(classify(model), tmp_path)


def test_units_compute_in_their_policys_dtype(tmp_path: pathlib.Path) -> None:
    """The same graph as that of a model with values; a tied weight is one leaf."""

    def build() -> nn.Module:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3))
        model[1].weight = model[0].weight
        return fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16))

    exported = export_meta(build, tmp_path)
    assert exported.metadata["programs"] == export(classify(build()), tmp_path).metadata["programs"]
    assert {p["dtype"] for p in exported.metadata["parameters"]} == {"float32"}

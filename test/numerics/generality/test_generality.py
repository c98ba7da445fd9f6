"""Tests that models of many kinds train with no change to the project: bit for
bit as eager PyTorch on one rank, and as its averaged gradients on several."""

from __future__ import annotations

import pathlib

import pytest

from support import chain, compare, reference

MODELS = pathlib.Path(__file__).parent / "models"
STEPS = 5
ZOO = "odd halves halves_with_momentum tied frozen unreached twice mixed shared groups amsgrad names scalar turned rests".split()
CASES = {
    "gpt2": ("huggingface.py", ("--model", "gpt2")),
    "llama": ("huggingface.py", ("--model", "llama")),
    "llama-grouped": (
        "huggingface.py",
        ("--model", "llama", "--kv-heads", "2", "--attention", "eager"),
    ),
    "resnet": ("resnet.py", ()),
    **{name: ("zoo.py", ("--model", name)) for name in ZOO},
}
RANDOM = {
    "gpt2-dropout": ("huggingface.py", ("--model", "gpt2", "--dropout", "0.1")),
    "dropout": ("zoo.py", ("--model", "dropout")),
}
# Transformers leaves the repetition of keys and values to the attention kernel,
# except when it sees that it is traced: then it repeats them itself, and their
# gradients are summed in another order.
CLOSE = {
    "llama-grouped-sdpa": (
        "huggingface.py",
        ("--model", "llama", "--kv-heads", "2", "--attention", "sdpa"),
    )
}
ALL = CASES | RANDOM | CLOSE
# Exported once, lowered for each number of ranks.
archives: dict[str, pathlib.Path] = {}


def compiled_for(name: str, world: int, factory: pytest.TempPathFactory) -> chain.Compiled:
    file, argv = ALL[name]
    folder = factory.mktemp(f"{name}-{world}")
    if name not in archives:
        archives[name] = folder / "step.pt"
        chain.export(MODELS / file, archives[name], argv)
    pipeline = f"mesh={world}"
    return chain.lower(MODELS / file, archives[name], folder, argv, pipeline)


def loaded(name: str) -> object:
    file, argv = ALL[name]
    return reference.load_step(MODELS / file, argv)


@pytest.mark.parametrize("name", CASES)
def test_one_rank_is_eager(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = chain.run_plan(compiled_for(name, 1, tmp_path_factory), 1, steps=STEPS)
    compare.check_bits(run, reference.eager(loaded(name), STEPS))


@pytest.mark.parametrize("world", (2, 4))
@pytest.mark.parametrize("name", CASES)
def test_ranks_average_gradients(
    name: str, world: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    compiled = compiled_for(name, world, tmp_path_factory)
    run = chain.run_plan(compiled, world, steps=STEPS)
    compare.check_bits(run, reference.averaged(loaded(name), world, STEPS))


@pytest.mark.parametrize("world", (1, 2))
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_in_program_order_are_eager(
    name: str, world: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    compiled = compiled_for(name, world, tmp_path_factory)
    extra = ["--rng=sequential"]
    run = chain.run_plan(compiled, world, steps=STEPS, extra=extra)
    if world == 1:
        compare.check_bits(run, reference.eager(loaded(name), STEPS))
    else:
        compare.check_bits(run, reference.averaged(loaded(name), world, STEPS))


@pytest.mark.parametrize("name", CLOSE)
def test_what_tracing_changes_is_close(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = chain.run_plan(compiled_for(name, 1, tmp_path_factory), 1, steps=STEPS)
    compare.check_close(run, reference.eager(loaded(name), STEPS))

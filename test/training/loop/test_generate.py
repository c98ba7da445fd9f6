"""Tests that a plan goes on from a text as its model does: an example with an output for each sample,
and a program for each length."""

from __future__ import annotations

import itertools
import pathlib

import pytest
import torch

import fsdp_mlir
from fsdp_mlir import TrainingStep
from support import chain


def test_a_plan_generates_what_its_model_does(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(chain.ROOT / "python/examples"))
    import generate

    torch.manual_seed(0)
    tokens = torch.randint(13, (500,))
    model = generate.GPT(13, generate.LENGTHS[-1], layers=1, width=16, heads=2)
    inputs = list(itertools.islice(generate.batches(tokens, 2, seed=0), len(generate.LENGTHS)))
    step = TrainingStep(
        model=model,
        loss=generate.loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        inputs=inputs,
        eval_data=inputs[0],
        outputs=generate.outputs,
    )
    context = tokens[:14].view(2, 7)
    with fsdp_mlir.compile(step, out=tmp_path) as run:
        for batch in inputs:
            run(batch)
        by_plan = generate.generate(
            lambda idx: run.eval({"idx": idx, "targets": idx})["logits"], context, 60, 0
        )
        model.load_state_dict(run.state_dict())
    by_model = generate.generate(model.eval(), context, 60, 0)
    assert by_plan.shape == (2, 67)
    assert torch.equal(by_plan, by_model)

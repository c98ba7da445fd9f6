"""A step file of one model of the zoo: `zoo_step.py --model=nn/lstm`."""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
from typing import Any, Callable

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import boxes_and_maps  # noqa: E402
import detectors  # noqa: E402
import examples  # noqa: E402
import habits  # noqa: E402
import hugging_face  # noqa: E402
import hugging_face_heads  # noqa: E402
import layers  # noqa: E402
import matched_pairs  # noqa: E402
import more_pictures  # noqa: E402
import newer_families  # noqa: E402
import papers  # noqa: E402
import pictures_and_text  # noqa: E402
import selections  # noqa: E402
import sound  # noqa: E402
import states  # noqa: E402
import strange  # noqa: E402
import vision  # noqa: E402
from entry import Entry  # noqa: E402

MODELS: dict[str, Callable[[], Entry]] = {
    **{f"scripts/{n}": make for n, make in (examples.MODELS | habits.MODELS).items()},
    **{f"papers/{n}": make for n, make in papers.MODELS.items()},
    **{f"selections/{n}": make for n, make in selections.MODELS.items()},
    **{f"strange/{n}": make for n, make in strange.MODELS.items()},
    **{f"states/{n}": make for n, make in states.MODELS.items()},
    **layers.MODELS,
    **hugging_face.MODELS,
    **hugging_face_heads.MODELS,
    **pictures_and_text.MODELS,
    **more_pictures.MODELS,
    **sound.MODELS,
    **vision.MODELS,
    **detectors.MODELS,
    **boxes_and_maps.MODELS,
    **matched_pairs.MODELS,
    **newer_families.MODELS,
}
BATCH, SAMPLES, STEPS = 2, 12, 3


def training_step(argv: list[str]) -> Any:
    from fsdp_mlir import TrainingStep

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, choices=MODELS)
    name = parser.parse_args(argv).model
    random.seed(0)
    torch.manual_seed(0)
    entry = MODELS[name]()
    data = entry.batch(SAMPLES)
    return TrainingStep(
        model=entry.model,
        loss=entry.loss,
        optimizer=torch.optim.SGD(entry.model.parameters(), lr=0.01),
        inputs={name: tensor[:BATCH] for name, tensor in data.items()},
        data=data,
        steps=STEPS,
        seed=3,
    )

"""Tests that the ported DCGAN trains as the loop of pytorch/examples does."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import fsdp_mlir

EXAMPLES = Path(__file__).resolve().parents[3] / "python" / "examples"
SMALL = "--nz 6 --ngf 4 --ndf 4 --batch_size 4 --samples 12".split()
STEPS = 4


@pytest.fixture
def dcgan(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("dcgan")


def original(netD: nn.Module, netG: nn.Module, optimizers: dict, batches: list) -> list[tuple]:
    """The loop of dcgan/main.py."""
    criterion = nn.BCELoss()
    losses = []
    for batch in batches:
        netD.zero_grad()
        label = torch.full((len(batch["real"]),), 1.0)
        errD_real = criterion(netD(batch["real"]).view(-1), label)
        errD_real.backward()
        fake = netG(batch["noise"])
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        optimizers["D"].step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizers["G"].step()
        losses.append(((errD_real + errD_fake).item(), errG.item()))
    return losses


def test_it_trains_as_the_original(dcgan: ModuleType, tmp_path: Path) -> None:
    args = dcgan.arguments(SMALL)
    epochs = iter(lambda: list(dcgan.Batches(args)), None)
    batches = list(itertools.islice(itertools.chain.from_iterable(epochs), STEPS))
    torch.manual_seed(args.seed)
    model = dcgan.DCGAN(args.nz, args.ngf, args.ndf)
    expected = original(model.D, model.G, dcgan.optimizers(model, args.lr, args.beta1), batches)
    with fsdp_mlir.compile(dcgan.step_of(args), out=tmp_path) as run:
        losses = [run(batch) for batch in batches]
        trained = {name: tensor.clone() for name, tensor in run.state_dict().items()}
    assert [(row["D"].item(), row["G"].item()) for row in losses] == expected
    statistics = [name for name, _ in model.G.named_buffers(prefix="G")]
    for name, tensor in model.state_dict().items():
        # The generator runs in both turns.
        assert torch.equal(trained[name], tensor) == (name not in statistics), name

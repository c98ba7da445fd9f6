"""DCGAN, as in pytorch/examples: two losses that train in turn on each batch.

    python python/examples/dcgan.py --dataset fake
    torchrun --nproc-per-node 2 python/examples/dcgan.py --dataset folder --dataroot FOLDER
    python -m fsdp_mlir.train --nproc 2 python/examples/dcgan.py --dataset fake

As a script it keeps the loop of the original; as a step file, the driver runs it. docs/tutorials/dcgan.md
has the lines that differ from the original.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Iterator, Optional, Sequence

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

import fsdp_mlir

IMAGE = 64  # its height and width; the networks are made for it


def weights_init(module: nn.Module) -> None:
    name = type(module).__name__
    if "Conv" in name:
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def generator(nz: int, ngf: int) -> nn.Sequential:
    """From noise [batch, nz, 1, 1] to images [batch, 3, 64, 64] in -1 … 1."""
    layers: list[nn.Module] = []
    sizes = (nz, 8 * ngf, 4 * ngf, 2 * ngf, ngf)
    for i, (before, after) in enumerate(zip(sizes, sizes[1:])):
        stride, padding = (2, 1) if i else (1, 0)
        layers += [
            nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(ndf: int) -> nn.Sequential:
    """From images [batch, 3, 64, 64] to how real they are [batch, 1, 1, 1], 0 … 1."""
    layers: list[nn.Module] = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for before in (ndf, 2 * ndf, 4 * ndf):
        layers += [
            nn.Conv2d(before, 2 * before, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * before),
            nn.LeakyReLU(0.2, True),
        ]
    return nn.Sequential(*layers, nn.Conv2d(8 * ndf, 1, 4, 1, 0, bias=False), nn.Sigmoid())


class DCGAN(nn.Module):
    """Both networks: what a step trains is one model."""

    def __init__(self, nz: int, ngf: int, ndf: int) -> None:
        super().__init__()
        self.G = generator(nz, ngf)
        self.D = discriminator(ndf)
        self.apply(weights_init)


def judge(model: DCGAN, images: torch.Tensor, label: float) -> torch.Tensor:
    output = model.D(images).view(-1)
    return nn.functional.binary_cross_entropy(output, torch.full_like(output, label))


def loss_D(model: DCGAN, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Maximises log(D(x)) + log(1 - D(G(z)))."""
    fake = model.G(noise)
    return judge(model, real, 1.0) + judge(model, fake.detach(), 0.0)


def loss_G(model: DCGAN, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Maximises log(D(G(z)))."""
    return judge(model, model.G(noise), 1.0)


def optimizers(model: DCGAN, lr: float, beta1: float) -> dict[str, optim.Optimizer]:
    return {
        "D": optim.Adam(model.D.parameters(), lr=lr, betas=(beta1, 0.999)),
        "G": optim.Adam(model.G.parameters(), lr=lr, betas=(beta1, 0.999)),
    }


class Fake(Dataset):
    """Images of noise, as torchvision's FakeData: what a first try needs."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(index))


def dataset_of(args: argparse.Namespace) -> Dataset:
    if args.dataset == "fake":
        return Fake(args.samples)
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    pixels = [transforms.Resize(IMAGE), transforms.CenterCrop(IMAGE), transforms.ToTensor()]
    pixels.append(transforms.Normalize((0.5,) * 3, (0.5,) * 3))
    folder = ImageFolder(args.dataroot, transforms.Compose(pixels))
    return [image for image, _ in folder]  # type: ignore[return-value]


class Batches:
    """This rank's images, each batch with noise for as many."""

    def __init__(self, args: argparse.Namespace) -> None:
        from torch.utils.data import DistributedSampler

        rank, world = (int(os.environ.get(name, n)) for name, n in (("RANK", 0), ("WORLD_SIZE", 1)))
        dataset = dataset_of(args)
        sampler = DistributedSampler(dataset, world, rank, seed=args.seed, drop_last=True)
        self.loader = DataLoader(dataset, args.batch_size, sampler=sampler, drop_last=True)
        self.noise = torch.Generator().manual_seed(args.seed + rank)
        self.nz = args.nz

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for real in self.loader:
            yield {
                "real": real,
                "noise": torch.randn(len(real), self.nz, 1, 1, generator=self.noise),
            }


def arguments(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=("fake", "folder"), default="fake")
    parser.add_argument("--dataroot", help="a folder of images, in folders by class")
    parser.add_argument("--samples", type=int, default=1024, help="of the fake data set")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--nz", type=int, default=100, help="the noise's channels")
    parser.add_argument("--ngf", type=int, default=64)
    parser.add_argument("--ndf", type=int, default=64)
    parser.add_argument("--niter", type=int, default=25, help="epochs")
    parser.add_argument("--lr", type=float, default=0.0002)
    parser.add_argument("--beta1", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="dcgan.safetensors")
    return parser.parse_args(argv)


def step_of(args: argparse.Namespace, **options: Any) -> fsdp_mlir.TrainingStep:
    torch.manual_seed(args.seed)
    model = DCGAN(args.nz, args.ngf, args.ndf)
    return fsdp_mlir.TrainingStep(
        model,
        loss={"D": loss_D, "G": loss_G},
        optimizer=optimizers(model, args.lr, args.beta1),
        inputs={
            "real": torch.zeros(args.batch_size, 3, IMAGE, IMAGE),
            "noise": torch.zeros(args.batch_size, args.nz, 1, 1),
        },
        seed=args.seed,
        **options,
    )


def training_step(argv: list[str]) -> fsdp_mlir.TrainingStep:
    args = arguments(argv)
    return step_of(args, data=Batches(args), epochs=args.niter)


def main() -> None:
    args = arguments()
    batches = Batches(args)
    with fsdp_mlir.compile(step_of(args)) as run:
        for epoch in range(args.niter):
            for i, batch in enumerate(batches):
                losses = run(batch)
                if run.rank == 0:
                    print(
                        f"[{epoch}/{args.niter}][{i}/{len(batches)}] "
                        f"Loss_D: {losses['D']:.4f} Loss_G: {losses['G']:.4f}"
                    )
        run.save(args.out)


if __name__ == "__main__":
    main()

"""A Vision Transformer on CIFAR-10, as in pytorch/examples: a script that keeps its own loop.

    python python/examples/vision_transformer.py --img-size 32 --patch-size 4
    torchrun --standalone --nproc-per-node 2 python/examples/vision_transformer.py --img-size 32

docs/tutorials/vision_transformer.md has the lines that differ from the original.
"""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torchvision
from torch import optim
from torch.hub import tqdm
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.transforms import Compose, Resize, ToTensor

import fsdp_mlir


class InputEmbedding(nn.Module):
    """From images [batch, channels, height, width] to patches [batch, 1 + patches, latent]. The
    class token and the positions are one for each sample of a batch, as in the original."""

    def __init__(self, args):
        super().__init__()
        size = args.patch_size
        self.patch_size = size
        self.LinearProjection = nn.Linear(size * size * args.n_channels, args.latent_size)
        shape = (args.batch_size, 1, args.latent_size)
        self.class_token = nn.Parameter(torch.randn(shape))
        self.pos_embedding = nn.Parameter(torch.randn(shape))

    def forward(self, images):
        size = self.patch_size
        patches = images.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5)
        projected = self.LinearProjection(patches.flatten(3).flatten(1, 2))
        return torch.cat((self.class_token, projected), dim=1) + self.pos_embedding


class EncoderBlock(nn.Module):
    def __init__(self, args):
        super().__init__()
        width = args.latent_size
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, args.num_heads, dropout=args.dropout)
        self.enc_MLP = nn.Sequential(
            nn.Linear(width, width * 4),
            nn.GELU(),
            nn.Dropout(args.dropout),
            nn.Linear(width * 4, width),
            nn.Dropout(args.dropout),
        )

    def forward(self, x):
        normed = self.norm(x)
        x = self.attention(normed, normed, normed)[0] + x
        return self.enc_MLP(self.norm(x)) + x


class ViT(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedding = InputEmbedding(args)
        self.encoders = nn.ModuleList(EncoderBlock(args) for _ in range(args.num_encoders))
        self.MLPHead = nn.Sequential(
            nn.LayerNorm(args.latent_size),
            nn.Linear(args.latent_size, args.latent_size),
            nn.Linear(args.latent_size, args.num_classes),
        )

    def forward(self, images):
        x = self.embedding(images)
        for layer in self.encoders:
            x = layer(x)
        return self.MLPHead(x[:, 0])


class TrainEval:
    def __init__(self, args, run, train_dataloader, val_dataloader):
        self.run = run
        self.train_dataloader = train_dataloader
        self.val_dataloader = val_dataloader
        self.epoch = args.epochs
        self.args = args

    def train_fn(self, current_epoch):
        self.train_dataloader.sampler.set_epoch(current_epoch)
        total_loss = 0.0
        tk = self.progress("TRAIN", self.train_dataloader, current_epoch)
        for t, (images, labels) in enumerate(tk):
            loss = self.run({"images": images, "labels": labels})
            total_loss += loss.item()
            tk.set_postfix({"Loss": "%6f" % (total_loss / (t + 1))})
            if self.args.dry_run:
                break
        return self.run.mean({"loss": total_loss / len(self.train_dataloader)})["loss"]

    def eval_fn(self, current_epoch):
        total_loss = 0.0
        tk = self.progress("VALID", self.val_dataloader, current_epoch)
        for t, (images, labels) in enumerate(tk):
            total_loss += self.run.eval({"images": images, "labels": labels})["loss"]
            tk.set_postfix({"Loss": "%6f" % (total_loss / (t + 1))})
            if self.args.dry_run:
                break
        return self.run.mean({"loss": total_loss / len(self.val_dataloader)})["loss"]

    def progress(self, what, dataloader, current_epoch):
        title = f"EPOCH[{what}]{current_epoch + 1}/{self.epoch}"
        return tqdm(dataloader, desc=title, disable=self.run.rank > 0)

    def train(self):
        best_valid_loss = np.inf
        best_train_loss = np.inf
        for i in range(self.epoch):
            train_loss = self.train_fn(i)
            val_loss = self.eval_fn(i)
            if val_loss < best_valid_loss:
                self.run.save("best-weights.safetensors")
                best_valid_loss = val_loss
                best_train_loss = train_loss
        if self.run.rank == 0:
            print(f"Training Loss : {best_train_loss}")
            print(f"Valid Loss : {best_valid_loss}")


def arguments(argv=None):
    parser = argparse.ArgumentParser(description="Vision Transformer in PyTorch")
    flag = parser.add_argument
    flag("--patch-size", type=int, default=16)
    flag("--latent-size", type=int, default=768)
    flag("--n-channels", type=int, default=3)
    flag("--num-heads", type=int, default=12)
    flag("--num-encoders", type=int, default=12)
    flag("--dropout", type=float, default=0.1)
    flag("--img-size", type=int, default=224, help="what images are resized to")
    flag("--num-classes", type=int, default=10)
    flag("--epochs", type=int, default=10)
    flag("--lr", type=float, default=1e-2)
    flag("--weight-decay", type=float, default=3e-2)
    flag("--batch-size", type=int, default=4, help="on one rank")
    flag("--dry-run", action="store_true", help="one batch of each epoch")
    flag("--seed", type=int, default=0, help="of the first weights")
    return parser.parse_args(argv)


def pictures(args, train):
    transforms = Compose([Resize((args.img_size, args.img_size)), ToTensor()])
    return torchvision.datasets.CIFAR10("./dataset", train, transforms, download=True)


def network(args):
    torch.manual_seed(args.seed)
    model = ViT(args)
    optimizer = optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    return model, optimizer


def main(argv=None):
    args = arguments(argv)
    train_data, valid_data = pictures(args, True), pictures(args, False)
    model, optimizer = network(args)
    criterion = nn.CrossEntropyLoss()
    batch = {
        "images": torch.zeros(args.batch_size, args.n_channels, args.img_size, args.img_size),
        "labels": torch.zeros(args.batch_size, dtype=torch.long),
    }
    step = fsdp_mlir.TrainingStep(
        model,
        lambda model, images, labels: criterion(model(images), labels),
        optimizer,
        inputs=batch,
        eval_data=batch,
    )
    run = fsdp_mlir.compile(step)
    train_sampler = DistributedSampler(train_data, run.size, run.rank, drop_last=True)
    valid_sampler = DistributedSampler(valid_data, run.size, run.rank, drop_last=True)
    train_loader = DataLoader(train_data, args.batch_size, sampler=train_sampler, drop_last=True)
    valid_loader = DataLoader(valid_data, args.batch_size, sampler=valid_sampler, drop_last=True)
    TrainEval(args, run, train_loader, valid_loader).train()


if __name__ == "__main__":
    main()

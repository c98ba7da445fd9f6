"""The model of docs/timeline.svg: four wide blocks, whose sizes alone are needed."""

import torch
from torch._subclasses import FakeTensorMode
from torch import nn

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep, fully_shard

WIDTH, TOKENS, BLOCKS = 4096, 8192, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def training_step(argv: list[str]) -> TrainingStep:
    with FakeTensorMode():
        model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        return TrainingStep(
            model=model,
            loss=lambda model, x: model(x).float().square().mean(),
            optimizer=torch.optim.AdamW(model.parameters()),
            inputs={"x": torch.empty(TOKENS, WIDTH)},
            steps=1,
        )

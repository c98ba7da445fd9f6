"""A small GPT of characters in a loop of one's own, which goes on from a text by its own plan.

    python python/examples/generate.py --prompt "The "
    torchrun --nproc-per-node 2 python/examples/generate.py --data FILE

It takes its model and its text from gpt_wikitext2.py and corpus.py, beside it.

The plan has a program for each length of LENGTHS. Training takes batches of these lengths in turn.
To generate, a context is padded behind its end to the next length, which causal attention does not
look at, and the evaluation's output gives the logits at its last character.
"""

from __future__ import annotations

import argparse
import os
from typing import Callable, Iterator

import torch
from torch import nn

import fsdp_mlir
from corpus import load_text
from fsdp_mlir import TrainingStep
from gpt_wikitext2 import GPT, loss

LENGTHS = (16, 32, 64)
Batch = dict[str, torch.Tensor]


def outputs(model: nn.Module, idx: torch.Tensor, targets: torch.Tensor) -> Batch:
    return {"logits": model(idx)}


def batches(tokens: torch.Tensor, size: int, seed: int) -> Iterator[Batch]:
    """Places of the text at random, of the lengths in turn."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for length in LENGTHS:
            begins = torch.randint(len(tokens) - length, (size,), generator=generator)
            rows = torch.stack([tokens[b : b + length + 1] for b in begins])
            yield {"idx": rows[:, :-1].contiguous(), "targets": rows[:, 1:].contiguous()}


def generate(
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    context: torch.Tensor,
    count: int,
    temperature: float,
) -> torch.Tensor:
    """`count` characters behind `context` [samples, time]: drawn, or with temperature 0 the
    likeliest. `logits_of` takes [samples, length] with a length of LENGTHS and gives [samples,
    length, vocabulary]."""
    for _ in range(count):
        seen = context[:, -LENGTHS[-1] :]
        time = seen.shape[1]
        length = next(length for length in LENGTHS if length >= time)
        padded = nn.functional.pad(seen, (0, length - time))
        logits = logits_of(padded)[:, time - 1]
        if temperature > 0:
            chosen = torch.multinomial(torch.softmax(logits / temperature, -1), 1)
        else:
            chosen = logits.argmax(-1, keepdim=True)
        context = torch.cat([context, chosen], 1)
    return context


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flag = parser.add_argument
    flag("--data", help="a text file, or wikitext2; without it the documentation inside Python")
    flag("--prompt", default="The ", help="the text to go on from")
    flag("--count", type=int, default=120, help="characters to generate")
    flag("--temperature", type=float, default=0.7, help="0: the likeliest character each time")
    flag("--steps", type=int, default=400)
    flag("--batch_size", type=int, default=16, help="sequences on one rank")
    flag("--width", type=int, default=96)
    args = parser.parse_args()

    rank = int(os.environ.get("RANK", "0"))
    text, _, description = load_text(args.data)
    if rank == 0:
        print(f"data: {description}")
    text = " ".join(text.split())[:2_000_000]
    characters = sorted({*text, *args.prompt})
    number = {character: i for i, character in enumerate(characters)}
    tokens = torch.tensor([number[character] for character in text])

    torch.manual_seed(0)
    model = GPT(len(characters), LENGTHS[-1], layers=2, width=args.width, heads=4)
    examples = batches(tokens, args.batch_size, seed=0)
    inputs = [next(examples) for _ in LENGTHS]
    step = TrainingStep(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3),
        inputs=inputs,
        eval_data=inputs[0],
        outputs=outputs,
    )
    with fsdp_mlir.compile(step) as run:
        data = batches(tokens, args.batch_size, seed=1 + rank)
        for number_of_step in range(1, args.steps + 1):
            value = run(next(data))
            if number_of_step % 100 == 0 and rank == 0:
                print(f"step {number_of_step}  loss {value.item():.3f}")
        prompt = torch.tensor([number[character] for character in args.prompt])
        context = prompt.expand(args.batch_size, -1)  # a program takes a whole batch
        said = generate(
            lambda idx: run.eval({"idx": idx, "targets": idx})["logits"],
            context,
            args.count,
            args.temperature,
        )
        if rank == 0:
            print("".join(characters[token] for token in said[0]))


if __name__ == "__main__":
    main()

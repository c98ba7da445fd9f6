"""The script of pytorch/examples for FSDP2, distributed/FSDP2/example.py, with the model of
fsdp2_transformer.py: it trains ten steps, writes a checkpoint, and goes on from it the next time.

    python python/examples/fsdp2_loop.py
    torchrun --standalone --nproc-per-node 2 python/examples/fsdp2_loop.py --explicit-prefetching

docs/tutorials/fsdp2.md has the lines that differ from the original.
"""

import argparse
import os

import torch
import torch.distributed.checkpoint as dcp
from fsdp2_transformer import Transformer
from torch.distributed.tensor import Shard

import fsdp_mlir
from fsdp_mlir import MixedPrecisionPolicy, fully_shard


def set_modules_to_forward_prefetch(model, num_to_forward_prefetch):
    for i, layer in enumerate(model.layers[:-num_to_forward_prefetch]):
        following = model.layers[i + 1 : i + 1 + num_to_forward_prefetch]
        layer.set_modules_to_forward_prefetch(list(following))


def set_modules_to_backward_prefetch(model, num_to_backward_prefetch):
    for i, layer in enumerate(model.layers):
        if i >= num_to_backward_prefetch:
            before = model.layers[i - num_to_backward_prefetch : i]
            layer.set_modules_to_backward_prefetch(list(reversed(before)))


def arguments(argv=None):
    parser = argparse.ArgumentParser(description="PyTorch FSDP2 example")
    parser.add_argument("--explicit-prefetching", action="store_true")
    parser.add_argument("--mixed-precision", action="store_true")
    parser.add_argument("--dcp-api", action="store_true")
    parser.add_argument("--layers", type=int, default=10)
    return parser.parse_args(argv)


def build(args, vocab_size, seq_len):
    model = Transformer(16, heads=4, layers=args.layers, time=seq_len, vocabulary=vocab_size)
    fsdp_kwargs = {}
    if args.mixed_precision:
        fsdp_kwargs["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16,
            reduce_dtype=torch.float32,
        )
    for layer in model.layers:
        fully_shard(layer, **fsdp_kwargs)
    fully_shard(model, **fsdp_kwargs)
    if args.explicit_prefetching:
        set_modules_to_forward_prefetch(model, num_to_forward_prefetch=2)
        set_modules_to_backward_prefetch(model, num_to_backward_prefetch=2)
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def main(argv=None):
    args = arguments(argv)
    torch.manual_seed(0)
    vocab_size, batch_size, seq_len = 1024, 32, 64
    model, optim = build(args, vocab_size, seq_len)

    folder = "checkpoints/dcp_api" if args.dcp_api else "checkpoints/run"
    found = os.path.isdir(folder)
    step = fsdp_mlir.TrainingStep(
        model,
        lambda model, x: model(x).sum(),
        optim,
        inputs={"x": torch.zeros(batch_size, seq_len, dtype=torch.long)},
        clip_grad_norm=1.0,
    )
    run = fsdp_mlir.compile(step, resume=folder if found and not args.dcp_api else None)
    if run.size > 1:
        torch.distributed.init_process_group("gloo")
        for param in run.state_dict().values():
            assert param.placements == (Shard(0),)
            assert param.dtype == torch.float32
    if found and args.dcp_api:
        states = run.state_dict(optimizer=True)
        dcp.load(states, checkpoint_id=folder)
        run.load_state_dict(states)

    for _ in range(10):
        x = torch.randint(0, vocab_size, (batch_size, seq_len))
        loss = run({"x": x})
        if run.rank == 0:
            print(f"step {run.step} loss {loss.item()}")

    if args.dcp_api:
        dcp.save(run.state_dict(optimizer=True), checkpoint_id=folder)
    else:
        run.checkpoint(folder)
    if run.size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

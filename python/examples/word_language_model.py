"""A word language model, as in pytorch/examples: an LSTM, a GRU, an RNN or a Transformer.

    python python/examples/word_language_model.py --data FOLDER
    torchrun --standalone --nproc-per-node 2 python/examples/word_language_model.py --data FOLDER --model Transformer

FOLDER has train.txt, valid.txt and test.txt. docs/tutorials/word_language_model.md has the lines that
differ from the original.
"""

import argparse
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

import fsdp_mlir

rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class RNNModel(nn.Module):
    """An encoder, recurrent layers and a decoder. The hidden state is a buffer: a step begins with
    the one that the step before ended with."""

    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, bsz, dropout=0.5, tie_weights=False):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ("LSTM", "GRU"):
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=nonlinearity, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise SystemExit("--tied needs --nhid to be --emsize")
            self.decoder.weight = self.encoder.weight
        init_weights(self.encoder, self.decoder)
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers
        self.register_buffer("hidden", self.init_hidden(bsz))

    def forward(self, input):
        """input: [time, batch]; returns logarithms of probabilities [time * batch, tokens]."""
        emb = self.drop(self.encoder(input))
        hidden = self.hidden.clone()
        output, hidden = self.rnn(emb, tuple(hidden) if self.rnn_type == "LSTM" else hidden)
        hidden = torch.stack(hidden) if self.rnn_type == "LSTM" else hidden
        self.hidden.copy_(hidden.detach())
        decoded = self.decoder(self.drop(output)).flatten(0, 1)
        return F.log_softmax(decoded, dim=1)

    def init_hidden(self, bsz):
        weight = self.encoder.weight
        if self.rnn_type == "LSTM":
            return weight.new_zeros(2, self.nlayers, bsz, self.nhid)
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


class TransformerModel(nn.Transformer):
    """The encoder of a Transformer, which sees what came before."""

    def __init__(self, ntoken, ninp, nhead, nhid, nlayers, dropout=0.5, max_len=5000):
        super().__init__(ninp, nhead, nlayers, dim_feedforward=nhid)
        self.ninp = ninp
        self.src_mask = None
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.decoder = nn.Linear(ninp, ntoken)
        self.drop = nn.Dropout(dropout)
        init_weights(self.input_emb, self.decoder)
        angles = torch.arange(max_len).unsqueeze(1) * torch.exp(
            torch.arange(0, ninp, 2) * (-math.log(10000.0) / ninp)
        )
        positions = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, :ninp]
        self.register_buffer("pe", positions.unsqueeze(1))

    def forward(self, src):
        """src: [time, batch]; returns logarithms of probabilities [time * batch, tokens]."""
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            self.src_mask = torch.log(torch.tril(torch.ones(len(src), len(src))))
        src = self.input_emb(src) * math.sqrt(self.ninp)
        src = self.drop(src + self.pe[: len(src)])
        output = self.decoder(self.encoder(src, mask=self.src_mask))
        return F.log_softmax(output, dim=-1).flatten(0, 1)


def init_weights(embedding, decoder):
    nn.init.uniform_(embedding.weight, -0.1, 0.1)
    nn.init.zeros_(decoder.bias)
    nn.init.uniform_(decoder.weight, -0.1, 0.1)


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flag = parser.add_argument
    flag("--data", default="./data/wikitext-2", help="folder of train.txt, valid.txt, test.txt")
    flag("--model", default="LSTM", help="RNN_TANH, RNN_RELU, LSTM, GRU or Transformer")
    flag("--emsize", type=int, default=200)
    flag("--nhid", type=int, default=200)
    flag("--nlayers", type=int, default=2)
    flag("--lr", type=float, default=20)
    flag("--clip", type=float, default=0.25)
    flag("--epochs", type=int, default=40)
    flag("--batch_size", type=int, default=20, help="columns of text on one rank")
    flag("--bptt", type=int, default=35, help="words of a column in a step")
    flag("--dropout", type=float, default=0.2)
    flag("--tied", action="store_true", help="one matrix for embedding and decoder")
    flag("--seed", type=int, default=1111)
    flag("--log-interval", type=int, default=200)
    flag("--save", default="model.safetensors", help="where the best model is written")
    flag("--nhead", type=int, default=2)
    flag("--dry-run", action="store_true", help="one step of each epoch")
    flag("--use-optimizer", action="store_true", help="AdamW instead of plain SGD")
    return parser.parse_args(argv)


def corpus(folder):
    """The words of each split as numbers, and how many words there are."""
    numbers, splits = {}, []
    for name in ("train", "valid", "test"):
        with open(os.path.join(folder, f"{name}.txt"), encoding="utf8") as file:
            words = [word for line in file for word in (*line.split(), "<eos>")]
        splits.append(torch.tensor([numbers.setdefault(word, len(numbers)) for word in words]))
    return splits, len(numbers)


def batchify(data, bsz):
    """This rank's part of the text, in bsz columns."""
    nbatch = data.size(0) // (bsz * ranks)
    data = data.narrow(0, rank * nbatch * bsz, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def network(args, ntokens):
    torch.manual_seed(args.seed)
    if args.model == "Transformer":
        sizes = (ntokens, args.emsize, args.nhead, args.nhid, args.nlayers)
        model = TransformerModel(*sizes, args.dropout)
    else:
        sizes = (ntokens, args.emsize, args.nhid, args.nlayers, args.batch_size)
        model = RNNModel(args.model, *sizes, args.dropout, args.tied)
    optimizer = torch.optim.AdamW if args.use_optimizer else torch.optim.SGD
    optimizer = optimizer(model.parameters(), lr=args.lr)
    return model, optimizer


def main(argv=None):
    args = arguments(argv)
    say = print if rank == 0 else lambda *_: None
    splits, ntokens = corpus(args.data)
    eval_batch_size = args.batch_size
    train_data = batchify(splits[0], args.batch_size)
    val_data, test_data = (batchify(split, eval_batch_size) for split in splits[1:])
    model, optimizer = network(args, ntokens)
    criterion = nn.NLLLoss()

    def get_batch(source, i):
        seq_len = min(args.bptt, len(source) - 1 - i)
        data = source[i : i + seq_len]
        target = source[i + 1 : i + 1 + seq_len].view(-1)
        return {"data": data, "targets": target}

    sources = (train_data, val_data, test_data)
    lengths = {args.bptt, *((len(source) - 1) % args.bptt for source in sources)} - {0}
    batches = [get_batch(train_data[: n + 1], 0) for n in sorted(lengths, reverse=True)]
    step = fsdp_mlir.TrainingStep(
        model,
        lambda model, data, targets: criterion(model(data).view(-1, ntokens), targets),
        optimizer,
        inputs=batches,
        eval_data=batches[:1],
        clip_grad_norm=args.clip,
        seed=args.seed,
    )
    run = fsdp_mlir.compile(step)

    def evaluate(data_source):
        total_loss = 0.0
        if args.model != "Transformer":
            run.load_state_dict({"hidden": model.init_hidden(eval_batch_size)})
        for i in range(0, data_source.size(0) - 1, args.bptt):
            batch = get_batch(data_source, i)
            total_loss += len(batch["data"]) * run.eval(batch)["loss"]
        return run.mean({"loss": total_loss / (len(data_source) - 1)})["loss"]

    def train():
        total_loss, start_time = 0.0, time.time()
        if args.model != "Transformer":
            run.load_state_dict({"hidden": model.init_hidden(args.batch_size)})
        for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
            loss = run(get_batch(train_data, i))
            total_loss += loss.item()
            if batch % args.log_interval == 0 and batch > 0:
                mean = total_loss / args.log_interval
                ms = (time.time() - start_time) * 1000 / args.log_interval
                done = f"{batch:5d}/{len(train_data) // args.bptt:5d} batches"
                rate = f"lr {lr:02.2f} | ms/batch {ms:5.2f}"
                say(f"| epoch {epoch:3d} | {done} | {rate} | loss {mean} | ppl {math.exp(mean)}")
                total_loss, start_time = 0.0, time.time()
            if args.dry_run:
                break

    lr, best_val_loss = args.lr, None
    for epoch in range(1, args.epochs + 1):
        train()
        val_loss = evaluate(val_data)
        say(f"| end of epoch {epoch:3d} | valid loss {val_loss} | valid ppl {math.exp(val_loss)}")
        if not best_val_loss or val_loss < best_val_loss:
            run.save(args.save)
            best_val_loss = val_loss
        else:
            lr /= 4.0
            if not args.use_optimizer:
                run.lr = lr
    run.load_state_dict(load_file(args.save))
    test_loss = evaluate(test_data)
    say(f"| End of training | test loss {test_loss} | test ppl {math.exp(test_loss)}")


if __name__ == "__main__":
    main()

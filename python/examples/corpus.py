"""Text for the GPT example: where it comes from, and how it becomes tokens."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

SPLITS = {"train": ("train",), "valid": ("valid", "validation", "val", "dev")}
TEXT_SUFFIXES = (".txt", ".text", ".tokens", ".raw", ".md")
# Of a text without splits, one paragraph in this many is for validation.
HELD_OUT = 10


def load_text(source: str | None) -> tuple[str, str, str]:
    """Training text, validation text and a sentence that says what they are.

    `source` is None (Python's own documentation), "wikitext2", a text file, or
    a folder with a training and a validation file. Ends the program with one
    line where there is no such text.
    """
    if source is None:
        return python_documentation()
    if source == "wikitext2":
        return wikitext2()
    path = Path(source)
    if path.is_dir():
        return from_folder(path)
    if not path.is_file():
        sys.exit(
            f"--data {source}: no such file or folder; give a text file, a folder with train and "
            "valid files (text or parquet), or wikitext2"
        )
    train, valid = split_paragraphs(read_text(path))
    return train, valid, f"{path.name}, one paragraph in {HELD_OUT} held out for validation"


def python_documentation() -> tuple[str, str, str]:
    """The language reference that `help()` shows: on every machine with Python."""
    from pydoc_data.topics import topics

    # Some topics repeat whole sections of others: each paragraph counts once,
    # or validation would ask for what was trained on.
    text = "\n\n".join(topics[name] for name in sorted(topics))
    paragraphs = dict.fromkeys(text.split("\n\n"))
    train, valid = split_paragraphs("\n\n".join(paragraphs))
    return (
        train,
        valid,
        (
            "the English documentation inside Python's own pydoc_data (not WikiText-2; for that give "
            f"--data), one paragraph in {HELD_OUT} held out for validation"
        ),
    )


def wikitext2() -> tuple[str, str, str]:
    advice = (
        "download its train and validation files (text or parquet) into a folder and give "
        "--data FOLDER"
    )
    try:
        from datasets import load_dataset
    except ImportError:
        sys.exit(f"--data wikitext2 needs the Python package datasets; install it, or {advice}")
    try:
        data = load_dataset("Salesforce/wikitext", "wikitext-2-raw-v1")
    except Exception as error:  # the package raises dozens of kinds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        sys.exit(f"--data wikitext2 could not be downloaded ({reason[0]}); {advice}")
    return (
        "".join(data["train"]["text"]),
        "".join(data["validation"]["text"]),
        "WikiText-2",
    )


def from_folder(folder: Path) -> tuple[str, str, str]:
    texts = {}
    for split, names in SPLITS.items():
        files = [path for path in sorted(folder.iterdir()) if belongs(path, names)]
        if not files:
            sys.exit(
                f"--data {folder}: no {split} file; its name must have one of "
                f"{', '.join(names)} as a word and end in .parquet or {', '.join(TEXT_SUFFIXES)}"
            )
        texts[split] = "".join(read_text(path) for path in files)
    return texts["train"], texts["valid"], f"the train and valid files in {folder}"


def belongs(path: Path, names: tuple[str, ...]) -> bool:
    """Whether `path` is data of a split: `wiki.train.tokens`, `train-00000.parquet`."""
    words = path.stem.lower().replace("-", " ").replace(".", " ").replace("_", " ").split()
    known = path.suffix == ".parquet" or path.suffix in TEXT_SUFFIXES
    return path.is_file() and known and any(name in words for name in names)


def read_text(path: Path) -> str:
    if path.suffix != ".parquet":
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            sys.exit(f"{path}: not a UTF-8 text file (byte {error.start}); convert it")
    try:
        import pyarrow.parquet
    except ImportError:
        sys.exit(f"{path}: reading parquet needs the Python package pyarrow; install it")
    table = pyarrow.parquet.read_table(path)
    if "text" not in table.column_names:
        sys.exit(f"{path}: no column named text; it has {', '.join(table.column_names)}")
    return "".join(table["text"].to_pylist())


def split_paragraphs(text: str) -> tuple[str, str]:
    paragraphs = text.split("\n\n")
    if len(paragraphs) < HELD_OUT:  # no empty lines: lines are all there is
        paragraphs = text.splitlines()
    valid = paragraphs[HELD_OUT - 1 :: HELD_OUT]
    train = [p for i, p in enumerate(paragraphs) if i % HELD_OUT != HELD_OUT - 1]
    return "\n\n".join(train), "\n\n".join(valid)


def train_tokenizer(text: str, vocab_size: int):
    """A byte-level byte-pair tokenizer learned from `text`; returns a
    `tokenizers.Tokenizer` of at most `vocab_size` (at least 256) entries."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if vocab_size < 256:
        sys.exit(f"--vocab_size {vocab_size}: at least 256, one for each byte")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # In pieces, so that threads share the work of large texts.
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def sequences(tokens: list[int], length: int) -> dict[str, torch.Tensor]:
    """Cuts tokens into neighbouring sequences: idx and targets, both
    [count, length] int64; a target is the token after its index."""
    stream = torch.tensor(tokens, dtype=torch.int64)
    count = max(0, (len(tokens) - 1) // length)
    return {
        "idx": stream[: count * length].reshape(count, length).clone(),
        "targets": stream[1 : count * length + 1].reshape(count, length).clone(),
    }

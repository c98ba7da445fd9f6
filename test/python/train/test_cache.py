"""Tests that the driver does again what changed, and nothing else."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Optional

import pytest

from fsdp_mlir.driver.cache import (
    KEPT_FILES,
    Cache,
    digest,
    fingerprint,
    fingerprints,
    key_of,
    unchanged,
)


def unused(folder: Path) -> None:
    pass


def stored(cache: Cache, key: str, files: list[Path], **variables: Optional[str]) -> None:
    made = cache.scratch()
    (made / "step.pt").write_text("archive")
    notes = {"said": "hello\n", "variables": fingerprints(variables)}
    cache.store_export(key, made, map(str, files), notes)


def test_an_export_is_found_while_its_files_are_the_same(tmp_path: Path) -> None:
    """Tests that a stored export is good until a file it read changes."""
    source = tmp_path / "step.py"
    source.write_text("a = 1")
    cache = Cache(tmp_path / "cache")
    found = []
    assert cache.export("k", found.append, {}) is None
    stored(cache, "k", [source])
    notes = cache.export("k", lambda folder: found.append((folder / "step.pt").read_text()), {})
    assert notes["said"] == "hello\n" and found == ["archive"]
    source.write_text("a = 2")
    assert cache.export("k", unused, {}) is None


def test_an_export_is_good_in_the_environment_it_read(tmp_path: Path) -> None:
    """Tests that a variable that is set, changed or removed is a change, and that none is shown."""
    cache = Cache(tmp_path / "cache")
    stored(cache, "k", [], WIDTH="secret", DEPTH=None)
    for environment, good in (
        ({"WIDTH": "secret", "OTHER": "1"}, True),
        ({"WIDTH": "32"}, False),
        ({}, False),
        ({"WIDTH": "secret", "DEPTH": ""}, False),
    ):
        assert (cache.export("k", unused, environment) is not None) == good
    assert "secret" not in (tmp_path / "cache/export/k/notes.json").read_text()


def test_a_touched_file_is_compared_by_content(tmp_path: Path) -> None:
    """Tests that a new time alone changes nothing."""
    source = tmp_path / "data.txt"
    source.write_text("text")
    known = fingerprint(source)
    os.utime(source, (1, 1))
    assert unchanged(known)
    source.write_text("tExt")
    assert not unchanged(known)
    source.unlink()
    assert not unchanged(known)


def test_large_data_is_not_read(tmp_path: Path) -> None:
    """Tests that of a file that is only described size and time are compared."""
    source = tmp_path / "train.bin"
    source.write_text("text")
    known = fingerprint(source, large=True)
    assert known["sha256"] == "" and unchanged(known)
    os.utime(source, (1, 1))
    assert not unchanged(known)


def test_a_folder_is_its_files(tmp_path: Path) -> None:
    """Tests that a file added to a folder is a change, a compiled module is not."""
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "__pycache__").mkdir()
    known = fingerprint(tmp_path)
    (tmp_path / "__pycache__" / "a.pyc").write_text("")
    assert unchanged(known)
    (tmp_path / "b.txt").write_text("b")
    assert not unchanged(known)


def test_an_export_whose_source_vanished_is_not_found(tmp_path: Path) -> None:
    """Tests that an entry that cannot be checked is not used."""
    cache = Cache(tmp_path / "cache")
    stored(cache, "k", [tmp_path / "gone.py"])
    assert cache.export("k", unused, {}) is None


def test_damaged_notes_are_no_entry(tmp_path: Path) -> None:
    """Tests that a damaged cache leads to work, not to an error."""
    cache = Cache(tmp_path / "cache")
    stored(cache, "k", [])
    (tmp_path / "cache/export/k/notes.json").write_text("{")
    assert cache.export("k", unused, {}) is None


def test_a_stage_is_made_once_and_repeats_its_warnings(tmp_path: Path) -> None:
    """Tests that a stage's result and what it said come from the first time."""
    cache = Cache(tmp_path / "cache")
    made = []

    def make(path: Path) -> str:
        made.append(path)
        path.write_text("result")
        return "warning: w\n"

    for expected in (False, True):
        used: list[str] = []
        use = lambda folder: used.append((folder / "result").read_text())
        said, cached = cache.file("plan", "k", make, use)
        assert (used, said, cached) == (["result"], "warning: w\n", expected)
    assert len(made) == 1
    Cache(tmp_path / "cache", enabled=False).file("plan", "k", make, unused)
    assert len(made) == 2


def test_a_failed_stage_leaves_nothing(tmp_path: Path) -> None:
    """Tests that half a result is never stored."""
    cache = Cache(tmp_path / "cache")

    def fail(path: Path) -> str:
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.file("plan", "k", fail, unused)
    assert not list((tmp_path / "cache").rglob("*result"))


def test_old_results_are_forgotten(tmp_path: Path) -> None:
    """Tests that the cache does not grow without end."""
    cache = Cache(tmp_path / "cache")

    def make(path: Path) -> str:
        path.write_text("x")
        return ""

    for number in range(KEPT_FILES + 3):
        cache.file("plan", str(number), make, unused)
        os.utime(tmp_path / "cache/plan" / str(number), (number, number))
    cache.file("plan", "last", make, unused)
    assert len(list((tmp_path / "cache" / "plan").iterdir())) == KEPT_FILES


def fill(folder: Path, worker: int) -> None:
    cache = Cache(folder, enabled=worker % 2 == 0)
    for number in range(200):
        made: list[str] = []
        key = f"{number % (KEPT_FILES + 8)}"
        cache.file(
            "plan",
            key,
            lambda path: str(path.write_text("x")),
            lambda path: made.append((path / "result").read_text()),
        )
        assert made == ["x"]


def test_processes_share_a_cache(tmp_path: Path) -> None:
    """Tests that no process loses what it uses because another stores or forgets."""
    processes = [multiprocessing.Process(target=fill, args=(tmp_path, i)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


def test_keys_differ_by_content(tmp_path: Path) -> None:
    """Tests that a key tells apart what JSON tells apart."""
    (tmp_path / "a").write_text("a")
    assert key_of(["a", "b"]) != key_of(["ab"])
    assert key_of([digest(tmp_path / "a")]) == key_of([digest(tmp_path / "a")])

"""Tests that a run's page is written whole or not at all, and that remarks are read as LLVM writes
them."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest
from fsdp_mlir.report.page import write_whole
from fsdp_mlir.report.remarks import read_remarks


def test_no_link_leads_to_another_file_and_what_is_no_file_is_not_replaced(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "precious").write_text("words")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    old = os.umask(0o077)
    write_whole("page", tmp_path / "link")
    os.umask(old)
    assert (tmp_path / "link").stat().st_mode & 0o777 == 0o600, "whom the umask lets may read it"
    assert [(tmp_path / name).read_text() for name in ("link", "precious")] == ["page", "words"]
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole("page", tmp_path / "pipe")
    assert os.read(reader, 9) == b"page"
    os.close(reader)
    with pytest.raises(OSError):  # at once: nobody reads
        write_whole("page", tmp_path / "pipe")
    with open(tmp_path / "log", "w") as log:
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{log.fileno()}")
        write_whole("page", tmp_path / "stdout")
    assert (tmp_path / "stdout").is_symlink() and (tmp_path / "log").read_text() == "page"


def test_nothing_is_left_of_a_page_whose_writer_is_killed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    if not (child := os.fork()):
        write_whole("page", tmp_path / "page")
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_remarks_are_read_as_llvm_writes_them(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "remarks.yaml"
    file.write_text(
        "--- !Missed\nPass:            fsdp-x\nName:            it''s\n"
        "DebugLoc:        { File: '<unknown file>', Line: 0, Column: 0 }\n"
        "Function:        step\nArgs:\n  - Remark:          'a: ''b'''\n"
        "  - Remark:          \" c\\n\"\n  - bytes:           '12'\n...\n"
    )
    (remark,) = read_remarks(file)
    assert (remark.taken, remark.by, remark.function) == (False, "fsdp-x", "step")
    assert remark.text == "a: 'b' c\n" and remark.figures == [("bytes", "12")]
    whole = file.read_text()
    for text, message in (("nonsense\n", "line 1 is no part"), (whole[:-4], "ends within")):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_remarks(file)

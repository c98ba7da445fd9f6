"""Tests what `tools/dev bench` makes of figures that were measured: tables, goals, pages and charts.
They measure nothing."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from bench import __main__ as command_line
from bench import charts, checkpoints, goals, loader, own_loop, pages, saving, share, tables
from bench import threads, timelines, watching
from bench.bound import least
from bench.figures import Figures, ratio
from bench.models import MODELS
from support.chain import ROOT

MIB = 1 << 20
STORED = ROOT / "docs" / "bench.json"


def contestant(label: str, step_ms: float, **more: Any) -> Figures:
    figures = {"label": label, "step_ms": step_ms, "quartiles_ms": [step_ms - 1, step_ms + 1]}
    return figures | {"peak_bytes": 300 * MIB, "idle_bytes": 100 * MIB} | more


@pytest.fixture
def model() -> Figures:
    """Ours is just as fast as the goals ask, copies something, and has no throttled run."""
    own = {"exposed_comm_ms": 0.5, "copied_bytes": 2048.0, "allocated_bytes": 0.0}
    own |= {"planned_bytes": 30 * MIB, "live_bytes": 30 * MIB, "measured_bytes": 31 * MIB}
    return {
        "goals": {"fsdp2": 2.0, "graph": 1.1, "eager": 0.9, "overlap": 1.15},
        "headline": "flat-overlap",
        "contestants": {
            "fsdp2": contestant("FSDP2 eager", 20.0, peak_bytes=600 * MIB, idle_bytes=350 * MIB),
            "fsdp2-compile": {"label": "FSDP2 torch.compile", "failure": "no compiler"},
            "eager": contestant("unsharded eager", 8.0),
            "flat-overlap": contestant("fsdp-mlir flat overlap", 10.0, **own),
        },
    }


@pytest.fixture
def stored() -> Figures:
    return json.loads(STORED.read_text())


def verdicts(model: Figures) -> dict[str, tuple[str, str]]:
    return {row.what.split(" ÷ ")[-1]: (row.shown, row.verdict) for row in goals.rows(model)}


def test_a_ratio_needs_both_times(model: Figures) -> None:
    assert ratio(model, "fsdp2", "flat-overlap") == 2.0
    assert ratio(model, "fsdp2-compile", "flat-overlap") is None
    assert ratio(model, "absent", None) is None


@pytest.mark.quick
def test_goals_are_met_nearly_or_not(model: Figures) -> None:
    found = verdicts(model)
    assert found["ours"] == ("2.00", "met")
    assert found["unsharded eager"] == ("1.25", "NOT met")
    assert found["bytes copied for communication in a step"] == ("2048", "NOT met")
    assert found["largest sum of live bytes"] == ("1.000", "met")
    model["contestants"]["fsdp2"]["step_ms"] = 18.5
    assert verdicts(model)["ours"] == ("1.85", "nearly")
    model["contestants"]["fsdp2"]["step_ms"] = 17.5
    assert verdicts(model)["ours"] == ("1.75", "NOT met")


def test_what_was_not_measured_is_no_goal(model: Figures) -> None:
    assert "the graph's operators and half the optimizer" not in verdicts(model)
    model["overlap"] = {"schedules": {"overlap": {"by_compute": 1.15}}}
    throttled = "compute, communication throttled to equal compute"
    assert verdicts(model)[throttled] == ("1.15", "met")
    model["headline"] = None
    assert goals.rows(model) == []


def test_fast_kernels_have_goals_of_their_own(model: Figures) -> None:
    model["contestants"]["flat-overlap-fast"] = contestant("fsdp-mlir, kernels=fast", 5.0)
    assert not any(row.what.startswith("kernels=fast") for row in goals.rows(model))
    model["goals"] |= {"fsdp2-fast": 4.5, "eager-fast": 0.6}
    found = {row.what: (row.shown, row.verdict) for row in goals.rows(model)}
    assert found["kernels=fast: step time, FSDP2 eager ÷ ours"] == ("4.00", "NOT met")
    assert found["kernels=fast: step time, ours ÷ unsharded eager"] == ("0.62", "NOT met")


def test_the_terminals_table(model: Figures) -> None:
    lines = tables.steps("tiny", model).splitlines()[1:]
    assert lines[0].split()[:3] == ["tiny", "step", "ms"]
    own = next(line for line in lines if line.startswith("fsdp-mlir"))
    assert own.split()[3:] == (
        "10.00 9.0-11.0 2.00 - 1.250 0.50 2.0 30.0 30.0 31.0 300.0 200.0".split()
    )
    assert any(line.endswith("not available: no compiler") for line in lines)
    # As wide as its title, so that columns stand below each other.
    assert {len(line) for line in lines if "not available" not in line} == {len(lines[0])}


def test_the_throttled_schedules(model: Figures) -> None:
    assert tables.overlap(model) == ""
    row = {"step_ms": 13.0, "by_compute": 1.3, "exposed_comm_ms": 2.0}
    schedules = {"overlap": row, "fsdp2": {"failure": "refused"}, "naive": row}
    model["overlap"] = {"bytes_per_s": 2e9, "compute_ms": 10.0, "schedules": schedules}
    lines = tables.overlap(model).splitlines()
    assert lines[0].startswith("throttled to 2.000 GB/s") and len(lines) == 4
    assert lines[1].split() == "schedule=overlap 13.0 ms, 1.300 of compute, 2.0 ms exposed".split()
    assert lines[2].endswith("not available: refused")
    cells = pages.overlap_table({"models": {"tiny": model}}).splitlines()[-1].split(" | ")
    assert cells == ["| tiny", "2.000", "10.0", f"{least(MODELS['tiny']):.2f}", *cells[4:]]
    assert cells[4:6] == ["1.30 (13.0 ms, 2.0 exposed)", "not available: refused"]


def test_no_order_beats_what_must_wait() -> None:
    """Tests the bound on a model whose head is all of it: its gathers and its own compute follow
    each other, and so do its backward and its reductions."""
    head = dataclasses.replace(
        MODELS["tiny"], flags=("--layers", "0", "--width", "8", "--length", "0", "--vocab", "100")
    )
    # The embedding and the head, gathered and reduced: a quarter of all transfers each.
    assert least(head) == pytest.approx(2 * 1 / 4 + 1 / 3 + 2 / 3 + 2 * 1 / 4)
    assert 1.1 < least(MODELS["mid"]) < least(MODELS["small"]) < 1.3


def test_tables_are_markdown(stored: Figures) -> None:
    for name, block in pages.BLOCKS.items():
        lines = [line for line in block(stored).splitlines() if line]
        if name != "machine":
            assert all(line.startswith("| ") and line.endswith(" |") for line in lines), name
    # A row for every goal that was measured, a column for every model.
    rows = pages.goal_table(stored).splitlines()[2:]
    assert 0 < len(rows) <= len(goals.GOALS)
    assert {row.count(" | ") for row in rows} == {len(stored["models"])}


PAGE = "before\n<!-- bench {name} -->\n{text}<!-- end -->\nafter\n"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the pages, whose marked blocks are old."""
    (tmp_path / "docs").mkdir()
    for page in pages.PAGES:
        (tmp_path / page).write_text(PAGE.format(name="machine", text="of yesterday\n"))
    return tmp_path


def test_an_update_changes_only_the_marked_blocks_of_pages(
    root: pathlib.Path, stored: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(charts, "bench", lambda results, path: drawn.append(path))
    monkeypatch.setattr(charts, "compile_time", lambda results, path: drawn.append(path))
    written = pages.update(stored, root)
    assert json.loads((root / "docs" / "bench.json").read_text()) == stored
    assert drawn and set(drawn) < set(written)
    for page in pages.PAGES:
        wanted = PAGE.format(name="machine", text=pages.machine(stored) + "\n")
        assert (root / page).read_text() == wanted
        assert root / page in written
    # What is as it should be is not written again.
    assert not {root / page for page in pages.PAGES} & set(pages.update(stored, root))


def test_a_page_that_marks_an_unknown_block(root: pathlib.Path, stored: Figures) -> None:
    (root / pages.PAGES[0]).write_text(PAGE.format(name="weather", text=""))
    with pytest.raises(KeyError, match="weather"):
        pages.update({**stored, "models": {}, "compile": []}, root)


@pytest.mark.quick
def test_the_pages_show_what_is_stored(stored: Figures) -> None:
    for page in pages.PAGES:
        text = (ROOT / page).read_text()
        blocks = list(pages._BLOCK.finditer(text))
        assert blocks, page
        for block in blocks:
            assert block[0] == f"{block[1]}{pages.BLOCKS[block[2]](stored)}\n{block[3]}", page


def test_charts_are_drawn(stored: Figures, tmp_path: pathlib.Path) -> None:
    charts.bench(stored, tmp_path / "bench.png")
    rows = [
        {"size": "8b", "layout": layout, "layers": layers, "seconds": 0.1 * layers, "peak_gb": 0.1}
        for layout in ("dim0", "flat")
        for layers in (8, 32)
    ]
    charts.compile_time(rows, tmp_path / "compile_time.png")
    for chart in tmp_path.iterdir():
        assert chart.read_bytes().startswith(b"\x89PNG") and chart.stat().st_size > 10_000


def run(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, words)])
    return command_line.main()


def test_an_earlier_run_is_shown(
    stored: Figures, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--show", str(STORED), monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    for name, model in stored["models"].items():
        assert tables.steps(name, model) in said and tables.goal_lines(model) in said


def test_a_file_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--show", "absent.json", monkeypatch=monkeypatch) == 1
    assert "tools/dev bench: error" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, complaint",
    (
        (("--models", "huge"), "'huge' is unknown; there are tiny, small, mid"),
        (("--models", ","), "the list is empty"),
        (("--rounds", "0"), "0 is not positive"),
        (("--steps", "few"), "'few' is no whole number from 1"),
        (("--sections", "nosuch"), "'nosuch' is unknown; there are steps, overlap"),
    ),
)
def test_a_wrong_flag(
    words: tuple[str, ...],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tests that it is refused before anything is built."""
    builds: list[Any] = []
    monkeypatch.setattr(subprocess, "run", lambda words: builds.append(words))
    with pytest.raises(SystemExit):
        run(*words, monkeypatch=monkeypatch)
    assert complaint in capsys.readouterr().err and not builds


def test_a_build_that_fails_is_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda words: subprocess.CompletedProcess(words, 1))
    assert run("--sections", "compile", monkeypatch=monkeypatch) == 1
    assert "there is nothing to measure: see above" in capsys.readouterr().err


def test_a_wait_for_a_loader_has_a_goal_where_the_loader_is_faster() -> None:
    figures = {"loader_ms": 6.0, "step_ms": 80.0, "wait_ms": 1.6, "share": 0.02}
    assert "2.00% of it (≤ 2%, met)" in loader.text(figures)
    assert "(≤ 2%, NOT met)" in loader.text(figures | {"share": 0.021})
    assert "(no goal: the loader alone is slower" in loader.text(figures | {"loader_ms": 81.0})


def test_a_loop_of_ones_own_may_cost_microseconds() -> None:
    figures = {"fsdp_run_ms": 8.0, "own_loop_ms": 8.05, "differences_us": [40.0, 50.0, 61.0]}
    assert "+50 µs (+40 to +61 by round; ≤ 50, met)" in own_loop.text(
        figures | {"difference_us": 50.0}
    )
    assert "≤ 50, NOT met" in own_loop.text(figures | {"difference_us": 51.0})


def test_what_hashes_cost_is_measured(tmp_path: pathlib.Path) -> None:
    """By the program itself, on few bytes: what it says, and what becomes of it."""
    found = saving.measure(tmp_path, lambda said: None, mib=4, rounds=1)
    assert 4 * MIB <= found["bytes"] < 5 * MIB and len(found["ratios"]) == 1
    assert found["plain_ms"] > 0 and found["hashed_cpu_ms"] > 0
    assert "of it (≤ 1.05, met)" in saving.text(found | {"ratio": 1.05})
    assert "of it (≤ 1.05, NOT met)" in saving.text(found | {"ratio": 1.06})
    assert list(tmp_path.iterdir()) == []


def test_what_checkpoints_cost_a_run_is_measured(tmp_path: pathlib.Path) -> None:
    found = checkpoints.measure(tmp_path, lambda said: None, MODELS["tiny"], steps=11, rounds=1)
    assert found["restart_s"] > 0 and found["ratios"] == [found["saving_s"] / found["plain_s"]]
    assert not (tmp_path / "written").exists()
    assert "checkpoints of tiny, every 10 steps: 11 steps in" in checkpoints.text("tiny", found)


def test_a_share_of_the_machine_has_a_goal_by_the_fastest_kernels(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "kernels.toml"
    table.write_text('[products]\n"mm" = { aten = 0.2, onednn = 0.1 }\n"other" = { aten = 0.15 }\n')
    best, kernel = share._best(table)
    assert (best, kernel) == (2 * 2048**3 / 0.1, "onednn")
    rates = {"flat-overlap": 80e9, "flat-overlap-fast": 90e9}
    figures = {"best": 100e9, "best_kernel": kernel, "rates": rates}
    shares = {name: rate / 100e9 for name, rate in rates.items()}
    assert "90% of it (≥ 85%, met)" in share.text(figures | {"shares": shares})
    assert "NOT met" in share.text(figures | {"shares": shares | {"flat-overlap-fast": 0.84}})


def test_ranks_beside_threads() -> None:
    figures = {
        "two-ranks": {"step_ms": 20.0, "peak_bytes": 300 * MIB},
        "two-threads": {"step_ms": 15.0, "peak_bytes": 200 * MIB},
    }
    assert threads.text({"tiny": figures}).splitlines()[-1] == (
        "  tiny: 2 ranks × 1 thread 20.00 ms, 300 MiB; 1 rank × 2 threads 15.00 ms, 200 MiB; 0.75"
    )


def test_what_watching_costs_has_a_goal() -> None:
    times = {"nothing": 200.0, "metrics": 201.0, "trace": 205.0}
    ratios = {way: ms / 200 for way, ms in times.items()}
    text = watching.text({"model": "small", "step_ms": times, "ratios": ratios})
    assert "a step of small: 200.00 ms" in text
    assert "with metrics and event files: 1.005 of it (≤ 1.005, met)" in text
    assert "traced: 1.025 of it (≤ 1.02, NOT met)" in text


def test_a_timeline_is_of_the_shortest_step() -> None:
    def process(pid: int, name: str, **rank: int) -> list[dict]:
        named = {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name"}
        return [
            {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name, **rank}},
            {**named, "args": {"name": "compute"}},
        ]

    def bar(pid: int, begin: float, length: float, category: str, **args: object) -> dict:
        place = {"ph": "X", "pid": pid, "tid": 1, "ts": begin, "dur": length}
        return {**place, "cat": category, "name": f"{category} at {begin}", "args": args}

    events = [*process(1, "predicted on local"), *process(2, "rank 0", rank=0)]
    events += [bar(1, 0, 50, "step", step=0, program="step"), bar(1, 0, 50, "kernel", command=0)]
    for step, (begin, length) in enumerate(((100, 90), (200, 60), (300, 70)), 1):
        events.append(bar(2, begin, length, "step", step=step, program="step"))
        events.append(bar(2, begin, length / 2, "kernel", command=0))
        events.append(bar(2, begin + length / 2, length / 2, "exposed", command=1))
    both = timelines.shortest({"traceEvents": events})
    assert (both["predicted"]["us"], both["measured"]["us"]) == (50, 60)
    assert [(kind, length) for kind, _, length, _ in both["measured"]["lanes"]["compute"]] == [
        ("kernel", 30),
        ("exposed", 30),
    ]
    picture = timelines.svg({"tiny": both}, "a <quiet> machine")
    assert "measured: 60 µs, exposed 30 µs" in picture and "a &lt;quiet&gt; machine" in picture

"""Tests that a run's page stands alone, that its figures are those of plan and metrics, and that
what it cannot be made of is one error."""

from __future__ import annotations

import html.parser
import json
import os
import pathlib
import re
import shutil
from collections import Counter
from typing import Any

import pytest
from fsdp_mlir.report import over_time, sections
from fsdp_mlir.report.__main__ import main
from fsdp_mlir.report.facts import Run, read_run
from fsdp_mlir.report.page import MOST_BYTES
from fsdp_mlir.report.page import page as page_of
from fsdp_mlir.report.remarks import read_remarks
from fsdp_mlir.report.timeline import Bars, Timeline, timeline

from support import chain
from product.traces.conftest import STEPS, Plans, report

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(html.parser.HTMLParser):
    """A page whose elements are closed in order, with what tests ask of it."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.outside: list[str] = []
        self.headings: list[str] = []
        self.focusable = self.unnamed = 0
        self.facts: dict[str, Any] = {}
        self._in_facts = False
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        given = dict(attrs)
        if "id" in given:
            self.ids[str(given["id"])] += 1
        if tag == "a":
            self.links.append(str(given["href"]))
        for name in ("src", "href", "data", "action"):
            value = given.get(name)
            if value and not value.startswith("#"):
                self.outside.append(value)
        if "tabindex" in given or tag == "canvas":
            self.focusable += "tabindex" in given
            self.unnamed += not given.get("aria-label")
        self._in_facts = given.get("id") == "facts"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._in_facts:
            self.facts = json.loads(data)
            self._in_facts = False
        elif self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data + "\n"


def make(folder: pathlib.Path, *flags: object) -> Page:
    assert main([str(folder), *map(str, flags)]) == 0
    return Page(folder / "report.html")


def test_a_page_stands_alone(run_folder: pathlib.Path) -> None:
    page = make(run_folder)
    size = (run_folder / "report.html").stat().st_size
    assert size < MOST_BYTES
    assert page.outside == [], "it opens without a network"
    text = (run_folder / "report.html").read_text()
    assert "@import" not in text and "url(" not in text and "fetch(" not in text
    assert max(page.ids.values()) == 1
    assert page.links and all(link.removeprefix("#") in page.ids for link in page.links)
    assert page.focusable and page.unnamed == 0, "what takes the focus has a name"
    assert page.headings == [
        "The run",
        "Loss and throughput",
        "Schedule",
        "Exposed communication",
        "Memory",
        "Units and shards",
        "What each pass changed",
        "Decisions",
        "Certificate",
    ]
    assert "what would help" in page.text
    for said in ("fsdp-schedule-overlap", "blocks.0", "step.py:", "MiB", "constraints"):
        assert said in page.text
    assert re.search(r"bytes_per_rank [\d.]+ .?i?B\b", page.text), "figures have their units"


def test_it_says_what_passes_changed(run_folder: pathlib.Path) -> None:
    """Of each pass, those among them that decide nothing."""
    ran = [
        remark
        for remark in read_remarks(run_folder / "step.remarks.yaml")
        if remark.by == "changes"
    ]
    by_name = {remark.name: dict(remark.figures) for remark in ran}
    deciding = {r.by for r in read_remarks(run_folder / "step.remarks.yaml")} - {"changes"}
    assert deciding < set(by_name) and "fsdp-assign-streams" in set(by_name) - deciding
    assert by_name["fsdp-verify-commands"] == {}, "a verifier changes nothing"
    assert "fsdp.unshard" in by_name["fsdp-insert-unshard"]["added"]
    assert int(by_name["fsdp-schedule-overlap"]["moved"]) > 0
    memory = by_name["fsdp-localize"]
    assert int(memory["state_bytes_after"]) < int(memory["state_bytes_before"])
    page = make(run_folder)
    assert f"{len(ran)} passes ran, in this order" in page.text
    peaks = [int(value) for r in ran for name, value in r.figures if name == "peak_bytes_after"]
    assert page.facts["live_bytes"] == peaks[-1]


def test_a_large_run_has_a_page_that_mail_takes(run_folder: pathlib.Path) -> None:
    """A run with a hundred times the commands, units, parameters and decisions."""
    times = 100
    run = read_run(run_folder)
    run.remarks *= times
    for key in ("units", "states"):
        run.plan[key] *= times
    events = run.trace["traceEvents"]
    bars = [event for event in events if event["ph"] == "X" and "command" in event["args"]]
    for i in range(1, times):
        for bar in bars:
            args = {**bar["args"], "command": bar["args"]["command"] + i * len(bars)}
            events.append({**bar, "args": args})
    # And the units of 3,000 layers, with a dozen parameters each.
    member = next(state for state in run.plan["states"] if state["role"] == "parameter")
    for name in (f"model.decoder.layers.{i}.block" for i in range(3000)):
        run.plan["units"].append({**run.plan["units"][0], "unit": name})
        run.plan["states"] += [{**member, "unit": name, "name": f"{name}.projection.weight"}] * 12
    text = page_of(run)
    assert len(text.encode()) <= MOST_BYTES
    assert re.search(r"The parameters of [\d,]+ units \(the first [\d,]+ are listed", text)
    assert "listed; all are in step.remarks.yaml" in text
    assert "To keep the page small, neighbours on a track that together take at most " in text
    facts = json.loads(re.search(r"<script [^>]*id=.facts.>(.*?)</script>", text)[1])
    drawn = [len(lane["bars"]) for process in facts["processes"] for lane in process["lanes"]]
    assert len(drawn) >= 6 and all(drawn), "each track of each process has bars"


def test_a_prediction_for_each_rank_is_no_measurement(
    run_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shutil.copyfile(run_folder / "step.plan", tmp_path / "step.plan")
    translate = [chain.binary("fsdp-translate"), "--plan-to-trace", "--trace-all-ranks"]
    chain.command([*translate, tmp_path / "step.plan", "-o", tmp_path / "trace.json"])
    (only,) = make(tmp_path).facts["processes"]
    assert only["name"].startswith("predicted on ")


def test_sums_are_those_of_plan_and_metrics(run_folder: pathlib.Path, plans: Plans) -> None:
    page = make(run_folder)
    compiled = plans("mesh=2 units=class:Block", "--accumulate", "2")
    figures = report(compiled)["programs"]
    both = [figures["accumulate"], figures["step"]]
    seconds = sum(program["predicted_seconds"] for program in both)
    assert page.facts["predicted_us"] == pytest.approx(1e6 * seconds, rel=0.01)
    exposed = 1e6 * sum(program["exposed_seconds"] for program in both)
    assert page.facts["exposed_us"] == pytest.approx(exposed, rel=0.01)
    predicted, *ranks = page.facts["processes"]
    assert predicted["length"] / 1e3 == pytest.approx(1e6 * seconds, rel=0.01)
    assert predicted["exposed"] / 1e3 == pytest.approx(exposed, rel=0.01, abs=0.05)
    assert [rank["name"] for rank in ranks] == ["rank 0", "rank 1"]

    rows = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    (measured,) = [row for row in rows if row["step"] == ranks[0]["step"]]
    waited = sum(
        length
        for lane in ranks[0]["lanes"]
        for _, length, command in lane["bars"]
        if page.facts["commands"][command]["kind"] == "exposed"
    )
    assert waited == ranks[0]["exposed"]
    assert waited / 1e6 == pytest.approx(measured["exposed_comm_ms"], rel=0.01, abs=0.002)

    most = max(
        sum(values)
        for process in page.facts["processes"]
        for _, values in process["memory"]["memory"]["points"]
    )
    assert most == page.facts["live_bytes"]
    assert most == max(program["live_bytes"] for program in both)

    # Bytes that collectives contribute, as they were counted while running.
    summary = json.loads((run_folder / "summary.json").read_text())
    counted = sum(c["calls"] for c in summary["collectives"])
    assert summary["plan"] == page.facts["plan"]
    drawn = [
        command
        for lane in ranks[0]["lanes"]
        for _, _, command in lane["bars"]
        if page.facts["commands"][command]["kind"] == "collective"
    ]
    assert len(drawn) * STEPS == counted
    # Of two ranks each sends what it contributes, to the other one.
    moved = sum(page.facts["commands"][command]["moved"] for command in drawn)
    assert moved * STEPS == sum(c["bytes"] for c in summary["collectives"])
    sent = sections.unit_traffic(read_run(run_folder))
    assert sum(unit.sent for unit in sent.values()) == moved, "of all micro-batches"
    assert sum(unit.collectives for unit in sent.values()) == len(drawn)


@pytest.mark.quick
def test_what_makes_each_kind_of_memory_less(run_folder: pathlib.Path) -> None:
    """And what the compiler says of exposed time in ASCII is written as the rest of the page."""
    header = (chain.ROOT / "runtime" / "trace" / "MemoryByKind.h").read_text()
    (names,) = re.findall(r"memoryKindNames\[numMemoryKinds\] = {(.*?)}", header, re.DOTALL)
    helped = set(over_time._LESS_MEMORY)
    assert helped == set(re.findall(r'"(.*?)"', names)) - {"buffers", "padding"}
    text = make(run_folder).text
    assert "remat=selective, or full" in text and not re.search(r"\d us\b", text)


@pytest.mark.parametrize("predicted, said", [(2.0, "took 5.0 times what is predicted"), (6.0, "")])
def test_a_step_that_is_far_from_its_prediction(
    predicted: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_time, "predicted_us", lambda run: predicted * 1000)
    run = Run(pathlib.Path(), {"cluster": "local"}, {}, True, rows=[{"step_ms": 10.0}])
    assert bool(said) == bool(over_time._far_from_predicted(run))
    assert said in over_time._far_from_predicted(run)


def test_a_plan_alone_has_a_page(
    plans: Plans, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(plans().plan, tmp_path / "step.plan")
    page = make(tmp_path)
    assert "wrote" in capsys.readouterr().out
    assert "Nothing was measured" in page.text
    assert [process["step"] for process in page.facts["processes"]] == [0]


def test_a_loss_that_is_not_finite_is_said(plans: Plans, tmp_path: pathlib.Path) -> None:
    """And not hidden behind the last one that was finite."""
    shutil.copyfile(plans().plan, tmp_path / "step.plan")
    lines = ({"step": 1, "loss": 2.5}, {"step": 2, "loss": None}, {"step": 2, "eval_loss": None})
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = make(tmp_path).text
    assert "not finite" in text and "from 2.5000, 2 logged steps" in text


def test_a_rank_that_begins_before_rank_0_is_drawn_whole(run_folder: pathlib.Path) -> None:
    """Pictures begin at 0: where rank 0 is late, the others' bars stand in front of its own."""
    run = read_run(run_folder)
    events = run.trace["traceEvents"]
    (late,) = (e["pid"] for e in events if e.get("args", {}).get("name") == "rank 0")
    for event in events:
        if event["pid"] == late and "ts" in event:
            event["ts"] += 5000
    ranks = timeline(run.trace).processes[1:]
    first, other = [min(bar[0] for _, bars in rank.lanes for bar in bars) for rank in ranks]
    assert 0 <= other < 1_000_000 < first


def test_what_was_measured_has_the_cause_that_a_step_predicts(run_folder: pathlib.Path) -> None:
    """And not that of another program, in which a command of this name is exposed too."""
    run = read_run(run_folder)
    foreseen = run.plan["programs"]["step"]["exposed"][0]
    other = {**foreseen, "cause": "another program's"}
    run.plan["programs"]["eval"] = {**run.plan["programs"]["step"], "exposed": [other]}
    name = foreseen["name"]
    commands = [
        {"name": name, "kind": "collective"},
        {"name": f"wait for {name}", "kind": "exposed", "for": name},
    ]
    lanes = [("gather", [(0, 9000, 0)]), ("compute", [(1000, 8000, 1)])]
    ranks = [Bars(f"rank {rank}", 3, 9000, lanes) for rank in range(2)]
    measured = over_time.exposed(run, Timeline(commands, ranks, [])).partition("predicted on")[0]
    said = "most of it passes after all ranks have come; predicted: <b>"
    assert f"{said}{foreseen['cause']}</b>" in measured


def test_a_trace_of_another_plan_is_left_out(
    run_folder: pathlib.Path, plans: Plans, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    shutil.copyfile(plans().plan, tmp_path / "step.plan")
    page = make(tmp_path)
    assert "trace.json is of another plan" in page.text
    assert "summary.json is of another plan" in page.text
    assert len(page.facts["processes"]) == 1


@pytest.mark.provokes("FSDP-E0105")
def test_what_is_no_run_is_one_error(
    run_folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "step.plan").write_text("no plan")
    stale = tmp_path / "stale"
    shutil.copytree(run_folder, stale)
    (stale / "trace.json").write_text("{")
    for arguments, message in (
        ([tmp_path / "none"], "has no step.plan; give the folder of a run"),
        ([broken], "is not a plan"),
        ([stale], "trace.json cannot be read"),
        ([run_folder, "--trace", tmp_path / "none.json"], "no such trace"),
        ([run_folder, "--metrics", run_folder / "step.plan"], "has no metrics; give what"),
        ([run_folder, "--trace", run_folder / "summary.json"], "is no trace of fsdp-run"),
        ([run_folder, "-o", tmp_path / "no" / "where.html"], "cannot be written"),
        ([stale, "-o", stale / "step.plan"], "is what the report is made of"),
    ):
        assert main([str(argument) for argument in arguments]) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("error:") == 1, error
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("name", ["metrics.jsonl", "trace.json", "summary.json"])
def test_a_file_of_another_kind_is_one_error(
    name: str, run_folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    texts = {"[": "", "[1]": "", "[" * 99_999: ""}
    if name == "metrics.jsonl":  # of which lines that are cut are left out
        texts = {text: "wrote" for text in texts}
    for text, wanted in texts.items():
        (tmp_path / name).write_text(text)
        assert main([str(tmp_path)]) == (0 if wanted else 1)
        said = capsys.readouterr()
        assert wanted in said.out and (wanted or said.err.count("error:") == 1)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    assert main([str(tmp_path)]) == 1
    assert f"{name} cannot be read: it is not a regular file" in capsys.readouterr().err

"""Options and paths that all Python tests share."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import statistics
import sys
from typing import Any, Iterator

import pytest

# One compute thread, here and in every program the tests start: reductions
# split over threads would change their bits.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# As in an export (capture/context.py), all of the time: tests trace much besides.
gc.set_threshold(20_000, 20, 20)

# A shell starts what runs in the background without interrupts, and nohup
# without hang-ups. Programs respect that; tests send both.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "python"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take hours")
    parser.addoption(
        "--quick",
        action="store_true",
        help="run only the tests marked as quick, and the first case of each",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs only with --long")
    config.addinivalue_line("markers", "quick: the first case of it runs with --quick")
    config.addinivalue_line("markers", "provokes(*identifiers): errors that the test sees")


@pytest.fixture(scope="session", autouse=True)
def kept_exports(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One folder of exports for all of a session's workers."""
    from support import chain

    base = tmp_path_factory.getbasetemp()
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    chain.exports = session / "exports"
    chain.exports.mkdir(exist_ok=True)


provoked: dict[str, set[str]] = {}  # by test, of its cases so far


@pytest.fixture(autouse=True)
def identified(request: pytest.FixtureRequest) -> Iterator[None]:
    """Holds a test to the errors that it is marked to provoke: each case to one of them, and all
    cases together to all."""
    marker = request.node.get_closest_marker("provokes")
    if marker is None:
        yield
        return
    from support import errors

    with errors.seen() as identifiers:
        yield
    marked = set(marker.args)
    assert identifiers & marked, "the test is marked to provoke what it did not see"
    name = request.node.nodeid.partition("[")[0]
    found = provoked.setdefault(name, set())
    found |= identifiers
    cases = [item for item in request.session.items if item.nodeid.partition("[")[0] == name]
    chosen = request.config.option.keyword or request.config.getoption("--quick")
    if request.node is cases[-1] and not chosen and "[" not in "".join(request.config.args):
        assert marked <= found, "no case provoked what the test is marked for"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests measured, by name."""
    measured: dict[str, list[float]] = {}
    for report in terminalreporter.getreports("passed"):
        for name, seconds in report.user_properties:
            measured.setdefault(name, []).append(seconds)
    for name, seconds in sorted(measured.items()):
        median, most = statistics.median(seconds), max(seconds)
        terminalreporter.write_line(
            f"{name}, {len(seconds)} times: {median:.2f} s in the median, {most:.2f} s at most"
        )


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Importing all tests takes longer than running the quick ones."""
    if not config.getoption("--quick") or collection_path.suffix != ".py":
        return None
    return "pytest.mark.quick" not in collection_path.read_text() or None


def select_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps of each test that is marked as quick the first case."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("quick"):
            first.setdefault(item.nodeid.partition("[")[0], item)
    config.hook.pytest_deselected(items=[i for i in items if i not in first.values()])
    items[:] = first.values()


def begin_with_longest(items: list[pytest.Item]) -> None:
    """Files that take 40 s and more come first, the longest in front (`longest.txt`), so that in the end no
    worker has one alone."""
    longest = [HERE / name for name in (HERE / "longest.txt").read_text().split()]
    places = {path: place for place, path in enumerate(longest)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    begin_with_longest(items)
    if config.getoption("--quick"):
        select_quick(config, items)
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="needs --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)

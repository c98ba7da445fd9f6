"""Tests that the halves stay apart: the plan is the only bridge between compiler and runtime;
that no folder of tests is forgotten where only quick ones run; and that Python's names are there.
"""

import ast
import graphlib
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.quick
ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPILER = ("mlir/", "llvm/", "fsdp/")
TORCH = ("ATen/", "torch/", "c10/", "caffe2/")


def includes(*folders: str) -> dict[str, set[str]]:
    """What each C++ file below the folders includes."""
    files = [
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".h", ".cpp")
    ]
    assert files
    return {
        str(file.relative_to(ROOT)): set(
            re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', file.read_text(), re.MULTILINE)
        )
        for file in files
    }


def reaching(included: dict[str, set[str]], prefixes: tuple[str, ...]) -> list[str]:
    return sorted(
        file for file, names in included.items() if any(n.startswith(prefixes) for n in names)
    )


def test_the_runtime_includes_no_compiler() -> None:
    assert reaching(includes("runtime", "tools/fsdp-run"), COMPILER) == []


def test_the_plan_the_cost_model_and_traces_are_plain_cpp() -> None:
    folders = ("runtime/plan", "runtime/cost", "runtime/trace")
    assert reaching(includes(*folders), COMPILER + TORCH) == []


def test_a_folder_of_the_runtime_includes_only_what_lies_below() -> None:
    order = "plan cost trace device comm data operators executor state train session python".split()
    above = {folder: set(order[place + 1 :]) for place, folder in enumerate(order)}
    # How ranks meet, and what drives a GPU, know nothing of programs; of them a session and the
    # doctor know how ranks meet.
    above["launch"] = above["drivers"] = above["doctor"] = above["comm"]
    known_to = {
        "launch": {"launch", "doctor", "session", "python"},
        "drivers": {"drivers", "session"},
        "doctor": {"doctor"},
    }
    folders = {path.name for path in (ROOT / "runtime").iterdir() if path.is_dir()}
    assert folders == set(above)
    upwards = []
    for file, names in includes("runtime").items():
        own = pathlib.Path(file).parts[1]
        for name in names:
            other = name.partition("/")[0]
            if other in above.get(own, ()) or own not in known_to.get(other, {own}):
                upwards.append((file, name))
    assert upwards == []


def test_a_folder_of_the_plan_includes_only_what_lies_before() -> None:
    order = "operands check meaning".split()
    upwards = [
        (file, name)
        for place, folder in enumerate(order)
        for file, names in includes(f"runtime/plan/{folder}").items()
        for name in names
        if name.startswith(tuple(f"plan/{later}/" for later in order[place + 1 :]))
    ]
    assert upwards == []


def python_imports(file: pathlib.Path) -> set[str]:
    """The modules and packages at the top of fsdp_mlir that a file of it imports."""
    package = ROOT / "python/fsdp_mlir"
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = file.parents[node.level - 1].relative_to(package)
            named = [*base.parts, *(node.module or "").split(".")]
            parts = [part for part in named if part]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found


def test_a_package_of_python_imports_only_what_lies_before() -> None:
    order = (
        "error_kinds errors interrupts remark_kinds explain package options dtypes untrusted data step capture archive rules export driver "
        "completion report checkpoint train loop".split()
    )
    package = ROOT / "python/fsdp_mlir"
    entries = {path.stem for path in package.iterdir() if not path.name.startswith("__")}
    assert entries - {"py"} == set(order)
    upwards = [
        (str(file.relative_to(ROOT)), name)
        for place, entry in enumerate(order)
        for file in [*(package / entry).rglob("*.py"), *package.glob(f"{entry}.py")]
        for name in python_imports(file)
        if name in order[place + 1 :]
    ]
    assert upwards == []


def test_a_folder_of_the_capture_imports_only_what_lies_before() -> None:
    order = "graph values state padding operators ways".split()
    capture = ROOT / "python/fsdp_mlir/capture"
    assert {path.parent.name for path in capture.glob("*/*.py")} == set(order)
    # A way is what the running of a step gives, with its loss.
    above = {"ways": {"running.py", "step_loss.py"}}
    upwards = [
        (str(file.relative_to(ROOT)), str(imported.relative_to(ROOT)))
        for place, folder in enumerate(order)
        for file in (capture / folder).glob("*.py")
        for imported in module_imports(file)
        if imported.is_file() and capture in imported.parents
        if imported.parent.name not in order[: place + 1]
        and imported.name not in above.get(folder, ())
    ]
    assert upwards == []


def module_imports(file: pathlib.Path) -> set[pathlib.Path]:
    """The files of fsdp_mlir that a file of it imports by their names."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            place = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {place.with_suffix(".py")} | {
                place / f"{alias.name}.py" for alias in node.names
            }
    return found


def test_no_modules_of_python_import_each_other() -> None:
    files = list((ROOT / "python/fsdp_mlir").rglob("*.py"))
    imports = {file: module_imports(file) & set(files) for file in files}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError


def test_torch_and_mlir_never_meet_in_a_file() -> None:
    included = includes("include", "lib", "tools", "runtime")
    torch, mlir = (set(reaching(included, p)) for p in (TORCH, ("mlir/", "llvm/")))
    assert torch & mlir == set()
    assert torch and mlir


def test_only_the_libraries_loaded_for_gpus_include_cuda() -> None:
    found = reaching(includes("runtime", "tools", "lib"), ("cuda", "nccl", "ATen/cuda", "c10/cuda"))
    assert found
    assert [f for f in found if not re.match(r"runtime/drivers/cuda/", f)] == []


def test_phases_of_the_compiler_share_only_what_lies_above_them() -> None:
    folder = ROOT / "lib/Transforms"
    phases = {path.name for path in folder.iterdir() if path.is_dir()}
    crossing = [
        (file, name)
        for file, names in includes("lib/Transforms").items()
        for name in names
        if name.partition("/")[0] in phases - {pathlib.Path(file).parent.name}
    ]
    assert phases >= {"Captured", "Shard", "Overlap", "Lower"}
    assert crossing == []


def test_plans_are_made_below_the_passes() -> None:
    """One of which checks them."""
    files = {file: names for file, names in includes("lib/Target").items() if "/Plan" in file}
    assert files
    assert reaching(files, ("fsdp/Transforms/",)) == []


def test_each_folder_of_python_tests_has_a_quick_one() -> None:
    """`tools/dev test --quick` runs all of lit and GoogleTest, and of pytest what is marked."""
    files = list((ROOT / "test").rglob("test_*.py"))
    quick = {file.parent for file in files if "pytest.mark.quick" in file.read_text()}
    assert {file.parent for file in files} - quick == set()


def test_the_files_of_tests_that_begin_first_are_there() -> None:
    listed = (ROOT / "test/longest.txt").read_text().split()
    assert [name for name in listed if not (ROOT / "test" / name).is_file()] == []


def test_every_python_name_is_defined_and_every_import_used() -> None:
    files = [
        f for d in ("python", "test") for f in (ROOT / d).rglob("*.py") if f.name != "lit.cfg.py"
    ]
    command = [sys.executable, "-m", "pyflakes", *map(str, sorted(files))]
    found = subprocess.run(command, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("", "")

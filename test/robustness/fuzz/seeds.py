"""Writes what the fuzz targets of test/robustness/fuzz/targets begin with: files that the programs
themselves make of small models.

    python test/robustness/fuzz/seeds.py FOLDER
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
import zipfile

TEST = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TEST))

from support import chain, options, step_files  # noqa: E402

CLASSIFIER = step_files.PARITY / "classifier.py"
# Model of test/compiler/options/step.py, and how it is compiled. Small ones: what a plan costs to
# check grows with it.
PLANS = (
    ("mlp", "mesh=1"),
    ("mlp", "mesh=2 streams=3"),
    ("mlp", "mesh=4 streams=1 schedule=naive"),
    ("mlp", "mesh=2 streams=3 shard-layout=flat gather=map"),
    ("mlp", "mesh=2 streams=3 shard-layout=flat gather=copy offload=all"),
    ("mlp", "mesh=2 streams=3 offload=params"),
    ("mlp", "mesh=2x2 streams=3 shard-layout=flat accumulate-reduce=each", "--accumulate 2"),
    ("mlp", "mesh=2x2x2 streams=3"),
)


def keep(file: pathlib.Path, folder: pathlib.Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder / name)


def write_models(out: pathlib.Path, work: pathlib.Path) -> None:
    archives = options.Archives(work)
    for number, (model, pipeline, *flags) in enumerate(PLANS):
        compiled = archives.lower(model, pipeline, work / str(number), *flags)
        keep(compiled.plan, out / "plan", f"{model}-{number}")
        with zipfile.ZipFile(compiled.archive) as archive:
            (record,) = [n for n in archive.namelist() if n.endswith("/extra/fsdp.json")]
            (out / "archive").mkdir(parents=True, exist_ok=True)
            (out / "archive" / f"{compiled.archive.stem}.json").write_bytes(archive.read(record))


def write_run(out: pathlib.Path, work: pathlib.Path) -> None:
    """What a run reads and leaves."""
    compiled = chain.compile_step(CLASSIFIER, work, ("--features", "5", "--classes", "3"))
    keep(compiled.plan, out / "plan", "classifier")
    keep(compiled.weights, out / "safetensors", "weights")
    keep(compiled.archive, out / "archive", "records")
    command = [*chain.run_arguments(compiled, 2), "--nproc", "2"]
    chain.command([*command, "--checkpoint-dir", work / "checkpoints"])
    for manifest in (work / "checkpoints").rglob("*.json"):
        text = manifest.read_text()
        if text.startswith('{"xxh3_64"'):
            (out / "manifest").mkdir(parents=True, exist_ok=True)
            (out / "manifest" / "classifier").write_text("{" + text.split(",", 1)[1])
    words = "\n".join(str(word) for word in command[1:])
    (out / "command-line").mkdir(parents=True, exist_ok=True)
    (out / "command-line" / "run").write_text(words.replace(str(work), "work"))


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_models(out, work)
        write_run(out, work / "run")
    for target in sorted(out.iterdir()):
        print(f"{target.name}: {len(list(target.iterdir()))} seeds")


if __name__ == "__main__":
    main()

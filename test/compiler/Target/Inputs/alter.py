"""Alters an archive in one way: alter.py HOW INPUT OUTPUT."""

import hashlib
import json
import sys
import zipfile


def read(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(path, records, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in records.items():
            file.writestr(name, data)


def serialise(metadata):
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def sign(records):
    """Makes the digests fit again: what is wrong is not found by them."""
    metadata = json.loads(records["step/extra/fsdp.json"])
    metadata["sha256"] = {
        "records": {
            name.removeprefix("step/"): hashlib.sha256(data).hexdigest()
            for name, data in records.items()
            if not name.endswith("fsdp.json")
        },
        "metadata": "",
    }
    metadata["sha256"]["metadata"] = hashlib.sha256(serialise(metadata)).hexdigest()
    records["step/extra/fsdp.json"] = serialise(metadata)


def edit(records, change):
    metadata = json.loads(records["step/extra/fsdp.json"])
    change(metadata)
    records["step/extra/fsdp.json"] = serialise(metadata)


def node(metadata, op):
    return next(n for n in metadata["programs"]["step"]["nodes"] if n["op"] == op)


def follow(metadata, first, second):
    """The step once more, as a second turn."""
    programs = metadata["programs"]
    programs["more"] = {**programs["step"], "turn": second}
    programs["step"].update(turn=first, next="more")


EDITS = {
    "version": lambda m: m.update(format_version=1),
    "unit": lambda m: m["parameters"][0].update(unit="blocks.7"),
    "unit-module": lambda m: m["units"][0].update(modules=["blocks.7"]),
    "unit-divisor": lambda m: m["units"][0].update(gradient_divisor=0.0),
    "unit-prefetch": lambda m: m["units"][0].update(prefetch_forward=["blocks.7"]),
    "kept": lambda m: m["units"][1].update(reshard_after_forward=4),
    "kept-alone": lambda m: m["units"][1].update(reshard_after_forward=1),
    "mesh": lambda m: m.update(mesh={"device": "cpu", "shape": [], "names": None}),
    "torch": lambda m: m.update(torch_version="2.10.0"),
    "no-step": lambda m: m["programs"].pop("step"),
    "other-program": lambda m: m["programs"].update(more=m["programs"]["step"]),
    "variant": lambda m: m["programs"].update(
        more={
            **m["programs"]["step"],
            "variant_of": "step",
            "results": m["programs"]["step"]["results"][:1],
        }
    ),
    "turn-absent": lambda m: m["programs"]["step"].update(turn="a", next="more"),
    "turn-circle": lambda m: m["programs"]["step"].update(turn="a", next="step"),
    "turn-unnamed": lambda m: follow(m, "a", None),
    "turn-same": lambda m: follow(m, "a", "b"),
    "missing-field": lambda m: node(m, "aten::mm").pop("phase"),
    "bad-type": lambda m: m["programs"]["step"]["values"]["mm"].update(dtype="float31"),
    "huge-shape": lambda m: m["programs"]["step"]["values"]["mm"].update(shape=[1 << 40, 1 << 40]),
    "bad-overload": lambda m: node(m, "aten::mm").update(overload="Scalar"),
    "other-node": lambda m: node(m, "aten::mm").update(op="aten::bmm"),
    "no-gradient": lambda m: m["optimizer"].update(groups=[], rules=[]) or m.update(schedule=None),
    "schedule-column": lambda m: m["schedule"]["columns"][1].update(name="warmth"),
    "schedule-row": lambda m: m["schedule"]["rows"][2].pop(),
    "rule-operand": lambda m: m["optimizer"]["rules"][0]["numbers"][-1].update(operands=["s99"]),
    "rule-method": lambda m: m["optimizer"]["rules"][0]["arguments"].pop(),
    "rule-missed": lambda m: m["optimizer"]["rules"][0].update(missed="fsdp.missed.0"),
    "has-gradient": lambda m: m["programs"]["step"]["results"].append(
        {"name": "mm", "role": "has_gradient", "fqn": "fsdp.missed.0"}
    ),
    "rule-parameter": lambda m: m["optimizer"]["rules"][0]["parameters"].pop(),
}


# Of what TorchScript calls while it reads an object: makes a file.
STATE = """  training : bool
  def __getstate__(self: __torch__.Step) -> int:
    return 1
  def __setstate__(self: __torch__.Step, state: int) -> NoneType:
    file = torch.from_file("{}", True, 16)
    self.training = bool(torch.gt(torch.sum(file), 1))
    return None
"""


def main():
    how, source, target = sys.argv[1:]
    if how == "truncated":
        data = open(source, "rb").read()
        open(target, "wb").write(data[: len(data) // 2])
        return
    records = read(source)
    code = "step/code/__torch__.py"
    if how == "record":
        records[code] = records[code].replace(b"torch.mm", b"torch.mn")
    elif how == "extra":
        records["step/code/more.py"] = b"x = 1\n"
    elif how == "absent":
        del records["step/constants.pkl"]
    elif how == "foreign":
        del records["step/extra/fsdp.json"]
    elif how == "not-json":
        records["step/extra/fsdp.json"] = b"{"
    elif how == "metadata":
        edit(records, lambda m: m.update(seed=8))
    elif how == "no-method":
        records[code] = records[code].replace(b"def step(", b"def other(")
        sign(records)
    elif how == "bomb":
        records["step/extra/fsdp.json"] += b" " * 100_000_000
        return write(target, records, zipfile.ZIP_DEFLATED)
    elif how == "deep-json":
        records["step/extra/fsdp.json"] = b"[" * 40_000_000
    elif how == "deep-code":
        records[code] += b"  def deep(self):\n    return " + b"(" * 1_000_000
        sign(records)
    elif how == "long-expression":
        records[code] += b"  def deep(self):\n    return " + b"not " * 1_000_000
        sign(records)
    elif how == "deep-objects":
        records["step/constants.pkl"] = b"\x80\x02)" + b"\x85" * 1_000_000 + b"."
        sign(records)
    elif how in ("runs", "runs-with-state"):
        state = STATE.format(target + ".made").encode()
        records[code] = records[code].replace(b"  training : bool\n", state, 1)
        if how == "runs-with-state":
            records["step/data.pkl"] = b"\x80\x02c__torch__\nStep\n)\x81K\x01b."
        sign(records)
    elif how == "no-schema":
        records[code] = records[code].replace(b"torch.mm(", b"torch.mnm(")
        sign(records)
    else:
        edit(records, EDITS[how])
        sign(records)
    write(target, records)


if __name__ == "__main__":
    main()

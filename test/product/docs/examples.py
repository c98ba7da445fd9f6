"""The Input and Output blocks that end the description of each pass.

The first line of an Input block is a comment with the options of fsdp-opt that turn it
into the Output block. `tools/dev docs` writes Output blocks anew.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shlex
import subprocess
import textwrap

from support import chain

FOLDER = chain.ROOT / "include" / "fsdp" / "Transforms"
_PASS = re.compile(r'Pass<"(fsdp-[a-z0-9-]+)">')
_BLOCKS = re.compile(
    r"^ *Input:\n\n( *)```mlir\n(?P<input>.*?)^ *```\n\n *Output:\n\n *```(?P<kind>mlir|text)\n(?P<output>.*?)^ *```\n"
    r" *\}\];\n",
    re.DOTALL | re.MULTILINE,
)


@dataclasses.dataclass
class Example:
    """One pass, with its command (after `fsdp-opt`) and the two blocks."""

    name: str
    command: str
    input: str
    output: str
    is_ir: bool

    def run(self) -> str:
        """What the pass makes of the input."""
        return _opt(self.input, shlex.split(self.command))

    def normalised(self) -> str:
        """The Output block as fsdp-opt prints it; as it stands where it is no IR."""
        return _opt(self.output, []) if self.is_ir else self.output


def sources() -> list[pathlib.Path]:
    return sorted(FOLDER.glob("*Passes.td"))


def passes() -> list[str]:
    """The names of all passes."""
    return [name for file in sources() for name in _PASS.findall(file.read_text())]


def descriptions() -> dict[str, str]:
    """What the sources say of each pass."""
    found = {}
    for file in sources():
        parts = _PASS.split(file.read_text())
        found.update(zip(parts[1::2], parts[2::2]))
    return found


def all_examples() -> dict[str, Example]:
    """The example of each pass that has one.

    Raises:
        ValueError: an Input block does not begin with its command.
    """
    return {
        name: _example(name, match)
        for name, text in descriptions().items()
        if (match := _BLOCKS.search(text))
    }


def rewritten(source: pathlib.Path) -> str:
    """The text of a source, with Output blocks as the passes give them."""
    text = source.read_text()
    parts = _PASS.split(text)
    for name, description in zip(parts[1::2], parts[2::2]):
        match = _BLOCKS.search(description)
        if match:
            output = textwrap.indent(_short(_example(name, match).run()), match[1])
            new = description[: match.start("output")] + output + description[match.end("output") :]
            text = text.replace(description, new)
    return text


def _example(name: str, match: re.Match[str]) -> Example:
    body, output = (textwrap.dedent(match[block]) for block in ("input", "output"))
    first = re.match(r"// fsdp-opt (.*)\n", body)
    if not first or f"--{name}" not in first[1]:
        raise ValueError(f"the Input block of {name} does not begin with '// fsdp-opt --{name}'")
    return Example(name, first[1], body, output, match["kind"] == "mlir")


def _opt(text: str, options: list[str]) -> str:
    return subprocess.run(
        [chain.binary("fsdp-opt"), "--mlir-print-debuginfo=false", *options],
        input=text,
        cwd=chain.ROOT,  # which files are named from
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout


def _short(text: str) -> str:
    """Without the module around it, where that says nothing."""
    lines = text.strip("\n").splitlines()
    if lines[0] == "module {":
        lines = textwrap.dedent("\n".join(lines[1:-1])).splitlines()
    return "\n".join(lines) + "\n"

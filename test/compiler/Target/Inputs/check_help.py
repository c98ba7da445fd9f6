"""Checks that the first file, a program's --help, is one screen, and that each flag that it names
is in the second one, its --help-all."""

import re
import sys

ours, everything = (open(name).read() for name in sys.argv[1:])
lines = ours.splitlines()
assert len(lines) <= 40 and max(map(len, lines)) <= 100, "more than a screen"
assert everything.count("\n") > 300, "LLVM's own help"
# `--fsdp-NAME` stands for any pass.
flags = set(re.findall(r"--[a-z][a-z-]+", ours)) - {"--help-all", "--fsdp-"}
assert len(flags) > 6
missing = {flag for flag in flags if flag + "=" not in everything and flag + " " not in everything}
assert missing == set(), missing

"""fill.py TEMPLATE CASES: the template once for each part of CASES, parts of which
`// -----` stands in between.

Lines that begin with `module:`, `attributes:` and `top:` stand in front of the module, among
its attributes and in front of the step; all others in the step.
"""

import pathlib
import sys

template, cases = (pathlib.Path(name).read_text() for name in sys.argv[1:])
places = {"module:": "MODULE", "attributes:": "ATTRIBUTES", "top:": "TOP", "": "BODY"}
modules = []
for case in cases.split("// -----\n"):
    lines: dict[str, list[str]] = {word: [] for word in places.values()}
    for line in case.splitlines():
        mark = next(m for m in places if line.startswith(m))
        lines[places[mark]].append(line.removeprefix(mark))
    module = template.split("\n", 1)[1]
    for word, found in lines.items():
        module = module.replace(word, "\n".join(found))
    modules.append(module)
print("// -----\n".join(modules))

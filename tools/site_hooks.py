"""What MkDocs does to the pages of docs/, so that they read well as plain files too.

The README is the site's first page. What api.md says of a name becomes its whole docstring. A link to a file that is no page, such as a test, becomes that
file's name.
"""

import pathlib
import re

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[1]
_API = re.compile(r"<!-- api (\S+) -->\n.*?<!-- end -->", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def _rewritten(text, folder):
    """Links from a page of a folder of the tree, as the site has them."""

    def link(match):
        words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, mark, anchor = target.partition("#")
        there = (folder / path).resolve().relative_to(ROOT)
        if there == pathlib.Path("README.md"):
            return f"[{words}]({'../' * len((folder.relative_to(ROOT / 'docs')).parts)}index.md)"
        if there.parts[0] == "docs":
            return match[0]
        assert (ROOT / there).exists(), f"{folder} has a link to {there}, which is not there"
        return words if str(there) in words else f"{words} (`{there}`)"

    return _LINK.sub(link, text)


def on_files(files: Files, config) -> Files:
    """The README, as if it lay in docs/."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def move(match):
        target = match[1]
        return f"]({target[5:]}" if target.startswith("docs/") else f"](../{target}"

    moved = re.sub(r"\]\(((?![a-z]+:|#)[^)]+)", move, readme)
    files.append(File.generated(config, "index.md", content=moved))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    folder = (ROOT / "docs" / page.file.src_uri).parent
    whole = _API.sub(r"::: \1", markdown)
    return _rewritten(whole, folder)

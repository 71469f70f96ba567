"""The documentation keeps in step with the code: generated parts, names, links and promises."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docpages import PAGES, ROOT, blocks, compare
from doctables import PART, PARTS, RULES, renewed
from eventnotes import EVENTS
from optionnotes import OPTIONS

import a3s_code
from a3s_code import AGENT_EVENT_TYPES_V1, CodeError, SessionOptions
from a3s_code.api.options import NOT_YET
from a3s_code.core import project
from a3s_code.core.decide import ORDER
from a3s_code.errors import CODES

UNREACHED = {
    "context_compacted": "compaction comes later",
}
"""Events that the code can make and this version never has a reason to send. This list may only shrink."""

UNRAISED: dict[str, str] = {}
"""Error classes that this version never raises. This list may only shrink."""


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_generated_parts_are_what_the_code_says(page: Path) -> None:
    """Phases, rules, events and options on a page are those of the code; `make docs` writes them anew."""
    text = page.read_text("utf-8")
    assert renewed(text) == text, "run `make docs`"


def test_every_generated_part_is_on_a_page() -> None:
    """Nothing is generated for nobody."""
    found = [part["name"] for page in PAGES for part in PART.finditer(page.read_text("utf-8"))]
    assert sorted(found) == sorted(PARTS)


def test_every_option_is_documented_once() -> None:
    """Each field of SessionOptions stands in one table: with its meaning, or with the feature it belongs to."""
    documented = [name for group in OPTIONS.values() for name in group]
    assert sorted([*documented, *NOT_YET]) == sorted(SessionOptions.fields)


def test_documented_events_are_those_that_the_code_sends() -> None:
    """The notes name exactly the catalogue's events that `core/project.py` makes, but for those it never comes to."""
    tree = ast.parse(Path(project.__file__).read_text("utf-8"))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert set(EVENTS) | set(UNREACHED) == words & set(AGENT_EVENT_TYPES_V1)
    assert not set(EVENTS) & set(UNREACHED)


def test_every_rule_that_chooses_is_explained() -> None:
    """Each rule of ORDER has its line."""
    assert len(RULES) == len(ORDER)


def links(page: Path) -> list[tuple[str, str]]:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text)
    return [(str(target), str(part)) for target, part in found]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A link names a file that exists and a heading that it has."""
    for target, part in links(page):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name}: {target}"
        if part:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert part in slugs, f"{page.name}: {target}#{part}"


def test_the_index_links_every_page() -> None:
    """Whoever opens the index finds every page."""
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target, _ in links(index)}
    assert linked == {page for page in PAGES if page.parent == index.parent} - {index}


def readme() -> str:
    return (ROOT / "README.md").read_text("utf-8")


def test_every_guarantee_names_a_test_that_exists() -> None:
    """Each row of the README's table of guarantees ends with a test, and the test is there."""
    table = readme().partition("## What it guarantees")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert rows
    for row in rows:
        found = re.search(r"`(tests/\S+\.py)::(\w+)` \|$", row)
        assert found is not None, row
        tree = ast.parse((ROOT / found[1]).read_text("utf-8"))
        names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert found[2] in names, f"{found[1]} has no {found[2]}"


def test_the_line_that_chooses_is_three_hops_away() -> None:
    """The README's path leads from a session over the driver to the line that chooses the next step."""
    hops = re.findall(r"^\d\. `([^`]+)`: `([^`]+)`", readme(), re.MULTILINE)
    assert len(hops) == 3
    for file, line in hops:
        assert line in (ROOT / "src" / "a3s_code" / file).read_text("utf-8"), f"{file} has no line with {line}"
    assert hops[-1][0] == "core/decide/__init__.py"


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    """The shortened output in the README is that of `make demo`."""
    shown = next(block for block in blocks(readme()) if "demo-workspace" in block.text)
    done = subprocess.run([sys.executable, "-m", "a3s_code.cli.demo"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compare(done.stdout, shown.text, "README.md")


def test_no_fence_is_left_open() -> None:
    """Every page's fenced blocks can be read to their end."""
    for page in PAGES:
        assert page.read_text("utf-8").count("\n```") == 2 * len(list(blocks(page.read_text("utf-8")))), page.name


def test_every_error_class_is_listed_with_its_code() -> None:
    """The table of errors names each public error class with a code that it can have."""
    page = (ROOT / "docs" / "embedding.md").read_text("utf-8")
    table = page.partition("## Errors")[2].partition("\n## ")[0]
    listed = dict.fromkeys(name for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in _names(cell))
    public = {name for name in a3s_code.__all__ if _is_error(getattr(a3s_code, name))}
    assert set(listed) == public - set(UNRAISED)
    codes = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", table))
    assert codes <= CODES
    assert {getattr(a3s_code, name).default_code for name in listed} - {"INTERNAL_ERROR"} <= codes


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, CodeError)

"""What the source must look like (architecture.md, *Style to follow*), and what may depend on what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from a3s_code.tools.builtin import NAMES

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LONGEST_FILE = 350
LONGEST_FUNCTION = 60

TOO_LONG: frozenset[str] = frozenset()
"""``file`` or ``file:function`` that may be longer for now. This list may only shrink."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "src" / "a3s_code"))


def lengths() -> dict[str, tuple[int, int]]:
    """What has a length in the source: how long it is, and how long it may be."""
    found: dict[str, tuple[int, int]] = {}
    for path in SOURCES:
        text = path.read_text("utf-8")
        found[name_of(path)] = (text.count("\n"), LONGEST_FILE)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                name, size = f"{name_of(path)}:{node.name}", (node.end_lineno or first) - first + 1
                found[name] = (max(size, found.get(name, (0, 0))[0]), LONGEST_FUNCTION)
    return found


def test_files_and_functions_stay_short() -> None:
    """No file is longer than 350 lines and no function than 60, but for the exceptions."""
    assert {name: size for name, (size, limit) in lengths().items() if size > limit and name not in TOO_LONG} == {}


def test_the_list_of_exceptions_only_shrinks() -> None:
    """An exception that is no longer needed is taken off the list."""
    found = lengths()
    assert {name for name in TOO_LONG if name not in found or found[name][0] <= found[name][1]} == set()


def test_every_module_says_its_one_rule() -> None:
    """A module with code opens with a docstring that names its one rule and its known weakness."""
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        said = ast.get_docstring(tree) or ""
        if path.name != "__init__.py" and not ("One rule" in said and "Known weakness" in said):
            silent.append(name_of(path))
    assert silent == []


def test_every_dependency_has_its_reason() -> None:
    """docs/dependencies.md names exactly the packages of pyproject.toml, each under its extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {("", package(each)) for each in project["dependencies"]}
    for extra, packages in project["optional-dependencies"].items():
        wanted |= {(extra, package(each)) for each in packages}
    core, extras = (ROOT / "docs" / "dependencies.md").read_text("utf-8").split("## Extras")
    given = {("", cells[0]) for cells in rows(core) if len(cells) == 2 and cells[1]}
    given |= {(cells[0], cells[1]) for cells in rows(extras) if len(cells) == 3 and cells[2]}
    assert given == wanted


def package(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found.group()


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a Markdown text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells for cells in split if not cells[0].startswith("-") and cells[-1] != "why"]


def test_importing_the_package_is_cheap() -> None:
    """`import a3s_code` loads neither an HTTP client nor an event loop nor anything else that takes milliseconds."""
    look = "import sys; before = set(sys.modules); import a3s_code; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert "a3s_code" in found
    dear = {"aiohttp", "asyncio", "jsonschema_rs", "rich", "prompt_toolkit", "ssl", "sqlite3", "subprocess"}
    assert dear.intersection(found) == set()


def test_an_idle_session_is_cheap(tmp_path: Path) -> None:
    """An agent's first session loads no tool, nothing that judges calls, no sandbox, no store and no HTTP client; nor
    does it load what only they need."""
    acl = 'default_model = "glm/m"\nproviders "glm" {\n  models "m" {}\n}'
    look = (
        "import sys; before = set(sys.modules); from a3s_code import Agent; agent = Agent.create(sys.argv[1])\n"
        "session = agent.session(sys.argv[2]); print(*sorted(set(sys.modules) - before)); agent.close()"
    )
    command = [sys.executable, "-c", look, acl, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "a3s_code.api.session" in found
    ours = {
        *("a3s_code.api.judge", "a3s_code.api.retention", "a3s_code.core.policy.verdict", "a3s_code.core.textforms"),
        *(f"a3s_code.stores.{name}" for name in ("file", "logfile", "memory", "postgres", "rules", "sqlite")),
        *(f"a3s_code.tools.{name}" for name in (*NAMES, "schema", "shell", "validate")),
        "a3s_code.workspace.sandbox",
    }
    others = {"aiohttp", "difflib", "email", "ipaddress", "json", "jsonschema_rs", "pathlib", "shutil", "tempfile"}
    dear = ours | others | {"tree_sitter", "urllib"}
    assert dear.intersection(found) == set()

"""What a project says of itself. In: the text of manifests and READMEs. Out: its name, purpose, needs and commands.

One rule: a file that can't be parsed (it may have been read in part) is read line by line, or not at all.
Known weakness: Python, JavaScript, Rust and Go manifests and Makefiles only.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec

from a3s_code.providers.offline_evidence import Evidence
from a3s_code.providers.offline_look import README

_TARGET = re.compile(r"^([A-Za-z][\w-]*)\s*:(?!=)")


class Project(msgspec.Struct):
    name: str = ""
    about: str = ""
    source: str = ""
    needs: list[str] = msgspec.field(default_factory=list)
    runtime: str = ""
    commands: list[str] = msgspec.field(default_factory=list)
    tests: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Commands that run the tests, each with what says so."""


def project(found: Evidence) -> Project:
    """Everything the manifests that were read say; the first that names the project wins."""
    known = Project()
    for path in sorted(found.files, key=lambda path: (path.count("/"), path)):
        text = found.text(path)
        match path.rsplit("/", 1)[-1]:
            case "pyproject.toml":
                _python(known, path, _toml(text), text)
            case "package.json":
                _javascript(known, path, text)
            case "Cargo.toml":
                package = _table(_toml(text), "package")
                _named(known, path, package.get("name"), package.get("description"), "Rust")
                known.tests.append(("cargo test", path))
            case "go.mod":
                module = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
                _named(known, path, module[1] if module else None, None, "Go")
                known.tests.append(("go test ./...", path))
            case "Makefile" | "justfile":
                _targets(known, found, path)
            case "tox.ini" | "noxfile.py":
                known.tests.append(("tox" if path.endswith("tox.ini") else "nox", path))
            case "pytest.ini":
                known.tests.append(("pytest", path))
            case _:
                pass
    return known


def _named(known: Project, path: str, name: object, about: object, runtime: str) -> None:
    if isinstance(name, str) and not known.name:
        known.name, known.source = name, path
        known.about = about if isinstance(about, str) else ""
    known.runtime = known.runtime or runtime


def _python(known: Project, path: str, data: dict[str, Any], text: str) -> None:
    table = _table(data, "project") or _table(_table(data, "tool"), "poetry")
    name = table.get("name") or _line(text, r'^name\s*=\s*"([^"]+)"')
    about = table.get("description") or _line(text, r'^description\s*=\s*"([^"]+)"')
    needs = table.get("requires-python") or _line(text, r'^requires-python\s*=\s*"([^"]+)"')
    _named(known, path, name, about, f"Python {needs}" if needs else "Python")
    wanted = table.get("dependencies")
    known.needs.extend(str(one) for one in (wanted if isinstance(wanted, (list, dict)) else ()) if one != "python")
    known.commands.extend(f"{name} = {target}" for name, target in _table(table, "scripts").items())
    if "pytest" in text:
        known.tests.append(("python -m pytest", path))


def _javascript(known: Project, path: str, text: str) -> None:
    try:
        data = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return
    _named(known, path, data.get("name"), data.get("description"), "JavaScript")
    known.needs.extend(_table(data, "dependencies"))
    scripts = _table(data, "scripts")
    known.commands.extend(f"npm run {name} = {command}" for name, command in scripts.items())
    if "test" in scripts:
        known.tests.append(("npm test", path))


def _targets(known: Project, found: Evidence, path: str) -> None:
    runner = "make" if path.endswith("Makefile") else "just"
    for number, line in sorted(found.files[path].items()):
        target = _TARGET.match(line)
        if target and target[1] != "PHONY":
            known.commands.append(f"{runner} {target[1]}")
            if target[1] in ("test", "tests", "check"):
                known.tests.insert(0, (f"{runner} {target[1]}", f"{path}:{number}"))


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # read in part
        return {}


def _table(data: object, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _line(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def lead(found: Evidence) -> tuple[str, int, str]:
    """The README's first paragraph of prose as (path, line, text); empty without one."""
    path = next((path for path in found.files if README.search(path)), "")
    taken: list[str] = []
    start = 0
    for number, line in sorted(found.files.get(path, {}).items()):
        bare = line.strip()
        link = bare.startswith("[") and "](" in bare and "![" not in bare
        prose = bool(bare) and (bare[0].isalnum() or bare[0] in "*_`\"'>(" or link)
        underline = bool(bare) and not bare.strip("=-~*")
        if underline and len(taken) == 1:  # the line above was a heading
            taken = []
        elif prose and not underline:
            start = start if taken else number
            taken.append(bare)
        elif taken:
            break
    return path, start, " ".join(taken)

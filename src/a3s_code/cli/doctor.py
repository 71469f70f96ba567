"""``a3s-code doctor``. In: this machine, a workspace. Out: what is found, and what to do about what is missing.

One rule: no key is ever printed, only whether there is one.
Known weakness: nothing is connected to, so a key that is present may still be refused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal

import msgspec

from a3s_code.api.confine import VARIABLE, host_by_variable
from a3s_code.cli.setup import NO_KEY, set_up, workspace_of
from a3s_code.cli.words import one_line
from a3s_code.config.model import CodeConfig, ProviderConfig
from a3s_code.errors import CodeError, ConfigError
from a3s_code.stores.disk import disk
from a3s_code.system.process import LocalProcesses
from a3s_code.workspace.sandbox.session import native

State = Literal["ok", "note", "missing"]
_PACKAGE: Final = "a3s-code-py"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;.*extra\s*==\s*['\"](\w+)['\"])?")
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+\S*")
_MARKS: Final[dict[State, str]] = {"ok": "+", "note": "~", "missing": "x"}
_KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_PROGRAMS: Final = {
    "bash": "the bash tool runs its commands with sh instead; install bash for the commands models write",
    "git": "install git: an agent asks it what changed (apt install git, brew install git)",
    "rg": "nothing to do: search has its own matcher; models may still run rg through bash when it is there",
}


class Check(msgspec.Struct, frozen=True):
    """``missing`` keeps the program from working, a ``note`` doesn't; ``fix`` is what to do."""

    group: str
    name: str
    state: State
    found: str
    fix: str = ""


def go(args: argparse.Namespace) -> int:
    workspace = workspace_of(args.workspace)
    checks = [
        *_python(),
        *_packages(),
        *_configuration(workspace, args.config, os.environ),
        *asyncio.run(_programs(os.environ)),
        *_workspace(workspace),
    ]
    good = all(check.state != "missing" for check in checks)
    if args.json:
        print(json.dumps({"ok": good, "checks": msgspec.to_builtins(checks)}, indent=2))
    else:
        for line in _lines(checks, good):
            print(line)
    return 0 if good else 1


def _lines(checks: list[Check], good: bool) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            yield f"{group}"
        yield f"  {_MARKS[check.state]} {check.name.ljust(width)}  {one_line(check.found, 200)}".rstrip()
        if check.fix:
            yield f"    {' ' * width}  -> {check.fix}"
    yield ""
    if good:
        yield "everything needed is here; what is marked with ~ is optional"
    else:
        yield "what is marked with x keeps a3s-code from working"


def _python() -> Iterator[Check]:
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    fix = "" if fits else "use Python 3.11, 3.12 or 3.13"
    yield Check("program", "a3s-code", "ok", version(_PACKAGE))
    yield Check(
        "program", "Python", "ok" if fits else "missing", f"{platform.python_version()} ({sys.executable})", fix
    )
    yield Check("program", "system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}")


def _packages() -> Iterator[Check]:
    """What the installed package says it needs; those for its own development are left out."""
    for requirement in requires(_PACKAGE) or []:
        found = _REQUIREMENT.match(requirement)
        if found is None or found[2] == "dev":
            continue
        name, extra = found[1], found[2]
        group = f"extra '{extra}'" if extra else "packages"
        try:
            yield Check(group, name, "ok", version(name))
        except PackageNotFoundError:
            wanted = f"{_PACKAGE}[{extra}]" if extra else name
            yield Check(group, name, "note" if extra else "missing", "not installed", f"pip install '{wanted}'")


def _configuration(workspace: Path, given: str | None, environ: Mapping[str, str]) -> Iterator[Check]:
    try:
        setup = set_up(workspace, given, None, environ)
    except ConfigError as error:
        yield Check("models", "configuration", "missing", str(error), "mend the configuration, or leave it out")
        return
    yield Check("models", "configuration", "ok", setup.origin or "none found; the environment decides")
    fix = NO_KEY.partition(": ")[2] if setup.offline and not setup.origin else ""
    yield Check("models", "default model", "note" if fix else "ok", str(setup.config.default_model), fix)
    yield from _providers(setup.config, from_file=bool(setup.origin))


def _providers(config: CodeConfig, *, from_file: bool) -> Iterator[Check]:
    for name, provider in config.providers.items():
        yield _provider(name, provider)
    if not from_file:
        for name, variable in _KEYS.items():
            if name not in config.providers:
                yield Check("models", f"provider {name}", "note", "no key", f"export {variable}=...")
    yield Check("models", "provider offline", "ok", "needs no key (rules, no language model)")


def _provider(name: str, provider: ProviderConfig) -> Check:
    models = ", ".join(provider.models) or "no models"
    try:
        key = "key present" if provider.key() else "no key"
        fix = "" if provider.key() else "give it an apiKey, unless its server needs none"
    except CodeError as error:
        key, fix = "no key", str(error)
    return Check("models", f"provider {name}", "note" if fix else "ok", f"{key}; {models}", fix)


async def _programs(environ: Mapping[str, str]) -> list[Check]:
    programs = [await _program(name, fix, environ) for name, fix in _PROGRAMS.items()]
    return [*programs, await _sandbox(environ)]


async def _sandbox(environ: Mapping[str, str]) -> Check:
    """What is active for a model's commands. Tried with a real command, as a session does it."""
    if (chosen := host_by_variable(environ)) is not None:
        fix = f"unset {VARIABLE} unless commands can do no harm here"
        return Check("programs", "sandbox", "note", f"none: {chosen}", fix)
    state = await native(LocalProcesses(), environ).state()
    if state.kind == "native":
        return Check("programs", "sandbox", "ok", f"active: {state.reason}")
    fix = "until then each command of a model asks on a terminal, and is refused without one"
    return Check("programs", "sandbox", "note", f"none: {state.reason}", fix)


async def _program(name: str, fix: str, environ: Mapping[str, str]) -> Check:
    path = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        return Check("programs", name, "note", "not found", fix)
    outcome = await LocalProcesses().run(
        [path, "--version"], cwd="/", env=environ, timeout_ms=5000, cancelled=asyncio.Event()
    )
    said = _VERSION.search(outcome.stdout.text)
    if outcome.exit_code != 0:
        return Check("programs", name, "note", f"{path} fails: exit {outcome.exit_code}", fix)
    return Check("programs", name, "ok", f"{said[0] if said else ''} ({path})".strip())


def _workspace(workspace: Path) -> Iterator[Check]:
    yield Check("workspace", "directory", "ok", str(workspace))
    try:
        with tempfile.TemporaryFile(dir=workspace) as file:
            yield Check("workspace", "writable", "ok", "yes")
            locked = disk().lock(file.fileno())
    except OSError as error:
        yield Check(
            "workspace", "writable", "missing", f"no: {error.strerror}", f"make {workspace} writable, or use -w"
        )
        return
    fix = "" if locked else "use a file system with locks (flock): two writers of one log are not kept apart here"
    yield Check("workspace", "file locks", "ok" if locked else "missing", "yes" if locked else "no", fix)

"""A stand-in for the built-in tools over a real directory, and the loop that drives the offline model with them.

The outputs have the forms of tools.md §3.1, §3.5 to §3.8, so that the model's reading of them is what is tested.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from a3s_code.core.content import AssistantMessage, Call, JsonObject, Message, ToolMessage, UserMessage
from a3s_code.ports.model import ModelDelta, ModelRequest, ToolSpec
from a3s_code.providers.offline import Scout

_SKIPPED = {".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".venv"}
_MEMBERS = {
    "ls": "path limit cursor",
    "read": "file_path offset limit files max_output_bytes",
    "search": "mode query path include output_mode context limit cursor sort ignore_case",
    "git": "command max_count target path",
    "bash": "command timeout_ms cwd",
}


def specs(*names: str) -> tuple[ToolSpec, ...]:
    made = []
    for name in names:
        members: JsonObject = {member: {} for member in _MEMBERS[name].split()}
        made.append(ToolSpec(name, name, {"type": "object", "properties": members}))
    return tuple(made)


class Workspace:
    def __init__(self, root: Path) -> None:
        self.root = root

    def files(self) -> list[str]:
        found = []
        for folder, names, files in os.walk(self.root):
            names[:] = sorted(set(names) - _SKIPPED)
            found += [Path(folder, name).relative_to(self.root).as_posix() for name in files]
        return sorted(found)

    def run(self, call: Call) -> tuple[str, bool]:
        """The output, and whether the call failed."""
        args: dict[str, Any] = dict(call.args)
        match call.name:
            case "search":
                modes = {"glob": self._glob, "grep": self._grep, "bm25": self._bm25}
                return modes[args["mode"]](args), False
            case "git":
                return self._git(args)
            case "bash":
                line = ["bash", "-c", args["command"]]
                done = subprocess.run(line, cwd=self.root, capture_output=True, text=True, check=False)
                return done.stdout, False
            case "ls":
                return self._ls(args)
            case _:
                return self._read(args)

    def _ls(self, args: dict[str, Any]) -> tuple[str, bool]:
        entries = sorted(entry.name + "/" * entry.is_dir() for entry in (self.root / args["path"]).iterdir())
        return "\n".join([*entries, f"{len(entries)} entries"]), False

    def _read(self, args: dict[str, Any]) -> tuple[str, bool]:
        if "files" not in args:
            text, failed = self._lines(args["file_path"], args.get("offset", 0), args.get("limit", 2000))
            return text, failed
        parts = []
        for one in args["files"]:
            text, failed = self._lines(one["path"], one.get("offset", 0), one.get("limit", 2000))
            count = text.count("\n") + 1
            start = one.get("offset", 0) + 1
            head = (
                f"==> {one['path']} (lines {start}-{start + count - 1} of {count}) <=="
                if not failed
                else f"==> {one['path']} <=="
            )
            parts.append(f"{head}\n{text}\n")
        return "\n".join(parts), False

    def _lines(self, path: str, offset: int, limit: int) -> tuple[str, bool]:
        target = self.root / path
        if not target.is_file():
            return f"error: {path} not found", True
        lines = target.read_text(errors="replace").split("\n")[offset : offset + limit]
        return "\n".join(f"{offset + i + 1:>6}\t{line}" for i, line in enumerate(lines)), False

    def _glob(self, args: dict[str, Any]) -> str:
        wanted = _alternatives(args["query"].removeprefix("**/"))
        found = [p for p in self.files() if any(fnmatch.fnmatch(p.rsplit("/", 1)[-1], one) for one in wanted)]
        if args.get("sort") != "path":
            found.sort(key=lambda p: -(self.root / p).stat().st_mtime_ns)
        found = found[: args["limit"]]
        return "\n".join([*found, f"{len(found)} file(s)"]) if found else f"No files found matching: {args['query']}"

    def _grep(self, args: dict[str, Any]) -> str:
        rule = re.compile(args["query"], re.IGNORECASE if args.get("ignore_case") else 0)
        wanted = _alternatives(args.get("include", "*"))
        found = []
        for path in self.files():
            if any(fnmatch.fnmatch(path.rsplit("/", 1)[-1], one) for one in wanted):
                for number, line in enumerate((self.root / path).read_text(errors="replace").split("\n"), 1):
                    if rule.search(line):
                        found.append(f"{path}:{number}:{line[:500]}")
        files = len({line.split(":", 1)[0] for line in found[: args["limit"]]})
        if not found:
            return f"No matches found for pattern: {args['query']}"
        return "\n".join([*found[: args["limit"]], f"{len(found)} match(es) in {files} file(s)"])

    def _bm25(self, args: dict[str, Any]) -> str:
        words = args["query"].lower().split()
        scored = []
        for path in self.files():
            lines = (self.root / path).read_text(errors="replace").split("\n")
            score = sum(Counter(" ".join(lines).lower().split())[word] for word in words)
            best = max(range(len(lines)), key=lambda i: sum(word in lines[i].lower() for word in words))
            if score:
                scored.append((-score, path, best + 1, lines[best]))
        shown = [f"{p}:{n}-{n} (score {-s:.2f})\n{n:>6}\t{line}\n" for s, p, n, line in sorted(scored)[: args["limit"]]]
        return "\n".join([*shown, f"{len(shown)} result(s)"])

    def _git(self, args: dict[str, Any]) -> tuple[str, bool]:
        commands = {
            "log": ["log", "--date=short", "--pretty=format:%h %ad %an %s", f"-{args.get('max_count', 10)}"],
            "status": ["status", "--short", "--branch"],
            "diff": ["diff", str(args.get("target", "HEAD"))],
        }
        line = ["git", "-C", str(self.root), *commands[args["command"]]]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        return (done.stdout, False) if done.returncode == 0 else ("Not a git repository: .", True)


def _alternatives(pattern: str) -> list[str]:
    pattern = pattern.removeprefix("**/")
    if found := re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern):
        return [found[1] + one + found[3] for one in found[2].split(",")]
    return [pattern]


class Talk:
    """One conversation: ``ask`` plays the runtime's loop and gives the answer; ``calls`` are all that were made."""

    def __init__(self, root: Path, *tools: str) -> None:
        self.workspace = Workspace(root)
        self.tools = specs(*(tools or ("ls", "read", "search", "git", "bash")))
        self.messages: list[Message] = []
        self.calls: list[Call] = []
        self.rounds = 0
        self.last: list[ModelDelta] = []

    async def ask(self, prompt: str) -> str:
        self.messages.append(UserMessage(prompt))
        for self.rounds in range(10):
            request = ModelRequest("scout", tuple(self.messages), tools=self.tools)
            self.last = [delta async for delta in Scout().stream(request)]
            text = "".join(delta.text for delta in self.last)
            calls = tuple(_call(delta) for delta in self.last if delta.call is not None)
            self.messages.append(AssistantMessage(text, calls=calls))
            if not calls:
                return text
            for call in calls:
                self.calls.append(call)
                output, failed = await self.run(call)
                self.messages.append(ToolMessage(call.id, call.name, output, failed))
        raise AssertionError("the model never answered")

    async def run(self, call: Call) -> tuple[str, bool]:
        return self.workspace.run(call)


def _call(delta: ModelDelta) -> Call:
    assert delta.call is not None
    assert isinstance(delta.call.arguments, str)
    return Call(delta.call.id, delta.call.name, msgspec.json.decode(delta.call.arguments, type=dict[str, Any]))

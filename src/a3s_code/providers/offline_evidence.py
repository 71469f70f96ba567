"""What tool results say. In: the messages of a conversation. Out: the files, lines, hits and commits found this turn.

One rule: only what a result really shows is evidence; a line that can't be read as its tool's format is left out.
Known weakness: results of tools that aren't the built-in ones are not understood.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from a3s_code.core.content import AssistantMessage, Call, Message, ToolMessage, UserMessage

_NUMBERED = re.compile(r"\s*(\d+)\t(.*)")
_MEMBER = re.compile(r"==> (.+?) \((?:lines \d+-\d+ of (\d+)|.*)\) <==|==> (.+?) <==")
_MATCH = re.compile(r"(?:\./)?(.+?):(\d+):(.*)")
_CHUNK = re.compile(r"(.+):(\d+)-(\d+) \(score (-?[\d.]+)\)")
_FOOTER = re.compile(
    r"\[.*\]|\d+ (?:entries|entry|file\(s\)|match\(es\) in .*|result\(s\))|No (?:matches|files) found.*"
)
_READ_ARGS = re.compile(r"cat -n (?:-- )?'?([^'|]+?)'? \|")


class Hit(msgspec.Struct, frozen=True):
    """A line that a search showed; ``bonus`` is what a ranked search thought of its surroundings."""

    path: str
    line: int
    text: str
    bonus: float = 0.0


class Evidence(msgspec.Struct):
    prompt: str = ""
    rounds: int = 0
    made: set[str] = msgspec.field(default_factory=set)
    entries: list[str] = msgspec.field(default_factory=list)
    paths: list[str] = msgspec.field(default_factory=list)
    truncated: bool = False
    files: dict[str, dict[int, str]] = msgspec.field(default_factory=dict)
    totals: dict[str, int] = msgspec.field(default_factory=dict)
    hits: list[Hit] = msgspec.field(default_factory=list)
    commits: list[str] = msgspec.field(default_factory=list)
    status: list[str] = msgspec.field(default_factory=list)
    diff: list[str] = msgspec.field(default_factory=list)
    failures: list[str] = msgspec.field(default_factory=list)
    counts: dict[str, int] = msgspec.field(default_factory=dict)

    def text(self, path: str) -> str:
        """What was read of a file, from its first line on without a gap."""
        lines = self.files.get(path, {})
        kept: list[str] = []
        for number in range(1, len(lines) + 1):
            if number not in lines:
                break
            kept.append(lines[number])
        return "\n".join(kept)

    def known_files(self) -> list[str]:
        """Files of the listing at the root and of the searches by name, each once."""
        root = [entry for entry in self.entries if not entry.endswith(("/", "@"))]
        return list(dict.fromkeys([*root, *self.paths]))


def key_of(call: Call) -> str:
    return call.name + msgspec.json.encode(call.args, order="deterministic").decode()


def gather(messages: Sequence[Message]) -> Evidence:
    """Everything since the last prompt."""
    start = max((i for i, message in enumerate(messages) if isinstance(message, UserMessage)), default=-1)
    found = Evidence()
    if start >= 0:
        opening = messages[start]
        found.prompt = opening.text if isinstance(opening, UserMessage) else ""
    calls: dict[str, Call] = {}
    for message in list(messages)[start + 1 :]:
        if isinstance(message, AssistantMessage) and message.calls:
            found.rounds += 1
            for call in message.calls:
                calls[call.id] = call
                found.made.add(key_of(call))
        elif isinstance(message, ToolMessage) and message.call in calls:
            call = calls[message.call]
            found.counts[call.name] = found.counts.get(call.name, 0) + 1
            _take(found, call, message)
    return found


def _take(found: Evidence, call: Call, message: ToolMessage) -> None:
    purpose = _purpose(call)
    lines = message.output.split("\n")
    if message.is_error or lines[-1].startswith("[exit code:"):
        said = next((line for line in lines if line.strip() and not line.startswith("[")), lines[0])
        found.failures.append(f"{call.name}: {said[:160]}")
        return
    match purpose:
        case "ls":
            found.entries.extend(line for line in lines if line and not _FOOTER.fullmatch(line))
        case "glob":
            found.truncated = found.truncated or any(line.startswith("[") for line in lines[-2:])
            found.paths.extend(line.removeprefix("./") for line in lines if line and not _FOOTER.fullmatch(line))
        case "grep":
            for match in filter(None, map(_MATCH.fullmatch, lines)):
                found.hits.append(Hit(match[1], int(match[2]), match[3]))
        case "bm25":
            _take_chunks(found, lines)
        case "read":
            _take_read(found, call, lines)
        case "log":
            found.commits.extend(line for line in lines if line and not line.startswith("["))
        case "status":
            found.status.extend(line for line in lines if line and line != "clean")
        case "diff":
            found.diff.extend(lines)
        case _:
            pass


def _purpose(call: Call) -> str:
    """Which kind of look a call was; a shell command is known by how it begins."""
    if call.name == "search":
        return str(call.args.get("mode", ""))
    if call.name == "git":
        return str(call.args.get("command", ""))
    if call.name != "bash":
        return call.name
    command = str(call.args.get("command", ""))
    begins = {
        "ls ": "ls",
        "find ": "glob",
        "grep ": "grep",
        "cat -n ": "read",
        "git log": "log",
        "git status": "status",
    }
    return next((purpose for begin, purpose in begins.items() if command.startswith(begin)), "bash")


def _take_chunks(found: Evidence, lines: list[str]) -> None:
    path, score, best = "", 0.0, 0.0
    for line in lines:
        if head := _CHUNK.fullmatch(line):
            path, score = head[1], float(head[4])
            best = best or score
        elif path and (shown := _NUMBERED.fullmatch(line)) and shown[2].strip():
            found.hits.append(Hit(path, int(shown[1]), shown[2], 3.0 * score / best if best > 0 else 0.0))


def _take_read(found: Evidence, call: Call, lines: list[str]) -> None:
    path = str(call.args.get("file_path") or call.args.get("path") or "")
    if call.name == "bash" and (named := _READ_ARGS.match(str(call.args.get("command", "")))):
        path = named[1]
    for line in lines:
        if head := _MEMBER.fullmatch(line):
            path = head[1] or head[3]
            if head[2]:
                found.totals[path] = int(head[2])
        elif path and (shown := _NUMBERED.fullmatch(line)):
            found.files.setdefault(path, {})[int(shown[1])] = shown[2]

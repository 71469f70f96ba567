"""Where to look next. In: a question, the tools that are offered, the evidence so far. Out: the calls of one round.

One rule: only tools that are offered are called, with parameters that they have, and no call is made twice.
Known weakness: without ``search``, ``ls`` and ``bash`` only the usual file names can be tried.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from a3s_code.core.content import Call, Json, JsonObject
from a3s_code.ports.model import ToolSpec
from a3s_code.providers.offline_evidence import Evidence, key_of
from a3s_code.providers.offline_question import Question, Term
from a3s_code.providers.offline_rank import DEFINING, SMELLS, is_test, place_weight, rank, rank_smells, rank_todos

ROUNDS = 3
MANIFESTS = (
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "setup.py",
    "setup.cfg",
    "pom.xml",
    "build.gradle",
    "Gemfile",
    "composer.json",
    "CMakeLists.txt",
)
RUNNERS = ("Makefile", "justfile", "tox.ini", "noxfile.py", "pytest.ini", "CONTRIBUTING.md")
README = re.compile(r"(^|/)readme(\.\w+)?$", re.IGNORECASE)
CHANGES = re.compile(r"(^|/)(changelog|changes|history|news|releases)(\.\w+)?$", re.IGNORECASE)
TEST_COMMAND = (
    r"\b(pytest|unittest|tox|nox|(npm|pnpm|yarn|bun)( run)? test|make (test|check)|cargo test|go test|jest|vitest"
    r"|mvn test|gradlew? test|rspec|ctest)\b"
)
_MARKERS = r"\b(TODO|FIXME|HACK|XXX|BUG)\b"
_SOURCE = re.compile(r"\.(py|js|jsx|ts|tsx|go|rs|java|kt|c|h|cc|cpp|cs|rb|php|swift|scala|ex|lua|sh)$")


class Desk:
    """The tools that are offered, by what they can do."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        members = {tool.name: tool.parameters.get("properties") for tool in tools}
        self._known = {name: set(given) if isinstance(given, dict) else set() for name, given in members.items()}
        self.search = {"mode", "query"} <= self._known.get("search", set())
        self.bash = "command" in self._known.get("bash", set())
        self.git = "command" in self._known.get("git", set())
        self.any = self.search or self.bash or bool({"ls", "read"} & set(self._known))

    def _call(self, name: str, args: JsonObject) -> list[Call]:
        known = self._known.get(name)
        return [] if known is None else [Call("", name, {key: args[key] for key in args if key in known})]

    def _shell(self, command: str) -> list[Call]:
        return self._call("bash", {"command": command}) if self.bash else []

    def ls(self) -> list[Call]:
        return self._call("ls", {"path": "."}) or self._shell("ls -1Ap")

    def names(self, pattern: str, limit: int = 500, sort: str = "") -> list[Call]:
        if self.search:
            args: JsonObject = {"mode": "glob", "query": pattern, "limit": limit}
            return self._call("search", {**args, "sort": sort} if sort else args)
        return self._shell(f"find . -type f -not -path '*/.*' | sort | head -n {limit}")

    def grep(self, pattern: str, include: str = "", limit: int = 200, ignore_case: bool = False) -> list[Call]:
        if self.search:
            args: JsonObject = {"mode": "grep", "query": pattern, "limit": limit}
            args.update({"include": include} if include else {})
            return self._call("search", {**args, "ignore_case": True} if ignore_case else args)
        return self._shell(
            f"grep -rnIE{'i' if ignore_case else ''} --exclude-dir='.?*' -e {shlex.quote(pattern)} . | head -n {limit}"
        )

    def ranked(self, words: str) -> list[Call]:
        return self._call("search", {"mode": "bm25", "query": words, "limit": 8}) if self.search else []

    def read(self, wanted: Iterable[tuple[str, int, int]]) -> list[Call]:
        """Pieces of files as (path, first line, lines), in one call when the tool takes several."""
        pieces = list(dict.fromkeys(wanted))
        if not pieces:
            return []
        if "files" in self._known.get("read", ()) and len(pieces) > 1:
            files: list[Json] = [{"path": path, "offset": start - 1, "limit": count} for path, start, count in pieces]
            return self._call("read", {"files": files})
        if "read" in self._known:
            one = [self._call("read", {"file_path": p, "offset": start - 1, "limit": n}) for p, start, n in pieces[:5]]
            return [call for calls in one for call in calls]
        shown = [self._shell(f"cat -n {shlex.quote(p)} | sed -n '{s},{s + n - 1}p'") for p, s, n in pieces[:5]]
        return [call for calls in shown for call in calls]

    def log(self, count: int) -> list[Call]:
        if self.git:
            return self._call("git", {"command": "log", "max_count": count})
        return self._shell(f"git log --date=short --pretty='format:%h %ad %an %s' -n {count}")

    def status(self) -> list[Call]:
        return self._call("git", {"command": "status"}) if self.git else self._shell("git status --short --branch")

    def diff(self, revision: str) -> list[Call]:
        return self._call("git", {"command": "diff", "target": revision}) if self.git and revision else []


def next_calls(question: Question, desk: Desk, found: Evidence) -> list[Call]:
    """The calls of the next round; none when there is enough, or nothing more to look at."""
    if not desk.any or found.rounds >= ROUNDS or question.kind == "about":
        return []
    for plan in (_first, _second, _third)[found.rounds :]:
        fresh = {key_of(call): call for call in plan(question, desk, found)}
        if calls := [call for key, call in fresh.items() if key not in found.made]:
            return calls
    return []


def _first(question: Question, desk: Desk, found: Evidence) -> list[Call]:
    calls = desk.ls()
    match question.kind:
        case "summary":
            calls += desk.names("**/*", 2000, "path") + desk.log(5)
        case "todos":
            calls += desk.grep(_MARKERS, limit=400)
        case "changes":
            calls += desk.log(15) + desk.status() + desk.names("**/*", 15)
        case "tests":
            calls += desk.names("**/{test_*,*_test.*,*.test.*,*.spec.*,*Test.java}", 500, "path")
            calls += desk.grep(TEST_COMMAND, "{*.md,*.rst,*.txt,*.yml,*.yaml,*.toml,*.cfg,*.ini,*.json,Makefile}", 60)
        case "problems":
            calls += desk.grep("|".join(f"({rule})" for _, rule in SMELLS), limit=400)
        case "file":
            sure = [path for path in question.paths if "/" in path or not desk.search]  # a bare name may be anywhere
            calls += desk.read((path, 1, 120) for path in sure)
            calls += [call for path in question.paths for call in desk.names(f"**/{path.rsplit('/', 1)[-1]}*", 20)]
        case _:
            calls += _searches(question.terms, desk)
    return calls


def _searches(terms: Sequence[Term], desk: Desk) -> list[Call]:
    """Definitions, mentions, ranked pieces, and file names."""
    exact = [term for term in terms if term.exact]
    calls: list[Call] = []
    if exact:
        names = "|".join(term.pattern for term in exact)
        calls += desk.grep(
            rf"{DEFINING}\s+({names})\b|^\s*(self\.)?({names})\s*(:.*)?=[^=]".replace("(?:", "("), limit=60
        )
    mentions = "|".join(term.pattern for term in exact or terms)
    calls += desk.grep(mentions, limit=600, ignore_case=not exact)
    if len(terms) > 1 or not exact:
        calls += desk.ranked(" ".join(term.text for term in terms))
    if desk.search:
        stems = [re.sub(r"\W", "", term.pattern) for term in terms[:3]]
        wanted = ",".join(f"*{stem}*,*{stem.capitalize()}*" for stem in stems if stem)
        calls += desk.names(f"**/{{{wanted}}}", 30) if wanted else []
    return calls


def _second(question: Question, desk: Desk, found: Evidence) -> list[Call]:
    match question.kind:
        case "summary":
            return desk.read((path, 1, 80) for path in landmarks(found, (*MANIFESTS, "Makefile")))
        case "todos":
            return desk.read((hit.path, max(1, hit.line - 2), 6) for _, hit in rank_todos(found.hits)[:3])
        case "changes":
            notes = [path for path in found.known_files() if CHANGES.search(path)][:1]
            base = found.commits[min(5, len(found.commits) - 1)].split(" ", 1)[0] if found.commits else ""
            return desk.read((path, 1, 40) for path in notes) + desk.diff(base)
        case "tests":
            return desk.read((path, 1, 150) for path in landmarks(found, (*MANIFESTS, *RUNNERS)))
        case "problems":
            return desk.read((hit.path, max(1, hit.line - 3), 12) for _, hit in rank_smells(found.hits)[:4])
        case "file":
            missing = [path for path in question.paths if path not in found.files]
            others = [path for path in found.paths if any(path.endswith(m.rsplit("/", 1)[-1]) for m in missing)]
            return desk.read((path, 1, 120) for path in others[:2])
        case _:
            return _around(question, desk, found)


def _around(question: Question, desk: Desk, found: Evidence) -> list[Call]:
    best = rank(found.hits, question.terms)[:4]
    windows = [(one.hit.path, max(1, one.hit.line - 4), 36) for one in best]
    if question.kind == "mixed" or not windows:
        windows += [(path, 1, 60) for path in landmarks(found, ())]
    if not windows:
        windows = [(path, 1, 60) for path in found.paths[:2]]
    if not windows and not desk.search and not desk.bash:
        sources = [path for path in found.known_files() if _SOURCE.search(path)]
        windows = [(path, 1, 400) for path in sources[:8]]
    return desk.read(windows)


def _third(question: Question, desk: Desk, found: Evidence) -> list[Call]:
    if question.kind == "summary":
        return desk.read((path, 1, 14) for path in key_modules(found))
    if question.kind in ("where", "mixed") and not rank(found.hits, question.terms) and question.terms:
        stems = "|".join(
            re.escape(word[:5]) for term in question.terms for word in re.findall(r"[A-Za-z]{4,}", term.text)
        )
        return desk.grep(stems, limit=200, ignore_case=True) if stems else []
    return []


def landmarks(found: Evidence, names: Sequence[str]) -> list[str]:
    """README and the named files: those at the root, else the nearest to it."""
    files = sorted(found.known_files(), key=lambda path: (path.count("/"), path))
    readme = [path for path in files if README.search(path) and path.count("/") <= 2][:1]
    others: list[str] = []
    for name in names:
        others.extend([path for path in files if path.rsplit("/", 1)[-1] == name and path.count("/") <= 1][:1])
    if not files:  # nothing could be listed: the usual names are worth a try
        return ["README.md", *names[:2]]
    return [*readme, *others]


def key_modules(found: Evidence) -> list[str]:
    """The files that say most about a code base: packages and entry points, near the root, no tests."""
    sources = [path for path in found.known_files() if _SOURCE.search(path) and not is_test(path)]
    named = re.compile(r"(^|/)(__init__|__main__|main|index|app|cli|core|lib|mod|server|agent|api)\.\w+$")
    ordered = sorted(
        sources,
        key=lambda path: (-place_weight(path), not named.search(path), path.count("/"), path),
    )
    return ordered[:12]

"""What a prompt asks for. In: the prompt's text. Out: a Question: its kind, the words that matter, the paths it names.

One rule: the same prompt gives the same question, whatever the workspace holds.
Known weakness: English words only; a prompt in another language is searched for as it is.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["summary", "about", "todos", "changes", "tests", "problems", "file", "where", "mixed"]

_STOP = frozenset(
    """a about above add after again all also am an and any anything are around as ask at be because been before being
    below between both but by call called calls can code codebase come could count define defined defines definition
    describe did directory do does doing done each else every everything exactly explain file files find fix folder
    for from function get give go happen happens has have help here how i if implement implemented in into is it its
    just kind know let like line lines list locate look made make makes many me method mention mentioned module more
    most my name need new no not now of on one only open or other our out over own package part place please point
    print project read refactor repo repository run same say search see set should show so some something tell than
    that the their them then there these they thing this those through to too under up us use used uses using want
    was way we well were what when where which while who why will with work works would write written yes you your
    class classes change changed defining main""".split()
)
_CODE_ENDINGS = (
    "py pyi js jsx ts tsx mjs go rs java kt c h cc cpp hpp cs rb php swift sh sql toml yaml yml json md rst txt cfg ini"
)
_PATH = re.compile(rf"[\w.-]+(?:/[\w.-]+)+/?|\b[\w-]+\.(?:{_CODE_ENDINGS.replace(' ', '|')})\b")
_QUOTED = re.compile(r"`([^`\n]{2,80})`|\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)")
_WORD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_NAMED = re.compile(
    r"\b(?:class|type|struct|interface|enum|trait)\s+([A-Z]\w+)|\b([A-Z]\w+)\s+(?:class|type|struct|interface|enum|trait)\b"
)
_IDENTIFIER = re.compile(r"\w*_\w*|\w*[a-z0-9][A-Z]\w*|[A-Z]{2,}\w*|[A-Z]\w*[A-Z]\w*|\w+\.\w[\w.]*")
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "about",
        re.compile(
            r"^\W*(hi|hello|hey|good (morning|evening|day)|thanks?|thank you|help|test|ping)\b[^a-z]*"
            r"(there|you|scout)?\W*$"
            r"|\b(who|what) are you\b|\bwhat can you do\b"
        ),
    ),
    ("todos", re.compile(r"\b(todos?|fixmes?|to-dos?|xxx)\b")),
    (
        "tests",
        re.compile(
            r"\b(run|execute|start|launch|invoke)\b.*\btests?\b|\btests? (command|suite)\b|\bhow\b.*\btest(ed|s|ing)?\b"
        ),
    ),
    (
        "changes",
        re.compile(
            r"\bwhat('s| has| have| is)?( been)? (chang|new\b|happen)|\brecent|\blately\b|\bhistory\b|\bgit log\b"
            r"|\bchangelog\b|\bcommits?\b|\blast (change|week|day|month|release)"
        ),
    ),
    (
        "summary",
        re.compile(
            r"\bsummar|\boverview\b|\bgive me a tour\b|\barchitecture\b|\blayout\b|\bget(ting)? started\b"
            r"|\b(what|describe|explain|introduce|tell me about|understand)\b.{0,24}"
            r"\b(this|the|is)\b.{0,12}\b(repo|repository|project|code ?base|package|library|workspace)\b"
            r"|^what is this\b"
        ),
    ),
    ("problems", re.compile(r"\b(bugs?|smells?|problems?|mistakes?|flaws?|review)\b|\bwrong with\b")),
)
_WHERE = re.compile(
    r"\b(where|find|locate|which|who|search|grep|show|how|defin\w*|usages?|uses?|callers?|explain|what (is|does|are))\b"
)
_CHANGE = re.compile(
    r"^\W*(?:please |can you |could you )?(add|fix|write|create|implement|refactor|rename|remove|delete|change|edit"
    r"|update|make|move|replace|build|generate|rewrite|migrate|convert)\b"
)
_MOST_TERMS = 6
_HEAD, _TAIL = 1200, 400


class Term(msgspec.Struct, frozen=True):
    """A word that matters. ``pattern`` is a regular expression that also finds its other forms."""

    text: str
    pattern: str
    exact: bool


class Question(msgspec.Struct, frozen=True):
    kind: Kind
    prompt: str
    terms: tuple[Term, ...] = ()
    paths: tuple[str, ...] = ()
    wants_change: bool = False


def understand(prompt: str) -> Question:
    """Rules tried in order; what none of them knows is a mixture of reading and searching."""
    if len(prompt) > _HEAD + _TAIL:  # what is asked stands at either end; between them is pasted matter
        prompt = f"{prompt[:_HEAD]}\n{prompt[-_TAIL:]}"
    words = prompt.lower()
    paths = tuple(dict.fromkeys(found.rstrip("./") for found in _PATH.findall(prompt)))[:4]
    terms = _terms(prompt, paths)
    kind = next((kind for kind, rule in _KINDS if rule.search(words)), None)
    exact = any(term.exact for term in terms)
    if kind is None or (kind in ("summary", "changes", "problems") and exact):
        others = [term for term in terms if not any(term.text in path for path in paths)]
        if paths and len(others) <= 1:
            kind = "file"
        elif terms:
            kind = "where" if exact or _WHERE.search(words) else "mixed"
        else:
            kind = kind or "summary"
    return Question(kind, prompt, terms, paths, bool(_CHANGE.match(words)))


def _terms(prompt: str, paths: tuple[str, ...]) -> tuple[Term, ...]:
    found: dict[str, Term] = {}
    rest = prompt
    for match in _QUOTED.finditer(prompt):
        quoted = next(group for group in match.groups() if group)
        if quoted not in paths:
            found.setdefault(quoted.lower(), _exact(quoted.removesuffix("()")))
        rest = rest.replace(match[0], " ")
    for path in paths:
        rest = rest.replace(path, " ")
    named = {name for pair in _NAMED.findall(rest) for name in pair}
    for word in _WORD.findall(rest):
        if (
            (word in named or _IDENTIFIER.fullmatch(word))
            and word.lower() not in _STOP
            and not word.lower().startswith(("todo", "fixme"))
        ):
            found.setdefault(word.lower(), _exact(word))
        elif len(word) > 2 and word.lower() not in _STOP:
            found.setdefault(word.lower(), Term(word.lower(), _stem(word.lower()), False))
    ordered = sorted(found.values(), key=lambda term: not term.exact)  # stable: exact names first, else as asked
    return tuple(ordered[:_MOST_TERMS])


def _exact(text: str) -> Term:
    last = text.rsplit(".", 1)[-1] if _WORD.fullmatch(text) else text
    return Term(last, re.escape(last), True)


def _stem(word: str) -> str:
    """A prefix that the word's other forms share: ``retries`` → ``retr``."""
    for ending, least in (
        ("ization", 5),
        ("isation", 5),
        ("ation", 5),
        ("ies", 4),
        ("ing", 4),
        ("ed", 3),
        ("es", 4),
        ("s", 3),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith("eed"):
            word = word[: -len(ending)]
            break
    if len(word) > 4 and word[-1] in "ey":
        word = word[:-1]
    return re.escape(word)

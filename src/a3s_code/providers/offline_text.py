"""Pieces of Markdown. In: evidence. Out: quotations, list items and sentences.

One rule: whatever is quoted can be found at the line that is named.
Known weakness: the end of a definition is guessed from indentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from a3s_code.providers.offline_evidence import Evidence, Hit

_LONGEST = 110
_FENCES = {
    "py": "python", "js": "javascript", "ts": "typescript", "tsx": "tsx", "go": "go", "rs": "rust", "java": "java",
    "c": "c", "h": "c", "cpp": "cpp", "rb": "ruby", "sh": "bash", "toml": "toml", "yml": "yaml", "yaml": "yaml",
    "json": "json", "sql": "sql",
}  # fmt: skip
_LANGUAGES = {
    "py": "Python", "js": "JavaScript", "ts": "TypeScript", "tsx": "TypeScript", "go": "Go", "rs": "Rust",
    "java": "Java", "c": "C", "cpp": "C++", "cs": "C#", "rb": "Ruby", "php": "PHP", "swift": "Swift", "kt": "Kotlin",
    "md": "Markdown", "rst": "reStructuredText", "sh": "shell", "sql": "SQL", "html": "HTML", "css": "CSS",
}  # fmt: skip


def clip(text: str, limit: int = _LONGEST) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def code(text: str, limit: int = _LONGEST) -> str:
    """Inline code, also for text that holds backticks."""
    text = clip(text, limit)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def item(hit: Hit) -> str:
    return f"- `{hit.path}:{hit.line}` – {code(hit.text)}"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def quotation(found: Evidence, hit: Hit, block: bool, longest: int = 16) -> str:
    """The lines around a hit as a fenced block with line numbers; with ``block`` the definition that starts there."""
    lines = found.files.get(hit.path, {})
    if hit.line not in lines:
        return ""
    start, end = (hit.line, _block_end(lines, hit.line, longest)) if block else (hit.line - 2, hit.line + 3)
    shown = [number for number in range(start, end + 1) if number in lines]
    while shown and not lines[shown[-1]].strip():
        shown.pop()
    width = len(str(shown[-1]))
    body = [f"{number:>{width}}  {clip_line(lines[number])}".rstrip() for number in shown]
    fence = "````" if any("```" in line for line in body) else "```"
    return "\n".join([f"{fence}{_FENCES.get(hit.path.rsplit('.', 1)[-1], '')}", *body, fence])


def clip_line(line: str) -> str:
    line = line.replace("\t", "    ")
    return line if len(line) <= 140 else f"{line[:139]}…"


def _block_end(lines: dict[int, str], start: int, longest: int) -> int:
    margin = _indent(lines[start])
    end = start
    for number in range(start + 1, start + longest):
        if number not in lines:
            break
        line = lines[number]
        if line.strip() and _indent(line) <= margin and not line.strip().startswith((")", "]", "}")):
            break
        end = number
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def languages(paths: Iterable[str]) -> list[tuple[str, int]]:
    """Languages by number of files, most first."""
    seen = Counter(_LANGUAGES[ending] for path in paths if (ending := path.rsplit(".", 1)[-1].lower()) in _LANGUAGES)
    return sorted(seen.items(), key=lambda one: (-one[1], one[0]))


def first_words(lines: dict[int, str]) -> tuple[int, str]:
    """The first sentence of a module's docstring or opening comment, with its line."""
    inside = False
    for number, line in sorted(lines.items()):
        bare = line.strip()
        if not inside and bare.startswith(('"""', "'''", 'r"""')):
            inside = True
            bare = bare.lstrip("r").strip("\"'").strip()
        elif (
            not inside and bare.startswith(("//", "#", "/*", "*")) and not bare.startswith(("#!", "# -*-", "#include"))
        ):
            bare = bare.strip("/#*! ")
        elif not inside and bare:
            return 0, ""
        if bare.strip("\"'- =") and not bare.startswith(("SPDX", "Copyright", "Licensed", "(c)")):
            return number, bare.strip("\"'").split(". ")[0].rstrip(".")
    return 0, ""


def listing(names: Sequence[str], most: int) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown

"""The generated parts of the documentation. In: the code. Out: Markdown between two comments of a page.

One rule: a part is made from the code alone, so `make docs` writes the same bytes on every machine.
Known weakness: what an option or an event is for is said here, in words that nobody checks; that it is said is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from eventnotes import EVENTS
from optionnotes import OPTIONS

from a3s_code import AGENT_EVENT_TYPES_V1, SessionOptions
from a3s_code.api.options import NOT_YET
from a3s_code.core.decide import ORDER, PHASES

ROOT = Path(__file__).parent.parent.parent
PART = re.compile(r"<!-- made from code: (?P<name>\w+) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)
NO_MARKS = str.maketrans({":": ",", ";": ","})  # they mean something to Mermaid
RULES = {
    "limits": "a limit of the run is reached",
    "refusals": "a call is refused: denied, malformed, a duplicate",
    "approvals": "a call waits for a person",
    "tools": "a call has no result",
    "context": "the window is too full",
    "model": "the model has to answer",
}


def phases() -> Iterator[str]:
    """A diagram of the phases, and the table it is drawn from."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    [*] --> idle"
    for phase, row in PHASES.items():
        yield f"    {phase}: {phase}<br/>{row.does.translate(NO_MARKS)}"
    yield "    state next_step <<choice>>"
    most = max((row.then for row in PHASES.values()), key=len)
    yield from (f"    next_step --> {after}" for after in most)
    for phase, row in PHASES.items():
        ways = ("next_step",) if set(row.then) == set(most) else row.then
        yield from (f"    {phase} --> {after}" for after in ways)
    yield "```"
    yield ""
    yield "| phase | reached when | what is done | what may follow |"
    yield "|---|---|---|---|"
    for phase, row in PHASES.items():
        yield f"| `{phase}` | {row.when} | {row.does} | {', '.join(f'`{after}`' for after in row.then)} |"


def order() -> Iterator[str]:
    """The rules in the order in which they are asked."""
    for number, rule in enumerate(ORDER, 1):
        file = rule.__module__.rpartition(".")[2]
        name = file if rule.__name__ == "rule" else rule.__name__
        yield f"{number}. `core/decide/{file}.py`, `{rule.__name__}`: {RULES[name]}"


def events() -> Iterator[str]:
    """The catalogue, in its order."""
    yield "| type | when | payload |"
    yield "|---|---|---|"
    for name in AGENT_EVENT_TYPES_V1:
        when, payload = EVENTS.get(name, ("reserved: not sent by this version", ""))
        yield f"| `{name}` | {when} | {payload} |"


def options() -> Iterator[str]:
    """Every option of this version with its default, a group a table; then those of later versions."""
    for group, members in OPTIONS.items():
        yield f"### {group}"
        yield ""
        yield "| option | default | meaning |"
        yield "|---|---|---|"
        for name, meaning in members.items():
            yield f"| `{name}` | `{getattr(SessionOptions, name)!r}` | {meaning} |"
        yield ""
    yield "### Not in this version"
    yield ""
    yield "A value that asks for something is refused with `SESSION_CONFIGURATION_ERROR`."
    yield ""
    yield "| option | default | belongs to |"
    yield "|---|---|---|"
    for name, feature in NOT_YET.items():
        yield f"| `{name}` | `{getattr(SessionOptions, name)!r}` | {feature} |"


PARTS: dict[str, Callable[[], Iterator[str]]] = {"phases": phases, "order": order, "events": events, "options": options}


def renewed(page: str) -> str:
    """The page with each generated part as it has to be."""

    def part(found: re.Match[str]) -> str:
        text = "\n".join(PARTS[found["name"]]())
        return f"<!-- made from code: {found['name']} -->\n\n{text}\n\n<!-- end -->"

    return PART.sub(part, page)


def main() -> None:
    for path in sorted((ROOT / "docs").glob("*.md")):
        page = path.read_text("utf-8")
        if (new := renewed(page)) != page:
            path.write_text(new, "utf-8")
            print(f"rewrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

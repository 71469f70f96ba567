"""The golden log of this version. In: nothing. Out: its bytes, and what its view comes to.

Run it (``python tests/facts/golden_log.py``) to write ``tests/data/golden-0.1.jsonl`` and ``golden-0.1.view.json``
anew. A released version's files never change: a log written by it must fold to the same conversation for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from factstory import ASK, DENY, Story, a_call, a_question, a_read

from a3s_code.core.codec import Header, decode_header, decode_line, encode, encode_header, verify
from a3s_code.core.content import AttachmentRef, Call, Json, JsonObject, Reasoning, Usage
from a3s_code.core.facts import BudgetDenied, Fact, RunClosed, ToolResulted, UserSaid
from a3s_code.core.facts.runs import Failure
from a3s_code.core.fold import fold_all
from a3s_code.core.history import history
from a3s_code.core.project import usage

DATA = Path(__file__).parent.parent / "data"
LOG = DATA / "golden-0.1.jsonl"
HEADER = Header("golden", "golden", 1_000)


def facts() -> list[Fact]:
    """A session that comes to every kind of fact and, where it can, to every member of it."""
    picture = AttachmentRef("image", "image/png", "ab" * 32, "attachments/abab.png", "shot.png")
    thought = (Reasoning("so", "signed"), Reasoning(redacted="sealed"), Reasoning("hm", field="reasoning_content"))
    story = Story().opened("r1").add(UserSaid("Mend the test.", "prompt", (picture,), "req-0"))
    story.turn(
        *(a_read("c1", "a.py"), a_read("c2", "b.py"), a_call("bash", "c3", ASK, command="pytest")),
        *(
            a_call("bash", "c4", DENY, command="rm -rf /"),
            Call("c5", "edit", {}, raw='{"old', fault="cut"),
            a_question(),
        ),
        text="I look first. äöü 北京",
        reasoning=thought,
        usage=Usage(100, 20, 120, 40, 10),
        model="golden-model",
    )
    story.result("c4", outcome="denied").result("c5", outcome="error").started("c1", "c2")
    story.result("c2", output="b" * 3_000)
    story.add(ToolResulted("c1", "read", "a", 0, "ok", {"lines": [1, 2.5, None]}, 12, (picture,)))
    story.judged("c3", ASK, command="pytest -q").confirmed("c3", True, "go on").started("c3", rerun="unsafe")
    story.resumed("r2").result("c3", outcome="error", output="1 failed").answered("q1", "the second").result("q1")
    story.steer("Only the second test.").turn(text="It is the ", finish="length", usage=Usage(1, 2, 3, estimated=True))
    story.goes_on().turn(text="second.").add(RunClosed("completed", 2))
    story.prompt("What was that?", "r3", side=True).turn(text="A test.").add(RunClosed("completed", 1))
    story.compacted(5, "The tests were looked at.", ("c2",)).unknown()
    story.prompt("And now?", "r4").turn(a_read("d1"), a_read("d2"), a_read("d3")).ran("d1", "d2")
    story.add(BudgetDenied("d3", 2, 2)).result("d3", outcome="cancelled")
    story.add(RunClosed("completed", 2, stop_reason="tool_budget"))
    story.prompt("Again", "r5").add(RunClosed("failed", 0, Failure("LLM_ERROR", "The provider is gone")))
    story.prompt("Still there?", "r6").turn(a_call("bash", "e1", ASK, command="ls")).confirmed("e1", False, "no")
    return story.facts


def lines(told: Sequence[Fact]) -> bytes:
    """The log as a file holds it."""
    out, seal = encode_header(HEADER), ""
    for fact in told:
        line, seal = encode(fact, seal)
        out += line
    return out


def read(log: bytes) -> list[Fact]:
    """The facts of a log whose seals are whole."""
    first, *rest = log.splitlines()
    decode_header(first)
    told, seal = [], ""
    for raw in rest:
        line = decode_line(raw)
        assert verify(line, seal), raw
        told.append(line.fact)
        seal = line.sum
    return told


def summary(told: Sequence[Fact]) -> JsonObject:
    """What the view of a log comes to: what a host or a next step could see of it."""
    view = fold_all(told)
    calls: list[Json] = [
        {"id": state.call.id, "attempts": state.attempts, "approved": state.approved, "open": state.open}
        for state in view.turn
    ]
    return {
        "seq": view.seq,
        "history": list(history(view)),
        "messages": len(view.messages),
        "generation": view.generation,
        "used": view.used,
        "rounds": view.rounds,
        "turns": view.turns,
        "turn": calls,
        "run": view.run.id if view.run else None,
        "closed": [view.closed.run.id, view.closed.status, view.closed.stop_reason] if view.closed else None,
        "usage": usage(view.run.usage) if view.run else None,
    }


def view_of(log: Path) -> Path:
    """Where the summary of a golden log is kept."""
    return log.with_name(log.stem + ".view.json")


def write() -> None:
    DATA.mkdir(exist_ok=True)
    LOG.write_bytes(lines(facts()))
    shown = msgspec.json.encode(summary(read(LOG.read_bytes())))
    view_of(LOG).write_bytes(msgspec.json.format(shown, indent=2) + b"\n")


if __name__ == "__main__":
    write()

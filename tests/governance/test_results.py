"""Evidence, projection and artifacts (tools.md §6; case C16)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from governed import asking, data, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from a3s_code import (
    Agent,
    ArtifactStoreLimits,
    CodeError,
    DefaultSecurityProvider,
    PermissionPolicy,
    SessionConfigurationError,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolResultTransformPolicy,
    tool,
)
from a3s_code.core.evidence import EVIDENCE, with_evidence
from a3s_code.core.projection import projected
from a3s_code.testing import ScriptedModel, calls

KIB = 1024
SMALL = ToolResultTransformPolicy(max_output_bytes=1024, head_bytes=400, tail_bytes=100)
FOLDING = ToolResultTransformPolicy(1024, 400, 100, True, 3, 8)
KEYS = (
    "schema original_bytes projected_bytes byte_delta original_tokens projected_tokens token_delta token_estimator "
    "source_digest projection_digest repeat_key loss_mode transform_algorithm content_ref"
).split()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def holds(evidence: Any, name: str, original: str, shown: str) -> bool:
    """Whether everything that the evidence says is so."""
    before, after = len(original.encode()), len(shown.encode())
    return bool(
        list(evidence) == KEYS
        and (evidence["original_bytes"], evidence["projected_bytes"]) == (before, after)
        and evidence["byte_delta"] == after - before
        and evidence["original_tokens"] == (before + 3) // 4
        and evidence["projected_tokens"] == (after + 3) // 4
        and evidence["token_delta"] == (after + 3) // 4 - (before + 3) // 4
        and evidence["source_digest"] == f"sha256:{sha256(original)}"
        and evidence["projection_digest"] == f"sha256:{sha256(shown)}"
        and evidence["repeat_key"] == sha256(f"{name}\0{original}")
        and (evidence["loss_mode"] == "none") == (original == shown)
    )


def test_the_policies_of_the_documents() -> None:
    """``conservative`` is the default; ``context_efficient`` has the documented numbers."""
    assert (
        ToolResultTransformPolicy.conservative()
        == ToolResultTransformPolicy()
        == ToolResultTransformPolicy(102400, 102400, 0, False, 3, 0)
    )
    assert ToolResultTransformPolicy.context_efficient() == ToolResultTransformPolicy(102400, 65536, 32768, True, 3, 32)


@pytest.mark.parametrize(
    "policy",
    [
        {"max_output_bytes": 1023, "head_bytes": 10},
        {"max_output_bytes": 102401},
        {"max_output_bytes": 2048, "head_bytes": 1536, "tail_bytes": 1},
        {"fold_repeated_lines": True},
        {"head_bytes": -1},
        {"repeated_line_threshold": 1},
        {"lines": 3},
    ],
)
async def test_policies_that_can_not_be_kept(agent: Agent, workspace: Path, policy: dict[str, Any]) -> None:
    """A policy that is out of bounds is refused when the session is made, by the option's name."""
    with pytest.raises(SessionConfigurationError, match="tool_result_transform_policy"):
        await opened(agent, workspace, tool_result_transform_policy=policy)


TEXTS = st.lists(st.sampled_from(["a", "é", "€", "😀", "\n", "same line\n", "x" * 97, " "]), max_size=400).map("".join)


@given(text=TEXTS, policy=st.sampled_from([ToolResultTransformPolicy(), SMALL, FOLDING]))
@settings(max_examples=200, deadline=None)
def test_a_projection_is_bounded_and_its_evidence_true(text: str, policy: ToolResultTransformPolicy) -> None:
    """Whatever the text: the projection keeps to the bound, is valid text, and every size and digest can be checked."""
    found = projected("t", text, policy, 10**9)
    evidence: Any = with_evidence("t", found.text, {EVIDENCE: found.evidence} if found.evidence else {})[EVIDENCE]
    assert holds(evidence, "t", text, found.text)
    assert len(found.text.encode()) <= policy.max_output_bytes
    assert (found.whole is None) == (found.text == text)
    if found.whole is None:
        assert evidence["content_ref"] == f"inline:sha256:{sha256(text)}"
    else:
        assert found.whole == text
        assert found.uri == evidence["content_ref"] == f"a3s://tool-output/t/{sha256(text)[:32]}"


@given(text=TEXTS)
@settings(max_examples=100, deadline=None)
def test_folding_loses_no_line_that_was_said_once(text: str) -> None:
    """Folded lines can be unfolded again."""
    folded = projected("t", text, ToolResultTransformPolicy(102400, 50000, 50000, True, 3, 0), 10**9).text
    unfolded: list[str] = []
    for line in folded.split("\n"):
        words = line.split()
        if line.startswith("[previous line repeated "):
            unfolded += [unfolded[-1]] * int(words[3])
        else:
            unfolded.append(line)
    assert "\n".join(unfolded) == text


@pytest.mark.parametrize(
    ("text", "policy", "mode", "shown"),
    [
        ("x" * 2000, SMALL, "head_tail", "bytes omitted; full output: a3s://tool-output/t/"),
        ("x" * 2000, ToolResultTransformPolicy(1024, 500), "bounded_preview", "[… 1500 bytes omitted"),
        ("a\na\na\na\nb", FOLDING, "deterministic_transform", "a\n[previous line repeated 3 more times]\nb"),
        ("a\na\nb", FOLDING, "none", "a\na\nb"),
        ("a\n" * 9 + "x" * 2000, FOLDING, "composite", "[previous line repeated 8 more times]\nxxx"),
    ],
)
def test_what_is_done_to_a_text(text: str, policy: ToolResultTransformPolicy, mode: str, shown: str) -> None:
    """Folding runs when it is on, cutting when the text is still too long, and the evidence says which."""
    found = projected("t", text, policy, 10**9)
    assert (found.evidence or {}).get("loss_mode", "none") == mode
    assert shown in found.text


def test_the_default_appends_its_mark() -> None:
    """The default shows exactly the first 100 KiB, and then the mark."""
    found = projected("t", "x" * 102_401, ToolResultTransformPolicy(), 10**9)
    head, mark = found.text[:102_400], found.text[102_400:]
    assert head == "x" * 102_400
    assert mark.startswith("\n[… 1 bytes omitted; full output: a3s://tool-output/t/")


def test_a_long_array_is_sampled_and_stays_json() -> None:
    """First and last member are there, evenly spaced ones between, their bytes untouched; fewer when they are long."""
    items = [{"n": n, "f": 1.50, "big": 10**30} for n in range(1000)]
    found = projected("t", json.dumps(items), FOLDING, 10**9)
    sampled = json.loads(found.text)
    assert (sampled["a3s_sampled"], sampled["total_items"]) == (True, 1000)
    assert [item["n"] for item in sampled["items"]] == [0, 142, 285, 428, 570, 713, 856, 999]
    assert sampled["items"][0] == items[0]
    assert '"f": 1.5,' in found.text
    assert (found.evidence or {})["loss_mode"] == "deterministic_transform"
    long = projected("t", json.dumps(["x" * 300 for _ in range(1000)]), FOLDING, 10**9)
    assert len(json.loads(long.text)["items"]) == 2
    longer = projected("t", json.dumps(["x" * 3000 for _ in range(10)]), FOLDING, 10**9)
    assert (longer.evidence or {})["loss_mode"] == "head_tail"


async def test_every_result_has_evidence(agent: Agent, workspace: Path) -> None:
    """Results that ran, failed, were refused, rejected, unknown or malformed all carry it, in events and for hosts."""
    wanted = calls(
        ("ls", {}),
        ("read", {"file_path": "nothing"}),
        ("ls", {"wrong": 1}),
        ("nothing", {}),
        ("bash", {"command": "true"}),
        ("write", {"file_path": "../out", "content": ""}),
    )
    policy = PermissionPolicy(deny=["bash"], default_decision="allow")
    session = await opened(agent, workspace, wanted, "done", permission_policy=policy)
    events = [event async for event in session.stream("go") if event.type == "tool_end"]
    assert len(events) == 6
    for event in events:
        payload: Any = event.payload
        assert holds(payload["metadata"][EVIDENCE], payload["name"], payload["output"], payload["output"])
    direct = await session.tool_async("ls", {"path": "nothing"})
    assert direct.error_kind == "not_found"
    assert holds(direct.metadata[EVIDENCE], "ls", direct.output, direct.output)


def lines(count: int, ctx: ToolContext) -> ToolOutput:
    """Prints lines."""
    return ToolOutput("\n".join(f"line {n}" for n in range(count)), metadata={EVIDENCE: "mine"})


async def test_a_long_output_is_shortened_for_everybody_and_kept(agent: Agent, workspace: Path) -> None:
    """Model, fact, event and host see the same projection; ``get_artifact`` has the whole, with its digest. What a
    tool says of its own evidence counts for nothing."""
    model = ScriptedModel([calls(("lines", {"count": 20_000})), "done"])
    session = await opened(agent, workspace, llm_client=model, tools=[tool(lines)])
    events = [event async for event in session.stream("go") if event.type == "tool_end"]
    (result,) = data(workspace, "tool.result")
    whole = "\n".join(f"line {n}" for n in range(20_000))
    evidence = result.metadata[EVIDENCE]
    assert holds(evidence, "lines", whole, result.output)
    assert events[0].output == result.output == str(session.history()[-2]["content"])
    assert len(result.output.encode()) < 103 * KIB
    artifact = session.get_artifact(evidence["content_ref"])
    assert artifact == {
        "uri": evidence["content_ref"],
        "tool": "lines",
        "media_type": "text/plain; charset=utf-8",
        "bytes": len(whole),
        "sha256": sha256(whole),
        "content": whole,
    }
    assert await session.get_artifact_async(evidence["content_ref"]) == artifact
    host = await session.tool_async("lines", {"count": 20_000})
    assert (host.output, host.metadata[EVIDENCE]) == (result.output, evidence)


async def test_helpers_with_plain_values_get_all_of_it(agent: Agent, workspace: Path) -> None:
    """``bash``, ``grep``, ``glob`` and a numbered ``read_file`` are not shortened."""
    (workspace / "long.txt").write_text("".join(f"needle {n} {'x' * 60}\n" for n in range(2000)))
    policy = {"max_output_bytes": 1024, "head_bytes": 100}
    session = await opened(agent, workspace, tool_result_transform_policy=policy)
    assert len(await session.bash_async("cat long.txt")) == (workspace / "long.txt").stat().st_size
    assert (await session.grep_async("needle")).endswith("2000 match(es) in 1 file(s)")
    for n in range(100):
        (workspace / f"a-file-with-a-long-name-{n}").write_text("")
    assert len(await session.glob_async("a-file*")) == 100
    assert (await session.read_file_async("long.txt", numbered=True)).count("\n") > 1000
    assert "bytes omitted" in (await session.tool_async("bash", {"command": "cat long.txt"})).output


async def test_the_oldest_artifacts_go_first(agent: Agent, workspace: Path) -> None:
    """Both limits hold, an artifact over ``max_bytes`` is not kept and its result says so."""
    limits = ArtifactStoreLimits(max_artifacts=2, max_bytes=5000)
    policy = {"max_output_bytes": 1024, "head_bytes": 100}
    session = await opened(
        agent, workspace, tools=[tool(lines)], artifact_store_limits=limits, tool_result_transform_policy=policy
    )
    refs = []
    for count in (150, 160, 170, 170, 300, 600):
        result = await session.tool_async("lines", {"count": count})
        evidence: Any = result.metadata[EVIDENCE]
        refs.append(evidence["content_ref"])
    assert [session.get_artifact(ref) is not None for ref in refs[:5]] == [False, False, True, True, True]
    assert refs[5] is None
    assert "the full output was too large to keep" in result.output
    await session.tool_async("lines", {"count": 500})
    assert [session.get_artifact(ref) for ref in refs[:5]] == [None] * 5


@pytest.mark.parametrize("uri", ["", "a3s://tool-output/x", "a3s://tool-output/x/../y", "http://x", "inline:sha256:00"])
async def test_what_is_no_uri(agent: Agent, workspace: Path, uri: str) -> None:
    """A malformed URI is ``INVALID_REQUEST``; a well-formed one that nobody knows is ``None``."""
    session = await opened(agent, workspace)
    with pytest.raises(CodeError) as refused:
        session.get_artifact(uri)
    assert refused.value.code == "INVALID_REQUEST"
    assert session.get_artifact(f"a3s://tool-output/bash/{'0' * 32}") is None


async def test_a_flood_is_bounded_everywhere(agent: Agent, workspace: Path) -> None:
    """Two megabytes of undecodable bytes become one bounded result, once, and the run goes on (C16)."""
    (workspace / "blob").write_bytes(bytes(range(128, 256)) * 16 * KIB)
    session = await opened(agent, workspace, calls(("bash", {"command": "cat blob"})), "done", **asking())
    assert (await session.send_async("go")).text == "done"
    (result,) = data(workspace, "tool.result")
    assert len(result.output.encode()) < 103 * KIB
    assert session.get_artifact(result.metadata[EVIDENCE]["content_ref"]) is not None


async def test_a_refused_helper_says_all_of_it(agent: Agent, workspace: Path) -> None:
    """``ToolError`` of a helper carries the result with its evidence."""
    session = await opened(agent, workspace)
    with pytest.raises(ToolError) as refused:
        await session.grep_async("(")
    assert refused.value.result is not None
    assert EVIDENCE in refused.value.result.metadata


async def test_a_file_change_leads_to_its_whole_texts(agent: Agent, workspace: Path) -> None:
    """What ``file_change`` has only the beginning of is kept, sanitised, under the URIs it names (§6.4)."""
    before = "".join(f"line {n}\n" for n in range(2000))
    (workspace / "a").write_text(before)
    (workspace / "small").write_text("x\n")
    session = await opened(agent, workspace, security_provider=DefaultSecurityProvider())
    after = "password: hunter22\n" + before.replace("line", "row")
    change: Any = (await session.write_file_async("a", after)).metadata["file_change"]
    assert change["diff_truncated"]
    assert sorted(change["artifacts"]) == ["after", "before", "diff"]
    kept = {name: str((session.get_artifact(uri) or {})["content"]) for name, uri in change["artifacts"].items()}
    assert kept["before"] == before
    assert kept["after"] == after.replace("hunter22", "[redacted]")
    assert kept["diff"].count("\n+row ") == 2000
    edited: Any = (await session.edit_file_async("a", "row 7\n", "row seven\n")).metadata["file_change"]
    assert sorted(edited["artifacts"]) == ["after", "before"]
    small: Any = (await session.write_file_async("small", "y\n")).metadata["file_change"]
    assert "artifacts" not in small


async def test_artifacts_of_a_tool_must_be_texts(agent: Agent, workspace: Path) -> None:
    """A tool of the host that gives anything else has failed; the session goes on."""

    def wrong() -> ToolOutput:
        """Gives numbers."""
        return ToolOutput("x", artifacts={"a": 1})  # type: ignore[dict-item]  # a host's mistake

    session = await opened(agent, workspace, tools=[tool(wrong)])
    result = await session.tool_async("wrong")
    assert (result.error_kind, "artifacts are not all str" in result.output) == ("internal", True)

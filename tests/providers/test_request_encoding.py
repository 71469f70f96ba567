"""What providers are sent (providers.md, *Usage and prompt caching*; cases A15, A16, A24, B02, B15)."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from a3s_code.core.chain import Chain
from a3s_code.core.content import (
    AssistantMessage,
    AttachmentRef,
    Call,
    Message,
    Reasoning,
    ToolMessage,
    UserMessage,
)
from a3s_code.ports.model import ModelRequest, ToolSpec
from a3s_code.providers.anthropic import encode as anthropic
from a3s_code.providers.openai import encode as openai
from a3s_code.stores.blobs import FileBlobs

TOOLS = (ToolSpec("write", "Write", {"type": "object"}), ToolSpec("read", "Read", {"type": "object"}))
IMAGE = AttachmentRef("image", "image/png", "ab" * 32, "a.png", "a.png")
NOTE = AttachmentRef("text", "text/plain", "cd" * 32, "n.txt", "n.txt")
MARK = {"type": "ephemeral"}


def files(ref: AttachmentRef) -> bytes:
    if ref.path == "gone":
        raise FileNotFoundError(ref.path)
    return b"\x89PNG" if ref.kind == "image" else "nöte".encode()


def request(messages: Sequence[Message], **options: Any) -> ModelRequest:
    return ModelRequest("m", messages, **({"load": files} | options))


def as_openai(messages: Sequence[Message], **options: Any) -> list[dict[str, Any]]:
    body = json.loads(openai.encode(request(messages, **options), model="m"))
    assert isinstance(body["messages"], list)
    return body["messages"]


def as_anthropic(messages: Sequence[Message], **options: Any) -> list[dict[str, Any]]:
    body = json.loads(anthropic.encode(request(messages, **options), model="m"))
    assert isinstance(body["messages"], list)
    return body["messages"]


def rounds(count: int) -> list[Message]:
    """A conversation of ``count`` turns, each with two calls."""
    messages: list[Message] = []
    for i in range(count):
        calls = (Call(f"a{i}", "read", {"i": i}), Call(f"b{i}", "read", {}))
        messages += [UserMessage(f"q{i}"), AssistantMessage("look", calls=calls)]
        messages += [
            ToolMessage(f"a{i}", "read", "A"),
            ToolMessage(f"b{i}", "read", "B"),
            AssistantMessage(f"done {i}"),
        ]
    return messages


@pytest.mark.parametrize("family", [openai, anthropic])
def test_conversations_share_what_their_requests_begin_with(family: Any) -> None:
    """The tools' schemas are kept once for all sessions with the same settings; a change of any of them is sent."""
    said = [UserMessage("q")]
    memos: list[dict[str, Any]] = [{}, {}]
    bodies = {family.encode(request(said, memo=memo, system="s", tools=TOOLS), model="m") for memo in memos}
    first, second = (next(iter(memo.values())) for memo in memos)
    assert len(bodies) == 1
    assert first._head[1] is second._head[1]
    family.encode(request(said, memo={}, system="other", tools=TOOLS), model="m")
    for changed in ({"temperature": 0.5}, {"tools": TOOLS[:1]}, {"extra": {"seed": 1}}, {"system": "t"}):
        body = family.encode(request(said, memo=memos[0], **{"system": "s", "tools": TOOLS} | changed), model="m")
        assert body not in bodies
    assert family.encode(request(said, memo=memos[0], system="s", tools=TOOLS), model="m") in bodies


def test_each_message_is_encoded_once() -> None:
    """Over a growing conversation the work is the number of messages, not its square, in both families."""
    memo: dict[str, Any] = {}
    chain: Chain[Message] = Chain()
    for message in rounds(40):
        chain = chain.append(message)
        for encode in (openai.encode, anthropic.encode):
            encode(request(chain, memo=memo, system="s", tools=TOOLS), model="m")
    assert memo["openai"].encoded == len(chain)
    assert memo["anthropic"].encoded == len(chain)


def test_what_is_kept_equals_what_is_made_anew() -> None:
    """At every length of a conversation, bytes from kept messages are those of a fresh encoder."""
    memo: dict[str, Any] = {}
    messages = rounds(6)
    for length in range(1, len(messages) + 1):
        for encode in (openai.encode, anthropic.encode):
            kept = encode(request(messages[:length], memo=memo, system="s", tools=TOOLS), model="m")
            assert kept == encode(request(messages[:length], system="s", tools=TOOLS), model="m")


def test_the_openai_prefix_stays_byte_identical() -> None:
    """Each body without its end is the beginning of the next one, so that provider caches hit (B15)."""
    memo: dict[str, Any] = {}
    before = b""
    messages = rounds(5)
    lengths = [i + 1 for i, m in enumerate(messages) if isinstance(m, UserMessage) or getattr(m, "call", "")[:1] == "b"]
    for length in lengths:
        body = openai.encode(request(messages[:length], memo=memo, system="s", tools=TOOLS, temperature=0.5), model="m")
        assert body.startswith(before)
        before = body[:-2]
    assert len(lengths) == 10


@pytest.mark.parametrize("encode", [openai.encode, anthropic.encode])
def test_a_changed_history_is_encoded_from_the_change_on(encode: Any) -> None:
    """A message that was taken out, changed or compacted away is never sent from what was kept."""
    memo: dict[str, Any] = {}
    first = rounds(6)
    encode(request(first, memo=memo), model="m")
    kept = next(iter(memo.values()))
    for changed in (
        [*first[:26], UserMessage("new"), *first[27:]],
        first[3:],
        [*first[:12], *first[13:]],
        first[:7],
        [],
    ):
        again = encode(request(changed, memo=memo), model="m")
        assert again == encode(request(changed), model="m")
    encode(request(first, memo=memo), model="m")
    before = kept.encoded
    encode(request([*first[:26], UserMessage("other"), *first[27:]], memo=memo), model="m")
    assert kept.encoded - before <= 10
    encode(request(first, memo=memo, generation=2), model="m")
    assert encode(request(first, memo=memo, generation=2), model="m") == encode(request(first), model="m")


@pytest.mark.parametrize("encode", [openai.encode, anthropic.encode])
def test_a_changed_head_is_sent(encode: Any) -> None:
    """Another system prompt, tool list, temperature, limit or extra member is in the next request; equal ones cost
    nothing and give the same bytes in any order of tools."""
    memo: dict[str, Any] = {}
    messages = [UserMessage("q")]

    def body(**options: Any) -> Any:
        return json.loads(encode(request(messages, memo=memo, **options), model="m"))

    assert "tools" not in body()
    assert len(body(tools=TOOLS)["tools"]) == 2
    assert body(temperature=0.0)["temperature"] == 0.0
    assert body(max_output_tokens=7)["max_tokens"] == 7
    assert body(extra={"top_p": 0.5, "messages": [], "stream": False})["stream"] is True
    assert body(extra={"top_p": 0.5})["top_p"] == 0.5
    assert "top_p" not in body()
    assert encode(request(messages, tools=TOOLS), model="m") == encode(request(messages, tools=TOOLS[::-1]), model="m")


def test_anthropic_marks_system_tools_and_the_last_message() -> None:
    """Cache marks stand on the system prompt, the last tool and the last block, and nowhere else."""
    memo: dict[str, Any] = {}
    for length in (1, 4, 6, 9):
        encoded = anthropic.encode(request(rounds(2)[:length], memo=memo, system="s", tools=TOOLS), model="m")
        body = json.loads(encoded)
        assert body["system"] == [{"type": "text", "text": "s", "cache_control": MARK}]
        assert body["tools"][-1]["cache_control"] == MARK
        assert body["messages"][-1]["content"][-1]["cache_control"] == MARK
        assert encoded.count(b"cache_control") == 3
    thinking = AssistantMessage("", (Reasoning("t", "s"),), (Call("a", "read", {}),))
    assert b"cache_control" not in json.dumps(as_anthropic([UserMessage("q"), thinking])[1]).encode()


def test_anthropic_results_and_the_next_prompt_are_one_message() -> None:
    """Roles alternate: consecutive results and the user's text are merged."""
    calls = (Call("a", "read", {"p": 1}), Call("b", "read", {}))
    messages: list[Message] = [
        UserMessage("q"),
        AssistantMessage("", calls=calls),
        ToolMessage("a", "read", "A"),
        ToolMessage("b", "read", "boom", is_error=True),
        UserMessage("next"),
    ]
    user, assistant, merged = as_anthropic(messages)
    assert [user["role"], assistant["role"], merged["role"]] == ["user", "assistant", "user"]
    assert assistant["content"] == [
        {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
        {"type": "tool_use", "id": "b", "name": "read", "input": {}},
    ]
    assert merged["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "A"}]},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "boom"}],
            "is_error": True,
        },
        {"type": "text", "text": "next", "cache_control": MARK},
    ]


def test_no_empty_block_is_sent() -> None:
    """An interrupted answer without text, an empty output and a blank prompt give no empty text (A24, B24)."""
    messages: list[Message] = [
        UserMessage("q"),
        AssistantMessage(" \n", (Reasoning("t", "s"),)),
        AssistantMessage("", calls=(Call("a", "read", {}),)),
        ToolMessage("a", "read", ""),
        UserMessage("  "),
    ]
    blocks = [block for message in as_anthropic(messages) for block in message["content"]]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_result", "text"]
    assert "content" not in blocks[2]
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    assert [message["role"] for message in as_openai(messages)] == ["user", "assistant", "tool", "user"]
    assert as_openai(messages)[1]["content"] is None


def test_malformed_arguments_are_sent_as_an_empty_object() -> None:
    """The copy for the provider is valid, whatever the model wrote, its tool's name included (A15)."""
    call = Call("a:1", "ba sh;", {}, raw='{"p": "a', fault="…")
    messages: list[Message] = [
        UserMessage("q"),
        AssistantMessage("", calls=(call,)),
        ToolMessage("a:1", "bash", "fault", True),
    ]
    function = as_openai(messages)[1]["tool_calls"][0]["function"]
    assert function == {"name": "ba_sh_", "arguments": "{}"}
    _, assistant, user = as_anthropic(messages)
    assert assistant["content"][0] | {"cache_control": None} == {
        "type": "tool_use",
        "id": "a_1",
        "name": "ba_sh_",
        "input": {},
        "cache_control": None,
    }
    assert user["content"][0]["tool_use_id"] == "a_1"


def test_reasoning_goes_back_as_it_came() -> None:
    """The OpenAI member it came in, even empty; Anthropic's signed and sealed blocks; nothing to the other (A16)."""
    thoughts = (
        Reasoning("r", field="reasoning_content"),
        Reasoning("t", "sig"),
        Reasoning(redacted="x"),
        Reasoning("u"),
    )
    messages: list[Message] = [UserMessage("q"), AssistantMessage("a", thoughts)]
    assert as_openai(messages)[1] == {"role": "assistant", "content": "a", "reasoning_content": "r"}
    assert as_openai([UserMessage("q"), AssistantMessage("a", (Reasoning(field="reasoning"),))])[1]["reasoning"] == ""
    assert as_anthropic(messages)[1]["content"] == [
        {"type": "thinking", "thinking": "t", "signature": "sig"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "a", "cache_control": MARK},
    ]


@pytest.mark.parametrize("as_family", [as_openai, as_anthropic])
def test_orphans_are_never_sent(as_family: Any) -> None:
    """A result without its call, or a second one, is dropped; a call without its result gets one (B02)."""
    calls = (Call("a", "read", {}), Call("b", "read", {}))
    messages: list[Message] = [
        ToolMessage("gone", "read", "orphan"),
        UserMessage("q"),
        AssistantMessage("", calls=calls),
        ToolMessage("a", "read", "A"),
        ToolMessage("a", "read", "again"),
    ]
    memo: dict[str, Any] = {}
    sent = json.dumps(as_family(messages, memo=memo))
    assert "orphan" not in sent
    assert "again" not in sent
    assert sent.count("cancelled: this call has no result") == 1
    with_result = json.dumps(as_family([*messages, ToolMessage("b", "read", "B")], memo=memo))
    assert "cancelled" not in with_result
    assert '"B"' in with_result
    sent = json.dumps(as_family([*messages, UserMessage("next")], memo=memo))
    assert sent.index("cancelled: this call has no result") < sent.index("next")


def test_images_are_real_image_parts() -> None:
    """Images of prompts and results are sent as images, files as text, and missing ones are named."""
    data = base64.b64encode(b"\x89PNG").decode()
    gone = AttachmentRef("image", "image/png", "ef" * 32, "gone", "old.png")
    messages: list[Message] = [
        UserMessage("see", (IMAGE, NOTE, gone)),
        AssistantMessage("", calls=(Call("a", "read", {}), Call("b", "read", {}))),
        ToolMessage("a", "read", "A", attachments=(IMAGE,)),
        ToolMessage("b", "read", "B"),
    ]
    sent = as_openai(messages)
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    assert sent[0]["content"] == [
        {"type": "text", "text": "see"},
        picture,
        {"type": "text", "text": "[file n.txt]\nnöte"},
        {"type": "text", "text": "[image old.png is not available any more]"},
    ]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[4]["content"][1] == picture
    user, _, results = as_anthropic(messages)
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    assert user["content"][0] == block
    assert results["content"][0]["content"] == [{"type": "text", "text": "A"}, block]
    blind = json.loads(openai.encode(request(messages), model="m", images=False))
    assert "base64" not in json.dumps(blind)
    assert "[image a.png left out: this model takes no images]" in json.dumps(blind)


@pytest.mark.parametrize("as_family", [as_openai, as_anthropic])
def test_a_lone_surrogate_does_not_make_a_session_unusable(as_family: Any) -> None:
    """Text that is no UTF-8 (a file name) is sent with a replacement instead of failing every request."""
    sent = as_family([UserMessage("a\udcffb")])
    assert "a?b" in json.dumps(sent)


def test_anthropic_begins_with_a_user_message() -> None:
    """A history that starts with an answer gets a line before it, as the wire demands."""
    assert [message["role"] for message in as_anthropic([AssistantMessage("a"), UserMessage("q")])] == [
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("fault", ["gone", "changed"])
def test_a_file_beside_the_log_that_is_gone_or_changed_ends_no_conversation(tmp_path: Path, fault: str) -> None:
    """On a machine that has the log and not the attachments, the model is told so, with every later request."""
    blobs = FileBlobs(str(tmp_path))
    ref = blobs.put(b"remember", "text", "text/plain", "n.txt")
    assert as_openai([UserMessage("see", (ref,))], load=blobs.load)[0]["content"][1]["text"] == "[file n.txt]\nremember"
    path = tmp_path / ref.path
    path.unlink() if fault == "gone" else path.write_bytes(b"forget")
    for sent in (as_openai, as_anthropic):
        parts = sent([UserMessage("see", (ref,))], load=blobs.load)[0]["content"]
        assert sorted(part["text"] for part in parts) == ["[text n.txt is not available any more]", "see"]

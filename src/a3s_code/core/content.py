"""What a conversation is made of. In: nothing. Out: frozen values shared by facts, requests and providers.

One rule: these are our own words; no provider's wire shape appears here.
Known weakness: attachments are named by digest and file, so their bytes must be loaded apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007  strings inside
else:
    Json: TypeAlias = Any  # msgspec takes no recursive alias; what a JSON decoder gives is JSON anyway
JsonObject: TypeAlias = dict[str, Json]

Decision: TypeAlias = Literal["allow", "ask", "deny"]


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The permission decision on one call. ``kind`` is the error kind that a ``deny`` is reported under.

    ``rules`` is the list that decided (``deny``, ``ask``, ``allow``, ``default``; empty when no policy did), ``rule``
    the rule as it was written, ``subject`` what it was matched with. ``scope`` and ``risk`` are what a tool that
    asks by itself says of the call.
    """

    decision: Decision
    reason: str = ""
    kind: str = ""
    rules: str = ""
    rule: str | None = None
    subject: str = ""
    scope: str = ""
    risk: str = ""

    def permission(self) -> JsonObject:
        """``metadata["permission"]`` of a result and of a confirmation (tools.md §5.1); empty without a policy."""
        if not self.rules:
            return {}
        found: JsonObject = {"decision": self.decision, "list": self.rules, "rule": self.rule}
        return {"permission": found | {"subject": self.subject}}


ALLOW = Verdict("allow")


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call of a model turn.

    ``parallel`` says that it is read-only and may run beside its neighbours. When the model's arguments are no
    JSON object, ``args`` is empty, ``raw`` keeps the text as it came and ``fault`` says what is wrong with it.
    """

    id: str
    name: str
    args: JsonObject
    verdict: Verdict = ALLOW
    parallel: bool = False
    raw: str | None = None
    fault: str | None = None


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True):
    """One block of reasoning. ``signature`` and ``redacted`` go back to Anthropic as they came; ``field`` is the
    member an OpenAI-compatible provider sent it in (``reasoning_content`` or ``reasoning``)."""

    text: str = ""
    signature: str = ""
    redacted: str = ""
    field: str = ""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one or more model calls. ``prompt_tokens`` counts cached ones too; ``estimated`` marks a guess."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.estimated or other.estimated,
        )


class AttachmentRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes kept beside the log: ``path`` is a file under ``.a3s/attachments/``, named by its digest."""

    kind: Literal["image", "text"]
    media_type: str
    sha256: str
    path: str
    name: str = ""


class UserMessage(msgspec.Struct, frozen=True, tag="user", omit_defaults=True):
    text: str
    attachments: tuple[AttachmentRef, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant", omit_defaults=True):
    text: str
    reasoning: tuple[Reasoning, ...] = ()
    calls: tuple[Call, ...] = ()


class ToolMessage(msgspec.Struct, frozen=True, tag="tool", omit_defaults=True):
    """The one result of the call ``call``."""

    call: str
    name: str
    output: str
    is_error: bool = False
    attachments: tuple[AttachmentRef, ...] = ()


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

"""Who answers an ``ask`` (api.md, *Governance*). In: nothing. Out: ConfirmationPolicy.

One rule: without a policy nobody answers, and an ``ask`` is refused at once.
A lane of ``yolo_lanes`` is approved whoever asks: the permission policy, the tool itself or a guarded path.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from a3s_code.core.content import ALLOW, Verdict

QUERY_LANE = frozenset({"read", "ls", "search", "web_fetch", "web_search"})


class ConfirmationPolicy(msgspec.Struct, frozen=True):
    """``enabled`` parks every ``ask`` for the host; ``False`` approves them all.

    ``default_timeout_ms`` and ``timeout_action`` are for calls that can't park; ``yolo_lanes`` (``query``,
    ``execute``) are approved without asking.
    """

    enabled: bool = True
    default_timeout_ms: Annotated[int, msgspec.Meta(ge=0)] = 60_000
    timeout_action: Literal["reject", "auto_approve"] = "reject"
    yolo_lanes: tuple[Literal["control", "query", "execute", "generate"], ...] = ()


def lane_of(tool: str) -> Literal["query", "execute"]:
    """The lane of a tool (tools.md §2.2)."""
    return "query" if tool in QUERY_LANE else "execute"


def answerable(policy: ConfirmationPolicy | None, tool: str, verdict: Verdict) -> Verdict:
    """What an ``ask`` comes to: it stays one when somebody answers, else it is approved or refused at once."""
    if verdict.decision != "ask":
        return verdict
    if policy is not None:
        return verdict if policy.enabled and lane_of(tool) not in policy.yolo_lanes else ALLOW
    message = (
        f"Confirmation required for '{tool}' but no confirmation provider is configured ({verdict.reason}); allow it "
        "with a rule of permission_policy, or set confirmation_policy to be asked"
    )
    return replace(verdict, decision="deny", reason=message, kind="confirmation_unavailable")

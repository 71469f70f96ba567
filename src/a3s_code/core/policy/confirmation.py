"""Who answers an ``ask`` (api.md, *Governance*). In: nothing. Out: ConfirmationPolicy.

One rule: without a policy nobody answers, and an ``ask`` is refused at once.
Known weakness: none known.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class ConfirmationPolicy(msgspec.Struct, frozen=True):
    """``enabled`` parks every ``ask`` for the host; ``False`` approves them all.

    ``default_timeout_ms`` and ``timeout_action`` are for calls that can't park; ``yolo_lanes`` (``query``,
    ``execute``) are approved without asking.
    """

    enabled: bool = True
    default_timeout_ms: Annotated[int, msgspec.Meta(ge=0)] = 60_000
    timeout_action: Literal["reject", "auto_approve"] = "reject"
    yolo_lanes: tuple[Literal["control", "query", "execute", "generate"], ...] = ()

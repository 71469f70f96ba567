"""What a tool says of itself. In: a registered tool and arguments. Out: capabilities, the worst case by default.

One rule: a tool that can't say is taken for one that changes things and must run alone.
Known weakness: a wrong declaration is believed.
"""

from __future__ import annotations

from a3s_code.core.content import JsonObject
from a3s_code.ports.tool import ToolCapabilities
from a3s_code.ports.toolbox import RegisteredTool

WORST_CASE = ToolCapabilities()


def capabilities_of(registered: RegisteredTool, args: JsonObject) -> ToolCapabilities:
    declare = getattr(registered.tool, "capabilities", None)
    if declare is None:
        return WORST_CASE
    try:
        declared = declare(args)
    except Exception:  # noqa: BLE001  a host's tool may raise anything here; that must not end the run
        return WORST_CASE
    return declared if isinstance(declared, ToolCapabilities) else WORST_CASE


def rerun_safe(capabilities: ToolCapabilities) -> bool:
    """Whether a call that may have run already may simply run again."""
    return capabilities.read_only or capabilities.idempotent

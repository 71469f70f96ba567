"""The model's question to its host (tools.md §3.14). In: a question and options. Out: the answer, from the host.

One rule: the core parks such a call until it is answered (``answer_question``); this code never sees one that is.
Known weakness: a host that answers no questions leaves the run parked until it cancels it.
"""

from __future__ import annotations

from a3s_code.core.content import JsonObject
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolFailure
from a3s_code.tools.specs import ASK_USER


class AskUserTool:
    name, description, parameters = ASK_USER.name, ASK_USER.description, ASK_USER.parameters

    def capabilities(self, args: JsonObject) -> ToolCapabilities:
        return ToolCapabilities()

    async def execute(self, args: JsonObject, ctx: ToolContext) -> str:
        message = "ask_user is for a model's own turn: nested and host calls have nobody to ask"
        raise ToolFailure("unavailable", message, exit_code=126)

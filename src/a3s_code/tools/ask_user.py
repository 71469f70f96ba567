"""The model's question to its host (tools.md §3.14). In: a question and options. Out: the answer, from the host.

One rule: the core parks such a call until it is answered (``answer_question``); this code never sees one that is.
Known weakness: a host that answers no questions leaves the run parked until it cancels it.
"""

from __future__ import annotations

from typing import Final

from a3s_code.core.content import JsonObject
from a3s_code.ports.tool import ToolCapabilities, ToolContext, ToolFailure

PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 4000, "pattern": "\\S"},
        "options": {
            "type": "array",
            "maxItems": 8,
            "description": "Answers to choose from; the user may still answer in other words.",
            "items": {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string", "minLength": 1},
                            "description": {"type": "string"},
                        },
                        "required": ["label"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
        "multi_select": {"type": "boolean", "default": False},
    },
    "required": ["question"],
    "additionalProperties": False,
}


class AskUserTool:
    name = "ask_user"
    description = (
        "Asks the user a question and waits for the answer. Use it only when you can't go on without a decision that "
        "is the user's; find out yourself what can be found out."
    )
    parameters = PARAMETERS

    def capabilities(self, args: JsonObject) -> ToolCapabilities:
        return ToolCapabilities()

    async def execute(self, args: JsonObject, ctx: ToolContext) -> str:
        message = "ask_user is for a model's own turn: nested and host calls have nobody to ask"
        raise ToolFailure("unavailable", message, exit_code=126)

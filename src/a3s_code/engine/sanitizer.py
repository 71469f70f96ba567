"""The session's security provider at work (tools.md §2.1, step 14). In: texts, metadata and events. Out: the same,
sanitised.

One rule: what the provider can't sanitise is withheld, never shown as it was.
Known weakness: a provider is called where the text is, on the home loop for events: it must be quick and take any
thread. Keys of metadata are not looked at.

It sees everything that leaves the run: outputs, metadata and deltas of tools before they become facts, the model's
text before it becomes one, and every event. What the person said, what the model reasoned and the arguments of calls
stay in the log as they came: they are the conversation itself, and arguments are what runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from a3s_code.core.content import Json, JsonObject

WITHHELD: Final = "[withheld: the security provider failed]"
_log = logging.getLogger("a3s_code")


class SanitizeFailed(Exception):
    """The provider raised, or gave something that is no text."""


class Sanitizer:
    def __init__(self, provider: object) -> None:
        self._sanitize: Callable[[str], Any] = provider.sanitize  # type: ignore[attr-defined]  # checked with the option

    def text(self, text: str) -> str:
        """Raises ``SanitizeFailed``."""
        if not text:
            return text
        try:
            clean = self._sanitize(text)
        except Exception as error:  # noqa: BLE001  the host's own code; whatever it raises withholds the text
            _log.warning("the security provider raised %s", type(error).__name__)
            raise SanitizeFailed(type(error).__name__) from None
        if not isinstance(clean, str):
            _log.warning("the security provider gave %s, expected str", type(clean).__name__)
            raise SanitizeFailed(type(clean).__name__)
        return clean

    def value(self, value: Json) -> Json:
        """Every text in a JSON value; the same object where nothing changed. Raises ``SanitizeFailed``."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self.metadata(value)
        if isinstance(value, (list, tuple)):
            return [self.value(member) for member in value]
        return value

    def metadata(self, metadata: JsonObject) -> JsonObject:
        return {key: self.value(member) for key, member in metadata.items()}

    def shown(self, text: str) -> str:
        """For text that is only shown: withheld when it can't be sanitised."""
        try:
            return self.text(text)
        except SanitizeFailed:
            return WITHHELD

    def payload(self, payload: JsonObject) -> JsonObject:
        """An event's payload; its texts are withheld when one of them can't be sanitised."""
        try:
            return self.metadata(payload)
        except SanitizeFailed:
            shown = (str, dict, list)
            return {key: WITHHELD if isinstance(member, shown) else member for key, member in payload.items()}

"""Single flight (api.md). In: an operation that changes the conversation. Out: admission, or SESSION_BUSY at once.

One rule: nothing queues; whoever is admitted holds the gate until its work has stopped.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.errors import SessionBusy


class Gate:
    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._holder: str | None = None

    def enter(self, operation: str) -> None:
        if self._holder is not None:
            raise SessionBusy(
                f"Session '{self._session_id}' is busy with {self._holder}; {operation} can start when that has "
                "ended, or after cancel()"
            )
        self._holder = operation

    def leave(self) -> None:
        self._holder = None

    @property
    def busy(self) -> bool:
        return self._holder is not None

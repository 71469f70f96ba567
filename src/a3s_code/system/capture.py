"""What is kept of a stream. In: bytes as they come. Out: the first and the last of them as text, and the true total.

One rule: memory stays below three times what is kept, whatever the volume.
Known weakness: a stream in another encoding than UTF-8 is shown with replacement characters.
"""

from __future__ import annotations

from a3s_code.ports.process import Captured


class Capture:
    """Keeps ``keep`` bytes of the head and as many of the tail."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._keep - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._keep:
                del self._tail[: -self._keep or None]

    def result(self) -> Captured:
        """The head, a marker line with the bytes left out, and the tail; both cut between characters."""
        if self.total == 0:
            return Captured()
        head, tail = bytes(self._head), bytes(self._tail[-self._keep :])
        if len(head) + len(tail) == self.total:
            text, lossy = _decode(head + tail)
            return Captured(text, self.total, 0, lossy)
        head, tail = head[: _last_start(head)], tail[_first_start(tail) :]
        omitted = self.total - len(head) - len(tail)
        before, lossy_head = _decode(head)
        after, lossy_tail = _decode(tail)
        gap = "" if before.endswith("\n") else "\n"
        text = f"{before}{gap}[… {omitted} bytes omitted …]\n{after}"
        return Captured(text, self.total, omitted, lossy_head or lossy_tail)


def _decode(data: bytes) -> tuple[str, bool]:
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def _last_start(data: bytes) -> int:
    """Where to cut so that no character is begun and not finished."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
    return len(data)


def _first_start(data: bytes) -> int:
    """How many bytes at the start belong to a character that began before."""
    return next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)

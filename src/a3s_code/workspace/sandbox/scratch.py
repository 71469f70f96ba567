"""A session's private directory for its commands. In: a path. Out: the places in it.

One rule: a command may write ``tmp``, ``home`` and ``state``; the rest is the sandbox's own and not shown inside.
Known weakness: what commands leave there takes disk space until the session ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Self

from a3s_code.workspace.sandbox.seccomp import OF_LISTENER, filter_program


class Scratch:
    """``tmp`` is the command's ``/tmp``, ``home`` its home, ``state`` where a command's end is noted; ``empty``
    covers what must not be seen or made."""

    def __init__(self, path: str) -> None:
        """Makes the directories below ``path``."""
        self._name(path)
        for place in (path, self.tmp, self.home, self.state, self.empty):
            os.makedirs(place, mode=0o700, exist_ok=True)
        machine = os.uname().machine
        for path, opened in ((self.filter, ()), (self.granted_filter, OF_LISTENER)):
            with open(path, "wb") as file:
                file.write(filter_program(machine, opened) or b"")

    @classmethod
    def make(cls, workspace: str) -> Self:
        """A new one outside of ``workspace``, whose commands could change it; ``OSError`` when there is no place."""
        for place in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
            real = os.path.realpath(place)
            if real != workspace and not real.startswith(f"{workspace}/") and os.access(real, os.W_OK):
                return cls(tempfile.mkdtemp(prefix="a3s-scratch-", dir=real))
        raise OSError("no directory for temporary files outside of the workspace")

    @classmethod
    def at(cls, path: str) -> Self:
        """The same places, without making them."""
        made = cls.__new__(cls)
        made._name(path)
        return made

    def _name(self, path: str) -> None:
        self.path = path
        self.tmp, self.home, self.state = f"{path}/tmp", f"{path}/home", f"{path}/state"
        self.empty, self.filter, self.granted_filter = f"{path}/empty", f"{path}/filter", f"{path}/granted-filter"

    @property
    def writable(self) -> tuple[str, ...]:
        return (self.tmp, self.home, self.state)

    def is_whole(self) -> bool:
        """Whether nothing of it was cleaned away."""
        return all(os.path.exists(place) for place in (*self.writable, self.empty, self.filter, self.granted_filter))

    def remove(self) -> None:
        """With whatever commands left in it, also in directories that they made unreadable. Nothing outside of it is
        touched, whatever of it is missing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if not os.path.isdir(self.path):
            return
        for directory, below, _ in os.walk(self.path):
            for name in below:
                place = os.path.join(directory, name)
                if not os.path.islink(place):
                    with contextlib.suppress(OSError):
                        os.chmod(place, 0o700)
        shutil.rmtree(self.path, ignore_errors=True)

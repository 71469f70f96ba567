"""A place where denied programs only say that they ran. In: a directory. Out: lines run by a real bash in it.

The programs a line can reach are stubs and a few harmless ones; whatever it starts is killed when the line is done.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

HARMLESS = "env xargs find timeout nohup nice setsid stdbuf cat ls grep sh bash head".split()
VARIABLES = {"X": "rm", "R": "r", "M": "m", "F": "-rf", "Q": "-rf x", "A": "rm -rf x", "S": "5"}
_SUDO = '#!/bin/bash\nwhile [[ $1 == -?* ]]; do [[ $1 == -u ]] && shift; shift; done\nexec env "$@"\n'


class Stubs:
    """``ran`` tells what the stub of ``rm`` was called with, one text a call."""

    def __init__(self, root: Path) -> None:
        self.bin, self._ran, self._work = root / "bin", root / "ran", root / "work"
        self.bin.mkdir()
        self._script("rm", f'#!/bin/bash\nprintf "%s\\n" "$*" >> {self._ran}\n')
        self._script("sudo", _SUDO)
        for name in HARMLESS:
            found = shutil.which(name)
            if found is not None:
                (self.bin / name).symlink_to(found)
        self._env = {"PATH": str(self.bin), "BIN": str(self.bin), "HOME": str(self.bin), **VARIABLES}

    def _script(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, line: str) -> list[str]:
        """Runs ``line`` and returns what it called ``rm`` with."""
        shutil.rmtree(self._work, ignore_errors=True)
        (self._work / "d").mkdir(parents=True)
        (self._work / "f").write_text("x\n")
        self._ran.unlink(missing_ok=True)
        limited = ["/bin/bash", "-c", line]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            limited, cwd=self._work, env=self._env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return self._ran.read_text(errors="replace").splitlines() if self._ran.exists() else []

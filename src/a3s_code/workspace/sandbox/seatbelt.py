"""The sandbox of macOS. In: a command line and a policy. Out: a command line of ``sandbox-exec`` with a profile.

One rule: what the profile does not allow is denied, and the last rule that matches a path counts.
Known weakness: it was written from Apple's rules and never run: only its text is tested.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from typing import Final

from a3s_code.ports.process import Processes
from a3s_code.ports.sandbox import SandboxPolicy
from a3s_code.workspace.sandbox.probing import probing_ground

_PROGRAM: Final = "/usr/bin/sandbox-exec"
_BASE: Final = """(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.trustd"))
(allow file-read*)
(allow file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper") (literal "/dev/tty"))
"""


class Seatbelt:
    """``ports.sandbox.Sandbox``."""

    name = "seatbelt"

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def probe(self) -> str | None:
        """Runs a command that must not be able to write one file."""
        with probing_ground() as policy:
            outcome = await self._processes.run(
                self.command(["/bin/sh", "-c", ": >written && ! (: >read-only) 2>/dev/null"], policy),
                cwd=policy.workspace,
                env={"PATH": os.defpath},
                timeout_ms=10_000,
                cancelled=asyncio.Event(),
            )
        if outcome.exit_code == 0:
            return None
        return outcome.error or outcome.stderr.text.strip() or "it ran a command, but did not confine it"

    def command(self, argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
        return [_PROGRAM, "-p", profile(policy), *argv]


def profile(policy: SandboxPolicy) -> str:
    """The rules, outer places before inner ones. A ``.git`` at any depth of the workspace is read-only unless it is
    among the policy's writable places."""
    lines = [_BASE]
    if policy.network:
        lines.append("(allow network*)")
    rules = [(path, f"(allow file-write* (subpath {_text(path)}))") for path in policy.writable]
    rules += [(path, f"(deny file-write* (subpath {_text(path)}))") for path in policy.read_only]
    rules += [(path, f"(deny file-read-data file-write* (subpath {_text(path)}))") for path in policy.masked]
    git = f"^{re.escape(policy.workspace)}/(.+/)?\\.[gG][iI][tT](/|$)"
    rules.append((policy.workspace, f"(deny file-write* (regex {_text(git)}))"))
    rules.sort(key=lambda rule: rule[0].count("/"))
    return "\n".join([*lines, *(rule for _, rule in rules), ""])


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

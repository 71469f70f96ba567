"""The sandbox options (api.md, *Governance*). In: what a host chose, a workspace. Out: the session's sandbox.

One rule: only the host can choose to run without one: by an option, or by a variable of its environment.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from a3s_code.api.blocking import Home
from a3s_code.api.options import SessionOptions
from a3s_code.ports.clock import Clock
from a3s_code.ports.process import Processes
from a3s_code.ports.sandbox import Sandbox
from a3s_code.workspace.sandbox.session import Choice, CommandSandbox, native

VARIABLE: Final = "A3S_CODE_ALLOW_PROCESS_HOST_SANDBOX"
_YES: Final = frozenset({"1", "true", "yes", "on"})


def command_sandbox(
    options: SessionOptions,
    root: str,
    processes: Processes,
    environ: Mapping[str, str],
    home: Home,
    clock: Clock,
) -> CommandSandbox:
    """Of checked options; nothing is looked for yet. A ``sandbox_handle`` wins over running on the host."""
    if options.sandbox_handle is not None:
        home.adopt(options.sandbox_handle)
    choice = Choice(
        native=native(processes, environ),
        host=None if options.sandbox_handle is not None else _host(options, environ),
        handle=cast("Sandbox | None", options.sandbox_handle),
        writable=tuple(options.sandbox_writable or ()),
        mask_workspace=options.credential_policy != "off",
        can_ask=options.confirmations() is not None,
    )
    return CommandSandbox(
        root,
        choice,
        environ,
        now_ns=lambda: clock.now_ms() * 1_000_000,
        call_host=home.call_host,
        in_thread=home.in_thread,
    )


def _host(options: SessionOptions, environ: Mapping[str, str]) -> str | None:
    """Why commands run as the host's own; ``None`` when they don't."""
    if options.sandbox == "host":
        return 'sandbox="host" was chosen: commands run as the host\'s own'
    if options.allow_process_host_sandbox:
        return "allow_process_host_sandbox was chosen: commands run as the host's own"
    return host_by_variable(environ)


def host_by_variable(environ: Mapping[str, str]) -> str | None:
    """Why commands run as the host's own whatever a session's options say; ``None`` when they don't."""
    if environ.get(VARIABLE, "").strip().lower() in _YES:
        return f"{VARIABLE} is set: commands run as the host's own"
    return None

"""The tool ``bash`` (tools.md §3.7). In: a command line. Out: what it printed and how it ended.

One rule: the command sees the scrubbed environment and nothing it started outlives the call. A model's command leaves
the sandbox only when somebody approved just that (``ToolContext.approved``).
Known weakness: without a sandbox it runs with the host's rights; only its working directory is checked. In the native
one a death by a signal is told by the exit code (128+n) alone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.environment import scrub_environment
from a3s_code.ports.process import Captured, Processes, ProcessOutcome
from a3s_code.ports.tool import Escalation, ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.tools.bash_grant import described, granted
from a3s_code.tools.bash_ground import check_permissions, escalation_of, ground_of, unavailable
from a3s_code.tools.specs import BASH

_MAX_COMMAND_BYTES = 100 * 1024
_PREVIEW_BYTES = 32 * 1024
_FIXED = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}


class BashTool:
    """``environ`` is the host's environment; it is scrubbed once, here."""

    name, description, parameters = BASH.name, BASH.description, BASH.parameters

    def __init__(self, processes: Processes, environ: Mapping[str, str]) -> None:
        self._processes = processes
        self._env = {**scrub_environment(environ), **_FIXED}
        self._shell: list[str] | None = None

    def capabilities(self, args: Mapping[str, Json]) -> ToolCapabilities:
        return ToolCapabilities()

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        """Runs ``args["command"]``; a program that ran and exited non-zero is no tool failure."""
        command = cast("str", args["command"])
        extra = cast("dict[str, str]", args.get("env") or {})
        _check(command, extra)
        check_permissions(args)
        cwd, shown_cwd = await _directory(args, ctx)
        grant = await granted(args, ctx)
        ground = await ground_of(args, ctx) if grant is None else "native"
        timeout_ms, limit_ms = _timeout(cast("int", args["timeout_ms"]), ctx)
        if self._shell is None:
            self._shell = _find_shell(self._env)
        argv = [*self._shell, "-c", command]
        env = {**self._env, **_key(ctx)}
        if ctx.sandbox is None or ground not in ("native", "custom"):
            outcome = await self._run(argv, {**env, **extra, **_key(ctx)}, cwd, timeout_ms, ctx)
            return _output(outcome, shown_cwd, limit_ms, ground)
        async with ctx.sandbox.inside(argv, env, {**extra, **_key(ctx)} if extra else {}, grant) as confined:
            outcome = await self._run(
                confined.argv, confined.env, cwd, timeout_ms, ctx, confined.supervised, confined.passed
            )
            ending = confined.ending()
        if ending == "never" and not outcome.timed_out and not outcome.cancelled:
            said = outcome.error or outcome.stderr.text.strip() or f"it ended with {outcome.exit_code}"
            raise unavailable(said)
        if ending == "left":
            outcome = replace(outcome, background_terminated=True)
        output = _output(outcome, shown_cwd, limit_ms, ground)
        return replace(output, metadata={**output.metadata, **described(grant, ctx.sandbox)})

    async def escalation(self, args: JsonObject, ctx: ToolContext) -> Escalation | None:
        """What about this call needs a confirmation, whatever the policy says of ``bash``."""
        return await escalation_of(args, ctx)

    async def _run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        timeout_ms: int,
        ctx: ToolContext,
        supervised: bool = False,
        passed: Sequence[int] = (),
    ) -> ProcessOutcome:
        return await self._processes.run(
            argv,
            cwd=cwd,
            env=env,
            timeout_ms=timeout_ms,
            cancelled=ctx.cancelled,
            on_text=ctx.emit,
            supervised=supervised,
            passed=passed,
        )


def _key(ctx: ToolContext) -> dict[str, str]:
    return {"A3S_IDEMPOTENCY_KEY": ctx.invocation_id}


def _check(command: str, env: Mapping[str, str]) -> None:
    if not command.strip():
        raise _invalid("command: is blank")
    size = len(command.encode())
    if size > _MAX_COMMAND_BYTES:
        raise _invalid(f"command: has {size} bytes, at most {_MAX_COMMAND_BYTES} allowed; put long text into a file")
    if "\0" in command:
        raise _invalid("command: contains a NUL character")
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise _invalid("env: names must be non-empty and without '=', and nothing may contain NUL")


def _invalid(problem: str) -> ToolFailure:
    return ToolFailure("invalid_argument", f"Invalid arguments for tool 'bash':\n- {problem}")


async def _directory(args: JsonObject, ctx: ToolContext) -> tuple[str, str]:
    """The working directory, for the system and as it is shown."""
    asked = args.get("cwd")
    if not isinstance(asked, str):
        return ctx.workspace.root, "."
    place = await asyncio.to_thread(ctx.workspace.locate, asked)
    kind = (await asyncio.to_thread(ctx.workspace.stat, place)).kind
    if kind == "missing":
        raise ToolFailure("not_found", f"No such directory: {place.path}")
    if kind != "dir":
        raise _invalid(f"cwd: '{place.path}' is not a directory")
    return os.path.join(ctx.workspace.root, place.real), place.path


def _timeout(asked_ms: int, ctx: ToolContext) -> tuple[int, int]:
    """What the command has, and the limit it is told as: what is left of one differs from run to run."""
    if ctx.deadline is None:
        return asked_ms, asked_ms
    left_ms = int((ctx.deadline - ctx.clock.monotonic()) * 1000)
    limit_ms = max(0, left_ms) if ctx.limit_ms is None else ctx.limit_ms
    if left_ms <= 0:
        raise ToolFailure("timeout", f"Timed out after {limit_ms} ms", exit_code=124)
    return (left_ms, limit_ms) if left_ms < asked_ms else (asked_ms, asked_ms)


def _find_shell(env: Mapping[str, str]) -> list[str]:
    """``bash`` without start-up files, else ``sh``. A relative directory on the PATH is no place for a shell."""
    path = os.pathsep.join(part for part in env.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(part))
    if bash := shutil.which("bash", path=path):
        return [bash, "--noprofile", "--norc"]
    return [shutil.which("sh", path=path) or "/bin/sh"]


def _output(outcome: ProcessOutcome, cwd: str, limit_ms: int, ground: str) -> ToolOutput:
    kind, code, first = None, outcome.exit_code, ""
    if outcome.timed_out:
        kind, code, first = "timeout", 124, f"Timed out after {limit_ms} ms"
    elif outcome.cancelled:
        kind, code, first = "cancelled", 130, "Cancelled"
    errors = outcome.stderr.text
    if outcome.error is not None:
        errors = f"could not start the shell: {outcome.error}"
    metadata: JsonObject = {
        "exit_code": code,
        "signal": outcome.signal,
        "timed_out": outcome.timed_out,
        "cancelled": outcome.cancelled,
        "duration_ms": outcome.duration_ms,
        "cwd": cwd,
        "stdout": _preview(outcome.stdout),
        "stderr": _preview(outcome.stderr),
        "stdout_bytes": outcome.stdout.total,
        "stderr_bytes": outcome.stderr.total,
        "stdout_omitted": outcome.stdout.omitted,
        "stderr_omitted": outcome.stderr.omitted,
        "lossy": outcome.stdout.lossy or outcome.stderr.lossy,
        "background_terminated": outcome.background_terminated,
        "sandbox": ground,
    }
    if kind is not None:
        metadata["error"] = {"type": kind, "message": first}
    last = f"[exit code: {code}]" if kind is None and code != 0 else ""
    blocks = [first, outcome.stdout.text, f"[stderr]\n{errors}" if errors else "", last]
    return ToolOutput(_stack(blocks), code, metadata, kind)


def _stack(blocks: list[str]) -> str:
    """The blocks that have something to say, each on a line of its own, otherwise as they are."""
    text = ""
    for block in blocks:
        if block and text and not text.endswith("\n"):
            text += "\n"
        text += block
    return text


def _preview(stream: Captured) -> str:
    """At most 32 KiB of a stream, head and tail, with the bytes left out between them."""
    data = stream.text.encode()
    if len(data) <= _PREVIEW_BYTES:
        return stream.text
    half = (_PREVIEW_BYTES - 64) // 2  # the marker line needs room too
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    whole = len(data) + stream.omitted if stream.lossy else stream.total
    omitted = whole - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {omitted} bytes omitted …]\n{tail}"

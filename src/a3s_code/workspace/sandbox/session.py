"""A session's sandbox. In: what the host chose. Out: which one is active and why, and commands that run inside.

One rule: the choice is made once; a sandbox that doesn't work is never replaced by the host in silence.
Known weakness: the environment that starts a host's own ``sandbox_handle`` is the scrubbed one, whatever it does
with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from a3s_code.core.digest import args_digest
from a3s_code.core.protected import PROTECTED_DIRECTORIES, PROTECTED_FILES
from a3s_code.ports.process import Processes
from a3s_code.ports.sandbox import Confined, NetworkGrant, Sandbox, SandboxPolicy, SandboxState
from a3s_code.ports.tool import ToolFailure
from a3s_code.workspace.sandbox.bubblewrap import Bubblewrap
from a3s_code.workspace.sandbox.grants import ENVIRONMENT, Grants, listening
from a3s_code.workspace.sandbox.placeholders import placeholders
from a3s_code.workspace.sandbox.policy import PolicyBuilder
from a3s_code.workspace.sandbox.scratch import Scratch
from a3s_code.workspace.sandbox.seatbelt import Seatbelt
from a3s_code.workspace.sandbox.surroundings import launcher_environment, set_inside

# The first process inside. It notes that it began, runs the command, gives what the command left behind half a second
# (tools.md §3.7, *Background children*), and notes whether something was left after that. A trap is no handler of the
# command's: it only keeps this shell until the command has ended.
_SUPERVISE: Final = """echo began >"$0"
trap : TERM INT HUP
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
code=$?
exec 3>&-
n=0
while kill -0 -1; do
  n=$((n + 1))
  if [ $n -gt 25 ]; then echo left >"$0"; break; fi
  sleep 0.02
done
exit $code"""


class Native:
    """The platform's sandbox; one for the process, looked for when it is first needed."""

    def __init__(self, processes: Processes, environ: Mapping[str, str]) -> None:
        self._found: SandboxState | None = None
        self.sandbox: Bubblewrap | Seatbelt | None = None
        if sys.platform == "linux":
            self.sandbox = Bubblewrap(processes, environ)
        elif sys.platform == "darwin":
            self.sandbox = Seatbelt(processes)

    @property
    def known(self) -> SandboxState | None:
        return self._found

    async def state(self) -> SandboxState:
        """Two that ask at the same moment both look; nothing is changed by it."""
        if self._found is None:
            self._found = await self._look()
        return self._found

    async def _look(self) -> SandboxState:
        if self.sandbox is None:
            return SandboxState("none", f"there is no sandbox for {sys.platform}; {_OTHERWISE}")
        reason = await self.sandbox.probe()
        if reason is None:
            return SandboxState("native", f"{self.sandbox.name} works here")
        return SandboxState("none", f"{reason}; {_OTHERWISE}")


_OTHERWISE: Final = 'or choose sandbox="host" where commands can do no harm'
_NATIVE: dict[str, Native] = {}


def native(processes: Processes, environ: Mapping[str, str]) -> Native:
    """The process's one for this ``PATH``."""
    path = environ.get("PATH", "")
    if path not in _NATIVE:
        _NATIVE[path] = Native(processes, environ)
    return _NATIVE[path]


class Choice(msgspec.Struct, frozen=True):
    """What the host said. ``host`` is why commands run as its own, if they do."""

    native: Native
    host: str | None = None
    handle: Sandbox | None = None
    writable: tuple[str, ...] = ()
    mask_workspace: bool = True
    can_ask: bool = False


class CommandSandbox:
    """``ports.sandbox.Confinement``. ``call_host`` calls what the host gave, ``in_thread`` our own blocking code."""

    def __init__(
        self,
        root: str,
        choice: Choice,
        environ: Mapping[str, str],
        *,
        now_ns: Callable[[], int],
        call_host: Callable[..., Awaitable[Any]],
        in_thread: Callable[..., Awaitable[Any]],
        grants: Grants | None = None,
    ) -> None:
        self._root = root
        self._choice = choice
        self._environ = environ
        self._now_ns = now_ns
        self._call_host = call_host
        self._in_thread = in_thread
        self._grants = grants or Grants(in_thread)
        self._found: SandboxState | None = None
        self._scratch: Scratch | None = None
        self._builder: PolicyBuilder | None = None
        self._remove: Callable[[], object] = _nothing
        self._numbers = itertools.count(1)
        self._making = threading.Lock()

    @property
    def can_ask(self) -> bool:
        return self._choice.can_ask

    @property
    def known(self) -> SandboxState | None:
        if self._choice.host is not None:
            return SandboxState("process_host", self._choice.host)
        return self._found or (self._choice.native.known if self._choice.handle is None else None)

    @property
    def policy_digest(self) -> str:
        choice = self._choice
        return args_digest(
            {
                "sandbox": choice.host or (choice.handle.name if choice.handle is not None else "native"),
                "workspace": self._root,
                "writable": list(choice.writable),
                "mask_workspace": choice.mask_workspace,
                "protected": [*PROTECTED_DIRECTORIES, *PROTECTED_FILES],
            }
        )

    def no_grants(self) -> str | None:
        known = self.known
        if known is None or known.kind != "native":
            return known.reason if known else "the sandbox was not looked for"
        return None if self._by_mounts else "only the sandbox of Linux mediates the network"

    @property
    def _by_mounts(self) -> bool:
        return self._choice.handle is None and isinstance(self._choice.native.sandbox, Bubblewrap)

    async def state(self) -> SandboxState:
        if self._found is None:
            self._found = self.known or await self._look()
        return self._found

    def look(self) -> SandboxState:
        """On a loop and thread of its own, so that it may be called on any. A host's own sandbox may belong to the
        caller's loop, so that one is not tried here."""
        if self.known is not None:
            return self.known
        if self._choice.handle is not None:
            return SandboxState("custom", f"sandbox_handle {self._choice.handle.name!r}, not tried yet")
        thread = threading.Thread(target=lambda: asyncio.run(self.state()), name="a3s-probe", daemon=True)
        thread.start()
        thread.join()
        return self.known or SandboxState("none", "the probe failed")

    async def _look(self) -> SandboxState:
        handle = self._choice.handle
        if handle is None:
            return await self._choice.native.state()
        try:
            reason = await self._call_host(handle.probe)
        except Exception as error:  # noqa: BLE001  the host's own code: whatever it raises, it does not work
            reason = f"{type(error).__name__}: {error}"
        if reason is None:
            return SandboxState("custom", f"sandbox_handle {handle.name!r} works here")
        return SandboxState("none", f"sandbox_handle {handle.name!r}: {reason}")

    @contextlib.asynccontextmanager
    async def inside(
        self, argv: Sequence[str], env: Mapping[str, str], extra: Mapping[str, str], grant: NetworkGrant | None = None
    ) -> AsyncIterator[Confined]:
        held = _Held()
        try:
            async with self._grants.opened(grant) if grant is not None else contextlib.nullcontext() as door:
                yield await self._in_thread(held.open, lambda stack: self._prepared(stack, argv, env, extra, door))
        finally:
            await self._in_thread(held.close)

    def _prepared(
        self,
        stack: contextlib.ExitStack,
        argv: Sequence[str],
        env: Mapping[str, str],
        extra: Mapping[str, str],
        door: int | None,
    ) -> Confined:
        if self._root == "/":
            raise _unavailable("the workspace is the whole file system")
        try:
            scratch, builder = self._own()
            mark = f"{scratch.state}/{next(self._numbers)}"
            stack.callback(_unlink, mark)
            by_mounts = self._by_mounts
            if by_mounts:
                stack.enter_context(placeholders(self._root, builder.protected()))
            policy = builder.build()
        except OSError as error:
            raise _unavailable(f"{error.strerror or error}: {error.filename or self._root}") from error
        words = [*set_inside(env, extra), *argv]
        if by_mounts:
            words = ["/bin/sh", "-c", _SUPERVISE, mark, *words]
        if door is not None:
            listener = listening(door, policy)
            if listener is None:
                raise _unavailable("a network grant needs a Python outside of what commands can write")
            words = [*listener, *words]
        return Confined(
            argv=self._command(words, policy, granted=door is not None),
            env=launcher_environment(env, scratch) | (ENVIRONMENT if door is not None else {}),
            passed=() if door is None else (door,),
            ending=(lambda: _ending(mark)) if by_mounts else _done,
            supervised=by_mounts,
        )

    def _command(self, argv: list[str], policy: SandboxPolicy, *, granted: bool) -> list[str]:
        sandbox = self._choice.handle or self._choice.native.sandbox
        if granted:
            if not isinstance(sandbox, Bubblewrap):
                raise _unavailable("it mediates no network")
            return sandbox.granted(argv, policy)
        if sandbox is None:
            raise _unavailable("there is none")
        try:
            words = list(sandbox.command(argv, policy))
        except Exception as error:  # the host's own code may raise anything; then nothing runs
            raise _unavailable(f"{type(error).__name__}: {error}") from error
        if not words or not all(isinstance(word, str) for word in words):
            raise _unavailable(f"{sandbox.name}: command() gave no command line")
        return words

    def _own(self) -> tuple[Scratch, PolicyBuilder]:
        """The scratch directory and what builds policies, made for the first command, and again when somebody cleaned
        the temporary files meanwhile."""
        with self._making:
            if self._scratch is None or self._builder is None or not self._scratch.is_whole():
                self._scratch = Scratch.make(self._root)
                self._remove = weakref.finalize(self, self._scratch.remove)
                sandbox = self._choice.native.sandbox
                self._builder = PolicyBuilder(
                    self._root,
                    self._scratch,
                    self._environ,
                    lifted=self._choice.writable,
                    mask_workspace=self._choice.mask_workspace,
                    own=sandbox.own if isinstance(sandbox, Bubblewrap) else (),
                    now_ns=self._now_ns,
                )
            return self._scratch, self._builder

    async def aclose(self) -> None:
        self._scratch = None
        await self._in_thread(self._remove)


class _Held:
    """What one command needs while it runs. Both methods run in worker threads, and in whatever order when the caller
    is cancelled: what is opened is closed."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._over = False

    def open(self, prepare: Callable[[contextlib.ExitStack], Confined]) -> Confined:
        with self._lock:
            if self._over:
                raise ToolFailure("cancelled", "Cancelled", exit_code=130)
            return prepare(self._stack)

    def close(self) -> None:
        with self._lock:
            self._over = True
            self._stack.close()


def _ending(mark: str) -> Literal["never", "left", "done"]:
    """The mark lies where commands write: whatever one of them put there is neither followed nor waited for."""
    try:
        fd = os.open(mark, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "never"
    try:
        return "left" if os.read(fd, 16).startswith(b"left") else "done"
    except OSError:
        return "done"
    finally:
        os.close(fd)


def _done() -> Literal["done"]:
    return "done"


def _nothing() -> None:
    """Nothing was made yet, so nothing is removed."""


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _unavailable(reason: str) -> ToolFailure:
    return ToolFailure("unavailable", f"Bash sandbox unavailable: {reason}", exit_code=126)

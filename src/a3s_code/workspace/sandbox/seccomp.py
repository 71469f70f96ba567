"""A seccomp filter. In: the machine's name. Out: a BPF program for ``bwrap --seccomp``.

One rule: what reaches beyond the mounts and namespaces is denied with ``EPERM``; everything else is allowed, so that
builds and tests find an ordinary kernel.
Known weakness: it knows system calls by number: one that a later kernel adds is allowed until it is listed here.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final, NamedTuple

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_DENY: Final = 0x00050000 | 1  # SECCOMP_RET_ERRNO, EPERM
_ABSENT: Final = 0x00050000 | 38  # ENOSYS: the caller uses the older call, whose arguments can be judged
_KILL: Final = 0x80000000
_NUMBER: Final = 0  # offsets in struct seccomp_data
_MACHINE: Final = 4

# Namespaces are made by flags of clone and unshare: CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET, and TIME (unshare).
_NAMESPACES: Final = 0x7E020000
_TIME_NAMESPACE: Final = 0x80
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_X32: Final = 0x40000000

# name: (x86_64, aarch64); None where the machine has no such call.
_DENIED: Final[dict[str, tuple[int | None, int | None]]] = {
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242), "bind": (49, 200),
    "listen": (50, 201), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "setns": (308, 268), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "userfaultfd": (323, 282),
    "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89), "syslog": (103, 116), "iopl": (172, None),
    "ioperm": (173, None), "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161),
    "setdomainname": (171, 162), "vhangup": (153, 58), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
}  # fmt: skip


# What opens in the own, empty network of a command with a network grant: connecting by TCP. The process that makes
# the proxy's listener, before it starts the command, may also do that.
OF_GRANTED: Final = ("socket", "connect")
OF_LISTENER: Final = (*OF_GRANTED, "bind", "listen")


class _Machine(NamedTuple):
    column: int
    audit: int
    clone: int
    unshare: int
    socketpair: int
    ioctl: int


_MACHINES: Final = {
    "x86_64": _Machine(0, 0xC000003E, 56, 272, 53, 16),
    "aarch64": _Machine(1, 0xC00000B7, 220, 97, 199, 29),
}
_MACHINES["amd64"], _MACHINES["arm64"] = _MACHINES["x86_64"], _MACHINES["aarch64"]
_CLONE3: Final = 435


def filter_program(machine: str, opened: Collection[str] = ()) -> bytes | None:
    """The filter for ``os.uname().machine``; ``None`` for one that is not known here. ``opened`` are calls of the
    denied ones that are let through, ``socket`` for TCP only."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    program: list[bytes] = [
        _step(_LOAD, _MACHINE),
        _step(_EQUAL, known.audit, 1, 0),
        _step(_RETURN, _KILL),  # another machine's calls have other numbers
        _step(_LOAD, _NUMBER),
    ]
    if known.column == 0:
        program += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _DENY)]
    program += [_step(_EQUAL, _CLONE3, 0, 1), _step(_RETURN, _ABSENT)]
    for name, numbers in _DENIED.items():
        number = numbers[known.column]
        if number is not None and name not in opened:
            program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _DENY)]
    program += _by_arguments(known)
    if "socket" in opened:
        program += _tcp(_DENIED["socket"][known.column] or 0)
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _by_arguments(machine: _Machine) -> list[bytes]:
    """The calls that are judged by an argument. The kernel reads these as 32 bits, so the upper half says nothing."""
    blocks = [
        _when(machine.clone, [(0, _ANY_BIT, _NAMESPACES)]),
        _when(machine.unshare, [(0, _ANY_BIT, _NAMESPACES | _TIME_NAMESPACE)]),
        _when(machine.ioctl, [(1, _EQUAL, _TIOCSTI), (1, _EQUAL, _TIOCLINUX)]),
        _pairs_of_streams(machine.socketpair),
    ]
    return [step for block in blocks for step in block]


def _when(number: int, tests: list[tuple[int, int, int]]) -> list[bytes]:
    """Denies the call ``number`` when one of ``tests`` (argument, comparison, value) holds, else allows it."""
    body: list[bytes] = []
    for place, comparison, value in tests:
        body += [_load_argument(place), _step(comparison, value, 0, 1), _step(_RETURN, _DENY)]
    body.append(_step(_RETURN, _ALLOW))
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _pairs_of_streams(number: int) -> list[bytes]:
    """``socketpair`` only of connected streams, as event loops and runtimes use them between their own processes: a
    pair of datagram sockets could be turned towards any socket of the host."""
    body = [
        _load_argument(0),
        _step(_EQUAL, 1, 0, 4),  # AF_UNIX
        _load_argument(1),
        _step(_AND, 0xF),  # without SOCK_CLOEXEC and SOCK_NONBLOCK
        _step(_EQUAL, 1, 2, 0),  # SOCK_STREAM
        _step(_EQUAL, 5, 1, 0),  # SOCK_SEQPACKET
        _step(_RETURN, _DENY),
        _step(_RETURN, _ALLOW),
    ]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _tcp(number: int) -> list[bytes]:
    """``socket`` only of AF_INET or AF_INET6, SOCK_STREAM and the protocol TCP or the default, which is the same."""
    body = [
        _load_argument(0),
        _step(_EQUAL, 2, 1, 0),  # AF_INET
        _step(_EQUAL, 10, 0, 6),  # AF_INET6
        _load_argument(1),
        _step(_AND, 0xF),
        _step(_EQUAL, 1, 0, 3),  # SOCK_STREAM
        _load_argument(2),
        _step(_EQUAL, 0, 2, 0),
        _step(_EQUAL, 6, 1, 0),  # IPPROTO_TCP
        _step(_RETURN, _DENY),
        _step(_RETURN, _ALLOW),
    ]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _load_argument(place: int) -> bytes:
    return _step(_LOAD, 16 + 8 * place)  # the lower half; both machines are little-endian


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)

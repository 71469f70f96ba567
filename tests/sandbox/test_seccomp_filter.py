"""The seccomp filter, run step by step here, so that a machine that isn't at hand is tested too."""

from __future__ import annotations

import struct

import pytest

from a3s_code.workspace.sandbox.seccomp import OF_GRANTED, OF_LISTENER, filter_program

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED, DENIED, ABSENT, KILLED = "allow", "deny", "absent", "kill"
_ANSWERS = {0x7FFF0000: ALLOWED, 0x00050001: DENIED, 0x00050026: ABSENT, 0x80000000: KILLED}
CALLS: dict[str, dict[str, int]] = {
    "x86_64": {"read": 0, "openat": 257, "socket": 41, "connect": 42, "bind": 49, "listen": 50, "socketpair": 53}
    | {"clone": 56, "clone3": 435, "unshare": 272, "setns": 308, "ptrace": 101, "mount": 165, "ioctl": 16}
    | {"keyctl": 250, "bpf": 321, "io_uring_setup": 425, "execve": 59, "sendmsg": 46, "accept": 43}
    | {"kexec_load": 246, "finit_module": 313},
    "aarch64": {"read": 63, "openat": 56, "socket": 198, "connect": 203, "bind": 200, "listen": 201, "socketpair": 199}
    | {"clone": 220, "clone3": 435, "unshare": 97, "setns": 268, "ptrace": 117, "mount": 40, "ioctl": 29}
    | {"keyctl": 219, "bpf": 280, "io_uring_setup": 425, "execve": 221, "sendmsg": 211, "accept": 202}
    | {"kexec_load": 104, "finit_module": 273},
}  # fmt: skip
MACHINES = pytest.mark.parametrize("machine", CALLS)
CASES: list[tuple[str, tuple[int, ...], str]] = [
    ("read", (), ALLOWED),
    ("openat", (), ALLOWED),
    ("execve", (), ALLOWED),
    ("sendmsg", (), ALLOWED),
    *((name, (), DENIED) for name in ("socket", "connect", "bind", "listen", "setns", "ptrace", "mount", "keyctl")),
    *((name, (), DENIED) for name in ("bpf", "io_uring_setup", "kexec_load", "finit_module")),
    ("socket", (1, 1), DENIED),
    ("socketpair", (1, 1), ALLOWED),
    ("socketpair", (1, 1 | 0o2000000 | 0o4000), ALLOWED),
    ("socketpair", (1, 5), ALLOWED),
    ("socketpair", (1, 2), DENIED),
    ("socketpair", (1, 2 | 0o2000000), DENIED),
    ("socketpair", (16, 3), DENIED),
    ("clone3", (), ABSENT),
    ("clone", (0x01200011,), ALLOWED),
    ("clone", (0x003D0F00,), ALLOWED),
    *(("clone", (flag | 17,), DENIED) for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x40000000)),
    ("unshare", (0x400,), ALLOWED),
    ("unshare", (0x10000000,), DENIED),
    ("unshare", (0x80,), DENIED),
    ("ioctl", (0, 0x5401), ALLOWED),
    ("ioctl", (0, 0x5412), DENIED),
    ("ioctl", (0, 0x1_0000_5412), DENIED),
    ("ioctl", (0, 0x541C), DENIED),
]


def judge(program: bytes, audit: int, number: int, args: tuple[int, ...] = ()) -> str:
    """What the kernel would answer: classic BPF on ``struct seccomp_data``."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(*args, *[0] * (6 - len(args))))
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                [accumulator] = struct.unpack_from("=I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case 0x06:
                return _ANSWERS[value]
            case _:
                raise AssertionError(f"unknown step {code:#x}")


@MACHINES
@pytest.mark.parametrize(("name", "args", "answer"), CASES)
def test_calls_are_judged(machine: str, name: str, args: tuple[int, ...], answer: str) -> None:
    """Sockets, namespaces, tracing, mounts, keys, modules and terminal input are denied; ordinary work is not."""
    program = filter_program(machine)
    assert program is not None
    assert judge(program, AUDIT[machine], CALLS[machine][name], args) == answer


TCP: list[tuple[str, tuple[int, ...], str]] = [
    *(("socket", (family, 1, protocol), ALLOWED) for family in (2, 10) for protocol in (0, 6)),
    ("socket", (2, 1 | 0o2000000 | 0o4000, 0), ALLOWED),
    ("socket", (0x1_0000_0002, 1, 0), ALLOWED),  # the kernel reads the lower half too
    *(("socket", (family, 1, 0), DENIED) for family in (0, 1, 3, 16, 17, 38, 40, 0x1_0000_0001)),
    *(("socket", (family, kind, 0), DENIED) for family in (2, 10) for kind in (2, 3, 4, 5, 6, 10, 2 | 0o2000000)),
    *(("socket", (family, 1, protocol), DENIED) for family in (2, 10) for protocol in (1, 17, 132, 255, 256, 262)),
    ("connect", (), ALLOWED),
    ("accept", (), DENIED),
]


@MACHINES
@pytest.mark.parametrize(("name", "args", "answer"), TCP)
def test_a_network_grant_opens_tcp_only(machine: str, name: str, args: tuple[int, ...], answer: str) -> None:
    """Streams of TCP and connecting, for the command and for what makes the listener; no other socket at all."""
    for opened in (OF_GRANTED, OF_LISTENER):
        program = filter_program(machine, opened)
        assert program is not None
        assert judge(program, AUDIT[machine], CALLS[machine][name], args) == answer


@MACHINES
@pytest.mark.parametrize("name", ["bind", "listen"])
def test_only_what_makes_the_listener_may_listen(machine: str, name: str) -> None:
    """The command's own filter denies what the first process needed."""
    for opened, answer in ((OF_GRANTED, DENIED), (OF_LISTENER, ALLOWED)):
        program = filter_program(machine, opened)
        assert program is not None
        assert judge(program, AUDIT[machine], CALLS[machine][name]) == answer


@MACHINES
@pytest.mark.parametrize(("name", "args", "answer"), [case for case in CASES if case[0] not in OF_LISTENER])
def test_a_network_grant_opens_nothing_else(machine: str, name: str, args: tuple[int, ...], answer: str) -> None:
    """Every other call is judged as without a grant."""
    for opened in (OF_GRANTED, OF_LISTENER):
        program = filter_program(machine, opened)
        assert program is not None
        assert judge(program, AUDIT[machine], CALLS[machine][name], args) == answer


@MACHINES
def test_calls_of_another_machine_are_deadly(machine: str) -> None:
    """A 32-bit program's calls have other numbers, so none of them can be let through."""
    program = filter_program(machine)
    assert program is not None
    assert judge(program, 0x40000003, 41) == KILLED


def test_the_second_numbering_of_x86_is_denied() -> None:
    """The x32 numbers name the same calls a second time."""
    program = filter_program("x86_64")
    assert program is not None
    assert judge(program, AUDIT["x86_64"], 0x40000000 | 41) == DENIED
    assert judge(program, AUDIT["x86_64"], 0x40000000) == DENIED


def test_an_unknown_machine_has_no_filter() -> None:
    """No filter is better than a wrong one: the probe then says that there is no sandbox."""
    assert filter_program("riscv64") is None
    assert filter_program("arm64") == filter_program("aarch64")

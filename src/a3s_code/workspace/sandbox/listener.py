"""The first process of a command with a network grant; it runs inside, by itself, before the command does. In: a
descriptor to the host, a port, a filter, a command line. Out: a listener, sent to the host, and the command in its
place.

One rule: nobody has to trust it: what it could do wrong, in a network where nobody else is, harms nobody. The host
takes nothing from it but a listener at the one place, and the filter that it adds only takes away.
Known weakness: it needs a Python with ``ctypes`` inside the sandbox.

A socket belongs to the network in which it was made, whoever holds it: so the host can take connections out of the
sandbox's empty network, and nothing in there needs a socket that leads outside. Only the standard library, and nothing
newer than Python 3.7: it may be run by the system's own.
"""

from __future__ import annotations

import base64
import ctypes
import os
import socket
import struct
import sys


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def offer(descriptor: int, port: int) -> None:
    """Listens, and gives the listener away."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener, socket.socket(fileno=descriptor) as host:
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        host.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", listener.fileno()))])


def confine(program: bytes) -> None:
    """Adds a seccomp filter to the one that this process has."""
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program, len(program))
    made = _Program(len(program) // 8, ctypes.addressof(steps))
    if libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(made)) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "the filter could not be set")


if __name__ == "__main__":
    offer(int(sys.argv[1]), int(sys.argv[2]))
    confine(base64.b64decode(sys.argv[3]))
    os.execv(sys.argv[4], sys.argv[4:])

"""Runs inside the sandbox and tries to get out. In: a JSON object with what to aim at. Out: a JSON object with what
each attempt came to: ``stopped: …`` or ``THROUGH: …``.

One rule: an attempt that is not stopped says so, and does no harm: what belongs to the machine is opened, or asked
for, and never written. Needs nothing but Python 3.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

Attempt: TypeAlias = Callable[[], Any]

AIM = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
ATTEMPTS: dict[str, Attempt] = {}


def attempt(function: Attempt) -> Attempt:
    ATTEMPTS[function.__name__] = function
    return function


def write(path: str) -> None:
    with open(path, "w") as file:
        file.write("pwned")


def reach(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def check(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def syscall(number: int, *args: Any) -> int:
    return check(int(LIBC.syscall(number, *args)))


@attempt
def write_outside() -> Any:
    write(AIM["outside"] + "/new.txt")


@attempt
def overwrite_outside() -> Any:
    write(AIM["outside"] + "/plain.txt")


@attempt
def append_to_passwd() -> Any:
    reach("/etc/passwd")


@attempt
def write_system() -> Any:
    write("/usr/bin/planted")


@attempt
def write_home() -> Any:
    write(AIM["home"] + "/.bashrc")


@attempt
def remove_outside() -> Any:
    os.unlink(AIM["outside"] + "/plain.txt")


@attempt
def rename_from_outside() -> Any:
    os.rename(AIM["outside"] + "/plain.txt", "taken.txt")


@attempt
def chmod_outside() -> Any:
    os.chmod(AIM["outside"] + "/plain.txt", 0o777)


@attempt
def touch_outside() -> Any:
    os.utime(AIM["outside"] + "/plain.txt", (0, 0))


@attempt
def write_through_a_link() -> Any:
    os.symlink(AIM["outside"], "way-out")
    write("way-out/by-link.txt")


@attempt
def write_through_a_link_to_a_file() -> Any:
    os.symlink(AIM["outside"] + "/plain.txt", "file-link")
    write("file-link")


@attempt
def hard_link_to_outside() -> Any:
    os.link(AIM["outside"] + "/plain.txt", "hard.txt")


@attempt
def write_through_root_of_init() -> Any:
    write("/proc/1/root" + AIM["outside"] + "/by-proc.txt")


@attempt
def write_through_own_root() -> Any:
    write("/proc/self/root" + AIM["outside"] + "/by-proc.txt")


@attempt
def write_through_cwd_of_init() -> Any:
    write("/proc/1/cwd/../../../../../.." + AIM["outside"] + "/by-proc.txt")


@attempt
def see_the_host_process() -> Any:
    pid = AIM["host_pid"]
    os.kill(pid, 0)
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read()


@attempt
def other_processes() -> Any:
    others = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    if len(others) < 15:
        raise OSError(f"only {len(others)} processes are seen")


@attempt
def leaked_descriptors() -> Any:
    places = []
    for pid in ("self", "1"):
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            with contextlib.suppress(OSError):
                places.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    strange = [p for p in places if not p.startswith(("pipe:", "/dev/null", "/proc/", "anon_inode:[event"))]
    if not strange:
        raise OSError("none")
    return strange


@attempt
def memory_of_init() -> Any:
    reach("/proc/1/mem")
    with open("/proc/1/status") as file:
        status = file.read()
    if "Seccomp:\t2" in status:
        raise OSError("the first process is confined as well")


def _read(path: str) -> str:
    with open(path) as file:
        data = file.read()
    if "SECRET" not in data:
        raise OSError(f"read {data!r}")
    return data


def _reader(path: str) -> Attempt:
    def read() -> Any:
        return _read(path)

    return read


for _name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".npmrc", ".pypirc", ".git-credentials"):
    ATTEMPTS[f"read_{_name}"] = _reader(AIM["home"] + "/" + _name)
ATTEMPTS["read_gh"] = _reader(AIM["home"] + "/.config/gh/hosts.yml")
for _name in (".env", "sub/server.key", "sub/.aws/credentials", "alias.txt", "linked-key"):
    ATTEMPTS[f"read_workspace_{_name}"] = _reader(_name)


@attempt
def read_credential_by_proc() -> Any:
    return _read("/proc/1/root" + AIM["home"] + "/.ssh/id_ed25519")


@attempt
def read_credential_after_moving_its_directory() -> Any:
    os.rename("sub", "moved")
    try:
        return _read("moved/server.key")
    finally:
        os.rename("moved", "sub")


@attempt
def remove_mask() -> Any:
    os.unlink(".env")


@attempt
def read_shadow() -> Any:
    with open("/etc/shadow") as file:
        return file.readlines()


@attempt
def secrets_in_environment() -> Any:
    found = [name for name in os.environ if "TOKEN" in name]
    for pid in ("self", "1"):
        with contextlib.suppress(PermissionError), open(f"/proc/{pid}/environ") as file:
            found += ["SECRET"] if "SECRET" in file.read() else []
    if not found:
        raise OSError("none")
    return found


def _socket(family: int, kind: int) -> Attempt:
    def make() -> Any:
        socket.socket(family, kind)

    return make


for _family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH"):
    if hasattr(socket, _family):
        for _kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            ATTEMPTS[f"socket_{_family}_{_kind.name}"] = _socket(getattr(socket, _family), _kind)


@attempt
def connect_to_host() -> Any:
    socket.create_connection(("127.0.0.1", AIM["port"]), timeout=2)


@attempt
def datagram_pair() -> Any:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


@attempt
def stream_pair_towards_host() -> Any:
    one, _ = socket.socketpair()
    one.connect("\0" + AIM["abstract"])


@attempt
def send_to_host_socket() -> Any:
    one, _ = socket.socketpair()
    one.sendto(b"x", AIM["unix"])


@attempt
def listen() -> Any:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()


@attempt
def listen_on_a_pair() -> Any:
    one, _ = socket.socketpair()
    one.bind("./listener")
    one.listen()


@attempt
def fetch_with_shell() -> Any:
    code = subprocess.run(
        ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{AIM['port']}"], stderr=subprocess.DEVNULL
    ).returncode
    if code:
        raise OSError(f"exit code {code}")


@attempt
def new_user_namespace() -> Any:
    check(LIBC.unshare(0x10000000))


@attempt
def new_mount_namespace() -> Any:
    check(LIBC.unshare(0x00020000))


@attempt
def clone_into_namespace() -> Any:
    child = syscall(AIM["calls"]["clone"], 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)


@attempt
def clone3() -> Any:
    args = struct.pack("=11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    child = syscall(435, args, len(args))
    if child == 0:
        os._exit(0)


@attempt
def enter_namespace() -> Any:
    fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    check(LIBC.setns(fd, 0))


@attempt
def unmount() -> Any:
    check(LIBC.umount2(AIM["home"].encode() + b"/.ssh", 2))


@attempt
def remount_writable() -> Any:
    check(LIBC.mount(b"none", AIM["outside"].encode(), None, 0x20 | 0x1000, None))


@attempt
def open_tree() -> Any:
    syscall(428, -100, b"/", 1)


@attempt
def trace_init() -> Any:
    check(LIBC.ptrace(16, 1, 0, 0))


@attempt
def keyring() -> Any:
    syscall(AIM["calls"]["keyctl"], 0, -3, 0, 0, 0)


@attempt
def load_bpf() -> Any:
    syscall(AIM["calls"]["bpf"], 0, 0, 0)


@attempt
def io_uring() -> Any:
    syscall(425, 1, ctypes.create_string_buffer(256))


@attempt
def perf_events() -> Any:
    syscall(AIM["calls"]["perf_event_open"], ctypes.create_string_buffer(128), 0, -1, -1, 0)


@attempt
def open_by_handle() -> Any:
    syscall(AIM["calls"]["open_by_handle_at"], -100, ctypes.create_string_buffer(64), 0)


@attempt
def type_into_terminal() -> Any:
    pairs = os.openpty()
    fcntl.ioctl(pairs[1], 0x5412, b"x")


@attempt
def type_into_terminal_with_high_bits() -> Any:
    one, _ = os.openpty()
    syscall(AIM["calls"]["ioctl"], one, ctypes.c_ulong(0x1_0000_5412), b"x")


@attempt
def controlling_terminal() -> Any:
    os.open("/dev/tty", os.O_RDWR)


@attempt
def make_a_device() -> Any:
    os.mknod("disk", 0o60600, os.makedev(8, 0))


@attempt
def privileges_by_a_setuid_program() -> Any:
    program = "import os; print(open('/proc/self/status').read())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if "NoNewPrivs:\t1" in result.stdout:
        raise OSError("no program gains privileges")


@attempt
def kernel_settings() -> Any:
    reach("/proc/sys/kernel/core_pattern")


@attempt
def sysrq() -> Any:
    reach("/proc/sysrq-trigger")


@attempt
def anything_of_the_kernel() -> Any:
    found = []
    for top in ("/proc", "/sys"):
        for directory, below, names in os.walk(top):
            below[:] = [name for name in below if not (directory == "/proc" and name.isdigit())][:200]
            found += [f"{directory}/{name}" for name in names if os.access(f"{directory}/{name}", os.W_OK)]
    found = [path for path in found if not path.startswith("/proc/kcore") and os.path.isfile(path)]
    if not found:
        raise OSError("none")
    return found


@attempt
def control_groups() -> Any:
    for directory, _, names in os.walk("/sys/fs/cgroup"):
        if "cgroup.procs" in names:
            reach(directory + "/cgroup.procs")
            return directory
    raise OSError("there are none")


def _protected(path: str) -> Attempt:
    def plant() -> Any:
        parent = os.path.dirname(path)
        if parent:
            os.makedirs(parent, exist_ok=True)
        write(path)

    return plant


for _path in (".git/hooks/pre-commit", ".git/config", ".claude/settings.json", ".vscode/tasks.json", ".idea/x"):
    ATTEMPTS[f"plant_{_path}"] = _protected(_path)
for _path in (
    ".agents/x",
    ".codex/x",
    ".a3s/x",
    ".a3s/effect-log/x",
    ".gitmodules",
    ".mcp.json",
    ".bashrc",
    ".profile",
):
    ATTEMPTS[f"plant_{_path}"] = _protected(_path)


@attempt
def plant_in_a_repository_below() -> Any:
    write("inner/repo/.git/config")


@attempt
def replace_a_repository_below() -> Any:
    os.rename("inner/repo", "inner/old")
    os.makedirs("inner/repo/.git")
    write("inner/repo/.git/config")


@attempt
def replace_what_holds_it() -> Any:
    os.rename("inner", "outer")


@attempt
def move_protected_away() -> Any:
    os.rename(".git", "git-old")


@attempt
def link_over_protected() -> Any:
    os.symlink("/tmp", ".vscode")


@attempt
def swap_protected() -> Any:
    os.mkdir("mine")
    check(LIBC.renameat2(-100, b"mine", -100, b".git", 2))


@attempt
def lock_the_sandbox_out() -> Any:
    fd = os.open(".a3s/sandbox/lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)


results: dict[str, str] = {}
for name, function in ATTEMPTS.items():
    try:
        results[name] = f"THROUGH: {function()!r:.80}"
    except (OSError, AttributeError) as error:
        results[name] = f"stopped: {error}"
print(json.dumps(results))

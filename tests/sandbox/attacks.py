"""Runs inside the sandbox and tries to get out. In: a JSON object with what to aim at. Out: a JSON object with what
each attempt came to: ``stopped: …`` or ``THROUGH: …``.

One rule: an attempt that is not stopped says so, and does no harm: what belongs to the machine is opened, or asked
for, and never written. Needs nothing but Python 3.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys

AIM = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
ATTEMPTS = {}


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def write(path):
    with open(path, "w") as file:
        file.write("pwned")


def reach(path):
    os.close(os.open(path, os.O_WRONLY))


def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def syscall(number, *args):
    return check(LIBC.syscall(number, *args))


@attempt
def write_outside():
    write(AIM["outside"] + "/new.txt")


@attempt
def overwrite_outside():
    write(AIM["outside"] + "/plain.txt")


@attempt
def append_to_passwd():
    reach("/etc/passwd")


@attempt
def write_system():
    write("/usr/bin/planted")


@attempt
def write_home():
    write(AIM["home"] + "/.bashrc")


@attempt
def remove_outside():
    os.unlink(AIM["outside"] + "/plain.txt")


@attempt
def rename_from_outside():
    os.rename(AIM["outside"] + "/plain.txt", "taken.txt")


@attempt
def chmod_outside():
    os.chmod(AIM["outside"] + "/plain.txt", 0o777)


@attempt
def touch_outside():
    os.utime(AIM["outside"] + "/plain.txt", (0, 0))


@attempt
def write_through_a_link():
    os.symlink(AIM["outside"], "way-out")
    write("way-out/by-link.txt")


@attempt
def write_through_a_link_to_a_file():
    os.symlink(AIM["outside"] + "/plain.txt", "file-link")
    write("file-link")


@attempt
def hard_link_to_outside():
    os.link(AIM["outside"] + "/plain.txt", "hard.txt")


@attempt
def write_through_root_of_init():
    write("/proc/1/root" + AIM["outside"] + "/by-proc.txt")


@attempt
def write_through_own_root():
    write("/proc/self/root" + AIM["outside"] + "/by-proc.txt")


@attempt
def write_through_cwd_of_init():
    write("/proc/1/cwd/../../../../../.." + AIM["outside"] + "/by-proc.txt")


@attempt
def see_the_host_process():
    pid = AIM["host_pid"]
    os.kill(pid, 0)
    return open(f"/proc/{pid}/cmdline").read()


@attempt
def other_processes():
    others = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    if len(others) < 15:
        raise OSError(f"only {len(others)} processes are seen")


@attempt
def leaked_descriptors():
    places = []
    for pid in ("self", "1"):
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                places.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                pass
    strange = [p for p in places if not p.startswith(("pipe:", "/dev/null", "/proc/", "anon_inode:[event"))]
    if not strange:
        raise OSError("none")
    return strange


@attempt
def memory_of_init():
    with open("/proc/1/mem", "r+b") as file:
        file.seek(0x1000)
    status = open("/proc/1/status").read()
    if "Seccomp:\t2" in status:
        raise OSError("the first process is confined as well")


def _read(path):
    data = open(path).read()
    if "SECRET" not in data:
        raise OSError(f"read {data!r}")
    return data


def _reader(path):
    def read():
        return _read(path)

    return read


for _name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".npmrc", ".pypirc", ".git-credentials"):
    ATTEMPTS[f"read_{_name}"] = _reader(AIM["home"] + "/" + _name)
ATTEMPTS["read_gh"] = _reader(AIM["home"] + "/.config/gh/hosts.yml")
for _name in (".env", "sub/server.key", "sub/.aws/credentials", "alias.txt", "linked-key"):
    ATTEMPTS[f"read_workspace_{_name}"] = _reader(_name)


@attempt
def read_credential_by_proc():
    return _read("/proc/1/root" + AIM["home"] + "/.ssh/id_ed25519")


@attempt
def read_credential_after_moving_its_directory():
    os.rename("sub", "moved")
    try:
        return _read("moved/server.key")
    finally:
        os.rename("moved", "sub")


@attempt
def remove_mask():
    os.unlink(".env")


@attempt
def read_shadow():
    return [line for line in open("/etc/shadow") if line]


@attempt
def secrets_in_environment():
    found = [name for name in os.environ if "TOKEN" in name]
    environs = [open(f"/proc/{pid}/environ").read() for pid in ("self", "1") if os.access(f"/proc/{pid}/environ", 4)]
    if not found and "SECRET" not in "".join(environs):
        raise OSError("none")
    return found


def _socket(family, kind):
    def make():
        socket.socket(family, kind)

    return make


for _family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH"):
    if hasattr(socket, _family):
        for _kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            ATTEMPTS[f"socket_{_family}_{_kind.name}"] = _socket(getattr(socket, _family), _kind)


@attempt
def connect_to_host():
    socket.create_connection(("127.0.0.1", AIM["port"]), timeout=2)


@attempt
def datagram_pair():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


@attempt
def stream_pair_towards_host():
    one, _ = socket.socketpair()
    one.connect("\0" + AIM["abstract"])


@attempt
def send_to_host_socket():
    one, _ = socket.socketpair()
    one.sendto(b"x", AIM["unix"])


@attempt
def listen():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()


@attempt
def listen_on_a_pair():
    one, _ = socket.socketpair()
    one.bind("./listener")
    one.listen()


@attempt
def fetch_with_shell():
    code = subprocess.run(
        ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{AIM['port']}"], stderr=subprocess.DEVNULL
    ).returncode
    if code:
        raise OSError(f"exit code {code}")


@attempt
def new_user_namespace():
    check(LIBC.unshare(0x10000000))


@attempt
def new_mount_namespace():
    check(LIBC.unshare(0x00020000))


@attempt
def clone_into_namespace():
    child = syscall(AIM["calls"]["clone"], 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)


@attempt
def clone3():
    args = struct.pack("=11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    child = syscall(435, args, len(args))
    if child == 0:
        os._exit(0)


@attempt
def enter_namespace():
    fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    check(LIBC.setns(fd, 0))


@attempt
def unmount():
    check(LIBC.umount2(AIM["home"].encode() + b"/.ssh", 2))


@attempt
def remount_writable():
    check(LIBC.mount(b"none", AIM["outside"].encode(), None, 0x20 | 0x1000, None))


@attempt
def open_tree():
    syscall(428, -100, b"/", 1)


@attempt
def trace_init():
    check(LIBC.ptrace(16, 1, 0, 0))


@attempt
def keyring():
    syscall(AIM["calls"]["keyctl"], 0, -3, 0, 0, 0)


@attempt
def load_bpf():
    syscall(AIM["calls"]["bpf"], 0, 0, 0)


@attempt
def io_uring():
    syscall(425, 1, ctypes.create_string_buffer(256))


@attempt
def perf_events():
    syscall(AIM["calls"]["perf_event_open"], ctypes.create_string_buffer(128), 0, -1, -1, 0)


@attempt
def open_by_handle():
    syscall(AIM["calls"]["open_by_handle_at"], -100, ctypes.create_string_buffer(64), 0)


@attempt
def type_into_terminal():
    pairs = os.openpty()
    fcntl.ioctl(pairs[1], 0x5412, b"x")


@attempt
def type_into_terminal_with_high_bits():
    one, _ = os.openpty()
    syscall(AIM["calls"]["ioctl"], one, ctypes.c_ulong(0x1_0000_5412), b"x")


@attempt
def controlling_terminal():
    os.open("/dev/tty", os.O_RDWR)


@attempt
def make_a_device():
    os.mknod("disk", 0o60600, os.makedev(8, 0))


@attempt
def gain_root_by_setuid():
    if os.geteuid() == 0:
        os.setuid(65534)
        raise OSError("could become another user, which gains nothing")
    for name in ("su", "sudo", "mount", "passwd"):
        for place in ("/bin", "/usr/bin"):
            if os.path.exists(f"{place}/{name}"):
                result = subprocess.run(
                    ["python3", "-c", "import os; print(open('/proc/self/status').read())"],
                    capture_output=True,
                    text=True,
                )
                if "NoNewPrivs:\t1" in result.stdout:
                    raise OSError("no new privileges")


@attempt
def kernel_settings():
    reach("/proc/sys/kernel/core_pattern")


@attempt
def sysrq():
    reach("/proc/sysrq-trigger")


@attempt
def anything_of_the_kernel():
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
def control_groups():
    for directory, _, names in os.walk("/sys/fs/cgroup"):
        if "cgroup.procs" in names:
            reach(directory + "/cgroup.procs")
            return directory
    raise OSError("there are none")


def _protected(path):
    def plant():
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
def plant_in_a_repository_below():
    write("inner/repo/.git/config")


@attempt
def replace_a_repository_below():
    os.rename("inner/repo", "inner/old")
    os.makedirs("inner/repo/.git")
    write("inner/repo/.git/config")


@attempt
def replace_what_holds_it():
    os.rename("inner", "outer")


@attempt
def move_protected_away():
    os.rename(".git", "git-old")


@attempt
def link_over_protected():
    os.symlink("/tmp", ".vscode")


@attempt
def swap_protected():
    os.mkdir("mine")
    check(LIBC.renameat2(-100, b"mine", -100, b".git", 2))


@attempt
def lock_the_sandbox_out():
    fd = os.open(".a3s/sandbox/lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)


results = {}
for name, function in ATTEMPTS.items():
    if name == "gain_root_by_setuid":
        continue
    try:
        value = function()
        results[name] = f"THROUGH: {value!r:.80}"
    except (OSError, AttributeError) as error:
        results[name] = f"stopped: {error}"
try:
    results["gain_root_by_setuid"] = f"THROUGH: {ATTEMPTS['gain_root_by_setuid']()!r}"
except OSError as error:
    results["gain_root_by_setuid"] = f"stopped: {error}"
print(json.dumps(results))

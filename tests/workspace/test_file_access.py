"""Reading, listing and walking a workspace without ever leaving it (tools.md §4.1, §4.3; cases F12, E08)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place
from a3s_code.workspace import directory
from a3s_code.workspace.local import LocalWorkspace


@pytest.fixture(params=["descriptors", "paths"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalWorkspace:
    """Every test runs with directory descriptors and without, as on a system that lacks them."""
    monkeypatch.setattr(directory, "BY_DESCRIPTOR", request.param == "descriptors")
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("secret")
    return LocalWorkspace(str(tmp_path / "ws"))


@pytest.fixture
def root(workspace: LocalWorkspace) -> Path:
    return Path(workspace.root)


def kind_of_failure(action: Callable[..., object], *args: object) -> str:
    with pytest.raises(ToolFailure) as caught:
        action(*args)
    return caught.value.kind


def test_a_file_is_opened_and_described(workspace: LocalWorkspace, root: Path) -> None:
    """``open`` gives the bytes and ``stat`` the numbers of the same file."""
    (root / "d").mkdir()
    (root / "d" / "f").write_bytes(b"hello")
    os.chmod(root / "d" / "f", 0o640)
    place = workspace.locate("d/f")
    with workspace.open(place) as stream:
        assert stream.read() == b"hello"
    found, real = workspace.stat(place), os.stat(root / "d" / "f")
    assert (found.kind, found.size, found.mode, found.links) == ("file", 5, 0o640, 1)
    assert (found.inode, found.device, found.mtime_ns) == (real.st_ino, real.st_dev, real.st_mtime_ns)
    assert workspace.stat(workspace.locate(".")).kind == "dir"


def test_missing_files_are_told_from_wrong_ones(workspace: LocalWorkspace, root: Path) -> None:
    """``stat`` says missing, also below a file; opening says not found; directories are not files."""
    (root / "f").write_text("x")
    for path in ("nothing", "no/thing", "f/below"):
        assert workspace.stat(workspace.locate(path)).kind == "missing"
        assert kind_of_failure(workspace.open, workspace.locate(path)) == "not_found"
    assert kind_of_failure(workspace.open, workspace.locate(".")) == "unsupported"
    assert kind_of_failure(workspace.entries, workspace.locate("f")) == "unsupported"
    assert kind_of_failure(workspace.entries, workspace.locate("f/below")) == "not_found"
    assert kind_of_failure(workspace.entries, workspace.locate("nothing")) == "not_found"


def test_special_files_are_refused_without_waiting(workspace: LocalWorkspace, root: Path) -> None:
    """A FIFO, a socket or a device is unsupported, and opening one never blocks."""
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(root / "sock"))
    for name in ("fifo", "sock"):
        place = workspace.locate(name)
        assert workspace.stat(place).kind == "other"
        assert kind_of_failure(workspace.open, place) == "unsupported"
        assert kind_of_failure(workspace.replace, place, b"", None) == "unsupported"


def test_a_link_to_a_device_is_denied(workspace: LocalWorkspace, root: Path) -> None:
    """``/dev/zero`` behind a link is outside."""
    (root / "zero").symlink_to("/dev/zero")
    assert kind_of_failure(workspace.locate, "zero") == "path_denied"


def test_a_swapped_component_fails_and_never_escapes(workspace: LocalWorkspace, root: Path) -> None:
    """A directory or file that becomes a link after it was located is not followed by any access."""
    (root / "d").mkdir()
    (root / "d" / "f").write_text("mine")
    place = workspace.locate("d/f")
    kept = workspace.stat(place)
    (root / "d").rename(root / "old")
    (root / "d").symlink_to("../outside")
    assert kind_of_failure(workspace.open, place) == "path_denied"
    assert kind_of_failure(workspace.stat, place) == "path_denied"
    assert kind_of_failure(workspace.entries, Place("d", "d")) == "path_denied"
    assert kind_of_failure(workspace.replace, place, b"new", kept) == "path_denied"
    assert kind_of_failure(workspace.replace, Place("d/g", "d/g"), b"new", None) == "path_denied"
    assert sorted(os.listdir(root / "../outside")) == ["f"]
    assert (root / "../outside" / "f").read_text() == "secret"


def test_a_swapped_file_fails_and_never_escapes(workspace: LocalWorkspace, root: Path) -> None:
    """The last component is no exception."""
    (root / "f").write_text("mine")
    place = workspace.locate("f")
    (root / "f").unlink()
    (root / "f").symlink_to("../outside/f")
    assert kind_of_failure(workspace.open, place) == "path_denied"
    assert kind_of_failure(workspace.stat, place) == "path_denied"
    assert kind_of_failure(workspace.replace, place, b"new", None) == "path_denied"
    assert (root / "../outside" / "f").read_text() == "secret"


def test_a_swapped_root_fails(workspace: LocalWorkspace, root: Path) -> None:
    """The root itself may not become a link either."""
    (root / "f").write_text("mine")
    place = workspace.locate("f")
    root.rename(root.with_name("moved"))
    root.symlink_to("outside")
    assert kind_of_failure(workspace.open, place) == "path_denied"


def test_entries_come_in_byte_order_and_links_stay_links(workspace: LocalWorkspace, root: Path) -> None:
    """A listing has every entry once, by the bytes of its name, with its own kind."""
    (root / "b").write_text("12345")
    (root / "B").mkdir()
    (root / ".hidden").write_text("")
    (root / "é").write_text("")
    (root / "link").symlink_to("../outside")
    entries = workspace.entries(workspace.locate("."))
    assert [(e.name, e.kind) for e in entries] == [
        (".hidden", "file"),
        ("B", "dir"),
        ("b", "file"),
        ("link", "symlink"),
        ("é", "file"),
    ]
    assert entries[2].size == 5


def test_a_walk_goes_top_down_and_stays_inside(workspace: LocalWorkspace, root: Path) -> None:
    """A walk gives workspace-relative paths, enters no link and no directory that the caller took out."""
    for path in ("a/x", "a/y", "b", "skip/z"):
        (root / path).mkdir(parents=True)
    (root / "a" / "x" / "f").write_text("")
    (root / "out").symlink_to("../outside")
    (root / "again").symlink_to("a")
    seen = []
    for path, entries in workspace.walk(workspace.locate(".")):
        seen.append(path)
        entries[:] = [entry for entry in entries if entry.name != "skip"]
    assert seen == [".", "a", "a/x", "a/y", "b"]
    through_link = [path for path, _ in workspace.walk(workspace.locate("again"))]
    assert through_link == ["again", "again/x", "again/y"]


def test_a_walk_leaves_out_what_vanishes(workspace: LocalWorkspace, root: Path) -> None:
    """A directory that disappears or becomes a link during the walk is left out; a missing start is a failure."""
    (root / "gone").mkdir()
    (root / "swapped").mkdir()
    (root / "there").mkdir()
    walk = workspace.walk(workspace.locate("."))
    assert next(walk)[0] == "."
    (root / "gone").rmdir()
    (root / "swapped").rmdir()
    (root / "swapped").symlink_to("../outside")
    assert [path for path, _ in walk] == ["there"]
    assert kind_of_failure(lambda: next(workspace.walk(workspace.locate("nothing")))) == "not_found"

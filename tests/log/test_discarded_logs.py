"""The end of a log: all that is the session's own goes, what is another's stays, and a log is never cut in half."""

from __future__ import annotations

from pathlib import Path

import pytest
from loghelp import all_facts, make_log, said, written

from a3s_code.errors import CodeError, SessionBusy, StoreError
from a3s_code.stores.blobs import FileBlobs
from a3s_code.stores.discarding import discard_log
from a3s_code.testing.faults import FaultyDisk, on_disk

BESIDE = ("s1.lock", "s1.view", "s1.view.part-77", "s1.torn-1", "s1.torn-12", "s1.replaced-2", "s1.damaged-1")
UNFINISHED = ("s1.jsonl.rebuilt", "s1.jsonl.repaired", "s1.jsonl.copy")
OTHERS = ("s1.view.jsonl", "s1.torn-1.jsonl", "s1.torn-1.view", "s12.view", "s1.jsonl.view", "s1xview", ".gitignore")


def names(path: Path) -> set[str]:
    return {each.name for each in path.parent.iterdir()}


def test_nothing_of_the_session_is_left(tmp_path: Path) -> None:
    """The log goes with all that was kept beside it; sessions of similar names and attachments stay; then there is
    nothing to remove any more, and the id begins anew."""
    path = written(tmp_path, all_facts())
    kept = FileBlobs(str(tmp_path)).put(b"a picture", "image", "image/png")
    for name in (*BESIDE, *UNFINISHED, *OTHERS):
        (path.parent / name).write_bytes(b"x")
    assert discard_log(str(tmp_path), "s1") is True
    assert names(path) == set(OTHERS)
    assert FileBlobs(str(tmp_path)).load(kept) == b"a picture"
    assert discard_log(str(tmp_path), "s1") is False
    log = make_log(tmp_path)
    assert log.acquire() == []
    log.release()


def test_a_workspace_without_logs_is_left_as_it_is(tmp_path: Path) -> None:
    """Where there is nothing to remove, nothing is made."""
    assert discard_log(str(tmp_path), "s1") is False
    assert discard_log(str(tmp_path / "nowhere"), "s1") is False
    assert list(tmp_path.iterdir()) == []


def test_what_lies_beside_a_log_that_is_gone_goes_too(tmp_path: Path) -> None:
    """A log that somebody removed by hand leaves files, which are the session's still."""
    path = written(tmp_path, all_facts())
    path.unlink()
    (path.parent / "s1.replaced-1").write_bytes(b"x")
    assert discard_log(str(tmp_path), "s1") is True
    assert names(path) == {".gitignore"}


def test_a_log_that_is_written_stays(tmp_path: Path) -> None:
    """While somebody has the lock nothing is touched, the error names the holder, and the holder writes on."""
    log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    before = names(Path(log.path))
    with pytest.raises(SessionBusy, match="this process"):
        discard_log(str(tmp_path), "s1")
    assert names(Path(log.path)) == before
    log.append([said(2)])
    log.release()
    assert list(make_log(tmp_path).read()) == [said(1), said(2)]


def test_another_sessions_log_stays(tmp_path: Path) -> None:
    """A log whose header names another session is not removed under this name; a damaged one is, by its name."""
    path = written(tmp_path, all_facts(), "other")
    taken = path.with_name("s1.jsonl")
    path.rename(taken)
    with pytest.raises(CodeError, match="log of session 'other'") as caught:
        discard_log(str(tmp_path), "s1")
    assert caught.value.code == "SESSION_MISMATCH"
    assert names(taken) == {"s1.jsonl", ".gitignore"}
    taken.write_bytes(b"\0 no header\n")
    assert discard_log(str(tmp_path), "s1") is True
    assert not taken.exists()


def test_a_removal_that_fails_leaves_a_whole_log_or_none(tmp_path: Path) -> None:
    """Whatever operation fails, the log holds every fact or is gone; nobody is kept out, and a second call ends it."""
    seen = set()
    for at in range(1, 100):
        root = tmp_path / str(at)
        root.mkdir()
        path = written(root, all_facts())
        for name in BESIDE[1:]:
            (path.parent / name).write_bytes(b"x")
        disk = FaultyDisk(at, "eio")
        with on_disk(disk):
            try:
                discard_log(str(root), "s1")
            except StoreError:
                seen.add(path.exists())
        if disk.operations < at:
            break
        assert list(make_log(root).read()) in ([], all_facts())
        discard_log(str(root), "s1")
        assert names(path) == {".gitignore"}
    assert seen == {True, False}

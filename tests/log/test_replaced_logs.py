"""A log in the place of another (facts.md, *Resume*): at no moment is there none, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3s_code.core.codec import Header, encode
from a3s_code.core.facts import Fact, UserSaid
from a3s_code.errors import CodeError, SessionBusy, StoreError
from a3s_code.ports.log import Position
from a3s_code.stores.factlog import FileFactLog
from a3s_code.stores.replacing import replace_log
from a3s_code.stores.syncer import Syncer
from a3s_code.testing.faults import FaultKind, FaultyDisk, on_disk


def lines(text: str, count: int) -> list[bytes]:
    made, before = [], ""
    for seq in range(1, count + 1):
        raw, before = encode(Fact(seq, f"f{seq}", 1, "", "user.message", UserSaid(text, "history")), before)
        made.append(raw.removesuffix(b"\n"))
    return made


def opened(root: Path) -> FileFactLog:
    return FileFactLog(str(root), "s", created_ms=1, syncer=Syncer(), durability="os")


def texts(root: Path) -> list[str]:
    found = [fact.data for fact in opened(root).read()]
    return [data.text for data in found if isinstance(data, UserSaid)]


def begun(root: Path) -> FileFactLog:
    root.mkdir()
    log = opened(root)
    replace_log(log.path, Header("s", "s", 1), lines("old", 2))
    return log


def test_the_old_log_is_kept(tmp_path: Path) -> None:
    """Each file that was replaced is beside the new one, as it was; the new one goes on and has its own header."""
    root = tmp_path / "ws"
    log = begun(root)
    old = Path(log.path).read_bytes()
    log.replace(Header("s", "s", 7, more={"from": "there"}), lines("new", 3))
    log.replace(Header("s", "s", 8), lines("newer", 1))
    assert (Path(log.path).parent / "s.replaced-1").read_bytes() == old
    assert (Path(log.path).parent / "s.replaced-2").exists()
    header = log.header()
    assert header is not None
    assert header.created_ms == 8
    assert list(log.acquire()) == list(opened(root).read())
    assert log.lines(Position(), 1) == lines("newer", 1)
    log.append([Fact(2, "f2", 1, "", "user.message", UserSaid("more", "history"))])
    log.release()
    assert texts(root) == ["newer", "more"]


def test_a_log_in_use_is_not_replaced(tmp_path: Path) -> None:
    """Who would replace it is told that it is busy, and nothing has changed."""
    root = tmp_path / "ws"
    log = begun(root)
    log.acquire()
    with pytest.raises(SessionBusy):
        opened(root).replace(Header("s", "s", 1), lines("new", 1))
    log.release()
    assert texts(root) == ["old", "old"]


@pytest.mark.parametrize("kind", ["enospc", "eio", "torn", "fsync"])
def test_a_disk_that_fails_leaves_a_whole_log(tmp_path: Path, kind: FaultKind) -> None:
    """Whichever operation fails, the log is the old one or the new one, and the next try works."""
    failed = 0
    for n in range(1, 60):
        root = tmp_path / f"{n}"
        begun(root)
        disk = FaultyDisk(n, kind)
        with on_disk(disk):
            try:
                opened(root).replace(Header("s", "s", 1), lines("new", 3))
            except (StoreError, CodeError):
                failed += 1
            else:
                if disk.operations < n:
                    break
        assert texts(root) in (["old"] * 2, ["new"] * 3)
        opened(root).replace(Header("s", "s", 1), lines("again", 1))
        assert texts(root) == ["again"]
    else:
        raise AssertionError("the disk never stopped failing")
    assert failed > 0

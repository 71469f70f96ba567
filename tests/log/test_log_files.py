"""Logs without a session: verify, repair, copy."""

from __future__ import annotations

from pathlib import Path

import pytest
from loghelp import all_facts, beside, make_log, said, written

from a3s_code.core.codec import decode_header
from a3s_code.errors import SessionBusy, StoreError
from a3s_code.stores.logfile import copy_log, read_header, read_log, repair_log, verify_log
from a3s_code.testing.faults import FaultyDisk, on_disk


def test_a_whole_log_is_verified(tmp_path: Path) -> None:
    """The report counts the facts and gives the last sum; a torn tail is counted, and no problem."""
    path = written(tmp_path, all_facts())
    report = verify_log(str(path))
    lines = list(read_log(str(path)))
    assert (report.ok, report.facts, report.sum, report.later) == (True, len(all_facts()), lines[-1].sum, 0)
    with path.open("ab") as file:
        file.write(b'{"seq":99')
    report = verify_log(str(path))
    assert (report.ok, report.facts, report.torn) == (True, len(all_facts()), 9)
    assert [line.fact for line in read_log(str(path))] == all_facts()
    assert read_header(str(path)).session_id == "s1"
    with pytest.raises(StoreError, match="could not be opened"):
        verify_log(str(path) + "x")


def damaged(path: Path, *changes: tuple[int, bytes | None]) -> bytes:
    """Replaces lines (from 1), or drops them, and gives the file's new content."""
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in changes:
        lines[number - 1] = b"" if line is None else line
    path.write_bytes(b"".join(lines))
    return b"".join(lines)


def test_every_problem_is_listed_once(tmp_path: Path) -> None:
    """C02: the report names each bad line and goes on behind it, so that one fault is one problem."""
    path = written(tmp_path, [said(n) for n in range(1, 11)])
    lines = path.read_bytes().splitlines(keepends=True)
    damaged(path, (4, lines[3].replace(b"go on", b"go no")), (8, None))
    report = verify_log(str(path))
    assert [(each.line, each.what.split(":")[0]) for each in report.problems] == [
        (4, "the sum of fact 3 doesn't fit"),
        (8, "fact 8 where fact 7 should be"),
    ]
    assert (report.facts, report.later) == (2, 7)
    damaged(path, (3, b'{"cut\n'))
    problems = verify_log(str(path)).problems
    assert [each.line for each in problems] == [3, 4, 8]
    assert problems[0].what.startswith("not valid JSON")


def test_a_repair_keeps_everything(tmp_path: Path) -> None:
    """C02, C09: the log goes up to the damage, the file as it was is kept beside it, and the report counts what was
    left out; a second repair has nothing to do."""
    path = written(tmp_path, all_facts())
    whole = path.read_bytes().splitlines(keepends=True)
    before = damaged(path, (5, whole[4][:20] + b"\n"))
    report = repair_log(str(path))
    assert report.kept_as == str(path.with_name("s1.damaged-1"))
    assert Path(report.kept_as).read_bytes() == before
    assert path.read_bytes() == b"".join(whole[:4])
    assert (report.facts, report.later) == (3, len(all_facts()) - 4)
    assert list(make_log(tmp_path).read()) == all_facts()[:3]
    assert repair_log(str(path)).kept_as is None
    assert beside(path) == ["s1.damaged-1"]
    before = damaged(path, (4, b"\0\n"), (3, b"{}\n"))
    assert repair_log(str(path)).kept_as == str(path.with_name("s1.damaged-2"))
    assert path.with_name("s1.damaged-2").read_bytes() == before
    log = make_log(tmp_path)
    assert log.acquire() == all_facts()[:1]
    log.append([said(2)])
    log.release()
    assert verify_log(str(path)).ok


def test_a_damaged_header_is_made_again_from_the_name(tmp_path: Path) -> None:
    """A file whose name is the session's id is saved whole; a hashed name can't be, and is left as it is."""
    path = written(tmp_path, all_facts())
    damaged(path, (1, b"\0\0\n"))
    report = repair_log(str(path))
    assert [each.line for each in report.problems] == [1]
    assert (report.facts, report.later) == (0, len(all_facts()))
    assert decode_header(path.read_bytes().splitlines()[0]).session_id == "s1"
    hashed = written(tmp_path, [said(1)], "an id with blanks")
    before = damaged(hashed, (1, b"{}\n"))
    with pytest.raises(StoreError, match="doesn't say the session's id"):
        repair_log(str(hashed))
    assert hashed.read_bytes() == before


def test_a_log_in_use_is_not_repaired(tmp_path: Path) -> None:
    """A repair takes the writer's lock."""
    log = make_log(tmp_path)
    log.acquire()
    with pytest.raises(SessionBusy, match="is being written by"):
        repair_log(log.path)
    log.release()
    with pytest.raises(StoreError, match="could not be opened"):
        repair_log(log.path + "x")


@pytest.mark.parametrize("kind", ["enospc", "eio", "torn", "fsync"])
def test_a_repair_that_fails_anywhere_loses_nothing(tmp_path: Path, kind: str) -> None:
    """Wherever the disk fails, either the damaged log or the repaired one stands at the path, the old content exists,
    and the next repair succeeds."""
    n = 0
    while True:
        n += 1
        root = tmp_path / str(n)
        root.mkdir()
        path = written(root, [said(1), said(2), said(3)])
        lines = path.read_bytes().splitlines(keepends=True)
        before = damaged(path, (3, b"{}\n"))
        with on_disk(FaultyDisk(n, kind)) as disk:  # type: ignore[arg-type]
            assert isinstance(disk, FaultyDisk)
            try:
                repair_log(str(path))
            except StoreError as error:
                assert error.code == "IO_ERROR"  # noqa: PT017  the last rounds don't fail
            reached = disk.operations >= n
        kept = [each.read_bytes() for each in path.parent.glob("s1.*") if each.name != "s1.lock"]
        assert before in kept
        assert path.read_bytes() in (before, b"".join(lines[:2]))
        repair_log(str(path))
        assert list(make_log(root).read()) == [said(1)]
        if not reached:
            break
    assert n > 2


def test_a_copy_keeps_the_bytes_of_every_line(tmp_path: Path) -> None:
    """A fork holds the facts up to the one asked for, line by line the same, under a header of its own."""
    path = written(tmp_path, all_facts())
    target = path.with_name("s2.jsonl")
    position = copy_log(str(path), str(target), 4, "s2", 77)
    old, new = path.read_bytes().splitlines(), target.read_bytes().splitlines()
    assert new[1:] == old[1:5]
    header = decode_header(new[0])
    assert (header.thread, header.session_id, header.created_ms) == ("s2", "s2", 77)
    log = make_log(tmp_path, "s2")
    assert log.acquire() == all_facts()[:4]
    assert log.position == position
    log.append([said(5)])
    log.release()
    assert [each.name for each in path.parent.glob("*.copy")] == []
    everything = path.with_name("s3.jsonl")
    assert copy_log(str(path), str(everything), None, "s3", 77).seq == len(all_facts())
    assert everything.read_bytes().splitlines()[1:] == old[1:]
    assert copy_log(str(path), str(path.with_name("s4.jsonl")), 0, "s4", 77).seq == 0
    assert list(make_log(tmp_path, "s4").read()) == []


def test_a_copy_appears_in_whole_or_not_at_all(tmp_path: Path) -> None:
    """A fact that isn't there, damage, a target that exists or a failing disk leave no file behind."""
    path = written(tmp_path, all_facts())
    target = path.with_name("s2.jsonl")
    with pytest.raises(StoreError, match=f"has no fact 99: it ends with fact {len(all_facts())}"):
        copy_log(str(path), str(target), 99, "s2", 77)
    for n in range(1, len(all_facts())):
        with on_disk(FaultyDisk(n, "torn")), pytest.raises(StoreError, match="could not be written"):
            copy_log(str(path), str(target), None, "s2", 77)
    assert beside(path) == []
    target.write_text("mine")
    with pytest.raises(StoreError, match="could not be made"):
        copy_log(str(path), str(target), None, "s2", 77)
    assert target.read_text() == "mine"
    target.unlink()
    damaged(path, (6, b"{}\n"))
    with pytest.raises(StoreError, match="line 6"):
        copy_log(str(path), str(target), None, "s2", 77)
    assert copy_log(str(path), str(target), 4, "s2", 77).seq == 4

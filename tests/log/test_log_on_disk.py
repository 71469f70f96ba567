"""The file of a log: what is in it, when it is made, and that reading gives back what was written."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from loghelp import all_facts, batches, beside, make_log, said, written

from a3s_code.core.codec import encode
from a3s_code.core.facts import Fact, ToolResulted, UnknownData, UserSaid
from a3s_code.errors import CodeError, StoreError
from a3s_code.ports.log import FactLog, Position
from a3s_code.stores import scan
from a3s_code.stores.factlog import FileFactLog


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_log_that_nobody_writes_makes_nothing(tmp_path: Path) -> None:
    """Making a log, asking for it and reading it touch no file and keep no descriptor."""
    before = descriptors()
    log: FactLog = make_log(tmp_path)
    assert not log.exists()
    assert list(log.read()) == []
    assert not log.holds(Position(1, "x"))
    assert log.position == Position()
    assert list(tmp_path.iterdir()) == []
    assert descriptors() == before


async def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    """Facts come back in order, equal, and the position says where the file ends."""
    log = make_log(tmp_path)
    assert log.acquire() == []
    for batch in batches():
        assert log.append(batch) == batch
        await log.sync()
    path = Path(log.path)
    assert path == tmp_path / ".a3s" / "effect-log" / "s1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == b'{"a3s_fact_log":1,"thread":"s1","session_id":"s1","created_ms":5,"logic":1}\n'
    assert log.position == Position(len(all_facts()), lines[-1][-35:-3].decode(), path.stat().st_size)
    other = make_log(tmp_path)
    assert list(other.read()) == list(log.read()) == all_facts()
    assert other.position == log.position
    log.release()
    assert beside(path) == []


def test_the_directory_ignores_itself(tmp_path: Path) -> None:
    """A directory that the runtime makes below .a3s is kept out of version control; one that was there stays."""
    (tmp_path / "new").mkdir()
    path = written(tmp_path / "new", [said(1)])
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert not (path.parent.parent / ".gitignore").exists()
    assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "old" / ".a3s" / "effect-log").mkdir(parents=True)
    assert not (written(tmp_path / "old", [said(1)]).parent / ".gitignore").exists()


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    """A session opened on a log that exists adds to it, with or without having read it before."""
    written(tmp_path, [said(1)])
    log = make_log(tmp_path)
    assert log.acquire() == [said(1)]
    log.append([said(2)])
    log.release()
    log = make_log(tmp_path)
    assert list(log.read()) == [said(1), said(2)]
    assert log.acquire() == []
    assert log.acquire() == []
    log.append([said(3)])
    log.release()
    log.release()
    assert [each.seq for each in make_log(tmp_path).read()] == [1, 2, 3]


def test_only_the_tail_after_a_known_position_is_read(tmp_path: Path) -> None:
    """C11: with a position whose offset fits, facts before it are not looked at; without an offset they are skipped."""
    written(tmp_path, all_facts())
    log = make_log(tmp_path)
    reading = log.read()
    for _ in range(4):
        next(reading)
    known = log.position
    del reading
    assert [each.seq for each in make_log(tmp_path).read(known)] == list(range(5, len(all_facts()) + 1))
    assert list(make_log(tmp_path).read(Position(4, known.sum))) == list(make_log(tmp_path).read(known))
    path = Path(log.path)
    path.write_bytes(path.read_bytes().replace(b"do it", b"do xx"))
    assert len(list(make_log(tmp_path).read(known))) == len(all_facts()) - 4


def test_a_position_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """A snapshot of another log, or of a longer one, is never gone on with."""
    written(tmp_path, all_facts())
    log = make_log(tmp_path)
    end = [log.position for _ in log.read()][-1]
    assert log.holds(end)
    assert log.holds(Position(end.seq, end.sum))
    assert log.holds(Position())
    for odd in (
        Position(end.seq, "0" * 32, end.offset),
        Position(end.seq, end.sum, end.offset - 1),
        Position(end.seq, end.sum, end.offset + 1),
        Position(end.seq, end.sum, 3),
        Position(end.seq, "0" * 32),
        Position(end.seq + 1, end.sum),
    ):
        assert not log.holds(odd)
        with pytest.raises(StoreError, match=f"does not hold fact {odd.seq}"):
            list(make_log(tmp_path).read(odd))


def test_the_log_of_another_session_is_refused(tmp_path: Path) -> None:
    """Ids that a file system can't tell apart never share a log, and the file stays as it is."""
    path = written(tmp_path, [said(1)], "Case")
    before = path.read_bytes()
    path.rename(path.with_name("case.jsonl"))
    for use in (lambda log: list(log.read()), lambda log: log.acquire()):
        with pytest.raises(CodeError, match="is the log of session 'Case'") as caught:
            use(make_log(tmp_path, "case"))
        assert caught.value.code == "SESSION_MISMATCH"
    assert path.with_name("case.jsonl").read_bytes() == before


def test_a_newer_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    """C20: a header version above ours is SERIALIZATION_ERROR naming the file, and nothing is written."""
    path = written(tmp_path, [said(1)])
    path.write_bytes(path.read_bytes().replace(b'{"a3s_fact_log":1', b'{"a3s_fact_log":9'))
    before = path.read_bytes()
    for use in (lambda log: list(log.read()), lambda log: log.acquire()):
        with pytest.raises(StoreError, match=r"s1\.jsonl.*newer") as caught:
            use(make_log(tmp_path))
        assert caught.value.code == "SERIALIZATION_ERROR"
    assert path.read_bytes() == before
    assert beside(path) == []


def test_what_a_newer_writer_added_stays_in_the_file(tmp_path: Path) -> None:
    """C20: facts of unknown kinds are read, gone on after, and keep their bytes."""
    newer = Fact(1, "i", 5, "r", "mood.changed", UnknownData(msgspec.Raw(b'{"to" : "good"}')))
    path = written(tmp_path, [newer, said(2)])
    before = path.read_bytes()
    log = make_log(tmp_path)
    assert list(log.read()) == [newer, said(2)]
    log.acquire()
    log.append([said(3)])
    assert path.read_bytes().startswith(before)
    log.release()


def test_facts_are_given_back_as_a_reader_sees_them(tmp_path: Path) -> None:
    """What a run folds equals what a resume folds, also where text or numbers could not be kept as they were."""
    log = make_log(tmp_path)
    log.acquire()
    odd = Fact(1, "i", 5, "r", "tool.result", ToolResulted("c", "t", "a\ud800", 0, "ok", {"n": float("nan")}))
    stored = log.append([odd, said(2)])
    log.release()
    assert stored == list(make_log(tmp_path).read())
    assert stored[0].data == ToolResulted("c", "t", "a\ufffd", 0, "ok", {"n": None})


def test_facts_that_can_not_be_stored_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: a fact that is too long, or that no reader would accept, is an error; the log stays and goes on."""
    monkeypatch.setattr("a3s_code.stores.factlog.MAX_LINE", 1000)
    log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    before = Path(log.path).read_bytes()
    wrong: object = "sideways"
    for bad in (said(3, "x" * 1000), Fact(3, "i", 5, "r", "user.message", UserSaid("x", wrong))):  # type: ignore[arg-type]
        with pytest.raises(StoreError, match=r"fact 3 \(user.message\)") as caught:
            log.append([said(2), bad])
        assert caught.value.code == "SERIALIZATION_ERROR"
    for gap in (said(3), said(1)):
        with pytest.raises(CodeError, match="can't follow fact 1"):
            log.append([gap])
    assert Path(log.path).read_bytes() == before
    log.append([said(2)])
    log.release()
    with pytest.raises(CodeError, match="not acquired"):
        log.append([said(3)])


def test_a_log_that_was_changed_behind_its_writer_is_not_written(tmp_path: Path) -> None:
    """C04: bytes that came without the lock, or a file that was taken away, end the writing instead of mixing in."""
    log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    path = Path(log.path)
    with path.open("ab") as other:
        other.write(b"{}\n")
    with pytest.raises(StoreError, match="does not hold its lock"):
        log.append([said(2)])
    os.truncate(path, path.stat().st_size - 3)
    log.append([said(2)])
    path.unlink()
    with pytest.raises(StoreError, match="does not hold its lock"):
        log.append([said(3)])
    log.release()
    with pytest.raises(StoreError, match="does not hold fact 2"):
        log.acquire()
    assert not path.exists()


def test_a_link_or_a_pipe_in_place_of_the_log_is_refused(tmp_path: Path) -> None:
    """A workspace can't make the runtime write to a file elsewhere, or wait on a pipe."""
    path = written(tmp_path, [said(1)])
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    before = elsewhere.read_bytes()
    path.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="could not be opened"):
        make_log(tmp_path).acquire()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="no regular file"):
        make_log(tmp_path).acquire()
    assert elsewhere.read_bytes() == before


def peak(log: FileFactLog) -> int:
    tracemalloc.start()
    try:
        count = sum(1 for _ in log.read())
        assert count == log.position.seq
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_log_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """C11: reading ten times the facts takes no more memory."""
    sizes = []
    for name, count in (("short", 2_000), ("long", 20_000)):
        written(tmp_path, [said(n, "x" * 200) for n in range(1, count + 1)], name)
        sizes.append(peak(make_log(tmp_path, name)))
    assert sizes[1] < sizes[0] * 1.2 + 100_000
    assert sizes[1] < 5_000_000


def test_a_line_that_can_not_be_held_is_damage(tmp_path: Path) -> None:
    """C18: a line over the limit is an error naming it, found without holding more than the limit."""
    path = written(tmp_path, [said(1)])
    os.truncate(path, path.stat().st_size + scan.MAX_LINE + 1)
    with pytest.raises(StoreError, match=r"s1\.jsonl, line 3: longer than 67108864 bytes"):
        list(make_log(tmp_path).read())


@pytest.mark.parametrize("size", [1, 2, 7, 64, 300])
def test_lines_are_the_same_however_the_file_is_cut_into_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Where one read ends and the next begins changes nothing."""
    written(tmp_path, all_facts())
    monkeypatch.setattr("a3s_code.stores.scan._CHUNK", size)
    log = make_log(tmp_path)
    assert list(log.read()) == all_facts()
    last, _ = encode(all_facts()[-1], "")
    assert log.position.offset == Path(log.path).stat().st_size > len(last)

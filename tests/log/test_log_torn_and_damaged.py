"""What a log does about an unfinished write, and about damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from loghelp import all_facts, beside, make_log, said, written

from a3s_code.errors import StoreError


def test_a_last_line_cut_at_any_byte_is_set_aside(tmp_path: Path) -> None:
    """C01: wherever the last line was cut, the log goes on from the last whole fact, on a line of its own, and the
    torn bytes are kept beside it."""
    path = written(tmp_path, [said(1), said(2, "ä" * 20)])
    data = path.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    torn = path.with_name("s1.torn-1")
    for end in range(start, len(data)):
        path.write_bytes(data[:end])
        log = make_log(tmp_path)
        assert list(log.read()) == [said(1)]
        assert path.read_bytes() == data[:end], "reading changes nothing"
        assert log.acquire() == []
        log.append([said(2, "new")])
        log.release()
        assert list(make_log(tmp_path).read()) == [said(1), said(2, "new")]
        assert beside(path) == ([] if end == start else ["s1.torn-1"])
        if end > start:
            assert torn.read_bytes() == data[start:end]
            torn.unlink()


def test_a_header_cut_at_any_byte_is_written_again(tmp_path: Path) -> None:
    """A process that died while it began a log leaves nothing that hinders the next one."""
    path = written(tmp_path, [])
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        log = make_log(tmp_path)
        assert list(log.read()) == []
        assert log.acquire() == []
        log.append([said(1)])
        log.release()
        assert list(make_log(tmp_path).read()) == [said(1)]
        assert path.read_bytes().startswith(data)


@pytest.mark.parametrize("tail", [b'{"type":"msg","te', b'{"type":"msg","te\n', b"\0" * 300, b"\n", b"\xff\xfe"])
def test_what_is_not_json_at_the_end_is_a_torn_write(tmp_path: Path, tail: bytes) -> None:
    """C01: also with a line end, and also where a file system filled up with zeros."""
    path = written(tmp_path, [said(1)])
    with path.open("ab") as file:
        file.write(tail)
    log = make_log(tmp_path)
    assert log.acquire() == [said(1)]
    log.append([said(2)])
    log.release()
    assert list(make_log(tmp_path).read()) == [said(1), said(2)]
    assert path.with_name("s1.torn-1").read_bytes() == tail


def test_torn_writes_are_numbered(tmp_path: Path) -> None:
    """No torn write takes the place of an earlier one."""
    path = written(tmp_path, [said(1)])
    for n in (1, 2, 3):
        with path.open("ab") as file:
            file.write(b"cut %d" % n)
        log = make_log(tmp_path)
        log.acquire()
        log.release()
        assert path.with_name(f"s1.torn-{n}").read_bytes() == b"cut %d" % n
    assert list(make_log(tmp_path).read()) == [said(1)]


def refused(tmp_path: Path, path: Path, what: str) -> None:
    """Reading and acquiring both say what is wrong, and nothing changes."""
    before, names = path.read_bytes(), beside(path)
    with pytest.raises(StoreError, match=what) as caught:
        list(make_log(tmp_path).read())
    assert caught.value.code == "IO_ERROR"
    with pytest.raises(StoreError, match=what):
        make_log(tmp_path).acquire()
    assert (path.read_bytes(), beside(path)) == (before, names)


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    """C02: a line that was cut, edited, dropped (C09), moved or doubled before the end is never a shorter history."""
    path = written(tmp_path, all_facts())
    lines = path.read_bytes().splitlines(keepends=True)
    for changed, what in (
        ([*lines[:4], lines[4][:30] + b"\n", *lines[5:]], "line 5: not valid JSON"),
        ([*lines[:4], b"\0" * 30 + b"\n", *lines[5:]], "line 5: not valid JSON"),
        ([*lines[:4], lines[4][:30], *lines[5:]], "line 5: not valid JSON"),
        ([*lines[:4], lines[4].replace(b"unsafe", b"safe"), *lines[5:]], "line 5: .*sum of fact 4 doesn't fit"),
        ([*lines[:2], lines[2].replace(b"do it", b"do xx"), *lines[3:]], "line 3: .*sum of fact 2 doesn't fit"),
        ([*lines[:4], *lines[5:]], "line 5: fact 5 where fact 4 should be"),
        ([*lines[:4], lines[5], lines[4], *lines[6:]], "line 5: fact 5 where fact 4 should be"),
        ([*lines[:5], lines[4], *lines[5:]], "line 6: fact 4 where fact 5 should be"),
        ([*lines[:4], b"\n", *lines[4:]], "line 5: not valid JSON"),
        ([*lines[:-1], lines[-1].replace(b"completed", b"failed")], f"line {len(lines)}: .*doesn't fit"),
        ([*lines, lines[-1]], f"line {len(lines) + 1}: fact {len(lines) - 1} where"),
        ([*lines, b"{}\n"], f"line {len(lines) + 1}: not a fact"),
        ([*lines, b'{"cut\n', b'{"cut'], f"line {len(lines) + 1}: not valid JSON"),
        ([b"{}\n", *lines[1:]], "line 1: not a header"),
        ([b"\0\n", *lines[1:]], "line 1: not valid JSON"),
        (lines[1:], "line 1: not a header"),
    ):
        path.write_bytes(b"".join(changed))
        refused(tmp_path, path, rf"s1\.jsonl, {what}")


def test_every_changed_byte_before_the_last_line_is_found(tmp_path: Path) -> None:
    """A single flipped bit, anywhere in the facts before the last, is an error."""
    path = written(tmp_path, [said(1), said(2), said(3)])
    data = path.read_bytes()
    for at in range(data.index(b"\n") + 1, data.rindex(b"\n", 0, -1)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StoreError, match=r"line [23]: "):
            list(make_log(tmp_path).read())


def test_a_log_that_can_not_be_read_is_an_io_error(tmp_path: Path) -> None:
    """A directory in place of the log is an error with its path, not a crash."""
    path = written(tmp_path, [said(1)])
    path.unlink()
    os.mkdir(path)
    (path / "x").touch()
    with pytest.raises(StoreError, match=r"s1\.jsonl could not be"):
        list(make_log(tmp_path).read())

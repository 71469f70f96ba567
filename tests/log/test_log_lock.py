"""One writer at a time: within a process, between processes, after a kill and after a fork."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loghelp import beside, make_log, said, written

from a3s_code.errors import SessionBusy
from a3s_code.stores.disk import Disk
from a3s_code.testing.faults import on_disk

HOLD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from loghelp import make_log, said
log = make_log(Path(sys.argv[1]))
log.append([said(len(log.acquire()) + 1)])
print("held", flush=True)
sys.stdin.read()
log.release()
print("released", flush=True)
sys.stdin = None
"""


@contextmanager
def holder(workspace: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes a fact and keeps the lock until its input ends."""
    command = [sys.executable, "-c", HOLD, str(workspace), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_second_session_of_one_process_is_busy(tmp_path: Path) -> None:
    """Two live sessions of one id: the second that writes is refused by name, and writes once the first is closed."""
    first, second = make_log(tmp_path), make_log(tmp_path)
    first.acquire()
    first.append([said(1)])
    assert list(second.read()) == [said(1)]
    with pytest.raises(SessionBusy, match=f"process {os.getpid()} on .*this process") as caught:
        second.acquire()
    assert caught.value.code == "SESSION_BUSY"
    first.append([said(2)])
    first.release()
    assert second.acquire() == [said(2)]
    with pytest.raises(SessionBusy):
        first.acquire()
    second.append([said(3)])
    second.release()
    assert first.acquire() == [said(3)]
    first.release()
    assert [each.seq for each in make_log(tmp_path).read()] == [1, 2, 3]


def test_the_loser_keeps_no_descriptor(tmp_path: Path) -> None:
    """Being refused costs nothing that stays."""
    first, second = make_log(tmp_path), make_log(tmp_path)
    first.acquire()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SessionBusy):
        second.acquire()
    assert len(os.listdir("/proc/self/fd")) == before
    first.release()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_another_process_is_named_and_its_facts_are_folded_first(tmp_path: Path) -> None:
    """C04: while another process writes, nothing is written here; then what it added comes first."""
    log = make_log(tmp_path)
    assert list(log.read()) == []
    with holder(tmp_path) as process:
        assert list(make_log(tmp_path).read()) == [said(1)], "reading takes no lock"
        before = Path(log.path).read_bytes()
        with pytest.raises(SessionBusy, match=rf"process {process.pid} on {os.uname().nodename}"):
            log.acquire()
        assert Path(log.path).read_bytes() == before
        process.communicate("")
    assert log.acquire() == [said(1)]
    log.append([said(2)])
    log.release()
    assert beside(Path(log.path)) == []


def test_a_killed_process_frees_the_lock(tmp_path: Path) -> None:
    """SIGKILL leaves nothing to clean up: the next writer gets the lock at once, and is the one that is named."""
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    log = make_log(tmp_path)
    assert beside(Path(log.path)) == ["s1.lock"]
    assert log.acquire() == [said(1)]
    assert json.loads(Path(log.path).with_name("s1.lock").read_text())["pid"] == os.getpid()
    log.release()


def test_a_holder_without_a_name_is_still_a_holder(tmp_path: Path) -> None:
    """The lock decides, not the file that names its holder."""
    first = make_log(tmp_path)
    first.acquire()
    name = Path(first.path).with_name("s1.lock")
    for odd in (b"", b"[]", b"{}", b'{"pid":1}', b"\xff"):
        name.write_bytes(odd)
        with pytest.raises(SessionBusy, match="another session"):
            make_log(tmp_path).acquire()
    name.unlink()
    with pytest.raises(SessionBusy, match="another session"):
        make_log(tmp_path).acquire()
    first.release()


def test_a_log_that_is_replaced_while_it_is_being_locked_is_taken_anew(tmp_path: Path) -> None:
    """Facts go to the file that stands at the path, never to one that was just moved away."""
    path = written(tmp_path, [said(1)])
    copy = path.read_bytes()
    taken: list[int] = []

    class Replacing(Disk):
        def lock(self, fd: int) -> bool:
            if not taken:
                path.rename(path.with_name("s1.replaced-1"))
                path.write_bytes(copy)
            taken.append(fd)
            return super().lock(fd)

    with on_disk(Replacing()):
        log = make_log(tmp_path)
    log.acquire()
    log.append([said(2)])
    log.release()
    assert len(taken) == 2
    assert path.with_name("s1.replaced-1").read_bytes() == copy
    assert list(make_log(tmp_path).read()) == [said(1), said(2)]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_no_lock_and_keeps_none_alive(tmp_path: Path) -> None:
    """A child can't write as if it were its parent, and the parent's lock is free once the parent gives it up."""
    log = make_log(tmp_path)
    log.acquire()
    log.append([said(1)])
    report, told = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            log.acquire()
        except SessionBusy:
            os.write(told, b"busy")
        os.read(wait, 1)
        os._exit(0)
    assert os.read(report, 4) == b"busy"
    log.append([said(2)])
    log.release()
    other = make_log(tmp_path)
    assert other.acquire() == [said(1), said(2)]
    other.release()
    os.write(go, b"x")
    assert os.waitpid(child, 0)[1] == 0
    for fd in (report, told, wait, go):
        os.close(fd)

"""Child processes: what they print is passed on as it comes and kept within bounds."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

from childcommands import bash


async def test_deltas_arrive_as_they_are_read(tmp_path: Path) -> None:
    """Text is passed on while the command still runs, and characters split between reads stay whole."""
    seen: list[str] = []
    go = tmp_path / "go"
    task = asyncio.ensure_future(
        bash(
            rf"printf '\xe5'; until [ -e {go} ]; do :; done; printf '\x8c\x97'; echo x >&2",
            tmp_path,
            on_text=seen.append,
        )
    )
    first = await bash("echo early", tmp_path, on_text=seen.append)
    assert seen == ["early\n"]
    go.touch()
    await task
    assert first.exit_code == 0
    assert sorted(seen[1:]) == ["x\n", "北"]


async def test_a_character_that_never_ends_is_passed_on(tmp_path: Path) -> None:
    """A stream that ends inside a character says so in its last delta."""
    seen: list[str] = []
    outcome = await bash(r"printf 'a\xe5\x8c'", tmp_path, on_text=seen.append)
    assert "".join(seen) == outcome.stdout.text == "a\ufffd"
    assert outcome.stdout.lossy


async def test_gigabytes_of_output_in_bounded_memory(tmp_path: Path) -> None:
    """Head and tail are kept, the total is exact, and memory does not follow the volume."""
    tracemalloc.start()
    outcome = await bash("echo begin; yes | head -c 200000000; echo end", tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.stdout.total == 200_000_010
    assert outcome.stdout.omitted == 200_000_010 - 2 * 524_288
    assert outcome.stdout.text.startswith("begin\ny\n")
    assert outcome.stdout.text.endswith("y\nend\n")
    assert f"\n[… {outcome.stdout.omitted} bytes omitted …]\n" in outcome.stdout.text
    assert peak < 12_000_000


async def test_cuts_fall_between_characters(tmp_path: Path) -> None:
    """F04: no cut makes a replacement character, and kept and omitted bytes add up."""
    for extra in range(4):
        outcome = await bash(f"printf '%{extra}s' ''; printf '北%.0s' {{1..3000}}", tmp_path, capture_bytes=1000)
        head, marker, tail = outcome.stdout.text.split("\n")
        assert set(head.strip() + tail) == {"北"}
        assert not outcome.stdout.lossy
        assert marker == f"[… {outcome.stdout.omitted} bytes omitted …]"
        assert len((head + tail).encode()) + outcome.stdout.omitted == outcome.stdout.total


async def test_undecodable_bytes_are_shown_and_flagged(tmp_path: Path) -> None:
    """F05: bytes that are no UTF-8 become replacement characters, with the stream marked lossy."""
    outcome = await bash(r"printf 'a\xff\xfeb'", tmp_path)
    assert (outcome.stdout.text, outcome.stdout.total, outcome.stdout.lossy) == ("a\ufffd\ufffdb", 4, True)

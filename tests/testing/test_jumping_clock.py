"""Test clocks and ids are the same in every run and never wait."""

from __future__ import annotations

import asyncio

from a3s_code.ports.clock import Clock, Entropy, HostEnv
from a3s_code.testing import JumpingClock, SequentialEntropy, fixed_time


async def test_sleeping_moves_time_at_once_and_is_recorded() -> None:
    """An hour passes without waiting, on both the wall and the monotonic time."""
    clock = JumpingClock(1000)
    port: Clock = clock
    await port.sleep(3600)
    await port.sleep(0.25)
    assert (port.now_ms(), port.monotonic(), clock.sleeps) == (1000 + 3_600_250, 3600.25, [3600, 0.25])


async def test_sleeps_side_by_side_overlap() -> None:
    """Two tasks that sleep together take as long as the longer one."""
    clock = JumpingClock()
    await asyncio.gather(clock.sleep(2), clock.sleep(5), clock.sleep(1))
    assert clock.monotonic() == 5


async def test_a_sleep_longer_than_the_jump_waits_for_advance() -> None:
    """A timeout does not win by jumping; it passes when the test says so, and a cancelled sleeper is no harm."""
    clock = JumpingClock(max_jump=1.0)
    sleepers = [asyncio.ensure_future(clock.sleep(seconds)) for seconds in (30, 10, 20)]
    await asyncio.sleep(0)
    sleepers[2].cancel()
    clock.advance(9.5)
    await asyncio.sleep(0)
    assert not any(sleeper.done() for sleeper in sleepers[:2])
    clock.advance(0.5)
    await asyncio.sleep(0)
    assert [sleeper.done() for sleeper in sleepers] == [False, True, True]
    clock.advance(20)
    await sleepers[0]
    assert clock.monotonic() == 30


def test_ids_count_and_jitter_repeats() -> None:
    """Ids are never given twice; jitter follows its list."""
    entropy: Entropy = SequentialEntropy("x", [0.1, 0.9])
    assert [entropy.new_id(), entropy.new_id()] == ["x-1", "x-2"]
    assert [entropy.jitter() for _ in range(3)] == [0.1, 0.9, 0.1]


def test_a_fixed_time_stands_still() -> None:
    """Records made with it hold the same bytes in every run."""
    env: HostEnv = fixed_time(5, "run")
    assert [env.now_ms(), env.now_ms()] == [5, 5]
    assert [env.new_id(), env.new_id()] == ["run-1", "run-2"]

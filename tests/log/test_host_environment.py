"""Ids and times: real by default, fixed where the host fixes them."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.clock import Clock, Entropy, HostEnv, HostEnvConfig
from a3s_code.system.clock import SystemClock, SystemEntropy
from a3s_code.system.hostenv import ConfiguredEnv


def env(config: HostEnvConfig) -> HostEnv:
    return ConfiguredEnv(config, SystemClock(), SystemEntropy())


def test_real_ids_are_random_and_short() -> None:
    """Ids are 16 lower-case letters and digits, each another one, and chance is spread evenly."""
    entropy: Entropy = SystemEntropy()
    ids = {entropy.new_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"[a-z2-7]{16}", each) for each in ids)
    spread = [entropy.jitter() for _ in range(2000)]
    assert 0 <= min(spread) < 0.1
    assert 0.9 < max(spread) < 1


async def test_the_real_clock_tells_the_time() -> None:
    """Recorded time is Unix milliseconds, and waiting waits on the loop."""
    clock: Clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 60_000
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before


def test_ids_are_counted_in_the_config_in_order_of_use() -> None:
    """Everybody who shares a config shares one count; time stays real."""
    config = HostEnvConfig(sequential_id_prefix="t")
    first, second = env(config), env(config)
    assert [first.new_id(), second.new_id(), first.new_id()] == ["t-1", "t-2", "t-3"]
    assert env(HostEnvConfig("t")).new_id() == "t-1"
    assert first.now_ms() > 1_600_000_000_000


def test_the_time_alone_can_be_fixed() -> None:
    """Each half is independent."""
    fixed = env(HostEnvConfig(fixed_time_ms=0))
    assert fixed.now_ms() == 0
    assert len(fixed.new_id()) == 16


def test_the_count_goes_on_from_an_existing_log() -> None:
    """The count never goes back, and only ids of this prefix have a number."""
    config = HostEnvConfig("a-b")
    config.resume_from(
        max(config.number_of(each) for each in ("a-b-7", "a-b-12", "b-99", "a-b-x", "a-b--5", "a-b-²", ""))
    )
    assert config.next_id() == "a-b-13"
    config.resume_from(5)
    assert config.next_id() == "a-b-14"
    assert HostEnvConfig().number_of("None-3") == 0


def test_threads_never_get_the_same_id() -> None:
    """A config may be shared between threads."""
    config = HostEnvConfig("t")
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.extend(config.next_id() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 2000


@pytest.mark.parametrize(
    "field",
    [
        {"sequential_id_prefix": 7},
        {"sequential_id_prefix": ""},
        {"fixed_time_ms": 1.5},
        {"fixed_time_ms": True},
        {"fixed_time_ms": -1},
    ],
)
def test_a_wrong_field_is_named(field: dict[str, Any]) -> None:
    """A field of a wrong type or range is SESSION_CONFIGURATION_ERROR when the config is made."""
    with pytest.raises(SessionConfigurationError, match=next(iter(field))):
        HostEnvConfig(**field)

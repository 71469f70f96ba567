"""The one retry layer of model calls (providers.md, *Failure and retry*). In: attempts. Out: an answer or the error.

One rule: nobody below or above retries a model call; a wait ends at once when the run's token fires.
Known weakness: a provider that asks for more than a minute is asked again after a minute.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from a3s_code.engine import points
from a3s_code.engine.active import ActiveRun
from a3s_code.errors import LlmError

T = TypeVar("T")
MAX_WAIT_S = 60.0
FIRST_WAIT_S = 0.5


async def with_retries(run: ActiveRun, attempt: Callable[[], Awaitable[T]], delivered: Callable[[], bool]) -> T:
    """Tries up to ``circuit_breaker_threshold`` times; once deltas were ``delivered`` to a reader, once more at
    most."""
    tried = 0
    retried_after_delivery = False
    while True:
        try:
            return await attempt()
        except LlmError as error:
            tried += 1
            await points.rate_limit(run, tried, error)
            was_delivered = delivered()
            if not error.retryable or tried >= run.parts.model_settings.attempts or retried_after_delivery:
                raise
            retried_after_delivery = was_delivered
            await run.token.guard(run.parts.clock.sleep(wait_s(error, tried, run.parts.entropy.jitter())))


def wait_s(error: LlmError, tried: int, jitter: float) -> float:
    """Seconds until the next attempt: what the provider asked for, else exponential with jitter; at most a minute."""
    if error.retry_after_ms is not None:
        return min(error.retry_after_ms / 1000, MAX_WAIT_S)
    return float(min(FIRST_WAIT_S * 2 ** (tried - 1) * (0.5 + jitter), MAX_WAIT_S))

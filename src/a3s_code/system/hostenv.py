"""What a session records time and ids with. In: a HostEnvConfig, the real clock and chance. Out: ports.clock.HostEnv.

One rule: each half is fixed only if the host fixed it.
Known weakness: none known.
"""

from __future__ import annotations

from a3s_code.ports.clock import Clock, Entropy, HostEnvConfig


class ConfiguredEnv:
    def __init__(self, config: HostEnvConfig, clock: Clock, entropy: Entropy) -> None:
        self.config = config
        self._clock = clock
        self._entropy = entropy
        self.fixed = config.sequential_id_prefix is not None or config.fixed_time_ms is not None

    def seen(self, name: str) -> None:
        """An id that an existing log holds: the count goes on behind it."""
        if self.config.sequential_id_prefix is not None:
            self.config.resume_from(self.config.number_of(name))

    def now_ms(self) -> int:
        fixed = self.config.fixed_time_ms
        return self._clock.now_ms() if fixed is None else fixed

    def new_id(self) -> str:
        return self._entropy.new_id() if self.config.sequential_id_prefix is None else self.config.next_id()

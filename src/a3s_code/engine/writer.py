"""The only appender of facts. In: a fact's data. Out: the fact on the log, folded, and told to whoever listens.

One rule: first the log, then the view, then the listeners; what the log refused never happened.
Known weakness: after a failed write the view is folded anew from the file, which costs its length.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from a3s_code.core.facts import KIND_OF, Fact, FactData
from a3s_code.core.fold import fold
from a3s_code.core.state import View
from a3s_code.errors import StoreError
from a3s_code.ports.clock import HostEnv
from a3s_code.ports.log import FactLog

Listener = Callable[[Fact, View], None]


class Writer:
    """``observe`` sees every fact that is loaded, ``publish`` every one that is appended."""

    def __init__(
        self, log: FactLog, env: HostEnv, *, observe: Listener, publish: Listener, durable: bool = True
    ) -> None:
        self._log = log
        self._env = env
        self._observe = observe
        self._publish = publish
        self._durable = durable
        self._view: View | None = None
        self._loading = threading.Lock()  # getters may be the first to look, from any thread
        self._pending = False

    @property
    def view(self) -> View:
        """The conversation as far as this process knows it; read from the file when that was never done."""
        view = self._view
        if view is None:
            with self._loading:
                view = self._view
                if view is None:
                    view = self._view = self._load(View())
        return view

    @property
    def loaded(self) -> bool:
        return self._view is not None

    def _load(self, view: View) -> View:
        if not self._log.exists():
            return view
        for fact in self._log.read():
            view = self._take(view, fact)
        return view

    def _take(self, view: View, fact: Fact) -> View:
        """A fact from the file, which this process or another wrote earlier."""
        view = fold(view, fact)
        self._observe(fact, view)
        if self._env.fixed:
            for name in (fact.id, fact.run):
                self._env.seen(name)
        return view

    def acquire(self) -> None:
        """Becomes the one writer; folds what another writer added meanwhile."""
        view = self.view
        for fact in self._log.acquire():
            view = self._take(view, fact)
        self._view = view

    def append(self, run: str, *data: FactData) -> None:
        """Writes the facts with one write, not yet synced."""
        self.acquire()
        view = self.view
        now = self._env.now_ms()
        facts = [
            Fact(view.seq + 1 + i, self._env.new_id(), now, run, KIND_OF[type(item)], item)
            for i, item in enumerate(data)
        ]
        written = self._write(facts)
        self._pending = True
        for fact in written:
            view = fold(view, fact)
            self._view = view
            self._observe(fact, view)
            self._publish(fact, view)

    def _write(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        try:
            return self._log.append(facts)
        except StoreError:
            self.forget()
            raise

    async def durable(self) -> None:
        """Returns once what was appended is on the disk (nothing to do with ``log_durability="os"``)."""
        if not self._pending:
            return
        covered = self._log.position.seq
        if self._durable:
            try:
                await self._log.sync()
            except StoreError:
                self.forget()
                raise
        self._pending = self._log.position.seq != covered

    def forget(self) -> None:
        """Drops the view and the lock; the next use reads the file again."""
        self._view = None
        self._pending = False
        self._log.release()

    def release(self) -> None:
        """Gives up the lock and the descriptor, keeping the view."""
        self._log.release()

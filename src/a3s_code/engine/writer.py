"""The only appender of facts. In: a fact's data. Out: the fact on the log, folded, and told to whoever listens.

One rule: first the log, then the view, then the listeners; what the log refused never happened.
A failed write changes nothing here, and the log mends itself before its next one.
Known weakness: none known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from a3s_code.core.facts import KIND_OF, Fact, FactData
from a3s_code.core.fold import fold
from a3s_code.core.state import View
from a3s_code.engine.runs import RunBook
from a3s_code.engine.shortcut import WORTH_IT, load, save
from a3s_code.errors import CodeError
from a3s_code.ports.clock import HostEnv
from a3s_code.ports.log import FactLog, Position

Listener = Callable[[Fact, View], None]


class Writer:
    """``book`` sees every fact, ``publish`` every one that is appended."""

    def __init__(self, log: FactLog, env: HostEnv, *, book: RunBook, publish: Listener, durable: bool = True) -> None:
        self._log = log
        self._env = env
        self._book = book
        self._publish = publish
        self._durable = durable
        self._view: View | None = None
        self._loading = threading.Lock()  # getters may be the first to look, from any thread
        self._pending = False
        self._saved_at = 0
        self._refused: CodeError | None = None

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
        view, at = self._shortcut() or (view, None)
        self._saved_at = view.seq
        for fact in self._log.read(at):
            view = self._take(view, fact)
        return view

    def _shortcut(self) -> tuple[View, Position] | None:
        """The view that was kept beside a long log, if it still fits. Fixed ids count every fact, so they need all."""
        data = None if self._env.fixed else self._log.read_shortcut()
        loaded = load(data) if data is not None else None
        if loaded is None or not self._log.holds(loaded[0].position):
            return None
        saved, view = loaded
        self._book.restore(saved.runs, saved.dropped)
        return view, saved.position

    def keep_shortcut(self) -> None:
        """Encodes the view beside a log that has grown enough. Blocks."""
        view = self._view
        if view is None or view.seq - self._saved_at < WORTH_IT or self._env.fixed:
            return
        position = self._log.position
        if position.seq == view.seq:
            self._saved_at = view.seq
            self._log.write_shortcut(save(view, position, self._book.saved(), self._book.dropped()))

    def _take(self, view: View, fact: Fact) -> View:
        """A fact from the file, which this process or another wrote earlier."""
        view = fold(view, fact)
        self._book.observe(fact, view)
        if self._env.fixed:
            for name in (fact.id, fact.run):
                self._env.seen(name)
        return view

    def forget(self) -> None:
        """The log was replaced: it is read anew at the next look."""
        self._view = None
        self._pending = False
        self._saved_at = 0

    def acquire(self) -> None:
        """Becomes the one writer; folds what another writer added meanwhile."""
        if self._refused is not None:
            raise self._refused
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
        written = self._log.append(facts)
        self._pending = True
        for fact in written:
            view = fold(view, fact)
            self._view = view
            self._book.observe(fact, view)
            self._publish(fact, view)

    async def durable(self) -> None:
        """Returns once what was appended is on the disk (nothing to do with ``log_durability="os"``)."""
        if not self._pending:
            return
        covered = self._log.position.seq
        if self._durable:
            await self._log.sync()
        self._pending = self._log.position.seq != covered

    def refuse(self, error: CodeError) -> None:
        """Writes nothing any more: whoever tries gets ``error``."""
        self._refused = error
        self.release()

    def release(self) -> None:
        """Gives up the lock and the descriptor, keeping the view."""
        self._log.release()

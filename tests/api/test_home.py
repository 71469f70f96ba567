"""The agent's loop and the blocking face over it (api.md, *Two faces, one implementation*)."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from a3s_code.api.blocking import Home, blocking, bridged
from a3s_code.errors import CodeError, SessionClosed


@pytest.fixture
def home() -> Iterator[Home]:
    private = Home.private()
    yield private
    private.close()


class Service:
    """What a session looks like to the blocking face."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @bridged
    async def send_async(self, prompt: str, *, times: int = 1) -> str:
        """Sends."""
        await asyncio.sleep(0)
        return f"{threading.current_thread().name}:{prompt * times}"

    send = blocking(send_async)


def test_blocking_method_runs_on_the_private_thread(home: Home) -> None:
    """The blocking face gives what the async one gives, computed on the thread ``a3s-code``."""
    assert Service(home).send("ab", times=2) == "a3s-code:abab"


def test_blocking_method_looks_like_its_twin() -> None:
    """Name, docstring and parameters are the twin's; the result is a value, not a coroutine."""
    assert Service.send.__name__ == "send"
    assert Service.send.__doc__ == "Sends."
    assert list(inspect.signature(Service.send).parameters) == ["self", "prompt", "times"]
    assert not inspect.iscoroutinefunction(Service.send)


def test_wrong_arguments_raise_like_a_plain_call(home: Home) -> None:
    """A misspelt argument is a TypeError for the caller, never a call that nobody answers."""
    service: Any = Service(home)
    with pytest.raises(TypeError, match="tims"):
        service.send("x", tims=2)


def test_errors_and_context_cross_the_threads(home: Home) -> None:
    """What the coroutine raises is raised in the caller's thread; the caller's context variables are seen by it."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")

    async def see() -> str:
        return variable.get()

    async def fail() -> None:
        raise CodeError("no", "INVALID_REQUEST")

    assert home.run(see) == "mine"
    with pytest.raises(CodeError, match="no"):
        home.run(fail)


async def test_blocking_call_on_its_own_loop_is_refused_at_once() -> None:
    """From the home loop's own thread a blocking call names the async twin instead of hanging (case H11)."""
    service = Service(Home.current())
    with pytest.raises(CodeError, match=r"await send_async\(") as caught:
        service.send("x")
    assert caught.value.code == "INVALID_REQUEST"
    assert await service.send_async("x") == "MainThread:x"


def test_blocking_call_from_the_private_loop_is_refused(home: Home) -> None:
    """The same holds for a callback that runs on the private loop."""

    async def inner() -> str:
        return Service(home).send("x")

    with pytest.raises(CodeError, match="send_async"):
        home.run(inner)


async def test_blocking_call_works_inside_another_running_loop(home: Home) -> None:
    """In a notebook, whose loop is not the home, a blocking call works and blocks that loop."""
    assert Service(home).send("x") == "a3s-code:x"


async def test_blocking_call_is_refused_where_a_coroutine_callback_lives(home: Home) -> None:
    """When a coroutine callback belongs to the loop that would be blocked, the call is refused, until it is gone."""

    async def callback() -> str:
        return "called"

    home.adopt(callback)
    with pytest.raises(CodeError, match="coroutine callback"):
        Service(home).send("x")
    home.release(callback)
    assert Service(home).send("x") == "a3s-code:x"


async def test_callback_loops_are_forgotten_with_their_callbacks(home: Home) -> None:
    """A callback that nobody holds any more does not forbid blocking calls."""

    def give() -> None:
        async def callback() -> None: ...

        home.adopt(callback)

    give()
    gc.collect()
    assert Service(home).send("x") == "a3s-code:x"


def test_stopped_home_loop_is_an_error_not_a_hang() -> None:
    """A blocking call on an agent whose loop is not running, or closed, says so."""
    loop = asyncio.new_event_loop()

    async def create() -> Home:
        return Home.current()

    service = Service(loop.run_until_complete(create()))
    with pytest.raises(CodeError, match="not running"):
        service.send("x")
    loop.close()
    with pytest.raises(SessionClosed):
        service.send("x")


async def test_async_call_from_another_loop_is_bridged() -> None:
    """An async method awaited on a foreign loop runs on the home loop."""
    service = Service(Home.current())
    assert await asyncio.to_thread(lambda: asyncio.run(service.send_async("x"))) == "MainThread:x"


async def test_cancelling_a_bridged_call_cancels_the_work_and_waits_for_it(home: Home) -> None:
    """Cancelling passes through to the home loop, and returns only after the work has cleaned up."""
    begun, trace = asyncio.Event(), list[str]()
    here = asyncio.get_running_loop()

    async def work() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            trace.append("cleaned up")

    task = asyncio.get_running_loop().create_task(home.bridge(work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert trace == ["cleaned up"]


def test_close_fails_waiting_calls_and_ends_the_thread() -> None:
    """``close`` cancels what is at work, wakes whoever waits for it, and leaves no thread; it can be repeated."""
    before = set(threading.enumerate())
    home = Home.private()
    begun, outcome = threading.Event(), list[BaseException]()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            home.run(forever)
        except CodeError as error:
            outcome.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    begun.wait(10)
    home.close()
    home.close()
    caller.join(10)
    assert [type(error) for error in outcome] == [SessionClosed]
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("a3s-code")]
    with pytest.raises(SessionClosed):
        Service(home).send("x")


def test_dropped_home_ends_its_thread() -> None:
    """An agent that is dropped without ``close`` leaves no thread behind."""
    home = Home.private()
    thread = home._thread
    gone = weakref.ref(home)
    del home
    gc.collect()
    assert gone() is None
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()


async def test_plain_callback_does_not_block_the_home_loop() -> None:
    """A plain function runs in a worker thread; the loop goes on meanwhile (case H13)."""
    home = Home.current()
    go_on = threading.Event()

    def slow(value: int) -> int:
        go_on.wait(10)
        return value + 1

    task = asyncio.get_running_loop().create_task(home.call_host(slow, 1))
    await asyncio.sleep(0)
    go_on.set()
    assert await task == 2
    home.close()


@pytest.mark.parametrize("kind", ["function", "method", "callable", "lambda"])
async def test_coroutine_callback_runs_where_it_was_given(home: Home, kind: str) -> None:
    """A coroutine callback runs on the loop that ran when it was given, whatever shape it has (case H14)."""
    ours = asyncio.get_running_loop()

    async def function(value: int) -> object:
        return asyncio.get_running_loop(), value

    class Guard:
        async def check(self, value: int) -> object:
            return await function(value)

        async def __call__(self, value: int) -> object:
            return await function(value)

    guard = Guard()
    shapes: dict[str, Callable[[int], Any]] = {
        "function": function,
        "method": guard.check,
        "callable": guard,
        "lambda": lambda value: function(value),
    }
    called = shapes[kind]
    home.adopt(guard if kind == "method" else called)
    assert await home.bridge(lambda: home.call_host(called, 3)) == (ours, 3)


async def test_coroutine_callback_given_without_a_loop_runs_at_home(home: Home) -> None:
    """A coroutine function given where no loop ran is called on the home loop."""

    async def where() -> object:
        return asyncio.get_running_loop()

    assert await home.bridge(lambda: home.call_host(where)) is home.loop


async def test_wrapped_coroutine_on_a_blocked_loop_is_an_error_not_a_deadlock(home: Home) -> None:
    """A lambda that turns out to give a coroutine of the blocked loop fails with the same advice."""

    async def inner() -> int:
        return 1

    def wrapped() -> Awaitable[int]:
        return inner()

    home.adopt(wrapped)
    with pytest.raises(CodeError, match="blocked"):
        home.run(lambda: home.call_host(wrapped))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(1), GeneratorExit()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_callback_raises_never_ends_the_loop(home: Home, error: BaseException, is_async: bool) -> None:
    """Whatever host code raises arrives as an ``Exception``; the loop and its thread live on (case H04)."""

    def plain() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    fn: Callable[[], Any] = coroutine if is_async else plain
    with pytest.raises(RuntimeError):
        await home.bridge(lambda: home.call_host(fn))
    assert await home.bridge(lambda: home.call_host(lambda: "alive")) == "alive"


async def test_callback_that_cancels_itself_is_a_plain_failure(home: Home) -> None:
    """A callback raising ``CancelledError`` on its own does not look like a cancelled run."""

    async def confused() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="CancelledError"):
        await home.bridge(lambda: home.call_host(confused))


async def test_abandoned_callback_is_not_called_a_fifth_time() -> None:
    """Four calls that never returned make the next fail at once; once one returns, calls work again."""
    home = Home.current()
    release = threading.Event()
    ended = threading.Semaphore(0)

    def stuck() -> None:
        release.wait(10)
        ended.release()

    for _ in range(4):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(home.call_host(stuck), 0.01)
    with pytest.raises(CodeError, match="never returned"):
        await home.call_host(stuck)
    assert await home.call_host(lambda: 1) == 1
    release.set()
    for _ in range(4):
        assert ended.acquire(timeout=10)
    while True:
        try:
            await home.call_host(stuck)
            break
        except CodeError:
            await asyncio.sleep(0)
    home.close()


async def test_worker_threads_are_capped_and_all_calls_are_served() -> None:
    """A hundred calls at once share a bounded number of threads (case H13)."""
    home = Home.current()
    names = set()

    def work(number: int) -> int:
        names.add(threading.current_thread().ident)
        return number

    assert await asyncio.gather(*(home.in_thread(work, number) for number in range(100))) == list(range(100))
    assert len(names) <= 16
    home.close()

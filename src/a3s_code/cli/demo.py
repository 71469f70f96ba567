"""``python -m a3s_code.cli.demo`` (``make demo``). In: nothing. Out: a real session over a sample repository.

The offline model answers, so it needs no key and no network; everything else is what a real model gets: the tools, the
live view, the log. The exit code says whether the answers hold what is in the repository.

One rule: nothing is shown that was not really done.
Known weakness: a workspace that was left by an earlier demo is used again as it is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from a3s_code.api.agent import Agent
from a3s_code.cli.asking import Nobody
from a3s_code.cli.log import show, verify
from a3s_code.cli.narrate import Event
from a3s_code.cli.render import choose_renderer
from a3s_code.cli.run import watch
from a3s_code.cli.sample_repo import commit_sample, write_sample
from a3s_code.cli.setup import LIMITS
from a3s_code.config.load import default_config
from a3s_code.errors import CodeError
from a3s_code.stores.factlog import log_path
from a3s_code.system.process import LocalProcesses

PROMPTS: Final = (
    ("Summarise this repository", ("tally", "expenses")),
    ("Where are budgets checked?", ("tally/report.py",)),
)
_FIRST_FACTS: Final = 12


def main(directory: Path) -> int:
    _prepare(directory)
    try:
        return asyncio.run(_demo(directory))
    except CodeError as error:
        print(f"demo: {error.code}: {error}", file=sys.stderr)
        return 1


async def _demo(directory: Path) -> int:
    missing: list[str] = []
    async with await Agent.create_from_config_async(default_config({})) as agent:
        session = await agent.session_async(directory, LIMITS)
        for prompt, wanted in PROMPTS:
            _head(f'a3s-code run "{prompt}"')
            answers: list[str] = []
            with choose_renderer(sys.stdout) as renderer:
                events = _overheard(await session.stream_async(prompt), answers)
                watched = await watch(events, session, renderer, Nobody())
            if watched.code:
                return watched.code
            missing += [word for word in wanted if word not in "".join(answers)]
    path = log_path(str(directory), session.session_id)
    _head(f"a3s-code log show {session.session_id}   (its first {_FIRST_FACTS} facts)")
    show(path, limit=_FIRST_FACTS)
    _head(f"a3s-code log verify {session.session_id}")
    sound = verify(path)
    _say_how_to_go_on(directory, session.session_id)
    if missing:
        print(f"demo: the answers don't mention {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else sound


def _prepare(directory: Path) -> None:
    if (directory / "pyproject.toml").exists():
        print(f"using the sample repository in {directory}")
        return
    directory.mkdir(parents=True, exist_ok=True)
    written = write_sample(directory)
    asyncio.run(commit_sample(directory, LocalProcesses(), dict(os.environ)))
    print(f"wrote a sample repository of {len(written)} files to {directory}")


async def _overheard(events: AsyncIterator[Event], answers: list[str]) -> AsyncIterator[Event]:
    """The same events; the final text is kept on the way."""
    async for event in events:
        if event.type == "agent_end":
            answers.append(str(event.payload.get("text")))
        yield event


def _head(command: str) -> None:
    print(f"\n$ {command}\n", flush=True)


def _say_how_to_go_on(directory: Path, session_id: str) -> None:
    where, program = os.path.relpath(directory), _program()
    _head("now with a real model")
    print("  export OPENAI_API_KEY=...      # or ANTHROPIC_API_KEY")
    print(f'  {program} run -w {where} "Make storage.save safe against a crash, and run the tests"')
    print(f"  {program} chat -w {where} --session {session_id}")
    print(f"  {program} doctor")


def _program() -> str:
    """The command as it can be typed here: the one beside this Python unless it is on the path."""
    beside = Path(sys.executable).with_name("a3s-code")
    return os.path.relpath(beside) if shutil.which("a3s-code") is None and beside.exists() else "a3s-code"


if __name__ == "__main__":
    sys.exit(main(Path("demo-workspace").resolve()))

"""What a command works with. In: its options and the environment. Out: workspace, configuration, session.

One rule: what was chosen for the user is told in one line on the standard error output, never in the answer.
Known weakness: a configuration in a workspace is trusted as much as one that the user names.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from a3s_code.api.agent import Agent
from a3s_code.api.session import Session
from a3s_code.cli.words import clean
from a3s_code.config.load import default_config, load_config
from a3s_code.config.model import OFFLINE, CodeConfig
from a3s_code.errors import CodeError, ConfigError
from a3s_code.ports.store import SessionStore

IN_WORKSPACE: Final = ("agent.acl", ".a3s/agent.acl")
LIMITS: Final[dict[str, Any]] = {"tool_budget": None, "step_limit": 200}
"""A person watches and can interrupt, so the command lifts the documents' limits (8 and 32)."""
NO_KEY: Final = (
    "no API key was found, so the offline model answers (rules, no language model): set OPENAI_API_KEY or "
    "ANTHROPIC_API_KEY, or write an agent.acl, for a real one"
)


class Setup(msgspec.Struct, frozen=True):
    """``origin`` says where the configuration came from: a path, or empty for the environment. ``model`` is the one to
    ask for, ``None`` for the configuration's own. ``store`` is one that was named beside the configuration's."""

    workspace: Path
    config: CodeConfig
    origin: str
    model: str | None
    store: SessionStore | None = None

    @property
    def offline(self) -> bool:
        name = self.model or self.config.default_model or ""
        return name.startswith(f"{OFFLINE}/")


def workspace_of(given: str) -> Path:
    path = Path(given)
    if not path.is_dir():
        raise CodeError(f"-w {given}: there is no such directory", "INVALID_REQUEST")
    return path.resolve()


def set_up(workspace: Path, config: str | None, model: str | None, environ: Mapping[str, str]) -> Setup:
    """Raises ``ConfigError``."""
    path = Path(config) if config is not None else found_config(workspace)
    if path is None:
        return Setup(workspace, _from_environment(model, environ), "", None)
    loaded = load_config(path, environ=environ)
    name = model or loaded.default_model
    if name is None:
        declared = ", ".join(loaded.declared_models()) or "none is declared"
        raise ConfigError(f"{path}: there is no default_model; choose one with --model (declared: {declared})")
    if (fault := loaded.model_fault(name)) is not None:
        raise ConfigError(f"--model: {fault} ({path})")
    return Setup(workspace, loaded, str(path), model)


def found_config(workspace: Path) -> Path | None:
    """The configuration that lies in the workspace."""
    return next((workspace / name for name in IN_WORKSPACE if (workspace / name).is_file()), None)


def _from_environment(model: str | None, environ: Mapping[str, str]) -> CodeConfig:
    """The default configuration; with a key, any model of that provider may be named."""
    if model is None:
        return default_config(environ)
    try:
        return default_config({**environ, "A3S_CODE_MODEL": model})
    except ConfigError as error:
        message = str(error).replace("A3S_CODE_MODEL names", "--model names")
        raise ConfigError(f"{message}, or a configuration that declares it (--config FILE)") from None


def notice(text: str) -> None:
    """One line for the user beside the output proper."""
    print(f"a3s-code: {clean(text)}", file=sys.stderr, flush=True)


def tell(setup: Setup) -> None:
    """What was chosen without being asked for."""
    if setup.origin:
        notice(f"configuration {setup.origin}")
    elif setup.offline and setup.model is None:
        notice(NO_KEY)


@contextlib.asynccontextmanager
async def agent_of(setup: Setup) -> AsyncIterator[Agent]:
    """An agent, closed at the end, and the named store after it."""
    try:
        async with await Agent.create_from_config_async(setup.config) as agent:
            yield agent
    finally:
        if setup.store is not None:
            await setup.store.close()


async def open_session(
    agent: Agent, setup: Setup, session_id: str | None, governance: Mapping[str, Any], *, quiet: bool = False
) -> Session:
    """With a store each run is saved when it has settled."""
    options = {**LIMITS, **governance, "model": setup.model, "session_id": session_id, "session_store": setup.store}
    options["auto_save"] = setup.store is not None or setup.config.storage == "file"
    session = await agent.session_async(setup.workspace, {k: v for k, v in options.items() if v or k in LIMITS})
    if session.init_warning and not quiet:
        notice(session.init_warning)
    return session


def command_line(*words: str, workspace: Path) -> str:
    """A command to type: ``-w`` is added unless the user is there."""
    place = () if workspace == Path.cwd() else ("-w", str(workspace))
    return shlex.join(["a3s-code", *words, *place])

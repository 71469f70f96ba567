"""bash: what a command sees of the host's environment (tools.md §3.7, *Environment scrub*)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from search_and_bash_calls import Caller

from a3s_code.core.environment import scrub_environment
from a3s_code.system.process import LocalProcesses
from a3s_code.tools.bash import BashTool

SECRET = [
    ("OPENAI_BASE_URL", "x"),
    ("AWS_REGION", "x"),
    ("AZURE_THING", "x"),
    ("ANTHROPIC_MODEL", "x"),
    ("MY_API_KEY", "x"),
    ("my_api_key", "x"),
    ("KEY", "x"),
    ("DEPLOY_KEYS", "x"),
    ("APIKEY", "x"),
    ("GITHUB_TOKEN", "x"),
    ("CLIENT_SECRET_FILE", "x"),
    ("DB_PASSWORD", "x"),
    ("PASSWD", "x"),
    ("GPG_PASSPHRASE", "x"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "x"),
    ("SSH_AUTH_SOCK", "x"),
    ("SESSION_COOKIE", "x"),
    ("BEARER", "x"),
    ("GH_PAT", "x"),
    ("SENTRY_DSN", "x"),
    ("DATABASE_URL", "sqlite:///x"),
    ("KUBECONFIG", "x"),
    ("GNUPGHOME", "x"),
    ("BASH_ENV", "x"),
    ("ENV", "x"),
    ("REDIS", "redis://:pw@host/0"),
    ("PIP_EXTRA_INDEX_URL", "https://a/simple https://user:pw@b/simple"),
]
HARMLESS = [
    ("PATH", "/bin"),
    ("MONKEY", "x"),
    ("KEYBOARD", "x"),
    ("TOKENIZERS_PARALLELISM", "x"),
    ("PATTERN", "x"),
    ("AUTHOR", "x"),
    ("HOMEPAGE", "https://host/@scope/p?mail=a@b"),
    ("REMOTE", "git@host:x/y"),
    ("LANG", "C.UTF-8"),
]


@pytest.mark.parametrize(("name", "value"), SECRET)
def test_secrets_go(name: str, value: str) -> None:
    """A variable whose name or value looks like a credential is dropped."""
    assert scrub_environment({name: value}) == {}


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_the_rest_stays(name: str, value: str) -> None:
    """A word inside a word is no word: harmless variables are kept as they are."""
    assert scrub_environment({name: value}) == {name: value}


async def test_what_a_command_sees(tmp_path: Path) -> None:
    """Fixed variables are set, the call's own are added after the scrub, and the call's id can't be replaced."""
    tool = BashTool(
        LocalProcesses(), {"PATH": os.environ["PATH"], "X_TOKEN": "secret", "PLAIN": "kept", "PAGER": "less"}
    )
    result = await Caller(tool, tmp_path)(
        command="env", env={"MY_TOKEN": "given", "A3S_IDEMPOTENCY_KEY": "forged", "TERM": "xterm"}
    )
    seen = dict(line.split("=", 1) for line in result.output.removesuffix("\n").split("\n"))
    for name in ("PWD", "SHLVL", "_", "OLDPWD", "A3S_PROC_ID"):
        seen.pop(name, None)
    assert seen == {
        "PATH": os.environ["PATH"],
        "PLAIN": "kept",
        "MY_TOKEN": "given",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "TERM": "xterm",
        "A3S_IDEMPOTENCY_KEY": "call-1",
    }


async def test_the_hosts_own_variables_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the environment that was given to the tool counts, not the one of the process."""
    monkeypatch.setenv("LEAKED", "yes")
    call = Caller(BashTool(LocalProcesses(), {"PATH": os.environ["PATH"]}), tmp_path)
    assert (await call(command='echo "[$LEAKED]"')).output == "[]\n"

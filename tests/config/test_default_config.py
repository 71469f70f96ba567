"""The configuration that the command line uses when there is no file."""

from __future__ import annotations

import pytest

from a3s_code.config import default_config
from a3s_code.errors import ConfigError


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({}, "offline/scout"),
        ({"OPENAI_API_KEY": ""}, "offline/scout"),
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-4.1"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-4-5"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "openai/gpt-4.1"),
        ({"OPENAI_API_KEY": "k", "A3S_CODE_MODEL": "gpt-x"}, "openai/gpt-x"),
        ({"OPENAI_API_KEY": "k", "A3S_CODE_MODEL": "openai/gpt-x"}, "openai/gpt-x"),
        ({"OPENAI_API_KEY": "k", "A3S_CODE_MODEL": "meta/llama"}, "openai/meta/llama"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "A3S_CODE_MODEL": "anthropic/c"}, "anthropic/c"),
        ({"OPENAI_API_KEY": "k", "A3S_CODE_MODEL": "offline/scout"}, "offline/scout"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1", "A3S_CODE_MODEL": "local"}, "openai/local"),
    ],
)
def test_the_model_follows_the_environment(environ: dict[str, str], model: str) -> None:
    """A key chooses its provider, OpenAI first; ``A3S_CODE_MODEL`` another model; without a key it is the scout."""
    config = default_config(environ)
    assert config.default_model == model
    assert config.resolve_model(model)[1].id == model.partition("/")[2]


def test_another_server() -> None:
    """``OPENAI_BASE_URL`` and ``ANTHROPIC_BASE_URL`` belong to their provider only, and so do the keys."""
    config = default_config(
        {
            "OPENAI_API_KEY": "o",
            "ANTHROPIC_API_KEY": "a",
            "ANTHROPIC_BASE_URL": "https://h/x",
            "A3S_CODE_MODEL": "anthropic/c",
        }
    )
    openai, anthropic = config.providers["openai"], config.providers["anthropic"]
    assert (openai.key(), openai.address(), list(openai.models)) == ("o", None, ["gpt-4.1"])
    assert (anthropic.key(), anthropic.address(), list(anthropic.models)) == ("a", "https://h/x", ["c"])


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"A3S_CODE_MODEL": "gpt-x"}, "needs OPENAI_API_KEY or ANTHROPIC_API_KEY in the environment"),
        ({"A3S_CODE_MODEL": "anthropic/c", "OPENAI_API_KEY": "k"}, "needs ANTHROPIC_API_KEY in the environment"),
        ({"A3S_CODE_MODEL": "offline/other"}, "provider 'offline' is not declared"),
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "nonsense"}, "providers.openai.base_url: expected an address"),
    ],
)
def test_a_wish_that_cannot_be_met(environ: dict[str, str], message: str) -> None:
    """A model without its key, or an address that is none, is an error that says what is missing."""
    with pytest.raises(ConfigError, match=message):
        default_config(environ)

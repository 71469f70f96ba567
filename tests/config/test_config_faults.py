"""What is wrong with a configuration, and where."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.config import CodeConfig, ProviderConfig, Secret, config_from_mapping, load_config
from a3s_code.errors import ConfigError

NOT_TEXT: Secret[Any] = Secret(5)


def load(text: str) -> CodeConfig:
    return load_config(text, environ={})


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert caught.value.code == "CONFIG_ERROR"
    return str(caught.value)


def mapping_fault(mapping: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(mapping, environ={})
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ('max_tool_rounds = "x"', "1:19: max_tool_rounds: expected a whole number, found text"),
        ("max_tool_rounds = 0", "1:19: max_tool_rounds: expected at least 1"),
        ("max_tool_rounds = 1.5", "1:19: max_tool_rounds: expected a whole number, found a number with a fraction"),
        ("max_parallel_tasks = true", "1:22: max_parallel_tasks: expected a whole number, found true or false"),
        ("project_doc_max_bytes = -1", "1:25: project_doc_max_bytes: expected at least 0"),
        ("sessions_dir = 5", "1:16: sessions_dir: expected text, found a whole number"),
        ('sessions_dir = " "', "1:16: sessions_dir: expected text that is not blank and has no NUL"),
        ('skill_dirs = "x"', "1:14: skill_dirs: expected a list of strings, found text"),
        ('skill_dirs = ["x", 1]', "1:20: skill_dirs: expected text, found a whole number"),
        ("memory = 5", "1:10: memory: expected a block, found a whole number"),
        ('memory "x" {}', "1:1: memory: expected a block without a label"),
        ("memory { llm_extraction_max_items = 21 }", "1:37: memory.llm_extraction_max_items: expected 0 to 20"),
        ("task_scheduler { max_active = 0 }", "1:31: task_scheduler.max_active: expected at least 1"),
        ("auto_delegation { min_confidence = 2 }", "1:36: auto_delegation.min_confidence: expected 0 to 1"),
        ("auto_delegation { enabled = 1 }", "1:29: auto_delegation.enabled: expected true or false, found a whole"),
        ('providers { apiKey = "k" }', '1:13: providers: expected a block with a label: providers "name" { … }'),
        ('providers = "x"', '1:13: providers: expected a block with a label: providers "name" { … }'),
        ('providers "" {}', "1:11: providers: expected a label that is not blank"),
        ('providers "a/b" {}', "1:17: providers.a/b: expected a provider's name without '/'"),
        ('providers "p" { apiKey = 5 }', "1:26: providers.p.api_key: expected text"),
        ('providers "p" { apiKey = "a\\nb" }', "1:26: providers.p.api_key: expected text without line breaks"),
        ('providers "p" { baseUrl = "h" }', "1:27: providers.p.base_url: expected an address that begins with"),
        (
            'providers "p" { models "m" { limit = 5 } }',
            "1:38: providers.p.models.m.limit: expected a block, found a",
        ),
        ('providers "p" { models "m" { cost { input = -1 } } }', "1:45: providers.p.models.m.cost.input: expected"),
        ('storage_backend = "file"', '1:19: storage_backend: expected sessions_dir beside "file"'),
        (
            'storage_backend = "fil"',
            '1:19: storage_backend: expected one of "file", "memory", "custom"; did you mean file?',
        ),
        ("search = 5", "1:10: search: expected a block, found a whole number"),
        ('mcp_servers "x" = 5', "1:17: mcp_servers: expected '{' after the label"),
        ('security { typ = "default" }', "1:1: security: unknown block"),
        ('security = { typ = "default" }', "1:1: security: unknown block"),
        ('providers "p" { model "m" {} }', "1:17: providers.p.model: unknown block; did you mean models?"),
        ("agent.hcl", "1:1: expected ACL text, or a path"),
    ],
)
def test_wrong_values_are_errors_at_their_place(text: str, head: str) -> None:
    """A wrong type, range, choice or block is an error at its place that names the field."""
    assert fault(text).startswith(f"<acl text>:{head}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("opnai/x", "provider 'opnai' is not declared (did you mean 'openai'?); declared providers: openai, b"),
        ("openai/y", "model 'y' is not declared by provider 'openai'; declared models: openai/x, openai/a/b, b/c"),
        ("x", "expected \"provider/model-id\", found 'x'; declared models: openai/x, openai/a/b, b/c"),
        ("offline/other", "provider 'offline' is not declared; declared providers: openai, b"),
    ],
)
def test_a_default_model_must_be_declared(name: str, message: str) -> None:
    """An unknown default model is an error at its place that lists what is declared."""
    providers = 'providers "openai" {\n models "x" {}\n models "a/b" {}\n}\nproviders "b" { models "c" {} }\n'
    assert fault(f'{providers}default_model = "{name}"').startswith(f"<acl text>:6:17: default_model: {message}\n")
    with pytest.raises(ConfigError, match=r"^model: "):
        load(providers).resolve_model(name)


def test_a_model_id_may_hold_slashes() -> None:
    """The provider ends at the first slash."""
    config = load('default_model = "r/meta/llama"\nproviders "r" { models "meta/llama" {} }')
    assert config.resolve_model("r/meta/llama")[1].id == "meta/llama"


def test_the_offline_model_needs_no_declaration() -> None:
    """``offline/scout`` is part of the package; a block for it is possible, not necessary."""
    provider, model = load('default_model = "offline/scout"').resolve_model("offline/scout")
    assert (provider.name, model.id) == ("offline", "scout")
    text = 'default_model = "offline/scout"\nproviders "offline" { models "scout" { name = "Mine" } }'
    assert load(text).resolve_model("offline/scout")[1].name == "Mine"


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"max_tool_rounds": "x"}, "configuration: max_tool_rounds: expected a whole number, found text"),
        ({"security": {"typ": "default"}}, "configuration: security: unknown block"),
        (
            {"providers": {"p": {"models": {"m": {"limit": {"context": "big"}}}}}},
            "configuration: providers.p.models.",
        ),
        (
            {"providers": {"p": {"api_key": b"k"}}},
            "configuration: providers.p.api_key: expected JSON, found a bytes",
        ),
        ({1: 2}, "configuration: expected text as a key, found a int"),
        (
            {"search": {"x": float("nan")}},
            "configuration: search.x: expected a number, found one that is not finite",
        ),
        ({"search": {"x": {1, 2}}}, "configuration: search.x: expected JSON, found a set"),
        ({"default_model": "a/b"}, "configuration: default_model: provider 'a' is not declared; no providers are"),
        ([], "configuration: expected a mapping or a CodeConfig, found a list"),
        ('{"a": 1}', "configuration: expected a mapping or a CodeConfig, found a str"),
        (CodeConfig(max_tool_rounds=0), "configuration: max_tool_rounds: expected at least 1"),
        (CodeConfig("p/m", {"p": ProviderConfig()}), "configuration: default_model: model 'm' is not declared"),
        (
            CodeConfig(providers={"p": ProviderConfig(api_key=NOT_TEXT)}),
            "configuration: providers.p.api_key: expect",
        ),
    ],
)
def test_mappings_are_checked_as_strictly(mapping: Any, message: str) -> None:
    """A fault of a mapping or of a typed configuration names its field (case E15: nothing unknown is taken)."""
    assert mapping_fault(mapping).startswith(message)


def test_a_mapping_that_holds_itself() -> None:
    """A circular mapping is an error, no recursion without end."""
    circular: dict[str, Any] = {}
    circular["search"] = circular
    assert "nested more than" in mapping_fault(circular)


KEYS = st.sampled_from(
    [*msgspec.structs.asdict(CodeConfig()), "apiKey", "base_url", "limit", "models", "name", "p", "X"]
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["p/X", "file"])
)
TREES = st.recursive(LEAVES, lambda t: st.lists(t, max_size=3) | st.dictionaries(KEYS, t, max_size=4), max_leaves=25)


@given(st.dictionaries(KEYS, TREES, max_size=5))
def test_any_mapping_loads_or_is_a_config_error(mapping: dict[str, Any]) -> None:
    """Whatever a host passes, the outcome is a configuration that loads again unchanged, or a ``ConfigError``."""
    try:
        config = config_from_mapping(mapping, environ={})
    except ConfigError:
        return
    assert config_from_mapping(config, environ={}) == config

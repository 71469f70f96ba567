"""From ACL text, files and mappings to a ``CodeConfig``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from a3s_code.config import CodeConfig, EnvVar, ModelConfig, config_from_mapping, load_config
from a3s_code.config.model import AutoDelegation, Cost, Limit, Memory, Queue, TaskScheduler
from a3s_code.errors import ConfigError

SPEC = """
default_model = "openai/gpt-x"
max_parallel_tasks = 4
sessions_dir = ".a3s/sessions"     # gives every session a file store
memory_dir   = ".a3s/memory"
skill_dirs   = ["./skills"]
agent_dirs   = ["./.a3s/agents"]

providers "openai" {
  apiKey  = env("OPENAI_API_KEY")
  baseUrl = "https://api.example.com"
  headers = { "X-Team" = "core" }
  models "gpt-x" {
    name = "Readable name"
    tool_call = true
    limit = { context = 128000, output = 4096 }
    cost  = { input = 1.25, output = 10.0, cache_read = 0.125 }   # per million tokens
  }
}

auto_delegation { enabled = true, auto_parallel = false, min_confidence = 0.72, max_tasks = 4 }
task_scheduler { max_active = 64, aging_interval_ms = 30000 }
memory { llm_extraction = true, llm_extraction_max_items = 5, llm_extraction_max_input_chars = 8000 }
queue { query_concurrency = 4, execute_concurrency = 2 }
mcp_servers "github" { transport = { type = "stdio", command = "npx", args = ["-y", "pkg"] } }
search { cascade_order = ["api", "http"], headless = { proxy_url = "http://proxy:3128" } }
"""

MAPPING: dict[str, Any] = {
    "default_model": "openai/gpt-x",
    "max_parallel_tasks": 4,
    "sessions_dir": ".a3s/sessions",
    "memory_dir": ".a3s/memory",
    "skill_dirs": ["./skills"],
    "agent_dirs": ("./.a3s/agents",),
    "providers": {
        "openai": {
            "api_key": EnvVar("OPENAI_API_KEY"),
            "base_url": "https://api.example.com",
            "headers": {"X-Team": "core"},
            "models": {
                "gpt-x": {
                    "name": "Readable name",
                    "tool_call": True,
                    "limit": {"context": 128000, "output": 4096},
                    "cost": {"input": 1.25, "output": 10.0, "cache_read": 0.125},
                }
            },
        }
    },
    "auto_delegation": {"enabled": True, "auto_parallel": False, "min_confidence": 0.72, "max_tasks": 4},
    "task_scheduler": {"max_active": 64, "aging_interval_ms": 30000},
    "memory": {"llm_extraction": True, "llm_extraction_max_items": 5, "llm_extraction_max_input_chars": 8000},
    "queue": {"query_concurrency": 4, "execute_concurrency": 2},
    "mcp_servers": {"github": {"transport": {"type": "stdio", "command": "npx", "args": ["-y", "pkg"]}}},
    "search": {"cascade_order": ["api", "http"], "headless": {"proxy_url": "http://proxy:3128"}},
}

PEER = """
default_model = "openai/mock"
providers "openai" {
  api_key  = "sk-local"
  base_url = "http://127.0.0.1:8080/v1/"
  models "mock" {
    name      = "mock"
    tool_call = true
    limit = {
      context = 100000000
      output  = 8192
    }
  }
}
storage_backend = "memory"
max_tool_rounds = 50
"""


def load(text: str, **environ: str) -> CodeConfig:
    return load_config(text, environ=environ)


def fault(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, **environ)
    assert caught.value.code == "CONFIG_ERROR"
    return str(caught.value)


def mapping_fault(mapping: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping(mapping, environ={})
    return str(caught.value)


def test_the_example_of_the_specification() -> None:
    """Every key of the specified file arrives with its value and type."""
    config = load(SPEC, OPENAI_API_KEY="sk-1")
    provider, model = config.resolve_model("openai/gpt-x")
    assert (provider.name, provider.key(), provider.address()) == ("openai", "sk-1", "https://api.example.com")
    assert provider.header_values() == {"X-Team": "core"}
    assert model == ModelConfig("gpt-x", "Readable name", True, Limit(128000, 4096), Cost(1.25, 10.0, 0.125))
    assert config.auto_delegation == AutoDelegation(True, False, True, 0.72, 4)
    assert config.task_scheduler == TaskScheduler(64, 30000)
    assert config.memory == Memory(True, 5, 8000)
    assert config.queue == Queue(query_concurrency=4, execute_concurrency=2)
    assert config.mcp_servers["github"].reveal() == MAPPING["mcp_servers"]["github"]
    assert config.search is not None
    assert config.search.reveal() == MAPPING["search"]
    assert (config.skill_dirs, config.agent_dirs) == (("./skills",), ("./.a3s/agents",))
    assert (config.sessions_dir, config.memory_dir, config.storage) == (".a3s/sessions", ".a3s/memory", "file")


def test_a_mapping_says_the_same_as_the_text() -> None:
    """Text, mapping and the typed form made from either give equal configurations."""
    config = load(SPEC)
    assert config_from_mapping(MAPPING, environ={}) == config
    assert config_from_mapping(config, environ={}) == config


def test_a_file_with_nested_objects_over_lines() -> None:
    """Objects may span lines, and keys come in snake case too."""
    config = load(PEER)
    provider, model = config.resolve_model("openai/mock")
    assert (provider.key(), provider.address()) == ("sk-local", "http://127.0.0.1:8080/v1/")
    assert model.limit == Limit(100_000_000, 8192)
    assert (config.storage, config.max_tool_rounds, config.sessions_dir) == ("memory", 50, None)


def test_nothing_said_is_nothing_decided() -> None:
    """An empty text is a configuration that leaves everything to the defaults."""
    assert load("") == CodeConfig() == load("  # nothing\n") == load("// nothing")
    assert CodeConfig().storage is None


@pytest.mark.parametrize("url", ["https://h/api/coding/paas/v4", "https://h/v1", "https://h/v1/", "https://h"])
def test_a_base_url_is_kept_as_written(url: str) -> None:
    """The configuration drops and adds nothing to a base URL (case A22): joining it is the provider's."""
    assert load(f'providers "p" {{ baseUrl = "{url}" }}').providers["p"].address() == url


def test_camel_case_and_snake_case_are_one_key() -> None:
    """Either spelling counts; both with one value do too, both with two values are an error at the second."""
    assert load('providers "p" { apiKey = "k", api_key = "k" }').providers["p"].key() == "k"
    mapping = {"providers": {"p": {"baseUrl": "http://h", "apiKey": "k"}}, "maxToolRounds": 3}
    config = config_from_mapping(mapping, environ={})
    assert (config.providers["p"].address(), config.max_tool_rounds) == ("http://h", 3)
    assert fault('providers "p" {\n  apiKey = "a"\n  api_key = "b"\n}').startswith(
        "<acl text>:3:3: providers.p.api_key: api_key and apiKey are the same key, given with different values\n"
    )
    assert mapping_fault({"providers": {"p": {"apiKey": "a", "api_key": "b"}}}).startswith(
        "configuration: providers.p."
    )


class TestEnvironment:
    def test_a_missing_variable_matters_when_it_is_needed(self) -> None:
        """Loading and every other provider work without the variable; revealing it is the error, with its place."""
        config = load('providers "a" {\n  apiKey = env("NO_KEY")\n}\nproviders "b" { apiKey = env("B") }', B="bee")
        assert config.providers["b"].key() == "bee"
        with pytest.raises(ConfigError) as caught:
            config.providers["a"].key()
        assert str(caught.value) == (
            "<acl text>:2:12: providers.a.api_key: the environment variable NO_KEY is not set and has no default\n"
            '  2 |   apiKey = env("******")\n'
            "    |            ^"
        )

    def test_the_environment_is_read_at_that_moment(self) -> None:
        """A variable set after loading counts, the default stands in for an unset one, an empty one is set."""
        environ: dict[str, str] = {}
        text = 'providers "a" { apiKey = env("K"), baseUrl = env("U", "http://default"), headers = { "H" = env("H") } }'
        provider = load_config(text, environ=environ).providers["a"]
        environ.update(K="late", H="")
        assert (provider.key(), provider.address(), provider.header_values()) == ("late", "http://default", {"H": ""})

    def test_deep_in_a_block_that_is_kept_as_json(self) -> None:
        """An ``env()`` inside an MCP server's block waits until the block is opened, and then names its place."""
        text = 'mcp_servers "x" {\n  transport = { type = "stdio", command = "c" }\n  env = { TOKEN = env("TOK") }\n}'
        environ: dict[str, str] = {}
        block = load_config(text, environ=environ).mcp_servers["x"]
        with pytest.raises(ConfigError, match=r"^<acl text>:3:19: mcp_servers\.x\.env\.TOKEN: .* TOK is not set"):
            block.reveal()
        environ["TOK"] = "t"
        assert block.reveal()["env"] == {"TOKEN": "t"}

    def test_numbers_and_flags_may_come_from_it(self) -> None:
        """Text of the environment that is written as a number or a flag counts as one; other text is an error."""
        text = 'max_tool_rounds = env("N")\nauto_delegation { enabled = env("E"), min_confidence = env("C", "0.5") }'
        config = load(text, N="7", E="TRUE")
        assert (config.max_tool_rounds, config.auto_delegation) == (7, AutoDelegation(True, min_confidence=0.5))
        assert "max_tool_rounds: expected a whole number, found text" in fault(text, N="seven", E="true")

    def test_a_value_that_loading_needs(self) -> None:
        """A variable behind a value that the load itself needs is missed at once."""
        assert fault('default_model = env("M")').startswith(
            "<acl text>:1:17: default_model: the environment variable M"
        )

    def test_the_home_directory(self) -> None:
        """A leading ``~`` in a directory is the home directory, elsewhere it is itself."""
        config = load('memory_dir = "~/m"\nsessions_dir = "~"\nskill_dirs = ["~/s", "~x", "a/~/b"]', HOME="/home/me")
        assert (config.memory_dir, config.sessions_dir) == ("/home/me/m", "/home/me")
        assert config.skill_dirs == ("/home/me/s", "~x", "a/~/b")


class TestUnknownKeys:
    def test_warn_once_with_the_nearest_name(self, caplog: pytest.LogCaptureFixture) -> None:
        """An unknown key is reported once, however often it stands there, with its place and the nearest name."""
        text = 'max_tool_round = 5\nproviders "p" { models "a" { tool_cal = true }\n models "b" { tool_cal = true } }'
        with caplog.at_level(logging.WARNING, "a3s_code"):
            assert load(text).max_tool_rounds is None
        assert [record.getMessage() for record in caplog.records] == [
            "<acl text>:2:30: providers.p.models.a.tool_cal: unknown key is ignored; did you mean tool_call?",
            "<acl text>:1:1: max_tool_round: unknown key is ignored; did you mean max_tool_rounds?",
        ]

    def test_a_mapping_warns_too(self, caplog: pytest.LogCaptureFixture) -> None:
        """In a mapping the field's path is the place; a name like no other gets no suggestion."""
        with caplog.at_level(logging.WARNING, "a3s_code"):
            config_from_mapping({"providers": {"p": {"zzz": 1, "modalities": {"input": []}}}}, environ={})
        assert [record.getMessage() for record in caplog.records] == [
            "configuration: providers.p.zzz: unknown key is ignored",
            "configuration: providers.p.modalities: unknown key is ignored; did you mean models?",
        ]

    def test_known_keys_are_silent(self, caplog: pytest.LogCaptureFixture) -> None:
        """The specified examples warn about nothing."""
        for text in (SPEC, PEER):
            load(text)
        assert caplog.records == []

    def test_a_storage_url_that_has_no_use(self, caplog: pytest.LogCaptureFixture) -> None:
        """``storage_url`` without ``custom`` is reported, and its text is not."""
        config = load('storage_url = "postgres://me:pass@h/db"')
        assert [r.getMessage() for r in caplog.records] == [
            'storage_url is ignored: it is the connection text of storage_backend "custom" only'
        ]
        assert config.storage_url is not None
        assert config.storage_url.reveal() == "postgres://me:pass@h/db"
        caplog.clear()
        load('storage_backend = "custom"\nstorage_url = "x"')
        assert caplog.records == []


class TestFiles:
    @pytest.mark.parametrize("as_text", [True, False])
    def test_a_path_is_read(self, tmp_path: Path, as_text: bool) -> None:
        """One line that ends in ``.acl`` and a ``Path`` name a file; a byte order mark is no part of it."""
        path = tmp_path / "agent.acl"
        path.write_bytes(b"\xef\xbb\xbf" + PEER.encode())
        assert load_config(str(path) if as_text else path, environ={}) == load(PEER)

    def test_errors_name_the_file(self, tmp_path: Path) -> None:
        """A fault in a file begins with the file's name as it was given."""
        path = tmp_path / "agent.acl"
        path.write_text("a = 1\nb = ?\n")
        assert fault(str(path)).startswith(f"{path}:2:5: b: expected")

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        """A missing file, a directory and an impossible name are errors that name the path."""
        missing = tmp_path / "missing.acl"
        assert fault(str(missing)) == f"{missing}:1:1: expected a readable ACL file: No such file or directory"
        directory = tmp_path / "dir.acl"
        directory.mkdir()
        assert fault(str(directory)).endswith("Is a directory")
        assert fault("a\0.acl").endswith("not a path")

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        """A file that is not UTF-8 is an error at its first bad byte."""
        path = tmp_path / "agent.acl"
        path.write_bytes('a = 1\nb = "é'.encode() + b'\xe9"\n')
        assert fault(str(path)).startswith(f"{path}:2:7: expected UTF-8, found the byte 0xe9\n")

    def test_an_endless_file(self) -> None:
        """A file above the limit is refused, not read to its end."""
        endless = Path("/dev/zero")
        if not endless.exists():
            pytest.skip("no /dev/zero here")
        with pytest.raises(ConfigError, match="at most 4194304 bytes"):
            load_config(endless, environ={})

    def test_json_in_a_file(self, tmp_path: Path) -> None:
        """JSON is not parsed; the error says which function takes it."""
        path = tmp_path / "agent.acl"
        path.write_text('\n  {"default_model": "a/b"}')
        assert fault(str(path)).startswith(f"{path}:2:3: this is JSON, not ACL: pass it parsed to create_from_config")

"""Secrets are nowhere but in ``reveal()``."""

from __future__ import annotations

import copy
import json
import pickle
import traceback

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.config import CodeConfig, ProviderConfig, Secret, config_from_mapping, load_config
from a3s_code.errors import ConfigError

KEY = "zq7XK-top9secret"
TEXT = f"""
storage_backend = "custom"
storage_url = "postgres://me:{KEY}@h/db"
providers "p" {{
  apiKey = "{KEY}"
  baseUrl = "https://me:{KEY}@h/v1"
  headers = {{ "X-Any" = "{KEY}" }}
}}
mcp_servers "m" {{ transport = {{ type = "http", url = "http://h", headers = {{ A = "{KEY}" }} }} }}
search {{ headless = {{ proxy_url = "http://u:{KEY}@h" }} }}
"""


def test_no_text_form_of_a_configuration_holds_a_secret() -> None:
    """``repr``, ``str`` and ``format`` of the configuration and its parts show none of its secrets."""
    config = load_config(TEXT, environ={})
    provider = config.providers["p"]
    for shown in (repr(config), str(config), f"{config}", repr(provider), f"{provider.api_key}", repr(config.search)):
        assert KEY not in shown
    assert provider.key() == KEY
    assert provider.header_values() == {"X-Any": KEY}


def test_a_secret_from_the_environment_is_as_hidden() -> None:
    """A key that comes from the environment shows neither itself nor the environment."""
    config = load_config('providers "p" { apiKey = env("K") }', environ={"K": KEY})
    assert KEY not in repr(config)
    assert config.providers["p"].key() == KEY


@pytest.mark.parametrize("encode", [pickle.dumps, json.dumps, msgspec.json.encode, msgspec.to_builtins])
def test_secrets_are_not_written_out(encode: object) -> None:
    """Pickle and JSON refuse a secret instead of storing it."""
    config = load_config(TEXT, environ={})
    with pytest.raises(TypeError) as caught:
        encode(config)  # type: ignore[operator]  # one of the encoders above
    assert KEY not in str(caught.value)


def test_a_plain_string_of_a_host_is_hidden_too() -> None:
    """The typed form hides keys, addresses and headers also when the host passed plain strings."""
    provider = ProviderConfig("p", KEY, f"http://{KEY}", {"h": KEY})  # type: ignore[arg-type, dict-item]  # untyped hosts do
    config = CodeConfig(providers={"p": provider}, storage_url=KEY, mcp_servers={"m": {"env": {"T": KEY}}})  # type: ignore[arg-type, dict-item]  # untyped hosts do
    assert KEY not in repr(config)
    checked = config_from_mapping(config, environ={})
    assert checked.providers["p"].key() == KEY
    assert checked.mcp_servers["m"].reveal() == {"env": {"T": KEY}}


def test_copies_share_the_secret() -> None:
    """Copying a configuration keeps its secrets closed and usable."""
    config = load_config(TEXT, environ={})
    assert copy.deepcopy(config) == config
    assert copy.copy(config.providers["p"].api_key) is config.providers["p"].api_key


def test_secrets_compare_without_being_hashable() -> None:
    """Two secrets are equal when the same was given; none can be a key of a dict."""
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    with pytest.raises(TypeError, match="not hashable"):
        hash(Secret("a"))


@pytest.mark.parametrize(
    "text",
    [
        f'apiKey = "{KEY}" oops',
        f'apiKey = "{KEY}',
        f"apiKey = {KEY}",
        f"apiKey = '{KEY}'",
        f'apiKey "{KEY}"',
        f'apiKey "{KEY}" {{ }}',
        f"apiKey {KEY} = 1",
        f'apiKey = ["{KEY}"]',
        f"apiKey =\n  {KEY}",
        f'apiKey = "{KEY}\\q"',
        f'apiKey = "{KEY}\x01"',
        f'apiKey = env("A", "{KEY}" "x")',
        f'apiKey = "a"\n  api_key = "{KEY}"',
        f'headers = {{\n  "X-Any" = "{KEY}"\n  "X-Any" = "{KEY}" }}',
        f'headers = {{\n  "X-Any" = "{KEY}" 5 }}',
        f'headers = {{\n  "X-Any" = {KEY} }}',
        f'headers = {{\n  "X-Any" = ["{KEY}"] }}',
        f'apiKey =\n\n  "{KEY}" 5',
        f'apiKey =\n\n  "{KEY}", 5',
        f'apiKey =\n\n  "{KEY}", baseUrl = 5',
        f'apiKey =\n\n  "{KEY}", models "m" {{ limit = "x" }}',
        f'headers = {{\n  "X-Any" =\n  "{KEY}"\n }}, 5',
        f'"{KEY}"',
        f'"{KEY}" "x" = 5',
        f'#apiKey =\n  "{KEY}", 5',
        f'apiKey = {{ "{KEY}", 5 }}',
        f'aipKye = "{KEY}" 5',
        f'aipKye = "{KEY}", 5',
        f'haeders = {{\n "X" = "{KEY}" 5\n }}',
        f'baseUrl = "ftp://me:{KEY}@h"',
        f'baseUrl = "https://me:{KEY}@h" # {KEY}\n }} }}',
        f'/* {KEY} */ apiKey = "x" // {KEY}\n ]',
    ],
)
def test_errors_show_no_secret(text: str) -> None:
    """However a line with a secret is broken, neither message nor traceback holds it, and the place still does."""
    with pytest.raises(ConfigError) as caught:
        load_config(f'providers "p" {{\n  {text}\n}}', environ={})
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert str(caught.value).startswith("<acl text>:")
    assert str(caught.value).endswith("^")


@given(st.text('{}[]()=:,"\\\n #/*5', max_size=4), st.integers(0, len(f'  apiKey = "{KEY}"')), st.booleans())
def test_no_damage_to_a_line_opens_its_secret(noise: str, at: int, cut: bool) -> None:
    """Noise put anywhere into the line of a key, or the line's loss from there on, leaves the key out of the error."""
    line = f'  apiKey = "{KEY}"'
    line = line[:at] + noise + ("" if cut else line[at:])
    with pytest.raises(ConfigError) as caught:
        load_config(f'providers "p" {{\n{line}\n}}\nx = ]', environ={})
    assert KEY not in str(caught.value)


def test_an_address_from_the_environment_is_checked_when_needed() -> None:
    """A base URL that is no address is an error at its place, without the address."""
    provider = load_config('providers "p" { baseUrl = env("U") }', environ={"U": f"ftp://{KEY}"}).providers["p"]
    with pytest.raises(ConfigError, match=r"^<acl text>:1:27: providers\.p\.base_url: expected an address") as caught:
        provider.address()
    assert KEY not in str(caught.value)

"""The doors to the configuration. In: ACL text, a path, a mapping or the environment. Out: a ``CodeConfig``.

One rule: whatever is wrong with a configuration is a ``ConfigError``, and no other exception leaves here.
Known weakness: the environment is read when a value is needed, so a variable changed later changes the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from a3s_code.config.build import build
from a3s_code.config.mapping import node_of
from a3s_code.config.model import OFFLINE, SCOUT, CodeConfig, Limit, ModelConfig, ProviderConfig
from a3s_code.config.parser import parse
from a3s_code.config.reader import Reading
from a3s_code.config.secret import Secret
from a3s_code.config.source import Source
from a3s_code.config.tree import Table
from a3s_code.errors import ConfigError

_BARE = re.compile(r"(?!//)[^\n={\[(:\"#*]+")
MAX_BYTES = 4 * 1024 * 1024

_DEFAULTS = {
    "openai": ("OPENAI", ModelConfig("gpt-4.1", "GPT-4.1", limit=Limit(1_047_576, 32_768))),
    "anthropic": ("ANTHROPIC", ModelConfig("claude-sonnet-4-5", "Claude Sonnet 4.5", limit=Limit(200_000, 64_000))),
}


def load_config(source: str | os.PathLike[str], *, environ: Mapping[str, str]) -> CodeConfig:
    """The configuration in ``source``: ACL text, or a path (a ``Path``, or one line that ends in ``.acl``).

    ``environ`` answers ``env()``; it is kept and asked when a value is needed. Raises ``ConfigError``.
    """
    acl = _source(source)
    return build(parse(acl), Reading(acl, environ))


def config_from_mapping(config: Mapping[str, Any] | CodeConfig, *, environ: Mapping[str, str]) -> CodeConfig:
    """The configuration in ``config``: a labelled block is a mapping by label; ``EnvVar`` stands for ``env()``.

    A ``CodeConfig`` that a host made is checked like any other. Raises ``ConfigError`` naming the field.
    """
    source = Source("configuration")
    if not isinstance(config, Mapping | CodeConfig):
        raise source.error(-1, f"expected a mapping or a CodeConfig, found a {type(config).__name__}")
    tree = node_of(config, source)
    if not isinstance(tree, Table):
        raise source.error(-1, "expected a mapping")
    return build(tree, Reading(source, environ))


def default_config(environ: Mapping[str, str]) -> CodeConfig:
    """The configuration when there is none (the command line's): the provider whose key is in ``environ``, OpenAI
    first, else ``offline/scout``. ``A3S_CODE_MODEL`` names another model, with or without its provider;
    ``OPENAI_BASE_URL`` and ``ANTHROPIC_BASE_URL`` another server, which needs no key when a model is named."""
    wanted = environ.get("A3S_CODE_MODEL", "").strip()
    prefix, _, rest = wanted.partition("/")
    chosen, model_id = (prefix, rest) if prefix in (*_DEFAULTS, OFFLINE) and rest else ("", wanted)
    if chosen == OFFLINE or not (wanted or any(environ.get(f"{name}_API_KEY") for name, _ in _DEFAULTS.values())):
        return config_from_mapping({"default_model": f"{OFFLINE}/{model_id or SCOUT}"}, environ=environ)
    providers = {}
    for provider, (prefix, model) in _DEFAULTS.items():
        key, url = environ.get(f"{prefix}_API_KEY"), environ.get(f"{prefix}_BASE_URL")
        if key or (url and wanted):
            chosen = chosen or provider
            model = ModelConfig(model_id) if model_id and provider == chosen else model
            providers[provider] = ProviderConfig(
                provider, Secret(key) if key else None, Secret(url) if url else None, {}, {model.id: model}
            )
    if chosen not in providers:
        keys = " or ".join(f"{name}_API_KEY" for p, (name, _) in _DEFAULTS.items() if p == (chosen or p))
        raise ConfigError(f"A3S_CODE_MODEL names {wanted!r}, which needs {keys} in the environment")
    default_model = f"{chosen}/{next(iter(providers[chosen].models))}"
    return config_from_mapping(CodeConfig(default_model, providers), environ=environ)


def _source(source: str | os.PathLike[str]) -> Source:
    if isinstance(source, os.PathLike):
        return read_source(os.fspath(source))
    if not isinstance(source, str):
        raise ConfigError(f"expected ACL text or a path, found a {type(source).__name__}")
    line = source.strip()
    if line.endswith(".acl") and "\n" not in line:
        return read_source(line)
    text = Source("<acl text>", source.removeprefix("\ufeff"))
    if _BARE.fullmatch(line):
        raise text.error(0, "expected ACL text, or a path: a Path object, or one line that ends in .acl")
    return text


def read_source(name: str, what: str = "ACL file") -> Source:
    """The file's text. Bytes that are no UTF-8 are an error at their place; errors call the file ``what``."""
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise ConfigError(f"{name}:1:1: expected a readable {what}: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name}:1:1: expected the {what} to have at most {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        at = len(data[: error.start].decode("utf-8"))
        raise Source(name, text).error(at, f"expected UTF-8, found the byte 0x{data[error.start]:02x}") from None
    return Source(name, text.removeprefix("\ufeff"))

"""Which store a command works with. In: ``--store``, ``--store-key-env``, the configuration. Out: a store, or none.

One rule: what ``--store`` names wins over the configuration, and no password or key is ever printed.
Known weakness: a password in ``--store postgresql://…`` is seen by other users of the machine: use ``PGPASSWORD``.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from a3s_code.cli.governed import Governed
from a3s_code.cli.setup import Setup, found_config
from a3s_code.config.load import load_config
from a3s_code.errors import CodeError, SessionConfigurationError

if TYPE_CHECKING:
    from a3s_code.stores.file import FileSessionStore
    from a3s_code.stores.postgres import PostgresSessionStore
    from a3s_code.stores.sqlite import SqliteSessionStore

FORMS: Final = "file:DIR, sqlite:PATH or postgresql://USER@HOST/DATABASE"
CommandStore: TypeAlias = "FileSessionStore | SqliteSessionStore | PostgresSessionStore"


class Chosen(msgspec.Struct, frozen=True):
    """``words`` are the arguments that say the same again, none for a store that the configuration gives."""

    store: CommandStore
    words: tuple[str, ...] = ()


def named_store(args: argparse.Namespace, environ: Mapping[str, str]) -> Chosen | None:
    """The store that ``--store`` names. ``INVALID_REQUEST`` tells the forms."""
    if args.store is not None:
        return _named(args.store, args.store_key_env, environ)
    if args.store_key_env is not None:
        raise CodeError("--store-key-env goes with --store file:DIR", "INVALID_REQUEST")
    return None


def chosen_store(args: argparse.Namespace, workspace: Path, environ: Mapping[str, str]) -> Chosen | None:
    """The store that ``--store`` names, else that of the configuration, if it says one."""
    if (named := named_store(args, environ)) is not None:
        return named
    path = Path(args.config) if args.config is not None else found_config(workspace)
    config = None if path is None else load_config(path, environ=environ)
    if config is None or config.storage != "file":
        return None
    assert config.sessions_dir is not None, "the configuration was checked"
    return Chosen(_files(config.sessions_dir))


def required_store(args: argparse.Namespace, workspace: Path, environ: Mapping[str, str]) -> Chosen:
    """The same, for a command that can't do without."""
    chosen = chosen_store(args, workspace, environ)
    if chosen is None:
        message = f"which store? Name it with --store {FORMS}, or give the configuration a sessions_dir"
        raise CodeError(message, "INVALID_REQUEST")
    return chosen


@contextlib.asynccontextmanager
async def opened(chosen: Chosen | None) -> AsyncIterator[CommandStore | None]:
    """The store if there is one, for a command that makes none: a named one has to be there, the configuration's
    comes with the first session that is saved."""
    if chosen is None:
        yield None
        return
    try:
        there = await chosen.store.schema_version() is not None
        if not there and chosen.words:
            raise CodeError(f"{chosen.store} holds nothing yet; is that the right one?", "INVALID_REQUEST")
        yield chosen.store if there else None
    finally:
        await chosen.store.close()


def with_store(setup: Setup, rights: Governed, chosen: Chosen | None) -> tuple[Setup, Governed]:
    """Both with the store in them: it is the session's, and its words are said again in hints."""
    if chosen is None:
        return setup, rights
    return replace(setup, store=chosen.store), replace(rights, words=(*rights.words, *chosen.words))


def _named(given: str, key_variable: str | None, environ: Mapping[str, str]) -> Chosen:
    form, _, rest = given.partition(":")
    if key_variable is not None and form != "file":
        raise CodeError("--store-key-env goes with --store file:DIR", "INVALID_REQUEST")
    if form in ("postgresql", "postgres") and rest.startswith("//"):
        from a3s_code.stores.postgres import PostgresSessionStore  # each is loaded when it is named

        return Chosen(PostgresSessionStore(given), ("--store", _without_password(given)))
    if form == "sqlite" and rest:
        from a3s_code.stores.sqlite import SqliteSessionStore  # the same

        return Chosen(SqliteSessionStore(rest), ("--store", given))
    if form == "file" and rest:
        if key_variable is None:
            return Chosen(_files(rest), ("--store", given))
        try:
            store = _files(rest, environ.get(key_variable, ""))
        except SessionConfigurationError:
            message = f"--store-key-env {key_variable}: expected 64 hexadecimal digits in this environment variable"
            raise CodeError(message, "INVALID_REQUEST") from None
        return Chosen(store, ("--store", given, "--store-key-env", key_variable))
    raise CodeError(f"--store: expected {FORMS}", "INVALID_REQUEST")


def _files(directory: str, key: str | None = None) -> FileSessionStore:
    from a3s_code.stores.file import FileSessionStore  # the same

    return FileSessionStore(directory, key)


def _without_password(dsn: str) -> str:
    return "postgresql://..." if "password" in dsn.lower() or urlsplit(dsn).password is not None else dsn

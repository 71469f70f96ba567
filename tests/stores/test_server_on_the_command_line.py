"""``a3s-code`` with a store on a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a3s_code.cli.main import main

pytest_plugins = ["storefixtures"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_a_server_is_named_by_its_url(
    tmp_path: Path, postgres_dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL: nothing is made by looking, migrate makes the tables once, a session is saved, listed and checked."""
    monkeypatch.setenv("A3S_CODE_MODEL", "offline/scout")
    store = ["--store", postgres_dsn, "-w", str(tmp_path)]
    code, _, err = printed(capsys, "sessions", *store)
    assert code == 2
    assert "holds nothing yet" in err
    assert printed(capsys, "store", "migrate", *store)[1][1].startswith("made")
    assert printed(capsys, "store", "migrate", *store)[1][1].startswith("nothing to do")
    assert main(["run", "hello", *store]) == 0
    capsys.readouterr()
    _, lines, _ = printed(capsys, "sessions", "--json", *store)
    assert [json.loads(line)["where"] for line in lines] == ["both"]
    code, lines, _ = printed(capsys, "store", "check", *store, "--json")
    assert (code, json.loads(lines[0])["counts"]["session"]) == (0, 1)

"""Permission policies in files: ACL and JSON are the same, and what isn't understood is an error at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3s_code.config.policy import load_policy
from a3s_code.core.policy import PermissionPolicy
from a3s_code.errors import ConfigError

ACL = """\
# what may be done
deny = ["bash(rm -rf*)"]
ask = ["bash(git push*)", "write(docs/\\"a\\")"]
default_decision = "allow"
enabled = true
"""
JSON = """\
{
  "deny": ["bash(rm -rf*)"],
  "ask": ["bash(git push*)", "write(docs/\\"a\\")"],
  "defaultDecision": "allow"
}
"""


@pytest.mark.parametrize("text", [ACL, JSON])
def test_acl_and_json_say_the_same(tmp_path: Path, text: str) -> None:
    """Comments, escapes, both spellings of a key."""
    (tmp_path / "policy").write_text(text)
    expected = PermissionPolicy(("bash(rm -rf*)",), ("bash(git push*)", 'write(docs/"a")'), (), "allow")
    assert load_policy(tmp_path / "policy", environ={}) == expected


def test_an_empty_policy_asks_about_everything(tmp_path: Path) -> None:
    """What isn't said is the default, and ``enabled = false`` is kept."""
    (tmp_path / "policy").write_text("{}")
    assert load_policy(tmp_path / "policy", environ={}) == PermissionPolicy()
    (tmp_path / "policy").write_text("enabled = false\n")
    assert load_policy(tmp_path / "policy", environ={}).enabled is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{\n  "deny": ["read"],\n  "allow": ["read",\n    "write("]\n}\n',
            [":4:5: ", "allow", "malformed allow rule"],
        ),
        ('deny = ["read"]\nalow = ["x"]\n', [":2:1: ", "alow", "known here: deny, ask, allow"]),
        ('deny = "read"\n', [":1:8: ", "a list of rules"]),
        ("ask = [7]\n", [":1:8: ", "a rule as text"]),
        ('ask = [env("RULE")]\n', [":1:8: ", "a rule as text"]),
        ('default_decision = "maybe"\n', [":1:20: ", "allow"]),
        ('{"deny": ["read"]', [":1:1: "]),
        ('{"deny": ["read"]} {}', [":1:18: "]),
    ],
)
def test_a_fault_is_shown_at_its_place(tmp_path: Path, text: str, words: list[str]) -> None:
    """File, line and column, for rules, keys and the form."""
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_policy(path, environ={})
    for word in (str(path), *words):
        assert word in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With what it should have been."""
    with pytest.raises(ConfigError, match=r"nowhere:1:1: expected a readable policy file: No such file"):
        load_policy(tmp_path / "nowhere", environ={})

"""The text of the macOS profile; it can't be run here."""

from __future__ import annotations

from a3s_code.ports.sandbox import SandboxPolicy
from a3s_code.system.process import LocalProcesses
from a3s_code.workspace.sandbox.seatbelt import Seatbelt, profile

POLICY = SandboxPolicy(
    workspace="/Users/a/w",
    writable=("/Users/a/w", "/private/tmp/s/tmp", "/Users/a/w/.git/refs"),
    read_only=("/Users/a/w/.git", "/Users/a/w/.a3s"),
    masked=("/Users/a/.ssh", "/Users/a/w/.env"),
    network=False,
    scratch="/private/tmp/s",
)


def after(text: str, first: str, second: str) -> bool:
    """Whether both rules are there, the second one later: the later one counts."""
    return -1 < text.find(first) < text.find(second)


def test_everything_is_denied_first() -> None:
    """What no rule allows is denied, the network and listening included."""
    text = profile(POLICY)
    assert text.startswith("(version 1)\n(deny default)\n")
    assert "network" not in text
    assert "(allow default)" not in text
    assert "(allow file-write*)" not in text


def test_inner_places_come_later() -> None:
    """The workspace is writable, but not what is protected in it, but again what was lifted inside that."""
    text = profile(POLICY)
    workspace = '(allow file-write* (subpath "/Users/a/w"))'
    assert after(text, workspace, '(deny file-write* (subpath "/Users/a/w/.git"))')
    assert after(text, workspace, '(deny file-write* (subpath "/Users/a/w/.a3s"))')
    git, refs = '(deny file-write* (subpath "/Users/a/w/.git"))', '(allow file-write* (subpath "/Users/a/w/.git/refs"))'
    assert after(text, git, refs)
    assert after(text, workspace, '(deny file-read-data file-write* (subpath "/Users/a/w/.env"))')
    assert after(text, "(allow file-read*)", '(deny file-read-data file-write* (subpath "/Users/a/.ssh"))')


def test_repositories_at_any_depth_are_read_only() -> None:
    """A ``.git`` below the top is covered by its name, in any case, before it exists."""
    text = profile(POLICY)
    assert '(deny file-write* (regex "^/Users/a/w/(.+/)?\\\\.[gG][iI][tT](/|$)"))' in text


def test_odd_names_stay_text() -> None:
    """A quote or backslash in a path can't end the text that it is in."""
    odd = '/Users/a/w") (allow default) ("\\'
    text = profile(SandboxPolicy(odd, (odd,), (), (), False, "/s"))
    assert '(allow file-write* (subpath "/Users/a/w\\") (allow default) (\\"\\\\"))' in text


def test_the_command_line_holds_profile_and_command() -> None:
    """``sandbox-exec -p`` takes the profile as one word, and then the command."""
    line = Seatbelt(LocalProcesses()).command(["echo", "hi"], POLICY)
    assert line == ["/usr/bin/sandbox-exec", "-p", profile(POLICY), "echo", "hi"]

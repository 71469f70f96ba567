"""The AGENTS.md chain (extensions.md §6.2), over real files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from a3s_code.context.instructions import Instructions, load_instructions


class Tree:
    """A project ``root/sub/deep`` with a Git root, and a personal directory beside it."""

    def __init__(self, base: Path) -> None:
        self.personal = base / "home" / ".a3s"
        self.root = base / "project"
        self.sub = self.root / "sub"
        self.deep = self.sub / "deep"
        self.personal.mkdir(parents=True)
        self.deep.mkdir(parents=True)
        (self.root / ".git").mkdir()

    def load(self, workspace: Path | None = None, **options: Any) -> Instructions:
        return load_instructions(str(workspace or self.deep), user_dir=self.personal, **options)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def write(path: Path, text: str | bytes) -> None:
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_personal_first_then_root_to_workspace(tree: Tree) -> None:
    """The chain goes from the personal document over the Git root down to the workspace, later being more local."""
    write(tree.personal / "AGENTS.md", "personal")
    write(tree.root / "AGENTS.md", "root")
    write(tree.deep / "AGENTS.md", "deep")
    write(tree.root.parent / "AGENTS.md", "above the root")
    found = tree.load()
    assert found.sources == ("personal/AGENTS.md", "AGENTS.md", "sub/deep/AGENTS.md")
    assert found.text == (
        "--- personal/AGENTS.md ---\npersonal\n\n--- AGENTS.md ---\nroot\n\n--- sub/deep/AGENTS.md ---\ndeep"
    )
    assert found.warnings == ()


def test_text_holds_no_path_of_this_machine(tree: Tree) -> None:
    """Two machines with the project in different places get the same bytes."""
    write(tree.sub / "AGENTS.md", "x")
    assert str(tree.root.parent) not in tree.load().text


def test_nothing_there_is_nothing(tree: Tree) -> None:
    """Without any document there is no text, no source and no warning."""
    assert tree.load() == Instructions()


def test_override_replaces_only_its_own_directory(tree: Tree) -> None:
    """``AGENTS.override.md`` wins over its neighbour and leaves the other directories alone."""
    write(tree.root / "AGENTS.md", "root")
    write(tree.sub / "AGENTS.md", "plain")
    write(tree.sub / "AGENTS.override.md", "override")
    assert tree.load().sources == ("AGENTS.md", "sub/AGENTS.override.md")


@pytest.mark.parametrize("content", [b"", b" \n\t", b"\xff\xfe bad", b"caf\xe9"])
def test_empty_or_unreadable_candidate_falls_through(tree: Tree, content: bytes) -> None:
    """A blank file, or one that is not UTF-8, is as if it were not there."""
    write(tree.deep / "AGENTS.override.md", content)
    write(tree.deep / "AGENTS.md", "good")
    assert tree.load().sources == ("sub/deep/AGENTS.md",)


def test_fallback_names_come_last_in_their_order(tree: Tree) -> None:
    """The names the host gives are tried after the two known ones."""
    write(tree.deep / "CLAUDE.md", "c")
    write(tree.deep / "NOTES.md", "n")
    assert tree.load(fallback_names=["NOTES.md", "CLAUDE.md"]).sources == ("sub/deep/NOTES.md",)
    write(tree.deep / "AGENTS.md", "a")
    assert tree.load(fallback_names=["NOTES.md"]).sources == ("sub/deep/AGENTS.md",)
    write(tree.personal / "NOTES.md", "fallback names are for the project only")
    assert tree.load(fallback_names=["NOTES.md"]).sources == ("sub/deep/AGENTS.md",)


@pytest.mark.parametrize("name", ["/etc/passwd", "../AGENTS.md", "a/b.md", "a\\b.md", "x..md", "a\0b", "", "."])
def test_fallback_names_that_are_no_plain_names_are_ignored_with_a_warning(tree: Tree, name: str) -> None:
    """A name that could lead elsewhere is not tried, and that is said."""
    write(tree.sub / "AGENTS.md", "x")
    found = tree.load(fallback_names=[name])
    assert found.sources == ("sub/AGENTS.md",)
    assert len(found.warnings) == 1
    assert repr(name) in found.warnings[0]


def test_git_file_of_a_worktree_is_a_root_too(tree: Tree) -> None:
    """A ``.git`` file, as worktrees and submodules have it, marks the nearest root."""
    write(tree.sub / ".git", "gitdir: elsewhere")
    write(tree.root / "AGENTS.md", "outer")
    write(tree.sub / "AGENTS.md", "inner")
    assert tree.load().sources == ("AGENTS.md",)
    assert "inner" in tree.load().text


def test_without_a_git_root_only_the_workspace_counts(tmp_path: Path) -> None:
    """Outside of Git no ancestor is read."""
    workspace = tmp_path / "a" / "b"
    workspace.mkdir(parents=True)
    write(tmp_path / "a" / "AGENTS.md", "above")
    write(workspace / "AGENTS.md", "here")
    found = load_instructions(str(workspace), user_dir=tmp_path / "none")
    assert (found.sources, "above" in found.text) == (("AGENTS.md",), False)


def test_links_and_devices_are_ignored(tree: Tree) -> None:
    """A link, a FIFO or a directory with the right name is passed over, without hanging (case E08)."""
    secret = tree.root.parent / "secret"
    write(secret, "secret")
    (tree.deep / "AGENTS.override.md").symlink_to(secret)
    os.mkfifo(tree.deep / "AGENTS.md")
    (tree.sub / "AGENTS.md").mkdir()
    (tree.personal / "AGENTS.md").symlink_to(secret)
    assert tree.load() == Instructions()


def test_workspace_reached_over_a_link_is_its_real_place(tree: Tree) -> None:
    """A workspace named by a link belongs to the project it really is in."""
    link = tree.root.parent / "link"
    link.symlink_to(tree.deep)
    write(tree.root / "AGENTS.md", "root")
    assert tree.load(link).sources == ("AGENTS.md",)


def test_limit_is_shared_cuts_at_a_character_and_ends_the_chain(tree: Tree) -> None:
    """The document that does not fit is cut between characters, later ones are left out, and a warning says so."""
    write(tree.personal / "AGENTS.md", "12345")
    write(tree.root / "AGENTS.md", "ab" + "é" * 10)
    write(tree.deep / "AGENTS.md", "never")
    found = tree.load(max_bytes=10)
    assert found.text == "--- personal/AGENTS.md ---\n12345\n\n--- AGENTS.md ---\nabé"
    assert len(found.warnings) == 1
    assert "AGENTS.md does not fit" in found.warnings[0]


def test_document_that_just_fits_is_whole(tree: Tree) -> None:
    """Exactly the limit is not cut, and nothing comes after it."""
    write(tree.root / "AGENTS.md", "12345")
    write(tree.deep / "AGENTS.md", "more")
    found = tree.load(max_bytes=5)
    assert (found.sources, found.warnings) == (("AGENTS.md",), ())
    assert found.text.endswith("12345")


def test_zero_disables_everything(tree: Tree) -> None:
    """With a limit of 0 the personal file is not read either."""
    write(tree.personal / "AGENTS.md", "personal")
    assert tree.load(max_bytes=0) == Instructions()


def test_limit_above_a_mebibyte_is_clamped_with_a_warning(tree: Tree) -> None:
    """More than 1 MiB is never read, however much is asked for."""
    write(tree.root / "AGENTS.md", "x" * (1024 * 1024 + 50))
    found = tree.load(max_bytes=10**9)
    assert len(found.text) < 1024 * 1024 + 100
    assert [("highest" in w, "cut" in w) for w in found.warnings] == [(True, False), (False, True)]


def test_byte_order_mark_is_dropped(tree: Tree) -> None:
    """A BOM is no part of the text."""
    write(tree.root / "AGENTS.md", b"\xef\xbb\xbfrules")
    assert tree.load().text == "--- AGENTS.md ---\nrules"


def test_personal_directory_defaults_to_the_home(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless told otherwise the personal document is in ``~/.a3s``."""
    monkeypatch.setenv("HOME", str(tree.personal.parent))
    write(tree.personal / "AGENTS.md", "mine")
    assert load_instructions(str(tree.deep)).sources == ("personal/AGENTS.md",)

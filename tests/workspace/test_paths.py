"""Which paths a workspace takes, and what they mean (tools.md §4.1; cases E08, E10)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.tool import ToolFailure
from a3s_code.ports.workspace import Place
from a3s_code.workspace.local import LocalWorkspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return root


@pytest.fixture
def workspace(root: Path) -> LocalWorkspace:
    return LocalWorkspace(str(root))


def kind_of_refusal(workspace: LocalWorkspace, path: str) -> str:
    with pytest.raises(ToolFailure) as caught:
        workspace.locate(path)
    return caught.value.kind


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 256, "é" * 128, "a/" + "b/" * 2048, "a\ud800"])
def test_malformed_paths_are_invalid_arguments(workspace: LocalWorkspace, path: str) -> None:
    """A path that no file can have is refused as an argument."""
    assert kind_of_refusal(workspace, path) == "invalid_argument"


def test_the_longest_allowed_name_is_accepted(workspace: LocalWorkspace) -> None:
    """A name of 255 bytes and a path of 4096 bytes are within the limits."""
    assert workspace.locate("x" * 255).path == "x" * 255
    assert workspace.locate("a/" * 2048).path == ("a/" * 2048)[:-1]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/../src/a.py", "src/a.py"),
        ("../ws/src/a.py", "src/a.py"),
        (".", "."),
        ("src/", "src"),
        ("new/dir/file", "new/dir/file"),
        ("src/a.py/below-a-file", "src/a.py/below-a-file"),
        ("..name", "..name"),
    ],
)
def test_relative_paths_start_at_the_root(workspace: LocalWorkspace, path: str, meant: str) -> None:
    """A relative path is joined to the root, whatever the working directory is, and normalised."""
    assert workspace.locate(path) == Place(meant, meant)


def test_absolute_paths_inside_are_accepted(workspace: LocalWorkspace, root: Path) -> None:
    """An absolute path below the root means the same as the relative one."""
    assert workspace.locate(f"{root}/src/../src/a.py").path == "src/a.py"
    assert workspace.locate(str(root)).path == "."


def test_another_spelling_of_the_root_is_the_root(root: Path, tmp_path: Path) -> None:
    """A workspace opened through a link takes absolute paths through that link and through the real directory."""
    link = tmp_path / "link"
    link.symlink_to(root)
    workspace = LocalWorkspace(str(link))
    assert workspace.root == str(root)
    assert workspace.locate(f"{link}/src/a.py").path == "src/a.py"
    assert workspace.locate(f"{root}/src/a.py").path == "src/a.py"


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "..", "/", "src/../../outside/secret", "/.."])
def test_paths_that_lead_out_are_denied(workspace: LocalWorkspace, path: str) -> None:
    """A path that normalises to outside the root is denied, with the path in the message."""
    with pytest.raises(ToolFailure) as caught:
        workspace.locate(path)
    assert caught.value.kind == "path_denied"
    assert caught.value.message == f"Path is outside the workspace: {path}"


def test_a_sibling_with_the_roots_name_as_prefix_is_outside(workspace: LocalWorkspace, root: Path) -> None:
    """Containment compares components: ``/x/ws-other`` is not inside ``/x/ws``."""
    sibling = root.with_name("ws-other")
    sibling.mkdir()
    assert kind_of_refusal(workspace, f"{sibling}/file") == "path_denied"
    assert kind_of_refusal(workspace, "../ws-other/file") == "path_denied"


@pytest.mark.parametrize("path", ["~", "~/x", "~root/x", "$HOME/x", "${HOME}", "file:///etc/passwd", "%2e%2e/x"])
def test_nothing_is_expanded(workspace: LocalWorkspace, path: str) -> None:
    """Home, variables, URLs and escapes are ordinary names below the root."""
    assert workspace.locate(path).path == os.path.normpath(path)


@pytest.mark.parametrize(
    "path",
    [
        "C:\\x",
        "c:x",
        "C:",
        "\\\\host\\share\\x",
        "\\\\.\\NUL",
        "\\\\?\\C:\\x",
        "\\x",
        "//host/share/x",
        "src/a.py:stream",
        "src/a.py::$DATA",
        ":x",
        "src/a.py.",
        "src/a.py ",
        "src /a.py",
        "src./a.py",
        "...",
        " ",
    ],
)
def test_windows_forms_are_denied(workspace: LocalWorkspace, path: str) -> None:
    """What Windows would read as another file is denied on every system, not rewritten."""
    assert kind_of_refusal(workspace, path) == "path_denied"


@pytest.mark.parametrize("name", ["12:30.log", "trailing.", "blank ", "back\\slash"])
def test_an_existing_file_of_such_a_name_is_ordinary(workspace: LocalWorkspace, root: Path, name: str) -> None:
    """Where the system has a file of just that name, no other can be meant."""
    (root / name).write_text("x")
    assert workspace.locate(name).path == name


def test_links_inside_are_resolved_and_both_names_known(workspace: LocalWorkspace, root: Path) -> None:
    """A link to a place inside is followed; the place keeps the name that was asked for and the real one."""
    (root / "dir").symlink_to("src")
    (root / "file").symlink_to(root / "src" / "a.py")
    (root / "src" / "up").symlink_to("../dir")
    assert workspace.locate("dir/a.py") == Place("dir/a.py", "src/a.py")
    assert workspace.locate("file") == Place("file", "src/a.py")
    assert workspace.locate("src/up/new") == Place("src/up/new", "src/new")
    with workspace.open(workspace.locate("src/up/up/a.py")) as stream:
        assert stream.read() == b"a"


def test_a_link_to_the_root_is_the_root(workspace: LocalWorkspace, root: Path) -> None:
    """A link may lead back to the root itself."""
    (root / "self").symlink_to(".")
    assert workspace.locate("self") == Place("self", ".")
    assert workspace.locate("self/src/a.py") == Place("self/src/a.py", "src/a.py")


@pytest.mark.parametrize("target", ["../outside", "{tmp}/outside", "src/../../outside", "/", "../missing"])
def test_links_that_lead_out_are_denied(workspace: LocalWorkspace, root: Path, tmp_path: Path, target: str) -> None:
    """A link to the outside is denied, be it relative, absolute or dangling, at the end or on the way."""
    (root / "out").symlink_to(target.format(tmp=tmp_path))
    assert kind_of_refusal(workspace, "out") == "path_denied"
    assert kind_of_refusal(workspace, "out/secret") == "path_denied"


def test_a_chain_of_links_is_followed_to_its_end(workspace: LocalWorkspace, root: Path) -> None:
    """A link inside to a link that leads out is denied too."""
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("../outside/secret")
    assert kind_of_refusal(workspace, "one") == "path_denied"


def test_a_loop_of_links_is_denied(workspace: LocalWorkspace, root: Path) -> None:
    """A loop has no real path: nothing is opened, written or said about it."""
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    place = workspace.locate("a")
    for use in (workspace.stat, workspace.open, lambda p: workspace.replace(p, b"", None)):
        with pytest.raises(ToolFailure) as caught:
            use(place)
        assert caught.value.kind == "path_denied"


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A session can't have a file or nothing for its workspace."""
    (tmp_path / "file").write_text("x")
    for path in ("file", "missing"):
        with pytest.raises(SessionConfigurationError):
            LocalWorkspace(str(tmp_path / path))


def test_an_idle_workspace_holds_no_descriptor(tmp_path: Path) -> None:
    """A workspace costs no descriptor, neither made nor used."""
    (tmp_path / "f").write_text("x")
    before = os.listdir("/proc/self/fd")
    spaces = [LocalWorkspace(str(tmp_path)) for _ in range(50)]
    for workspace in spaces:
        workspace.open(workspace.locate("f")).close()
        workspace.entries(workspace.locate("."))
        workspace.stat(workspace.locate("f"))
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> LocalWorkspace:
    """A workspace full of ways out."""
    top = tmp_path_factory.mktemp("trap")
    (top / "out" / "a").mkdir(parents=True)
    (top / "out" / "a" / "b").write_text("outside")
    root = top / "ws"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "a").write_text("inside")
    (root / "a" / "up").symlink_to("..")
    (root / "a" / "upup").symlink_to("../..")
    (root / "b").symlink_to("../out")
    (root / "c").symlink_to(top / "out" / "a")
    (root / "d").symlink_to("a/b/../../a/up")
    return LocalWorkspace(str(root))


_NAMES = st.sampled_from(["a", "b", "c", "d", "up", "upup", "..", ".", "", "out", "ws", "trap"])


@given(parts=st.lists(_NAMES, min_size=1, max_size=9), absolute=st.booleans())
def test_no_path_ever_reaches_the_outside(trap: LocalWorkspace, parts: list[str], absolute: bool) -> None:
    """Whatever names are put together, the real path of an accepted one lies below the root, and is the system's."""
    path = "/".join(parts)
    try:
        place = trap.locate(f"{trap.root}/{path}" if absolute else path)
    except ToolFailure:
        return
    real = os.path.realpath(f"{trap.root}/{place.path}")
    assert real == trap.root or real.startswith(f"{trap.root}/")
    assert os.path.normpath(f"{trap.root}/{place.real}") == real

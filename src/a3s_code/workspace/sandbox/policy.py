"""What a command may touch. In: a workspace, what its host lifted, what is found in it. Out: a SandboxPolicy.

One rule: the protected names of tools.md §4.4 are read-only whether they exist or not; ``.a3s`` is so always.
Known weakness: a repository that a command makes below the top is protected from the next command on only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from a3s_code.core.protected import PROTECTED_DIRECTORIES, PROTECTED_FILES, RUNTIME_DIRECTORY
from a3s_code.ports.sandbox import SandboxPolicy
from a3s_code.workspace.sandbox.placeholders import OWN
from a3s_code.workspace.sandbox.scratch import Scratch
from a3s_code.workspace.sandbox.stores import credential_stores, homes, linked_files
from a3s_code.workspace.sandbox.survey import Survey, linked


class PolicyBuilder:
    """One a session. ``lifted`` are workspace-relative paths; with ``mask_workspace`` off the credential files in the
    workspace stay readable. ``own`` is what the sandbox itself is made of, which may lie in the workspace too."""

    def __init__(
        self,
        root: str,
        scratch: Scratch,
        environ: Mapping[str, str],
        *,
        lifted: Sequence[str],
        mask_workspace: bool,
        own: Sequence[str],
        now_ns: Callable[[], int],
    ) -> None:
        self._root = root
        self._scratch = scratch
        self._lifted = [os.path.normpath(f"{root}/{path}") for path in lifted]
        self._mask_workspace = mask_workspace
        self._survey = Survey(root, now_ns)
        self._own = [path for path in own if _below(path, root)]
        self._stores = [store for store in credential_stores(homes(environ)) if store != root]
        self._linked_stores = linked_files(self._stores)

    def build(self) -> SandboxPolicy:
        """Looks at the workspace as it is now."""
        found = self._survey.look()
        names = self.protected()
        links = [os.path.realpath(path) for path in names if os.path.islink(path)]
        read_only = [path for path in names if not os.path.islink(path)]
        read_only += [path for path in links if _below(path, self._root) and os.path.exists(path)]
        inner = [path for path in found.git if not self._is_lifted(path) and not os.path.islink(path)] + self._own
        masked = [*self._stores, *self._credentials(found.credentials), f"{self._root}/{OWN}"]
        return SandboxPolicy(
            workspace=self._root,
            writable=tuple(_once([self._root, *self._scratch.writable, *self._pins(inner), *self._opened()])),
            read_only=tuple(_once([*read_only, *inner])),
            masked=tuple(_once(masked)),
            network=False,
            scratch=self._scratch.path,
        )

    def protected(self) -> list[str]:
        """The protected names at the top of the workspace, there or not, without what was lifted."""
        paths = [f"{self._root}/{name}" for name in (*PROTECTED_DIRECTORIES, *PROTECTED_FILES)]
        return [path for path in paths if not self._is_lifted(path)]

    def _is_lifted(self, path: str) -> bool:
        if _below(path, f"{self._root}/{RUNTIME_DIRECTORY}"):
            return False
        return any(_below(path, lifted) for lifted in self._lifted)

    def _opened(self) -> list[str]:
        """Lifted places inside a protected one, which are bound over it."""
        own = f"{self._root}/{RUNTIME_DIRECTORY}"
        return [path for path in self._lifted if os.path.exists(path) and not _below(path, own) and path != self._root]

    def _pins(self, inner: list[str]) -> list[str]:
        """The directories above a protected place, bound to themselves, so that none can be moved away."""
        pins = []
        for path in inner:
            above = os.path.dirname(path)
            while above != self._root:
                pins.append(above)
                above = os.path.dirname(above)
        return pins

    def _credentials(self, found: list[str]) -> list[str]:
        if not self._mask_workspace:
            return []
        inodes = linked(found) | self._linked_stores
        aliases = self._survey.same_files(inodes) if inodes else []
        real = [os.path.realpath(path) for path in (*found, *aliases) if path not in self._lifted]
        return [path for path in real if os.path.exists(path)]


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _once(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))

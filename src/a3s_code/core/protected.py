"""Names that are more than files (tools.md §4.4, §4.5). In: a name, or a path in parts. Out: what it is.

One rule: names only, compared without regard to case; nobody looks at content here.
Known weakness: a credential under an ordinary name is not known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

RUNTIME_DIRECTORY: Final = ".a3s"
GIT: Final = ".git"
PROTECTED_DIRECTORIES: Final = (GIT, RUNTIME_DIRECTORY, ".agents", ".codex", ".claude", ".vscode", ".idea")
PROTECTED_FILES: Final = tuple(
    ".gitmodules .mcp.json .ripgreprc .bashrc .bash_profile .zshrc .zprofile .profile".split()
)
PACKAGE_STORES: Final = frozenset("node_modules .venv venv site-packages target vendor .pnpm-store".split())
CREDENTIAL_DIRECTORIES: Final = (
    (".ssh",),
    (".gnupg",),
    (".aws",),
    (".kube",),
    (".docker",),
    (".config", "gcloud"),
    (".config", "gh"),
)


@cache
def _credential() -> re.Pattern[str]:
    """Compiled when a tool first names a file."""
    return re.compile(
        r"""\.env | \.env\.(?!(?:example|sample|template)\Z).*
          | \.(?:netrc|npmrc|pypirc|pgpass|htpasswd|git-credentials)
          | id_(?:rsa|dsa|ecdsa|ed25519)
          | .*\.(?:pem|key|p12|pfx|jks|keystore|kdbx)
          | credentials\.json | service-account.*\.json""",
        re.IGNORECASE | re.DOTALL | re.VERBOSE,
    )


def is_credential_file(name: str) -> bool:
    """Whether a file of this name holds credentials, wherever it lies."""
    return _credential().fullmatch(name) is not None


def is_credential_directory(parts: Sequence[str]) -> bool:
    """Whether the directory with this path holds credentials."""
    folded = tuple(part.lower() for part in parts[-2:])
    return any(folded[-len(store) :] == store for store in CREDENTIAL_DIRECTORIES)


def is_credential(path: str) -> bool:
    """Whether a workspace-relative path names a credential file, or anything in a credential directory."""
    parts = path.split("/")
    return is_credential_file(parts[-1]) or any(is_credential_directory(parts[:end]) for end in range(1, len(parts)))


def is_protected(path: str) -> bool:
    """Whether a workspace-relative path names metadata that others act on: the files and directories above at the top
    level, and ``.git`` anywhere."""
    parts = path.casefold().split("/")
    return parts[0] in PROTECTED_DIRECTORIES or GIT in parts or (len(parts) == 1 and parts[0] in PROTECTED_FILES)


def in_package_store(path: str) -> bool:
    """Whether a package manager keeps this file, often as one of several hard links."""
    return not PACKAGE_STORES.isdisjoint(path.split("/")[:-1])

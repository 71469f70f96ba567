"""What a child process may know of the host's environment (tools.md §3.7). In: variables. Out: fewer variables.

One rule: a variable goes when its name or its value looks like a credential; nothing is masked or rewritten.
Known weakness: a secret under a harmless name is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_WORDS: Final = frozenset(
    """KEY KEYS APIKEY TOKEN SECRET SECRETS PASSWORD PASSWD PASSPHRASE CREDENTIAL CREDENTIALS AUTH COOKIE BEARER PAT
    DSN""".split()
)
_PREFIXES: Final = ("AWS_", "AZURE_", "OPENAI_", "ANTHROPIC_")
_NAMES: Final = frozenset(("DATABASE_URL", "KUBECONFIG", "GNUPGHOME", "BASH_ENV", "ENV"))
_USER_IN_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]*@")


def scrub_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a command may see. Names are judged without regard to case, and a value also when the URL
    with user information is only a part of it."""
    return {name: value for name, value in env.items() if not _is_secret(name.upper(), value)}


def _is_secret(name: str, value: str) -> bool:
    return (
        name.startswith(_PREFIXES)
        or name in _NAMES
        or not _WORDS.isdisjoint(name.split("_"))
        or ("://" in value and _USER_IN_URL.search(value) is not None)
    )

"""What looks like a secret in a text (extensions.md §5.3). In: text. Out: the same text, the secrets redacted.

One rule: a text without a secret comes back as it was; what stands around a secret stays. No text takes longer than its
length: every repetition is bounded, possessive or at the end of a match.
Known weakness: patterns know the forms of keys, not their meaning. A password in a sentence is not found, and program
text that assigns a long literal to a name like ``token`` is redacted too.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

REDACTED: Final = "[redacted]"
KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")


class _Pattern(NamedTuple):
    """``needles``: a lower-case text with none of them has no match; they keep the expression from most texts."""

    needles: tuple[str, ...]
    expression: re.Pattern[str]
    replacement: str = REDACTED


_BARE: Final = r"""[^\s"'`,;(){}\[\]<>\\]"""
# A bare value before a bracket is a call or a look-up; a run over 256 characters is taken for a value in any case, so
# that no start in it is tried again.
_VALUE: Final = (
    r"""(?:\\?"[^"\\\r\n]{6,}(?:\\?")?|\\?'[^'\\\r\n]{6,}(?:\\?')?"""
    rf"""|{_BARE}{{6,256}}+(?![(\[]|{_BARE})|{_BARE}{{257,}}+)"""
)


@cache
def _patterns() -> tuple[_Pattern, ...]:
    """Compiled when something is first sanitised: most sessions have no security provider."""
    return (
        _Pattern(("private key-----",), re.compile(f"{KEY_BEGINS.pattern}.*?(?:{KEY_ENDS.pattern}|\\Z)", re.DOTALL)),
        _Pattern(("akia", "asia"), re.compile(r"(?<![A-Za-z0-9])A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])")),
        _Pattern(("sk-",), re.compile(r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{16,}")),
        _Pattern(("_",), re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})")),
        _Pattern(("xox",), re.compile(r"(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{10,}")),
        _Pattern(("aiza",), re.compile(r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{30,}")),
        _Pattern(
            ("eyj",), re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,512}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")
        ),
        _Pattern(
            ("bearer",), re.compile(r"(\bbearer[ \t]{1,8})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\g<1>{REDACTED}"
        ),
        _Pattern(
            ("password", "passwd", "pwd", "secret", "token", "key"),
            re.compile(
                r"""((?:(?:password|passwd|pwd|secret)\w{0,32}+|token|api[ _-]?key)(?:\\?["'])?[ \t]{0,8}(?::=?|=>?)"""
                rf"""[ \t]{{0,8}})(?!{re.escape(REDACTED)}){_VALUE}""",
                re.IGNORECASE,
            ),
            rf"\g<1>{REDACTED}",
        ),
    )


class DefaultSecurityProvider:
    """Redacts private keys, the keys of common services, JWTs, bearer tokens, and what is assigned to names like
    ``password``, ``secret``, ``token`` and ``api_key`` (6 characters or more)."""

    def sanitize(self, text: str) -> str:
        """``text`` with ``[redacted]`` for every secret. Safe from any thread."""
        low = text.lower()
        for needles, expression, replacement in _patterns():
            if any(needle in low for needle in needles):
                text = expression.sub(replacement, text)
        return text

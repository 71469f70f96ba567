"""What a command lets a model do. In: ``--policy``, ``--policy-file``, ``--yes``, ``--sandbox``, the terminal.
Out: the session options that say so.

Without any of them: the preset ``workspace``, and a person at the terminal answers what asks. Without a terminal what
asks is refused.

One rule: nothing is approved by default but what the policy allows.
Known weakness: somebody who types into the terminal is taken for who may answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from a3s_code.config.policy import load_policy
from a3s_code.core.policy import PermissionPolicy
from a3s_code.core.policy import preset as preset_policy

DEFAULT: Final = "workspace"
_A_DAY_MS: Final = 86_400_000
NOBODY: Final = (
    "something was refused because nobody could be asked: run it on a terminal to be asked, allow it by a rule "
    "(--policy-file FILE), or approve everything (--yes)"
)


class Governed(msgspec.Struct, frozen=True):
    """``words`` are the arguments that say the same again; ``asks`` whether a person answers here."""

    policy: PermissionPolicy
    preset: str | None
    sandbox: str | None
    yes: bool
    asks: bool
    words: tuple[str, ...]

    def options(self) -> dict[str, Any]:
        """A person takes the time they take, so what can't park doesn't run out either."""
        options: dict[str, Any] = {"permission_policy": self.preset or self.policy}
        if self.yes or self.asks:
            options["confirmation_policy"] = {"enabled": not self.yes, "default_timeout_ms": _A_DAY_MS}
        if self.sandbox is not None:
            options["sandbox"] = self.sandbox
        return options


def policy_of(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[PermissionPolicy, str | None]:
    """The policy, and the preset's name if it is one. Raises ``ConfigError``."""
    preset = None if args.policy_file is not None else args.policy or DEFAULT
    found = preset_policy(preset) if preset else load_policy(args.policy_file, environ=environ)
    return found, preset


def governed(args: argparse.Namespace, environ: Mapping[str, str]) -> Governed:
    """Raises ``ConfigError``."""
    policy, preset = policy_of(args, environ)
    words = [word for name in ("policy", "policy_file", "sandbox") for word in _given(args, name)]
    return Governed(policy, preset, args.sandbox, args.yes, at_a_terminal() and not args.yes, tuple(words))


def _given(args: argparse.Namespace, name: str) -> tuple[str, ...]:
    value = getattr(args, name)
    return () if value is None else (f"--{name.replace('_', '-')}", value)


def at_a_terminal() -> bool:
    """Whether a person can be asked: questions go to the standard error output, answers come from the input."""
    return sys.stdin.isatty() and sys.stderr.isatty()

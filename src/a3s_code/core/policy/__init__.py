"""Permission and confirmation policies: what a host may write. Judging calls by it is ``core.policy.verdict``, which is
not imported here: a session whose policy concerns no call never needs its knowledge of the shell."""

from __future__ import annotations

from a3s_code.core.policy.confirmation import ConfirmationPolicy
from a3s_code.core.policy.permission import (
    CompiledPolicy,
    PermissionPolicy,
    compile_policy,
    is_open,
    needs_sandbox,
    preset,
)
from a3s_code.core.policy.rules import PolicyError, Scope

__all__ = [
    "CompiledPolicy",
    "ConfirmationPolicy",
    "PermissionPolicy",
    "PolicyError",
    "Scope",
    "compile_policy",
    "is_open",
    "needs_sandbox",
    "preset",
]

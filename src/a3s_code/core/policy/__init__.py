"""Permission and confirmation policies: what a host may write, and what it means for a call."""

from __future__ import annotations

from a3s_code.core.policy.confirmation import ConfirmationPolicy
from a3s_code.core.policy.permission import (
    PermissionPolicy,
    compile_policy,
    judge,
    needs_sandbox,
    preset,
    verdict_of,
)
from a3s_code.core.policy.rules import PolicyError, Scope
from a3s_code.core.policy.verdict import (
    CompiledPolicy,
    Explained,
    Shell,
    explain,
    explain_parts,
    hides,
    is_open,
    path_specific_allow,
    strictest,
)

__all__ = [
    "CompiledPolicy",
    "ConfirmationPolicy",
    "Explained",
    "PermissionPolicy",
    "PolicyError",
    "Scope",
    "Shell",
    "compile_policy",
    "explain",
    "explain_parts",
    "hides",
    "is_open",
    "judge",
    "needs_sandbox",
    "path_specific_allow",
    "preset",
    "strictest",
    "verdict_of",
]

"""Permission and confirmation policies: what a host may write, and what it means for a call."""

from __future__ import annotations

from a3s_code.core.policy.confirmation import ConfirmationPolicy
from a3s_code.core.policy.permission import (
    CompiledPolicy,
    Explained,
    PermissionPolicy,
    PolicyError,
    compile_policy,
    explain,
    judge,
    preset,
)

__all__ = [
    "CompiledPolicy",
    "ConfirmationPolicy",
    "Explained",
    "PermissionPolicy",
    "PolicyError",
    "compile_policy",
    "explain",
    "judge",
    "preset",
]

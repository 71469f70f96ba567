"""Paths that are more than files (tools.md §4.2, §4.4, §4.5). In: a model-governed call. Out: what its paths demand.

One rule: both names of a path count, the one that was given and the one its links lead to.
Known weakness: only the built-in file tools' arguments are known here; what a host's own tool or a shell command does
with a path is its own ``escalation``'s and the sandbox's business. A hard link to a credential outside the workspace
is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from a3s_code.core.content import ALLOW, JsonObject, Verdict
from a3s_code.core.protected import in_package_store, is_credential, is_protected
from a3s_code.engine.invoke.invocation import Invocation
from a3s_code.engine.parts import Parts
from a3s_code.ports.tool import Origin, ToolFailure
from a3s_code.ports.workspace import Entry, Place, Stat

GOVERNED: Final[frozenset[Origin]] = frozenset({"agent", "nested", "governed_host"})
WRITERS: Final = frozenset({"write", "edit", "patch", "download"})


async def demanded(inv: Invocation, parts: Parts) -> Verdict:
    """The strictest of what the call's paths demand: ``deny`` for a hard link or by ``credential_policy``, ``ask``
    for protected metadata and credential files."""
    if (inv.name not in WRITERS and inv.name != "read") or inv.registered.host or not parts.governance.guarded:
        return ALLOW
    mutates = inv.name in WRITERS and inv.args.get("dry_run") is not True
    strictest = ALLOW
    for path in _paths(inv.args):
        try:
            found = await _path(inv.name, parts.workspace.locate(path), mutates, parts)
        except ToolFailure:
            continue  # no such place: the tool says so itself
        if found.decision == "deny":
            return found
        if strictest.decision == "allow":
            strictest = found
    return strictest


async def _path(tool: str, place: Place, mutates: bool, parts: Parts) -> Verdict:
    about = parts.workspace.stat(place)
    alias = about.kind == "file" and about.links > 1 and await _is_alias(about, parts)
    if mutates and about.kind == "file" and about.links > 1 and (alias or not in_package_store(place.real)):
        message = (
            f"{place.path} has {about.links} hard links; writing it would part it from its other names. Nothing was "
            "written"
        )
        return Verdict("deny", message, "hard_link")
    policy = parts.governance.credentials
    secret = policy != "off" and (alias or is_credential(place.path) or is_credential(place.real))
    if secret and policy == "deny":
        return Verdict("deny", f"{place.path} holds credentials (credential_policy is 'deny')", "credential_path")
    if mutates and (is_protected(place.path) or is_protected(place.real)):
        reason = f"{place.path} is metadata that other programs act on"
        return Verdict("ask", reason, scope=place.path, risk="changes what other programs do")
    if secret and not parts.governance.vouched(tool, place.path, place.real):
        return Verdict("ask", f"{place.path} holds credentials", scope=place.path, risk="discloses credentials")
    return ALLOW


async def _is_alias(about: Stat, parts: Parts) -> bool:
    """Whether this file is also a credential file, under another name."""
    inodes = await parts.callbacks.in_thread(parts.workspace.credential_inodes)
    return (about.device, about.inode) in inodes


def _paths(args: JsonObject) -> Iterator[str]:
    given = [args.get("file_path"), args.get("path")]
    files = args.get("files")
    if isinstance(files, list):
        given += [file.get("path") for file in files if isinstance(file, dict)]
    return (path for path in given if isinstance(path, str))


def hidden_from(inv: Invocation, parts: Parts) -> Callable[[str, Entry], bool] | None:
    """What a search of this call leaves out: credential files, and what rules on ``read`` name."""
    governance = parts.governance
    if inv.origin not in GOVERNED:
        return None
    aliases: list[frozenset[tuple[int, int]]] = []

    def hidden(path: str, entry: Entry) -> bool:
        if governance.credentials != "off":
            if is_credential(path):
                return True
            if entry.links > 1:
                if not aliases:
                    aliases.append(parts.workspace.credential_inodes())
                if (entry.device, entry.inode) in aliases[0]:
                    return True
        return governance.hides(path, path)

    return hidden

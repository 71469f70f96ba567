"""Decisions (tools.md §5.1). In: compiled rules and a call. Out: the strictest decision over its parts, and why.

One rule: deny beats ask beats allow beats the default, in whatever order the rules were written.
Known weakness: a policy is an aid, not a sandbox: an allowed program may do whatever the process may.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from a3s_code.core.content import ALLOW, Decision, JsonObject, Verdict
from a3s_code.core.policy import match
from a3s_code.core.policy.line import Parse
from a3s_code.core.policy.match import Cover, Match, Places
from a3s_code.core.policy.permission import ALWAYS_ALLOWED, CompiledPolicy
from a3s_code.core.policy.rules import Rule
from a3s_code.core.policy.shell import Analysed, Part, Target, analyse
from a3s_code.core.policy.subjects import WRITERS, Resolve, Subject, path_subject, subjects
from a3s_code.core.policy.wrappers import HARMLESS

ListName = Literal["deny", "ask", "allow", "default", "disabled"]
_STRICTNESS: Final[dict[Decision, int]] = {"allow": 0, "ask": 1, "deny": 2}
SUBJECT_LIMIT: Final = 1000
_CACHED: Final = 512
_CACHED_LENGTH: Final = 8192


class Explained(NamedTuple):
    """``subject`` is what the rule was matched with; ``part`` the part of a shell line that led to the decision.

    ``possible``: the rule matches only for some value of what the line leaves open.
    """

    decision: Decision
    list: ListName
    rule: str | None
    subject: str
    part: str | None = None
    possible: bool = False

    def as_json(self) -> JsonObject:
        found: JsonObject = {
            "decision": self.decision,
            "list": self.list,
            "rule": self.rule,
            "subject": self.subject,
        }
        if self.part is not None:
            found["part"] = self.part
        return found | ({"possible": True} if self.possible else {})


class Shell:
    """A parser with the lines it saw last: the same command is judged several times."""

    def __init__(self, parse: Parse) -> None:
        self._analyse = functools.lru_cache(_CACHED)(lambda text: analyse(text, parse))
        self._parse = parse

    def analysed(self, text: str) -> Analysed:
        return self._analyse(text) if len(text) <= _CACHED_LENGTH else analyse(text, self._parse)


def judge(
    policy: CompiledPolicy,
    tool: str,
    args: Mapping[str, object],
    shell: Shell,
    resolve: Resolve | None = None,
) -> Verdict:
    """The verdict on a call; a refusal's reason is what the model is told."""
    return verdict_of(tool, explain(policy, tool, args, shell, resolve))


def verdict_of(tool: str, found: Explained) -> Verdict:
    if found.decision == "allow":
        return ALLOW
    shown = f"{tool}({_short(found.subject)})"
    because = (found.list, found.rule, found.subject[:SUBJECT_LIMIT])
    if found.decision == "ask":
        could = "could match" if found.possible else "matches"
        reason = f"{shown} {could} {found.list} rule '{found.rule}'" if found.rule else f"no rule decides about {shown}"
        return Verdict("ask", reason, "", *because)
    why = f"{shown} matches deny rule '{found.rule}'" if found.rule else f"{shown}: no rule allows it"
    return Verdict("deny", f"Permission denied: {why}", "permission_denied", *because)


def _short(subject: str) -> str:
    one_line = " ".join(subject.split())
    return one_line if len(one_line) <= 200 else f"{one_line[:197]}..."


def explain(
    policy: CompiledPolicy,
    tool: str,
    args: Mapping[str, object],
    shell: Shell,
    resolve: Resolve | None = None,
) -> Explained:
    """The decision on a call of ``tool`` and what led to it."""
    return strictest(explain_parts(policy, tool, args, shell, resolve))


def explain_parts(
    policy: CompiledPolicy,
    tool: str,
    args: Mapping[str, object],
    shell: Shell,
    resolve: Resolve | None = None,
) -> list[Explained]:
    """What is decided about each part of a call, at least one. Neutral parts that follow the others are left out."""
    if not policy.enabled:
        return [Explained("allow", "disabled", None, tool)]
    command = args.get("command")
    if tool == "bash" and isinstance(command, str):
        return _Bash(policy, args, resolve).explain(shell.analysed(command), command)
    return [_plain(policy, tool, subject) for subject in subjects(tool, args, resolve, policy.scope.root)]


def hides(policy: CompiledPolicy, path: str, real: str) -> bool:
    """Whether a deny or ask rule on this path keeps a file out of search results and ``git diff`` (§5.3)."""
    return policy.enabled and any(
        not rule.universal and rule.names("read") and any(rule.path().matches(name) for name in {path, real})
        for rule in (*policy.deny, *policy.ask)
    )


def path_specific_allow(policy: CompiledPolicy, tool: str, subject: Subject) -> bool:
    """Whether an allow rule that names this path, not all of them, matches (§4.5)."""
    return any(not rule.universal and rule.names(tool) and _allows(rule, subject) for rule in policy.allow)


def _plain(policy: CompiledPolicy, tool: str, subject: Subject) -> Explained:
    for rule in policy.deny:
        if (name := _restricts(rule, tool, subject)) is not None:
            return Explained("deny", "deny", rule.text, name)
    for rule in policy.ask:
        if (name := _restricts(rule, tool, subject)) is not None:
            return Explained("ask", "ask", rule.text, name)
    for rule in policy.allow:
        if rule.names(tool) and _allows(rule, subject):
            return Explained("allow", "allow", rule.text, subject.names[0])
    default = "allow" if tool in ALWAYS_ALLOWED else policy.default
    return Explained(default, "default", None, subject.names[0])


def _restricts(rule: Rule, tool: str, subject: Subject) -> str | None:
    if not rule.names(tool):
        extends = not rule.universal and tool in WRITERS and rule.names("write")
        if not extends:
            return None
    return next((name for name in subject.names if _matches(rule, subject, name)), None)


def _matches(rule: Rule, subject: Subject, name: str) -> bool:
    if rule.universal:
        return True
    return (rule.path() if subject.kind == "path" else rule.other()).matches(name)


def _allows(rule: Rule, subject: Subject) -> bool:
    found = (_matches(rule, subject, name) for name in subject.names)
    return all(found) if subject.every else any(found)


def strictest(found: Sequence[Explained]) -> Explained:
    """The first of the strictest."""
    return max(found, key=lambda one: _STRICTNESS[one.decision])


class _Bash:
    """One judgement of a shell line."""

    def __init__(self, policy: CompiledPolicy, args: Mapping[str, object], resolve: Resolve | None) -> None:
        self._policy = policy
        self._deny = [rule for rule in policy.deny if rule.names("bash")]
        self._ask = [rule for rule in policy.ask if rule.names("bash")]
        self._allow = [rule for rule in policy.allow if rule.names("bash")]
        cwd, env = args.get("cwd"), args.get("env")
        self._cwd = cwd if isinstance(cwd, str) and cwd else "."
        self._resolve = resolve
        names = env if isinstance(env, dict) else {}
        self._trusted = all(HARMLESS.fullmatch(f"{name}=") for name in names)

    def explain(self, line: Analysed, command: str) -> list[Explained]:
        found, leading = [], False
        for part in line.parts:
            judged, cover = self._part(part)
            leading |= cover is not Cover.NEUTRAL
            if cover is not Cover.NEUTRAL or judged is not None:
                shown = part.layer.shown
                found.append(judged or Explained(self._policy.default, "default", None, shown, shown))
        for target in line.targets:
            leading = True
            found.append(self._write(target, line.directories))
        if not leading:
            found.append(self._only_neutral(command))
        return found

    def _only_neutral(self, command: str) -> Explained:
        rule = next((rule for rule in self._allow if rule.universal), None)
        if rule is not None:
            return Explained("allow", "allow", rule.text, command, command)
        return Explained(self._policy.default, "default", None, command, command)

    def _part(self, part: Part) -> tuple[Explained | None, Cover]:
        """What is decided about a part; nothing for one that takes the default or follows the others."""
        shown = part.layer.shown
        layers = tuple(part.layers())
        restricted = self._restricted(shown, lambda rule: match.restricts(rule, layers), self._deny, self._ask)
        if restricted is not None and not restricted.possible:
            return restricted, Cover.UNCOVERED
        cover = match.cover(part, self._allow, trusted=self._trusted)
        if restricted is not None:
            strict = cover is Cover.UNCOVERED and self._policy.default == "deny"
            return None if strict else restricted, cover
        if cover is Cover.COVERED:
            rule = match.covering_rule(part, self._allow)
            return Explained("allow", "allow", rule.text if rule else None, shown, shown), cover
        return None, cover

    def _write(self, target: Target, directories: Sequence[str | None]) -> Explained:
        """An output redirection, judged as a ``write`` of its target."""
        places = Places(target, directories, self._cwd, self._policy.scope.root)
        if self._resolve is not None:
            places.paths = [n for path in places.paths for n in path_subject(path, self._resolve, None).names]
        shown, subject = f"> {target.shown}", places.paths[0] if places.paths else target.shown
        deny, ask = (tuple(r for r in rules if r.names("write")) for rules in (self._policy.deny, self._policy.ask))
        restricted = self._restricted(shown, lambda r: (match.restricts_write(r, places), subject), deny, ask)
        if restricted is not None and not restricted.possible:
            return restricted
        covering = next((r for r in self._allow if r.universal), None) or next(
            (r for r in self._policy.allow if r.names("write") and match.covers_write(r, places)), None
        )
        if restricted is not None and (covering is not None or self._policy.default != "deny"):
            return restricted
        if covering is not None:
            return Explained("allow", "allow", covering.text, subject, shown)
        return Explained(self._policy.default, "default", None, subject, shown)

    @staticmethod
    def _restricted(
        shown: str, found: Callable[[Rule], tuple[Match, str]], deny: Sequence[Rule], ask: Sequence[Rule]
    ) -> Explained | None:
        """What deny and ask rules say. One that matches only for some value of an unknown part asks."""
        possible = None
        for rule in deny:
            sure, text = found(rule)
            if sure == "must":
                return Explained("deny", "deny", rule.text, text or shown, shown)
            if sure == "could" and possible is None:
                possible = Explained("ask", "deny", rule.text, text, shown, possible=True)
        for rule in ask:
            sure, text = found(rule)
            if sure == "must":
                return Explained("ask", "ask", rule.text, text or shown, shown)
            if sure == "could" and possible is None:
                possible = Explained("ask", "ask", rule.text, text, shown, possible=True)
        return possible

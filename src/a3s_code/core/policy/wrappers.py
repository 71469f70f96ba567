"""Programs that run other programs (tools.md §5.4, 3). In: the words of a command. Out: what it would run.

One rule: where options may hide in an unknown word, what follows is unknown too, never skipped.
Known weakness: options that this table doesn't know are taken to have no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from a3s_code.core.policy.argscan import Options, options, scan_options
from a3s_code.core.policy.line import Body, Segment, Unknown, Word

SHELLS: Final = frozenset("sh bash zsh dash ksh ash rbash mksh".split())
HARMLESS: Final = re.compile(
    r"(?:CI|NODE_ENV|DEBUG|FORCE_COLOR|NO_COLOR|LANG|LC_\w*|TZ|TERM|PYTHONUNBUFFERED|RUST_BACKTRACE|RUST_LOG"
    r"|CARGO_TERM_COLOR)\+?=.*",
    re.DOTALL,
)
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=.*", re.DOTALL)
KEYWORDS: Final = frozenset({"time", "!", "coproc"})
ELSEWHERE: Final = 1 << 30
REST: Final = Word("", (Unknown.SPLIT,))
_SLASHES: Final = re.compile(r"/(?:\.?/)+")
_STDIN: Final = re.compile(r"-|/dev/(?:stdin|fd/.*|0)|/proc/self/fd/.*", re.DOTALL)


class Wrapped(msgspec.Struct, frozen=True):
    """``commands`` are words of programs it runs, ``texts`` are read by a shell. ``reach`` is the number of own words
    before the first program, or with the text; ``ELSEWHERE`` when that is not in the words. ``unknown``: it runs
    something that the line doesn't say."""

    transparent: bool
    reach: int
    commands: tuple[tuple[Word, ...], ...] = ()
    texts: tuple[Word, ...] = ()
    unknown: bool = False


_SUDO: Final = options(
    "ugpChrtTUDR",
    "user group prompt close-from host role type command-timeout other-user chdir chroot",
    transparent=False,
)
_PREFIXES: Final = {
    "sudo": _SUDO,
    "doas": options("uCa", transparent=False),
    "pkexec": options("", "user", transparent=False),
    "chroot": options("", "userspec groups", 1, transparent=False),
    "nohup": options(""),
    "nice": options("n", "adjustment"),
    "ionice": options("cnpPu", "class classdata pid pgid uid"),
    "timeout": options("ks", "kill-after signal", 1),
    "stdbuf": options("ioe", "input output error"),
    "setsid": options(""),
    "exec": options("a"),
    "command": options(""),
    "builtin": options(""),
    "time": options("fo", "format output"),
    "busybox": options("", transparent=False),
    "toybox": options("", transparent=False),
    "coproc": options(""),
    "!": options(""),
}
_ENV: Final = options("uCSP", "unset chdir split-string")
_XARGS: Final = options("nPILsEda", "max-args max-procs max-lines arg-file delimiter eof max-chars process-slot-var")
_SSH: Final = options("bcDEeFIiJLlmOopQRSWwB", "", 1, transparent=False)
_SHELL: Final = options("oO", "rcfile init-file", shell=True)
_SU: Final = options("cgGswT", "command group supp-group shell whitelist-environment")
_SCRIPT: Final = options("cEImoOBT", "command echo log-in log-out log-io log-timing output-limit logging-format")


def unwrap(name: str, words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    """What ``words``, whose program's base name is ``name``, would run; ``None`` for an ordinary program."""
    if name in _PREFIXES:
        return _prefix(name, words)
    if name in SHELLS:
        return _shell(words, body)
    if name == "su":
        return _command_option(words, body, _SU)
    if name == "script":
        return _command_option(words, body, _SCRIPT)
    special = _SPECIAL.get(name)
    return special(words, body) if special is not None else None


def _prefix(name: str, words: tuple[Word, ...]) -> Wrapped | None:
    options = _PREFIXES[name]
    scan = scan_options(words, options)
    if name == "command" and ("v" in scan.letters or "V" in scan.letters):
        return None
    at = scan.at
    for _ in range(options.operands):
        scan.lost |= at < len(words) and words[at].splits
        at += 1
    while options is _SUDO and at < len(words) and _sets_variable(words[at]):
        scan.lost |= words[at].splits
        at += 1
    return _program(words, at, options.transparent, scan.lost)


def _program(words: tuple[Word, ...], at: int, transparent: bool, lost: bool) -> Wrapped | None:
    """With ``lost`` what was passed over may have held the program, or a part of it."""
    if lost:
        return Wrapped(False, ELSEWHERE, ((REST, *words[at:]),))
    return Wrapped(transparent, at, (words[at:],)) if at < len(words) else None


def _env(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    scan = scan_options(words, _ENV)
    at = scan.at
    transparent = at == 1
    if at < len(words) and words[at].text == "-":
        at, transparent = at + 1, False
    while at < len(words) and _sets_variable(words[at]):
        scan.lost |= words[at].splits
        transparent &= HARMLESS.fullmatch(words[at].text or "") is not None
        at += 1
    text = scan.values.get("S") or scan.values.get("--split-string")
    if text is not None:
        rest = [piece for word in words[at:] for piece in (" ", *word.segments)]
        return Wrapped(False, len(words), texts=(Word(text.source, (*text.segments, *rest)),))
    return _program(words, at, transparent, scan.lost)


def _sets_variable(word: Word) -> bool:
    """``env`` and ``sudo`` take any name."""
    first = word.segments[0] if word.segments else ""
    return isinstance(first, str) and "=" in first


def _xargs(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    scan = scan_options(words, _XARGS)
    if scan.lost:
        return Wrapped(False, ELSEWHERE, unknown=True)
    if scan.at >= len(words):
        return None
    inner = words[scan.at :]
    sign = scan.values.get("I")
    attached = [n for n in (words[i].text or "" for i in range(1, scan.at)) if n.startswith(("-i", "--replace"))]
    if sign is not None or attached:
        text = sign.text if sign is not None else attached[-1].removeprefix("-i").removeprefix("--replace").lstrip("=")
        inner = tuple(_filled(word, text or "{}", Unknown.INSIDE) for word in inner)
        return Wrapped(True, scan.at, (inner,))
    return Wrapped(True, scan.at, ((*inner, REST),))


def _find(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    commands, reach, at = [], ELSEWHERE, 1
    while at < len(words):
        at += 1
        if words[at - 1].text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        start = at
        while at < len(words) and words[at].text != ";" and not _ends_many(words, at, start):
            at += 1
        if at > start:
            many = at < len(words) and words[at].text == "+"
            made = words[start:at]
            commands.append(tuple(_filled(word, "{}", Unknown.SPLIT if many else Unknown.INSIDE) for word in made))
            reach = min(reach, start)
    unknown = any(Unknown.SPLIT in word.segments for word in words[1:])
    return Wrapped(False, reach, tuple(commands), unknown=unknown) if commands or unknown else None


def _ends_many(words: tuple[Word, ...], at: int, start: int) -> bool:
    return words[at].text == "+" and at > start and words[at - 1].text == "{}"


def _filled(word: Word, sign: str, by: Unknown) -> Word:
    segments: list[Segment] = []
    for segment in word.segments:
        if isinstance(segment, str) and sign in segment:
            first, *rest = segment.split(sign)
            segments.append(first)
            for piece in rest:
                segments += [by, piece]
        else:
            segments.append(segment)
    return replace(word, segments=tuple(s for s in segments if s != ""))


def _shell(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    scan = scan_options(words, _SHELL)
    if scan.unsure or scan.lost:
        return Wrapped(False, ELSEWHERE, unknown=True)
    operand = words[scan.at] if scan.at < len(words) else None
    login = any(letter in scan.letters for letter in "li") or "--login" in scan.names
    if "c" in scan.letters:
        if operand is None:
            return None
        if operand.splits:
            return Wrapped(False, ELSEWHERE, unknown=True)
        return Wrapped(not login and operand.text is not None, scan.at + 1, texts=(operand,))
    if operand is not None and "s" not in scan.letters and not _is_stdin(operand):
        return None
    if "--version" in scan.names or "--help" in scan.names:
        return None
    own = operand is None or operand.text == "/dev/stdin" or "s" in scan.letters
    return _standard_input(body if own else None)


def _is_stdin(word: Word) -> bool:
    first = word.segments[0] if word.segments else ""
    return isinstance(first, str) and _STDIN.fullmatch(_SLASHES.sub("/", first)) is not None


def _standard_input(body: Body | None) -> Wrapped:
    if body is None:
        return Wrapped(False, ELSEWHERE, unknown=True)
    return Wrapped(False, ELSEWHERE, texts=(body.word,))


def _source(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    if len(words) > 1 and _is_stdin(words[1]):
        return _standard_input(body if words[1].text == "/dev/stdin" else None)
    return None


def _eval(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    given = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if not given:
        return None
    segments = [piece for word in given for piece in (" ", *word.segments)][1:]
    static = all(word.text is not None for word in given)
    return Wrapped(static, len(words), texts=(Word("", tuple(segments)),))


def _trap(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    given = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if not given or given[0].text in ("", "-", "-l", "-p"):
        return None
    return Wrapped(False, len(words), texts=(given[0],))


def _command_option(words: tuple[Word, ...], body: Body | None, options: Options) -> Wrapped | None:
    """``su`` and ``script``: the text of ``-c``, or a shell on standard input."""
    scan = scan_options(words, options, mixed=True)
    text = scan.values.get("c") or scan.values.get("--command")
    if text is None or scan.unsure or scan.lost:
        return _standard_input(body)
    return Wrapped(False, len(words), texts=(text,))


def _ssh(words: tuple[Word, ...], body: Body | None) -> Wrapped | None:
    scan = scan_options(words, _SSH)
    if scan.lost or (scan.unsure and words[scan.at].splits):
        return Wrapped(False, ELSEWHERE, unknown=True)
    rest = words[scan.at + 1 :]
    if not rest:
        return _standard_input(body) if body is not None else None
    segments = [piece for word in rest for piece in (" ", *word.segments)][1:]
    return Wrapped(False, len(words), texts=(Word("", tuple(segments)),))


_SPECIAL: Final[dict[str, Callable[[tuple[Word, ...], Body | None], Wrapped | None]]] = {
    "env": _env,
    "xargs": _xargs,
    "find": _find,
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "ssh": _ssh,
}

"""The error table (providers.md, *Failure and retry*). In: a status, headers and body. Out: an LlmError.

One rule: every failure of a provider gets its class, status and waiting time here, and nowhere else.
Known weakness: a ``Retry-After`` date is measured against the response's own ``Date``; without one it is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from a3s_code.core.content import Json
from a3s_code.errors import LlmError

MESSAGE_BYTES: Final = 2048
RETRYABLE: Final = frozenset({408, 409, 425, 429})
_STATUS_OF: Final = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "unavailable": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# Compiled by the first failure: that takes 2 ms, which most programs never need.
_TOO_LONG: Final = (
    r"(?i)context[ _]length|context[ _]window|maximum context|context limit|prompt is too long|input is too long"
    r"|too many (?:input |prompt )?tokens|reduce the length"
    r"|exceeds? the (?:model'?s? )?maximum (?:number of tokens|length)"
    r"|exceed(?:s|ed)? (?:the )?(?:model'?s? )?(?:max(?:imum)?[ _])?(?:context|token limit)"
)
_DELAY_HINT: Final = (
    r"""(?i)retry_?delay["']?\s*[:=]\s*["']?(?P<delay>[\d.]+(?:ms|s|m)?)"""
    r"""|retry_after["']?\s*[:=]\s*["']?(?P<after>[\d.]+)"""
    r"""|(?:try again|retry) (?:in|after) (?P<text>(?:[\d.]+\s?(?:ms|s|m|h)[a-z]*)+)"""
)
_SPAN: Final = r"(?i)([\d.]+)\s?(ms|s|m|h|)"
_UNIT_MS: Final = {"ms": 1.0, "s": 1000.0, "": 1000.0, "m": 60_000.0, "h": 3_600_000.0}


def is_retryable(status: int) -> bool:
    return status in RETRYABLE or 500 <= status <= 599


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> LlmError:
    """What an answer with another status than 200 means. ``headers`` is looked up by lower-case names."""
    text = body.decode("utf-8", "replace")
    said = message_of(body) or "(no message)"
    wait = _from_headers(headers)
    where = f" (it redirects to {headers.get('location', 'nowhere')}: set the base URL)" if 300 <= status < 400 else ""
    return LlmError(
        clip(f"the provider answered {status}{where}: {said}"),
        status=status,
        retryable=is_retryable(status),
        retry_after_ms=wait if wait is not None else _from_text(text),
        context_too_long=status == 413 or (status in (400, 422) and re.search(_TOO_LONG, text) is not None),
    )


def from_object(error: Json) -> LlmError:
    """What an error object inside a 200 answer means. One of an unknown kind is taken as passing."""
    text = msgspec.json.encode(error).decode()
    status = _status_in(error)
    too_long = status in (None, 400, 413, 422) and re.search(_TOO_LONG, text) is not None
    return LlmError(
        clip(f"the provider sent an error{f' ({status})' if status else ''}: {_message_in(error) or text}"),
        status=status,
        retryable=not too_long and (status is None or is_retryable(status)),
        retry_after_ms=_from_text(text),
        context_too_long=too_long,
    )


def cut(what: str) -> LlmError:
    """The answer ended before its end."""
    return LlmError(f"the provider's answer was cut off: {what}", retryable=True)


def html(body: bytes) -> LlmError:
    """A web page where an answer was expected: a wrong address or a portal, which no retry mends."""
    return LlmError(clip(f"the provider sent a web page instead of an answer: {message_of(body)}"), status=200)


def scrubbed(error: LlmError, secrets: Iterable[str]) -> LlmError:
    """``error`` with every secret in its message replaced, or itself when there is none."""
    message = error.message
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    if message == error.message:
        return error
    return LlmError(
        clip(message),
        status=error.status,
        retryable=error.retryable,
        retry_after_ms=error.retry_after_ms,
        context_too_long=error.context_too_long,
        code=error.code,
    )


def clip(message: str) -> str:
    raw = message.encode("utf-8", "replace")
    return message if len(raw) <= MESSAGE_BYTES else raw[: MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "…"


def message_of(body: bytes) -> str:
    """The sentence for people in an error body of any shape."""
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        text = body.decode("utf-8", "replace").strip()
        if not text.startswith("<"):
            return text
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return " ".join((title.group(1) if title else re.sub(r"<[^>]*>", " ", text)).split())
    return _message_in(parsed) or body.decode("utf-8", "replace")


def _message_in(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _message_in(value[0]) if value else ""
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "errors", "msg", "error_msg"):
            if value.get(key) and (found := _message_in(value[key])):
                return found
    return ""


def _status_in(error: Json) -> int | None:
    if isinstance(error, list) and error:
        return _status_in(error[0])
    if not isinstance(error, dict):
        return None
    if isinstance(inner := error.get("error"), dict):
        return _status_in(inner)
    for key in ("status", "code", "type"):
        value = error.get(key)
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
        if isinstance(number, int) and 400 <= number <= 599:
            return number
        if isinstance(value, str) and (status := _STATUS_OF.get(value.lower())):
            return status
    return None


def _from_headers(headers: Mapping[str, str]) -> int | None:
    if (given := headers.get("retry-after-ms")) is not None and (ms := _number(given)) is not None:
        return int(ms)
    given = headers.get("retry-after")
    if given is None:
        return None
    if (seconds := _number(given)) is not None:
        return int(seconds * 1000)
    from email.utils import parsedate_to_datetime  # 10 ms that no import should cost

    try:
        then, now = parsedate_to_datetime(given), parsedate_to_datetime(headers.get("date", ""))
        return max(0, int((then - now).total_seconds() * 1000))
    except (TypeError, ValueError, OverflowError):
        return None


def _from_text(text: str) -> int | None:
    hint = re.search(_DELAY_HINT, text)
    if hint is None:
        return None
    spans = re.findall(_SPAN, hint["delay"] or hint["after"] or hint["text"])
    numbers = [(_number(amount), _UNIT_MS[unit.lower()]) for amount, unit in spans]
    return int(sum(number * unit for number, unit in numbers if number is not None))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None

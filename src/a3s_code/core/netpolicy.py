"""Which hosts, addresses and ports may be reached (tools.md §7). In: a host name, an address, a port. Out: the one way
to write the host, or why it is refused.

One rule: a text that some resolver could take for a number is judged as the address it stands for.
Known weakness: names are encoded by the standard library's IDNA of 2003.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

_V4: Final = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "special"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "special"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V4_INSIDE: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
_GLOBAL: Final = IPv6Network("2000::/3")
_V6: Final = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("2001::/23", "special"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
    )
]
_LONGEST: Final = 1024  # encoding takes more than linear time; a name is far shorter
_LOCAL_NAMES: Final = ("localhost", "local", "internal")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")

# The browsers' list (Fetch standard, *port blocking*).
BLOCKED_PORTS: Final = frozenset(
    map(
        int,
        """0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119
        123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989
        990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697
        10080""".split(),
    )
)


def exact_host(text: str) -> str:
    """A host name, IDNA-encoded, lower-cased and without its last dot, or an IPv4 address in its usual form. Raises
    ``ValueError`` for what is neither."""
    if len(text) > _LONGEST:
        raise ValueError("is no host name")
    try:
        name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise ValueError("is no host name") from error
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_ipv4(labels))
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is no host name")
    return name


def refused_host(host: str) -> str | None:
    """Why a host that ``exact_host`` gave may not be reached, whatever it resolves to."""
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return refused_address(host)
    if labels[-1] in _LOCAL_NAMES:
        return "local name"
    return "single-label name" if len(labels) == 1 else None


def refused_origin(host: str, port: int) -> str | None:
    """The same for a host and a port."""
    return refused_host(host) or ("blocked port" if port in BLOCKED_PORTS else None)


def refused_address(text: str) -> str | None:
    """Why an address, as a resolver gives it, may not be connected to: its class."""
    try:
        return _refused_v4(IPv4Address(text))
    except AddressValueError:
        pass
    if "%" in text:
        return "zoned"
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return "malformed"
    if any(address in network for network in _V4_INSIDE):
        return _refused_v4(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address not in _GLOBAL:
        return "not global"
    return next((kind for network, kind in _V6 if address in network), None)


def _refused_v4(address: IPv4Address) -> str | None:
    return next((kind for network, kind in _V4 if address in network), None)


def _ipv4(parts: list[str]) -> IPv4Address:
    """As ``inet_aton`` reads it: one to four numbers, decimal, octal or hexadecimal; the last fills what is left."""
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise ValueError("is no IPv4 address")
    *leading, last = [_number(part) for part in parts]
    if any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        raise ValueError("is no IPv4 address")
    return IPv4Address(sum(number << (24 - 8 * place) for place, number in enumerate(leading)) + last)


def _number(text: str) -> int:
    if len(text) > 32:
        raise ValueError("is no IPv4 address")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    if text.startswith("0") and set(text) & {"8", "9"}:
        raise ValueError("is no IPv4 address")
    return int(text, 8) if text.startswith("0") else int(text)

"""Which hosts and addresses may be reached (tools.md §7)."""

from __future__ import annotations

import pytest

from a3s_code.core.netpolicy import BLOCKED_PORTS, exact_host, refused_address, refused_host, refused_origin

REFUSED_V4 = [
    ("0.0.0.0", "0.255.255.255", "unspecified"),
    ("10.0.0.0", "10.255.255.255", "private"),
    ("100.64.0.0", "100.127.255.255", "shared"),
    ("127.0.0.0", "127.255.255.255", "loopback"),
    ("169.254.0.0", "169.254.255.255", "link-local"),
    ("172.16.0.0", "172.31.255.255", "private"),
    ("192.0.0.0", "192.0.0.255", "special"),
    ("192.0.2.0", "192.0.2.255", "documentation"),
    ("192.88.99.0", "192.88.99.255", "special"),
    ("192.168.0.0", "192.168.255.255", "private"),
    ("198.18.0.0", "198.19.255.255", "benchmark"),
    ("198.51.100.0", "198.51.100.255", "documentation"),
    ("203.0.113.0", "203.0.113.255", "documentation"),
    ("224.0.0.0", "239.255.255.255", "multicast"),
    ("240.0.0.0", "255.255.255.255", "reserved"),
]
BESIDE_V4 = """1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 191.255.255.255 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255
192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255""".split()


@pytest.mark.parametrize(("first", "last", "kind"), REFUSED_V4)
def test_every_refused_ipv4_range(first: str, last: str, kind: str) -> None:
    """Both ends of each range are refused, plain and inside an IPv6 address."""
    for address in (first, last):
        for form in (address, f"::ffff:{address}", f"64:ff9b::{address}"):
            assert refused_address(form) == kind
        assert refused_host(exact_host(address)) == kind


@pytest.mark.parametrize("address", BESIDE_V4)
def test_the_addresses_beside_those_ranges(address: str) -> None:
    """What lies right outside a refused range is allowed, plain and inside an IPv6 address."""
    assert [refused_address(form) for form in (address, f"::ffff:{address}", f"64:ff9b::{address}")] == [None] * 3
    assert refused_host(exact_host(address)) is None


REFUSED_V6 = """:: ::1 ::2 ::127.0.0.1 ::8.8.8.8 64:ff9b:1::1 100::1 1fff:ffff:: 4000:: 5f00::1 fc00::1 fd12:3456::1
fe80::1 fec0::1 ff02::1 ::fffe:8.8.8.8 64:ff9b::1:808:808 2001::1 2001:1ff:ffff:: 2001:db8:: 2001:db8:ffff:ffff::
2002::1 2002:808:808::1 2002:ffff:ffff:: 3fff:: 3fff:fff:ffff::""".split()
ALLOWED_V6 = (
    "2000:: 2001:200:: 2001:db7:ffff:: 2001:db9:: 2001:ffff:: 2003:: 2606:4700::1111 3ffe:: 3fff:1000::".split()
)


@pytest.mark.parametrize("address", REFUSED_V6)
def test_refused_ipv6(address: str) -> None:
    """Outside of 2000::/3 nothing is allowed but embedded IPv4 addresses, and within it four ranges are not."""
    assert refused_address(address) is not None


@pytest.mark.parametrize("address", ALLOWED_V6)
def test_allowed_ipv6(address: str) -> None:
    """The rest of 2000::/3 is allowed, right up to the refused ranges."""
    assert refused_address(address) is None


@pytest.mark.parametrize("text", ["fe80::1%eth0", "2606:4700::1%1", "example.com", "", "1.2.3", "1.2.3.04", "[::1]"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """A zone, a name or a short form is nothing that a resolver gives for a global address."""
    assert refused_address(text) is not None


ODD_FORMS = [
    ("2130706433", "127.0.0.1"),
    ("0x7f000001", "127.0.0.1"),
    ("0x7F.1", "127.0.0.1"),
    ("017700000001", "127.0.0.1"),
    ("127.1", "127.0.0.1"),
    ("127.0.1", "127.0.0.1"),
    ("0177.0.0.1", "127.0.0.1"),
    ("127.0.0.1.", "127.0.0.1"),
    ("0", "0.0.0.0"),
    ("0x", "0.0.0.0"),
    ("0xa9fea9fe", "169.254.169.254"),
    ("169.254.43518", "169.254.169.254"),
    ("169.0xfea9fe", "169.254.169.254"),
    ("0300.0250.1", "192.168.0.1"),
    ("１２７.0.0.1", "127.0.0.1"),
    ("127。0。0。1", "127.0.0.1"),
    ("①②⑦.0.0.1", "127.0.0.1"),
]


@pytest.mark.parametrize(("text", "address"), ODD_FORMS)
def test_odd_forms_are_the_address_they_stand_for(text: str, address: str) -> None:
    """Decimal, octal, hexadecimal, short and full-width forms are parsed first and then judged."""
    assert exact_host(text) == address
    assert refused_host(exact_host(text)) is not None


def test_an_odd_form_of_a_global_address_is_that_address() -> None:
    """The number is judged by its value, not refused for its form."""
    assert exact_host("0x08080808") == "8.8.8.8"
    assert refused_host("8.8.8.8") is None


NAMES = [
    ("Example.COM", "example.com"),
    ("example.com.", "example.com"),
    ("bücher.example", "xn--bcher-kva.example"),
    ("ｅxample.com", "example.com"),
    ("example。com", "example.com"),
    ("a_b.example", "a_b.example"),
    ("1.example", "1.example"),
    ("0x7f.example", "0x7f.example"),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_names_have_one_form(text: str, name: str) -> None:
    """IDNA, lower case, no last dot; such names are allowed."""
    assert exact_host(text) == name
    assert refused_host(name) is None


MALFORMED = """ . .. a..b .a *.example a/b a:80 user@a.example [::1] ::1 fe80::1%eth0 a%2eb.example a\\b -a.example
a-.example 256.0.0.1 1.2.3.4.5 1.256.1.1 4294967296 08.0.0.1 0x7g.0.0.1x.1 a.example.127 127.0.0.1.. a?b a#b""".split()


@pytest.mark.parametrize(
    "text", [*MALFORMED, "", "a b.example", "a\nb.example", "a\0.example", "a." * 40_000, "x" * 64, "a." * 127 + "aa"]
)
def test_malformed_hosts(text: str) -> None:
    """What is no exact host is told, also a name whose last label is a number."""
    with pytest.raises(ValueError, match=r"is no (host name|IPv4 address)"):
        exact_host(text)


LOCAL = """localhost a.localhost LOCALHOST. printer.local a.b.local metadata.google.internal a.internal intranet
local""".split()


@pytest.mark.parametrize("text", LOCAL)
def test_local_names_are_refused(text: str) -> None:
    """Names of the machine and of its surroundings are refused, whatever they resolve to."""
    assert refused_host(exact_host(text)) is not None


def test_ports_of_other_protocols_are_blocked() -> None:
    """Mail, shells and name servers are no web ports; the usual ones are."""
    assert {0, 22, 25, 53, 110, 6000, 6667, 10080} <= BLOCKED_PORTS
    assert not {80, 443, 3000, 8000, 8080, 8443, 65535} & BLOCKED_PORTS
    assert refused_origin("api.example", 22) == "blocked port"
    assert refused_origin("localhost", 443) == "local name"
    assert refused_origin("api.example", 443) is None

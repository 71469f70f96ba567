"""The page on policies shows the decision table that the tests hold."""

from __future__ import annotations

from pathlib import Path

from table import A, B, markdown

PAGE = Path(__file__).parent.parent.parent / "docs" / "writing-a-policy.md"
BEGIN, END = "<!-- the decision table of tests/policy/table.py -->\n", "<!-- end of the table -->"


def test_the_page_has_the_table_of_the_tests() -> None:
    """What a reader is told is decided is what is tested; this test rewrites nothing, it shows what is missing."""
    shown = PAGE.read_text("utf-8").split(BEGIN)[1].split(END)[0]
    assert shown == markdown()


def test_the_page_names_every_rule_of_its_policies() -> None:
    """The policies above the table are the ones that are tested."""
    text = PAGE.read_text("utf-8")
    for policy in (A, B):
        assert all(f'"{rule}"' in text for rule in (*policy.deny, *policy.ask, *policy.allow))

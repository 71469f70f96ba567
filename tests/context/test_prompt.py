"""The system prompt and its slots (extensions.md §6.1)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.context.prompt import (
    IDENTITY,
    RESPONSE_FORMAT,
    RUNTIME_CONTRACT,
    SAFETY_BOUNDARY,
    TOOL_CONTRACT,
    PromptSlots,
    build_system_prompt,
)

FULL = PromptSlots(
    role="You are ROLE.", guidelines="GUIDE", response_style="STYLE", output_language="de-CH", extra="  EXTRA\n"
)


def test_everything_stands_in_the_documented_order() -> None:
    """Identity, contracts, boundary, guidelines, format, language, project, skills, extra."""
    prompt = build_system_prompt(FULL, instructions="PROJECT", skills="SKILLS")
    parts = ["ROLE", RUNTIME_CONTRACT, TOOL_CONTRACT, SAFETY_BOUNDARY, "GUIDE", "STYLE", "de-CH", "PROJECT", "SKILLS"]
    places = [prompt.index(part) for part in [*parts, "EXTRA"]]
    assert places == sorted(places)


def test_extra_is_verbatim_at_the_very_end() -> None:
    """White space of ``extra`` stays, and nothing follows it."""
    assert build_system_prompt(FULL).endswith("\n\n  EXTRA\n")


def test_role_and_style_replace_what_they_stand_for() -> None:
    """``role`` takes the identity's place and ``response_style`` the format's; the rest stays."""
    plain, full = build_system_prompt(), build_system_prompt(FULL)
    assert plain.startswith(IDENTITY)
    assert RESPONSE_FORMAT in plain
    assert full.startswith("You are ROLE.\n\n")
    assert IDENTITY not in full
    assert RESPONSE_FORMAT not in full


@given(*[st.none() | st.text(max_size=20)] * 5, st.text(max_size=20))
def test_contracts_and_boundary_are_never_removed(
    role: str | None, guide: str | None, style: str | None, tongue: str | None, extra: str | None, project: str
) -> None:
    """Whatever the slots say, the contracts and the boundary are there; the same slots give the same bytes."""
    slots = PromptSlots(role, guide, style, tongue, extra)
    prompt = build_system_prompt(slots, instructions=project)
    assert all(text in prompt for text in (RUNTIME_CONTRACT, TOOL_CONTRACT, SAFETY_BOUNDARY))
    assert prompt == build_system_prompt(slots, instructions=project)


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_blank_means_absent(blank: str) -> None:
    """Blank slots, instructions and skills leave no heading behind."""
    assert build_system_prompt(PromptSlots(*[blank] * 5), instructions=blank, skills=blank) == build_system_prompt()


def test_sections_without_content_are_left_out() -> None:
    """No heading stands alone."""
    lines = build_system_prompt().splitlines()
    headings = [line for line in lines if line.startswith("# ")]
    assert headings == ["# How you work", "# Tools", "# Boundary", "# Response Format"]
    assert not any(a.startswith("#") and not b.strip() for a, b in itertools.pairwise(lines))


def test_project_text_is_said_to_have_no_power_over_permissions() -> None:
    """Project instructions come with the note that they can't relax permissions, contracts or verification."""
    prompt = build_system_prompt(instructions="PROJECT")
    note = prompt[prompt.index("# Project instructions") : prompt.index("\n\nPROJECT")]
    assert "permissions" in note
    assert "verified" in note


def test_prompt_is_short() -> None:
    """The fixed part stays under about 800 tokens: every request carries it."""
    assert len(build_system_prompt().encode()) < 3600

"""Logs of released versions fold as they did, and today's writer writes what it wrote."""

from __future__ import annotations

from pathlib import Path

import golden_log
import msgspec
import pytest
from factstory import Story, faults

from a3s_code.core.decide import next_step
from a3s_code.core.facts import KINDS
from a3s_code.core.fold import fold_all
from a3s_code.core.rules import Rules
from a3s_code.core.steps import Record

LOGS = sorted(golden_log.DATA.glob("golden-*.jsonl"))


def test_the_writer_still_writes_the_same_bytes() -> None:
    """The same facts come out byte for byte as in the file of this version, sums and all."""
    assert golden_log.lines(golden_log.facts()) == golden_log.LOG.read_bytes()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_log_of_a_released_version_folds_as_it_did(path: Path) -> None:
    """Every line is whole, and the view comes to what it came to when it was written."""
    facts = golden_log.read(path.read_bytes())
    assert golden_log.summary(facts) == msgspec.json.decode(golden_log.view_of(path).read_bytes())
    assert faults(fold_all(facts)) == []


def test_the_golden_log_holds_every_kind_and_ends_in_the_middle() -> None:
    """All kinds are in it, one that nobody knows too; the next step is the one that its last fact asks for."""
    facts = golden_log.read(golden_log.LOG.read_bytes())
    assert {fact.kind for fact in facts} == {*KINDS, "moon.phase"}
    step = next_step(fold_all(facts), Rules())
    assert isinstance(step, Record)
    assert [item.outcome for item in step.results] == ["denied"]


def test_reading_facts_gives_the_view_that_writing_them_had() -> None:
    """What was folded while it was written and what a new process folds from the file are equal."""
    story = Story()
    for fact in golden_log.facts():
        story.run = fact.run
        story.add(fact.data, kind=fact.kind)
    assert fold_all(golden_log.read(golden_log.lines(story.facts))) == story.view

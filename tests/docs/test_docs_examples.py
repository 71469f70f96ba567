"""Every example of README.md and docs/ runs as it is printed, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from docpages import PAGES, blocks, check_page
from pytest_httpserver import HTTPServer

ANSWER = (
    'data: {"choices":[{"delta":{"role":"assistant","content":"Hello from the provider."},"finish_reason":null}]}\n\n'
    'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":5}}\n\n'
    "data: [DONE]\n\n"
)


def pages_with_examples() -> list[Path]:
    kinds = {page: {block.kind for block in blocks(page.read_text("utf-8"))} for page in PAGES}
    return [page for page, found in kinds.items() if found & {"python", "console"}]


@pytest.fixture(autouse=True)
def a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer) -> None:
    """Somebody in an empty directory, without keys but for the provider on loopback."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "A3S_CODE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    httpserver.expect_request("/v1/chat/completions").respond_with_data(ANSWER, content_type="text/event-stream")
    monkeypatch.setenv("MY_GATEWAY_URL", httpserver.url_for("").rstrip("/"))
    monkeypatch.setenv("MY_GATEWAY_KEY", "not-a-real-key")


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in pages_with_examples()])
def test_the_examples_of_a_page_run_as_printed(page: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reader who follows a page from its top, in an empty directory, sees what the page says, and closes what was
    opened."""
    check_page(page)
    assert [record.message for record in caplog.records if record.name == "a3s_code"] == []


def test_every_page_about_code_has_an_example() -> None:
    """Only the pages that list or draw something have nothing to run."""
    silent = {page.name for page in PAGES} - {page.name for page in pages_with_examples()}
    assert silent == {"dependencies.md", "index.md"}


def test_a_page_that_prints_something_else_is_found_out(tmp_path: Path) -> None:
    """The comparison fails for output that the page doesn't show, and takes the ellipsis for anything."""
    good = tmp_path / "good.md"
    good.write_text("```python\nprint('one two')\n```\n\n```text\none …\n```\n")
    bad = tmp_path / "bad.md"
    bad.write_text("```python\nprint('one two')\n```\n\n```text\none\n```\n")
    check_page(good)
    with pytest.raises(AssertionError, match="it printed\none two"):
        check_page(bad)

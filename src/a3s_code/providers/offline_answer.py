"""The offline model's answer. In: a question and the evidence. Out: Markdown: what was found, where, ranked.

One rule: nothing is said that no result showed; what couldn't be looked at is said too.
Known weakness: it finds and quotes; it draws no conclusions.
"""

from __future__ import annotations

import re
from collections import Counter

from a3s_code.providers.offline_evidence import Evidence, Hit
from a3s_code.providers.offline_look import CHANGES, Desk, key_modules
from a3s_code.providers.offline_manifest import lead, project
from a3s_code.providers.offline_question import Question
from a3s_code.providers.offline_rank import SMELLS, is_test, mentions, place_weight, rank, rank_smells, rank_todos
from a3s_code.providers.offline_text import clip, code, count, first_words, item, languages, listing, quotation

_SELF = "I am scout, the offline model: rules over the workspace's tools, no language model."

_ABOUT = f"""{_SELF} I need no key and no network, and I change nothing. Ask me, for example:

- `summarise this repository`
- `where is <name>` or `how does <thing> work`
- `find TODOs` or `find bugs`
- `what changed lately`
- `how do I run the tests`

For everything else set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, or name a provider in an ACL file."""
_REQUIREMENT = re.compile(r"(pytest|tox|nox|jest|vitest|unittest)[\w-]*\"?\s*([<>=~^:]|\.ini_options|\]|\",?$)")


def answer(question: Question, desk: Desk, found: Evidence) -> str:
    if not desk.any and not found.counts:
        return (
            f"{_SELF} This conversation offers me no tool that I could look at the workspace with "
            "(`ls`, `read`, `search`, `git` or `bash`), so I can't answer.\n\nSet a provider key or pass "
            "`llm_client` to talk to a real model."
        )
    if question.kind == "about":
        return _ABOUT
    writers = {
        "summary": _summary,
        "todos": _todos,
        "changes": _changes,
        "tests": _tests,
        "problems": _problems,
        "file": _file,
        "where": _where,
        "mixed": _mixed,
    }
    parts = writers[question.kind](question, found)
    if question.wants_change:
        parts.insert(
            0, "I can look but not change code: that takes a language model. This is what it would start from."
        )
    return "\n\n".join([*(part for part in parts if part), _signature(found)])


def _signature(found: Evidence) -> str:
    looks = ", ".join(f"{name} ×{number}" for name, number in sorted(found.counts.items()))
    note = f" Not available: {clip('; '.join(dict.fromkeys(found.failures)), 200)}." if found.failures else ""
    return f"---\n*{_SELF} I looked with {looks or 'nothing'}.{note}*"


def _summary(question: Question, found: Evidence) -> list[str]:
    known = project(found)
    path, line, prose = lead(found)
    title = f"## {known.name}" if known.name else "## This repository"
    parts = [title, f"**{clip(known.about, 300)}** (`{known.source}`)" if known.about else ""]
    parts.append(f"> {clip(prose, 500)}\n>\n> — `{path}:{line}`" if prose else "")
    facts = []
    files = [path for path in found.known_files() if place_weight(path) > -5]
    spoken = languages(files)
    if spoken:
        more = "at least " if found.truncated else ""
        facts.append(
            f"- **Files:** {more}{len(files)}; " + ", ".join(f"{name} {number}" for name, number in spoken[:5])
        )
    facts.append(f"- **Runs on:** {known.runtime}" if known.runtime else "")
    facts.append(f"- **Needs:** {listing(known.needs, 8)}" if known.needs else "")
    facts.append(f"- **Commands:** {listing(known.commands, 6)}" if known.commands else "")
    facts.append(f"- **Tests:** `{known.tests[0][0]}` (`{known.tests[0][1]}`)" if known.tests else "")
    parts.append("\n".join(fact for fact in facts if fact))
    parts.append(_layout(found, files))
    modules = []
    for module in key_modules(found):
        at, words = first_words(found.files.get(module, {}))
        if words:
            modules.append(f"- `{module}:{at}` – {clip(words, 140)}")
    modules = modules or [f"- `{module}`" for module in key_modules(found)]
    parts.append("**Where to start reading**\n\n" + "\n".join(modules[:8]) if modules else "")
    parts.append(
        "**Last commits**\n\n" + "\n".join(f"- {clip(c, 120)}" for c in found.commits[:3]) if found.commits else ""
    )
    return parts


def _layout(found: Evidence, files: list[str]) -> str:
    """The directories at the root, and below a lone source directory, with how many files they hold."""
    inside = Counter(path.split("/", 1)[0] for path in files if "/" in path)
    rows = []
    for name, number in sorted(inside.items(), key=lambda one: (-one[1], one[0]))[:8]:
        below = Counter(p.split("/")[1] + "/" for p in files if p.startswith(f"{name}/") and p.count("/") > 1)
        main = [child for child, _ in sorted(below.items(), key=lambda one: (-one[1], one[0]))]
        rows.append(f"- `{name}/` – {count(number, 'file')}" + (f": {listing(main, 6)}" if main else ""))
    if not rows:
        rows = [f"- `{entry}`" for entry in found.entries[:12]]
    return "**Layout**\n\n" + "\n".join(rows) if rows else ""


def _todos(question: Question, found: Evidence) -> list[str]:
    marked = rank_todos(found.hits)
    if not marked:
        elsewhere = "\n".join(item(hit) for hit in mentions(found.hits)[:8])
        return [
            "No `TODO`, `FIXME`, `HACK`, `XXX` or `BUG` comments found.",
            f"Such words outside comments:\n\n{elsewhere}" if elsewhere else "",
        ]
    kinds = Counter(kind for kind, _ in marked)
    files = len({hit.path for _, hit in marked})
    told = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda one: (-one[1], one[0])))
    parts = [f"**{count(len(marked), 'marker')} in {count(files, 'file')}** ({told}), the urgent ones first:"]
    parts.append("\n".join(item(hit) for _, hit in marked[:15]))
    if len(marked) > 15:
        parts.append(f"… and {len(marked) - 15} more.")
    parts.append(_quoted(found, [hit for _, hit in marked[:1]], "The first one in its place"))
    return parts


def _quoted(found: Evidence, hits: list[Hit], heading: str) -> str:
    shown = [f"{heading}, `{hit.path}`:\n\n{text}" for hit in hits if (text := quotation(found, hit, block=False))]
    return "\n\n".join(shown)


def _changes(question: Question, found: Evidence) -> list[str]:
    parts = []
    if found.commits:
        parts.append(f"**The last {count(len(found.commits), 'commit')}**, newest first:")
        parts.append("\n".join(f"- {clip(commit, 130)}" for commit in found.commits[:15]))
    else:
        recent = [path for path in found.paths if place_weight(path) > -5][:12]
        parts.append(
            "There is no git history here. The files changed last:" if recent else "There is no git history here."
        )
        parts.append("\n".join(f"- `{path}`" for path in recent))
    touched = _touched(found.diff)
    if touched:
        rows = [f"- `{path}` +{plus} −{minus}" for path, plus, minus in touched[:10]]
        more = f"\n- … and {len(touched) - 10} more files" if len(touched) > 10 else ""
        parts.append("**Most changed over the last commits**\n\n" + "\n".join(rows) + more)
    if found.commits and found.status:
        dirty = [
            line for line in found.status if not line.startswith(("On branch", "##")) and "changed file" not in line
        ]
        state = (
            f"{count(len(dirty), 'file')} not committed: " + listing([d.strip() for d in dirty], 8)
            if dirty
            else "clean"
        )
        parts.append(f"**Working tree:** {state}")
    notes = next((path for path in found.files if CHANGES.search(path)), "")
    if notes:
        lines = [text for _, text in sorted(found.files[notes].items()) if text.strip()][:10]
        parts.append(f"**From `{notes}`**\n\n" + "\n".join(f"> {clip(line, 140)}" for line in lines))
    return parts


def _touched(diff: list[str]) -> list[tuple[str, int, int]]:
    """Files of a unified diff with their added and removed lines, most first."""
    totals: dict[str, list[int]] = {}
    current: list[int] = [0, 0]
    for line in diff:
        if line.startswith("diff --git "):
            current = totals.setdefault(line.rsplit(" b/", 1)[-1], [0, 0])
        elif line.startswith("+") and not line.startswith("+++"):
            current[0] += 1
        elif line.startswith("-") and not line.startswith("---"):
            current[1] += 1
    ordered = sorted(totals.items(), key=lambda one: (-sum(one[1]), one[0]))
    return [(path, plus, minus) for path, (plus, minus) in ordered]


def _tests(question: Question, found: Evidence) -> list[str]:
    known = project(found)
    files = [path for path in found.paths if is_test(path)]
    said = [hit for hit in found.hits if not _REQUIREMENT.search(hit.text)]
    said.sort(key=lambda hit: (hit.path.count("/"), place_weight(hit.path) < -5, hit.path, hit.line))
    commands = list(dict(known.tests).items())
    if not commands and files and files[0].endswith(".py"):
        commands = [("python -m pytest", files[0])]
    parts = []
    if commands:
        parts.append(f"Run the tests with\n\n```bash\n{commands[0][0]}\n```\n\nas `{commands[0][1]}` says.")
        others = [f"- `{command}` (`{source}`)" for command, source in commands[1:4]]
        parts.append("Also possible:\n\n" + "\n".join(others) if others else "")
    else:
        parts.append("No manifest or Makefile says how the tests are run.")
    parts.append("**What the files say**\n\n" + "\n".join(item(hit) for hit in said[:6]) if said else "")
    if files:
        where = Counter(path.rsplit("/", 1)[0] if "/" in path else "." for path in files)
        rows = [f"- `{name}/` – {count(number, 'file')}" for name, number in sorted(where.items())[:8]]
        parts.append(f"**{count(len(files), 'test file')}**\n\n" + "\n".join(rows))
        if files[0].endswith(".py"):
            parts.append(f"One file alone: `python -m pytest {files[0]}`")
    return parts


def _problems(question: Question, found: Evidence) -> list[str]:
    best = rank_smells(found.hits)
    if not best:
        return [
            f"None of the {len(SMELLS)} patterns that I know (mutable defaults, bare `except`, …) occurs in the code."
        ]
    parts = [f"**{count(len(best), 'suspicious line')}** (by pattern; judge them yourself):"]
    for what, hit in best[:3]:
        shown = quotation(found, hit, block=False)
        parts.append(f"`{hit.path}:{hit.line}` – {what}\n\n{shown}" if shown else f"{item(hit)} – {what}")
    parts.append("\n".join(f"{item(hit)} – {what}" for what, hit in best[3:12]))
    return parts


def _file(question: Question, found: Evidence) -> list[str]:
    parts = []
    wanted = [path for path in found.files if any(path.endswith(name.rsplit("/", 1)[-1]) for name in question.paths)]
    for path in wanted[:2]:
        lines = found.files[path]
        _, words = first_words(lines)
        total = found.totals.get(path, 0)
        parts.append(
            f"**`{path}`**"
            + (f" ({count(total, 'line')})" if total else "")
            + (f": {clip(words, 200)}" if words else "")
        )
        outline = [Hit(path, number, text) for number, text in sorted(lines.items()) if _outlines(path, text)]
        parts.append(
            "\n".join(item(hit) for hit in outline[:15]) or quotation(found, Hit(path, min(lines), ""), block=True)
        )
    if not wanted:
        parts.append(f"I can't find {listing(question.paths, 4)} here.")
        parts.append("Files with such a name: " + listing(found.paths, 8) if found.paths else "")
    return parts


def _outlines(path: str, text: str) -> bool:
    if path.endswith((".md", ".rst", ".txt")):
        return text.startswith(("# ", "## ", "### "))
    begins = ("def ", "async def ", "class ", "func ", "fn ", "pub ", "export ", "function ", "interface ", "type ")
    return text.lstrip().startswith(begins)


def _where(question: Question, found: Evidence) -> list[str]:
    best = rank(found.hits, question.terms)
    asked = listing([term.text for term in question.terms], 6)
    if not best:
        near = f" Files with such a name: {listing(found.paths, 8)}." if found.paths else ""
        close = "\n".join(item(one.hit) for one in rank(found.hits, ())[:5])
        return [f"Nothing in the workspace mentions {asked}.{near}", f"The nearest words:\n\n{close}" if close else ""]
    top = best[0]
    defined = top.defines and question.terms[0].exact
    at = f"**`{top.hit.path}:{top.hit.line}`**"
    parts = [
        f"`{question.terms[0].text}` is defined at {at}." if defined else f"Best match for {asked}: {at}",
        quotation(found, top.hit, top.defines) or item(top.hit),
    ]
    second = next((one for one in best[1:4] if one.score > top.score * 0.7 and one.hit.path != top.hit.path), None)
    if second and (shown := quotation(found, second.hit, second.defines, 10)):
        parts.append(f"`{second.hit.path}:{second.hit.line}`\n\n{shown}")
    others = [one.hit for one in best[1:] if one is not second and (defined or one.score > 0.4 * top.score)][:8]
    parts.append("**Also, best first**\n\n" + "\n".join(item(hit) for hit in others) if others else "")
    named = [path for path in found.paths if place_weight(path) > -5]
    parts.append(f"Files named like it: {listing(named, 6)}" if named else "")
    return parts


def _mixed(question: Question, found: Evidence) -> list[str]:
    path, line, prose = lead(found)
    about = f"> {clip(prose, 300)}\n>\n> — `{path}:{line}`" if prose else ""
    known = project(found)
    title = f"**{known.name}**: {code(known.about, 200)}" if known.about else ""
    return [*_where(question, found), title, about]

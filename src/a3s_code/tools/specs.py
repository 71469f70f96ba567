"""What a model is told of the built-in tools (tools.md §3). In: nothing. Out: a ``ToolSpec`` each, in their order.

One rule: no code of a tool is needed for its description: a session shows all of them and may never call one.
Known weakness: a schema and the code that reads the arguments stand in two files.
"""

from __future__ import annotations

from typing import Final

from a3s_code.core.content import JsonObject
from a3s_code.ports.model import ToolSpec

READ_BYTES: Final = 102_400
READ_LINES: Final = 2000
LS_ENTRIES: Final = 500
_OFFSET: Final[JsonObject] = {"type": "integer", "minimum": 0, "description": "First line to show, counted from 0."}
_LIMIT: Final[JsonObject] = {
    "type": "integer",
    "minimum": 1,
    "maximum": 10_000,
    "description": "How many lines to show at most (2000 by default).",
}

READ: Final = ToolSpec(
    "read",
    (
        "Reads a text file of the workspace and shows its lines with line numbers (from 1), a tab and the text. A long "
        "file is shown by pages: the last line then says with which offset to continue. Several files can be read at "
        "once with `files`. JPEG, PNG, GIF and WebP images are shown as images. Directories are listed with `ls`. The "
        "line number and the tab are not part of the file: leave them out of an old_string for `edit`."
    ),
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute in it."},
            "path": {"type": "string", "description": "The same as file_path."},
            "offset": {**_OFFSET, "default": 0},
            "limit": {**_LIMIT, "default": READ_LINES},
            "files": {
                "type": "array",
                "minItems": 1,
                "maxItems": 32,
                "description": "Several files instead of file_path, each with its own offset and limit.",
                "items": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}, "offset": _OFFSET, "limit": _LIMIT},
                    "required": ["path"],
                    "additionalProperties": False,
                },
            },
            "max_output_bytes": {
                "type": "integer",
                "minimum": 1024,
                "maximum": READ_BYTES,
                "description": "Size of a page in bytes (102400 by default, 65536 with files).",
            },
        },
        "additionalProperties": False,
    },
)

LS: Final = ToolSpec(
    "ls",
    (
        "Lists the entries of a directory, one a line: directories end with /, symbolic links with @. Names that "
        "begin with a dot are included. The last line says how many there are, or with which cursor to continue."
    ),
    {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "default": ".",
                "description": "The directory, relative to the workspace or absolute in it; the workspace by default.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 2000,
                "default": LS_ENTRIES,
                "description": "How many entries to show at most.",
            },
            "cursor": {"type": "string", "description": "Where to continue: the cursor of the page before."},
        },
        "additionalProperties": False,
    },
)

SEARCH: Final = ToolSpec(
    "search",
    (
        "Search the workspace: mode 'grep' for lines matching a regular expression, 'glob' for file names, 'bm25' for "
        "passages ranked by words. Ignored files (.gitignore) are left out unless path names them."
    ),
    {
        "type": "object",
        "properties": {
            "mode": {
                "type": "string",
                "enum": ["grep", "glob", "bm25"],
                "description": "grep: lines matching a regular expression. glob: file names. bm25: ranked by words.",
            },
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 4096,
                "description": (
                    "A regular expression (Python syntax, per line), a glob relative to path, or plain words."
                ),
            },
            "path": {"type": "string", "minLength": 1, "default": ".", "description": "Directory or file to search."},
            "include": {
                "type": "string",
                "minLength": 1,
                "description": "Only files matching this glob; without '/' it is matched against names (grep, bm25).",
            },
            "output_mode": {
                "type": "string",
                "enum": ["content", "files_with_matches", "count", "summary"],
                "default": "content",
                "description": "What grep prints.",
            },
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10,
                "description": "Lines around a match: 0 for grep, 2 for bm25 by default.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 5000,
                "description": "Results on a page: grep 200 (at most 2000), glob 500 (5000), bm25 8 (50).",
            },
            "cursor": {
                "type": "string",
                "minLength": 1,
                "description": "From the end of the page before; all other arguments stay the same.",
            },
            "sort": {
                "type": "string",
                "enum": ["relevance", "path"],
                "description": "Order of glob; relevance is newest first, and a cursor needs path.",
            },
            "ignore_case": {"type": "boolean", "default": False},
        },
        "required": ["mode", "query"],
        "additionalProperties": False,
    },
)

WRITE: Final = ToolSpec(
    "write",
    (
        "Writes a whole file as UTF-8, creating it and missing directories or replacing what it had. The content is "
        "written exactly, so end it with a newline if the file should. To change a part of a file use `edit`."
    ),
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute in it."},
            "content": {"type": "string", "description": "The whole new content; it is written exactly as given."},
        },
        "required": ["file_path", "content"],
        "additionalProperties": False,
    },
)

EDIT: Final = ToolSpec(
    "edit",
    (
        "Replaces exact text in a file. old_string must match the file character by character, indentation included, "
        "and must occur exactly once; give more surrounding lines to make it unique, or set replace_all or "
        "expected_replacements. Line ends and encoding of the file are kept. Nothing is written when it fails."
    ),
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute in it."},
            "old_string": {
                "type": "string",
                "minLength": 1,
                "description": (
                    "The exact text to replace, without line numbers; it must occur once unless all are meant."
                ),
            },
            "new_string": {"type": "string", "description": "The text to put in its place; may be empty."},
            "replace_all": {"type": "boolean", "default": False, "description": "Replace every occurrence."},
            "dry_run": {"type": "boolean", "default": False, "description": "Show the change without writing it."},
            "expected_replacements": {
                "type": "integer",
                "minimum": 1,
                "description": "Replace every occurrence, but only if there are exactly so many.",
            },
            "max_replacements": {
                "type": "integer",
                "minimum": 1,
                "description": "Refuse if there are more occurrences.",
            },
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": False,
    },
)

BASH: Final = ToolSpec(
    "bash",
    (
        "Run a shell command in the workspace and return its output. Standard input is empty. Processes left in the "
        "background are stopped when the command ends. Usually it runs in a sandbox: no network, and only the "
        "workspace and /tmp are writable. Prefer read, search, ls and edit for files."
    ),
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "Shell command line, run by bash."},
            "timeout_ms": {
                "type": "integer",
                "minimum": 100,
                "maximum": 600_000,
                "default": 120_000,
                "description": "Everything the command started is killed after this many milliseconds.",
            },
            "cwd": {
                "type": "string",
                "minLength": 1,
                "description": "Directory inside the workspace; the workspace root by default. Does not persist.",
            },
            "env": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "maxProperties": 64,
                "description": "Additional environment variables.",
            },
            "sandbox_permissions": {
                "type": "string",
                "enum": ["use_default", "request_network_grant", "require_escalated"],
                "default": "use_default",
                "description": "request_network_grant asks the user to let this command reach one host through an HTTP "
                "proxy (HTTPS_PROXY is set); require_escalated to let it run outside the sandbox.",
            },
            "network_grant": {
                "type": "object",
                "properties": {
                    "host": {"type": "string", "minLength": 1},
                    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                },
                "required": ["host"],
                "additionalProperties": False,
                "description": "The one host to reach, with request_network_grant; port 443 unless given.",
            },
            "justification": {
                "type": "string",
                "minLength": 1,
                "description": "Why, shown to the user; required with require_escalated.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
)

ASK_USER: Final = ToolSpec(
    "ask_user",
    (
        "Asks the user a question and waits for the answer. Use it only when you can't go on without a decision that "
        "is the user's; find out yourself what can be found out."
    ),
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1, "maxLength": 4000, "pattern": "\\S"},
            "options": {
                "type": "array",
                "maxItems": 8,
                "description": "Answers to choose from; the user may still answer in other words.",
                "items": {
                    "anyOf": [
                        {"type": "string", "minLength": 1},
                        {
                            "type": "object",
                            "properties": {
                                "label": {"type": "string", "minLength": 1},
                                "description": {"type": "string"},
                            },
                            "required": ["label"],
                            "additionalProperties": False,
                        },
                    ]
                },
            },
            "multi_select": {"type": "boolean", "default": False},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
)

BUILT_IN: Final[tuple[ToolSpec, ...]] = (READ, LS, SEARCH, WRITE, EDIT, BASH, ASK_USER)
"""In the order of tools.md §2.4, which is that of every request."""

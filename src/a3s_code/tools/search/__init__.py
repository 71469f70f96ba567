"""The tool ``search`` (tools.md §3.6): by expression, by file name, by relevance."""

from a3s_code.tools.search.tool import SearchTool

__all__ = ["SearchTool"]

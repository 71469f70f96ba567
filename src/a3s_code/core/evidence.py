"""What a result was before it was shortened (tools.md §6.1). In: a tool's name, an output, what became of it. Out: the
evidence that every result carries.

One rule: sizes and digests are those of the UTF-8 texts themselves, so that anybody can check them. So a fact keeps the
evidence of a shortened output only: that of a whole one is in the output, and is read off it again.
Known weakness: a result that came with the history has none.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

from a3s_code.core.content import JsonObject
from a3s_code.core.digest import valid_text

EVIDENCE: Final = "a3s_tool_result_evidence"
SCHEMA: Final = "a3s.code.tool-result-evidence.v1"
ESTIMATOR: Final = "utf8-bytes-ceil-div-4/v1"
ALGORITHM: Final = "a3s.tool-result-transform/v1"
LossMode = Literal["none", "bounded_preview", "head_tail", "deterministic_transform", "composite"]
_BYTES_PER_TOKEN: Final = 4
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME: Final = 64
_URI: Final = re.compile(r"a3s://tool-output/([A-Za-z0-9_-]{1,64})/([0-9a-f]{32})")


def with_evidence(tool: str, output: str, metadata: JsonObject) -> JsonObject:
    """The metadata of a result as callers see it: one that keeps no evidence has an output that is whole."""
    return metadata if EVIDENCE in metadata else {**metadata, EVIDENCE: lossless(tool, utf8(output)[1])}


def utf8(text: str) -> tuple[str, bytes]:
    """The text as it is stored: lone surrogates become U+FFFD."""
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        valid = str(valid_text(text))
        return valid, valid.encode()


def lossless(tool: str, data: bytes) -> JsonObject:
    """The evidence of an output that nothing was taken from."""
    digest = hashlib.sha256(data).hexdigest()
    size, tokens = len(data), _tokens(len(data))
    source = f"sha256:{digest}"
    return {
        "schema": SCHEMA,
        "original_bytes": size,
        "projected_bytes": size,
        "byte_delta": 0,
        "original_tokens": tokens,
        "projected_tokens": tokens,
        "token_delta": 0,
        "token_estimator": ESTIMATOR,
        "source_digest": source,
        "projection_digest": source,
        "repeat_key": _repeat_key(tool, data),
        "loss_mode": "none",
        "transform_algorithm": "none",
        "content_ref": f"inline:{source}",
    }


def lossy(tool: str, original: bytes, projected: bytes, mode: LossMode, ref: str | None) -> JsonObject:
    """The evidence of an output that was shortened; ``ref`` is where the whole is kept, if it is."""
    before, after = _tokens(len(original)), _tokens(len(projected))
    return {
        "schema": SCHEMA,
        "original_bytes": len(original),
        "projected_bytes": len(projected),
        "byte_delta": len(projected) - len(original),
        "original_tokens": before,
        "projected_tokens": after,
        "token_delta": after - before,
        "token_estimator": ESTIMATOR,
        "source_digest": f"sha256:{hashlib.sha256(original).hexdigest()}",
        "projection_digest": f"sha256:{hashlib.sha256(projected).hexdigest()}",
        "repeat_key": _repeat_key(tool, original),
        "loss_mode": mode,
        "transform_algorithm": ALGORITHM,
        "content_ref": ref,
    }


def artifact_uri(tool: str, original: bytes) -> str:
    """Where the whole output of ``tool`` is found."""
    return f"a3s://tool-output/{uri_name(tool)}/{hashlib.sha256(original).hexdigest()[:32]}"


def uri_name(tool: str) -> str:
    """A tool's name as it stands in a URI; a model may call names that no tool can have."""
    return _FOREIGN.sub("_", tool[:_NAME]) or "_"


def is_artifact_uri(uri: str) -> bool:
    return _URI.fullmatch(uri) is not None


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)


def _repeat_key(tool: str, data: bytes) -> str:
    key = hashlib.sha256(tool.encode("utf-8", "replace") + b"\0")
    key.update(data)
    return key.hexdigest()

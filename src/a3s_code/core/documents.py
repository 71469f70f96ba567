"""What a session store keeps (durability.md). In: documents, or bytes. Out: bytes with a digest, or documents.

One rule: a document is plain JSON of a known version whose last member is the SHA-256 of what comes before it: a newer
version is refused, a damaged one is refused, and members that this version doesn't know are kept when it is rewritten.
There is one way to write a document, so that nobody reads another thing from the same bytes.
Known weakness: text that is no Unicode (lone surrogates) is stored with U+FFFD.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from a3s_code.core.content import Json, JsonObject
from a3s_code.core.digest import valid_text
from a3s_code.core.nesting import is_deeper
from a3s_code.errors import CodeError, StoreError

VERSION: Final = 1
"""Of every kind of document."""

ID_BYTES: Final = 1000
"""How long the id of a session, run, workflow or request may be."""

DEEPEST: Final = 256
"""How deep a document may be nested: what reads it later may recurse."""

LARGEST: Final = 512 * 1024 * 1024
"""Bytes of a document: every store takes that many, and none is asked for more."""

_TAIL: Final = re.compile(rb',"digest":"([0-9a-f]{64})"\}')
_TAIL_BYTES: Final = len(b',"digest":"') + 64 + len(b'"}')
_sorted: Final = msgspec.json.Encoder(order="sorted").encode


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """``more`` holds the members that a newer writer added."""

    more: JsonObject = {}


class FactLogMark(msgspec.Struct, frozen=True):
    """How far a session's log went."""

    thread: str
    seq: int
    sum: str


class SessionSnapshot(Document, frozen=True, kw_only=True):
    """``SessionSnapshotV1``: one generation of a session. ``labels`` holds those of ``tenant_id``, ``principal``,
    ``agent_template_id`` and ``correlation_id`` that are set; ``options`` those that bind on resume; ``runs`` the run
    records with their retained events; ``fact_log`` is ``{thread, seq, sum}``. ``digest`` is set by the store."""

    session_id: str
    labels: dict[str, str] = {}
    workspace: str = ""
    model: str = ""
    options: JsonObject = {}
    messages: list[JsonObject] = []
    artifacts: list[JsonObject] = []
    traces: list[JsonObject] = []
    runs: list[JsonObject] = []
    verification_reports: list[JsonObject] = []
    task_snapshots: list[JsonObject] = []
    usage: JsonObject = {}
    fact_log: JsonObject | None = None
    saved_ms: int = 0
    digest: str = ""

    @property
    def mark(self) -> FactLogMark | None:
        """``fact_log`` as a value; ``SERIALIZATION_ERROR`` when it isn't one."""
        try:
            return None if self.fact_log is None else msgspec.convert(self.fact_log, FactLogMark)
        except msgspec.ValidationError as error:
            raise _refused(f"the snapshot of session {self.session_id!r} is damaged: fact_log: {error}") from error


class SessionEntry(msgspec.Struct, frozen=True):
    """What a listing says of a session. ``stored_bytes`` is the size of all that ``delete_session`` would take: the
    documents and facts before any compression, perhaps with what a store adds to each."""

    session_id: str
    tenant_id: str | None
    saved_ms: int
    digest: str
    stored_bytes: int


class CheckpointHeader(Document, frozen=True, kw_only=True):
    """A loop checkpoint without its facts, which end with fact ``seq`` of sum ``sum``. ``created_ms`` and ``logic`` are
    those of the log's header; ``options``, ``labels`` and ``model`` bind on resume where the caller leaves them
    unset."""

    run_id: str
    session_id: str
    seq: int
    sum: str
    thread: str = ""
    created_ms: int = 0
    logic: int = 1
    labels: dict[str, str] = {}
    workspace: str = ""
    model: str = ""
    options: JsonObject = {}
    saved_ms: int = 0


class Checkpoint(msgspec.Struct, frozen=True):
    """``facts`` are a log's raw lines without their ends, from fact 1 to the header's."""

    header: CheckpointHeader
    facts: list[bytes]


class RunAdmission(Document, frozen=True, kw_only=True):
    """That a detached run was admitted, and what became of it: ``record`` is its run record once it settled."""

    run_id: str
    session_id: str
    input_digest: str
    record: JsonObject | None = None


class WorkflowCheckpoint(Document, frozen=True, kw_only=True):
    """The finished steps of a workflow (extensions.md §9.4)."""

    workflow_id: str
    steps: list[JsonObject] = []
    checkpoint_ms: int = 0


class Lease(Document, frozen=True, kw_only=True):
    """Who may write a session. ``expires_ms`` is by the store's own clock, 0 once it was released."""

    session_id: str
    epoch: int
    holder: str
    expires_ms: int


class Inbox(Document, frozen=True, kw_only=True):
    """A session's control inbox: entries ``{request, taken, receipt}``, oldest first."""

    session_id: str
    entries: list[JsonObject] = []


class ControlRequest(msgspec.Struct, frozen=True):
    """What somebody who doesn't hold a session asks of its holder. ``kind`` is ``confirm`` or ``answer`` for a waiting
    call, ``steer``, ``interrupt`` or ``passivate``; ``payload`` is what the method of that name takes."""

    request_id: str
    kind: str
    payload: JsonObject = {}
    posted_ms: int = 0


class ControlReceipt(msgspec.Struct, frozen=True):
    """What became of a request (api.md, *Run control*). ``state`` is ``accepted``, ``applied``, ``settled`` or
    ``rejected``; ``detail`` is the holder's answer."""

    request_id: str
    kind: str
    state: str
    accepted_ms: int = 0
    run_id: str | None = None
    code: str | None = None
    detail: JsonObject = {}


class _Listed(msgspec.Struct):
    session_id: str
    labels: dict[str, str] = {}
    saved_ms: int = 0


AnyDocument: TypeAlias = SessionSnapshot | CheckpointHeader | RunAdmission | WorkflowCheckpoint | Lease | Inbox
D = TypeVar("D", SessionSnapshot, CheckpointHeader, RunAdmission, WorkflowCheckpoint, Lease, Inbox)


def encode(document: AnyDocument) -> bytes:
    """``StoreError`` (``SERIALIZATION_ERROR``) for what is no JSON."""
    members: dict[str, Any] = dict(document.more)
    members.update((field, getattr(document, field)) for field in document.__struct_fields__ if field != "more")
    members["schema_version"] = VERSION
    members.pop("digest", None)
    try:
        body = _plain(members)[:-1]
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _refused(f"a {type(document).__name__} can't be stored: {error}") from error
    if is_deeper(members, DEEPEST):
        raise _refused(f"a {type(document).__name__} can't be stored: it is nested more than {DEEPEST} deep")
    if len(body) + _TAIL_BYTES > LARGEST:
        size = f"{len(body):,} bytes, and a document may have {LARGEST:,}"
        raise _refused(f"a {type(document).__name__} can't be stored: it has {size}")
    return b'%b,"digest":"%b"}' % (body, hashlib.sha256(body).hexdigest().encode())


def digest_of(data: bytes) -> str:
    """The digest of an encoded document, as it stands there."""
    return data[-66:-2].decode("ascii", "replace")


def decode(kind: type[D], data: bytes, where: str) -> D:
    """The document in ``data``; ``where`` (a file, a row) is named in the ``StoreError`` (``SERIALIZATION_ERROR``) for
    one that is damaged, or newer than this version."""
    try:
        members = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(f"{where} is damaged: {error}") from error
    version = members.get("schema_version") if isinstance(members, dict) else None
    if type(version) is int and version > VERSION:
        raise _refused(f"{where} has schema version {version}, and this a3s_code knows {VERSION}: use a newer a3s_code")
    if type(version) is not int or version != VERSION:
        raise _refused(f"{where} is damaged: it is no document of a session store")
    tail = _TAIL.fullmatch(data, len(data) - _TAIL_BYTES)
    if tail is None or hashlib.sha256(data[:-_TAIL_BYTES]).hexdigest() != tail[1].decode():
        raise _refused(f"{where} is damaged: it is not as it was written")
    members.pop("digest", None)
    if is_deeper(members, DEEPEST) or _sorted(members)[:-1] != data[:-_TAIL_BYTES]:
        raise _refused(f"{where} is damaged: no a3s_code writes such JSON")
    del members["schema_version"]
    known = {field: members.pop(field) for field in kind.__struct_fields__ if field != "more" and field in members}
    if "digest" in kind.__struct_fields__:
        known["digest"] = tail[1].decode()
    try:
        return msgspec.convert(known | {"more": members}, kind)
    except msgspec.ValidationError as error:
        raise _refused(f"{where} is damaged: {error}") from error


def entry_of(data: bytes) -> SessionEntry | None:
    """What a listing says of a session that has only this snapshot; ``None`` when it can't be read."""
    try:
        read = msgspec.json.decode(data, type=_Listed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return SessionEntry(read.session_id, read.labels.get("tenant_id"), read.saved_ms, digest_of(data), len(data))


def checked_id(value: str, what: str) -> str:
    """An id as it is stored. ``INVALID_REQUEST`` when it is empty, too long, or holds a NUL."""
    text = valid_text(value) if isinstance(value, str) else ""
    if not text or "\0" in text or len(text.encode()) > ID_BYTES:
        raise CodeError(f"a {what} id must be a text of 1 to {ID_BYTES} bytes without NUL", "INVALID_REQUEST")
    return str(text)


def column_text(value: str | None) -> str | None:
    """A text as a database's column holds it, next to the document that has it unchanged."""
    return None if value is None else str(valid_text(value)).replace("\0", "\ufffd")


def _plain(members: Json) -> bytes:
    try:
        return _sorted(members)
    except UnicodeEncodeError:
        return _sorted(valid_text(msgspec.to_builtins(members)))


def _refused(why: str) -> StoreError:
    return StoreError(why, "SERIALIZATION_ERROR")

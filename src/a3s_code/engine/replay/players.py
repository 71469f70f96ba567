"""Who plays model, tools and disk in a replay. In: a tape. Out: implementations of the ports.

One rule: a player gives what the tape holds next and does nothing itself: no network, no process, no file.
Known weakness: none known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal, cast

from a3s_code.core.content import AttachmentRef, JsonObject, Reasoning, Verdict
from a3s_code.core.delta import CallDelta, ModelDelta
from a3s_code.core.evidence import EVIDENCE
from a3s_code.core.facts import CallJudged, ModelTurn, RunClosed, ToolResulted
from a3s_code.engine.replay.tape import Tape
from a3s_code.errors import LlmError
from a3s_code.ports.model import ModelRequest, ToolSpec
from a3s_code.ports.tool import Attachment, Tool, ToolCapabilities, ToolContext, ToolFailure, ToolOutput
from a3s_code.ports.toolbox import ArgumentCheck, RegisteredTool
from a3s_code.ports.workspace import Place, Workspace

_PARALLEL = ToolCapabilities(read_only=True, idempotent=True, max_parallelism=2)
_KIND_OF_OUTCOME = {"denied": "permission_denied", "blocked": "duplicate_call", "cancelled": "cancelled"}


class PlayedModel:
    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        match self._tape.next:
            case ModelTurn(source="model") as turn:
                for delta in _deltas(turn):
                    yield delta
            case RunClosed(error=error) if error is not None and error.code == "LLM_ERROR":
                raise LlmError(error.message)
            case _:
                raise self._tape.left(f"the loop asks the model for turn {request.turn}")


def _deltas(turn: ModelTurn) -> Iterator[ModelDelta]:
    for block in turn.reasoning:
        yield _thought(block)
    yield ModelDelta(text=turn.text)
    for index, call in enumerate(turn.calls):
        arguments = call.args if call.raw is None else call.raw
        yield ModelDelta(call=CallDelta(index, call.id, call.name, arguments))
    yield ModelDelta(usage=turn.usage, finish=turn.finish, model=turn.model)


def _thought(block: Reasoning) -> ModelDelta:
    if block.redacted:
        return ModelDelta(redacted=block.redacted)
    return ModelDelta(reasoning=block.text, reasoning_field=block.field, signature=block.signature)


class PlayedTools:
    """A toolbox in which every name is known: what was unknown then has that verdict on record."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def get(self, name: str) -> RegisteredTool | None:
        return RegisteredTool(name, cast(Tool, _PlayedTool(name, self._tape)), self._check(name))

    def names(self) -> list[str]:
        return []

    def specs(self) -> tuple[ToolSpec, ...]:
        return ()

    def near(self, name: str) -> list[str]:
        return []

    def _check(self, name: str) -> ArgumentCheck:
        def check(args: object) -> tuple[JsonObject | None, str | None]:
            given = cast(JsonObject, args)
            refused = self._tape.refusal(self._tape.call(name, given))
            if refused is not None and not _by_workspace(refused):
                return None, refused.output
            return given, None

        return check

    def judge(self, name: str, args: JsonObject) -> Verdict:
        """The recorded verdict; of the second look when that is what comes next."""
        call = self._tape.call(name, args)
        judged = self._tape.next
        if isinstance(judged, CallJudged) and (judged.call == call.id or judged.args == args):
            return judged.verdict
        return call.verdict


class _PlayedTool:
    description = ""

    def __init__(self, name: str, tape: Tape) -> None:
        self.name = name
        self.parameters: JsonObject = {}
        self._tape = tape

    def capabilities(self, args: JsonObject) -> ToolCapabilities:
        call = self._tape.call(self.name, args)
        started = self._tape.starts.get(call.id)
        if call.parallel or started is None:
            return _PARALLEL if call.parallel else ToolCapabilities()
        return ToolCapabilities(
            read_only=started.read_only, idempotent=started.rerun == "safe" and not started.read_only
        )

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolOutput:
        result = await self._tape.result(ctx.invocation_id)
        attachments = tuple([Attachment(ref.media_type, ref.sha256.encode()) for ref in result.attachments])
        return ToolOutput(result.output, result.exit_code, result.metadata, _kind(result), attachments)


def _kind(result: ToolResulted) -> str | None:
    """The error kind that leads to the recorded outcome."""
    if result.outcome == "ok":
        return None
    error = result.metadata.get("error")
    said = error.get("type") if isinstance(error, dict) else None
    if isinstance(said, str):
        return said
    return _KIND_OF_OUTCOME.get(result.outcome, None if result.exit_code else "internal")


def _by_workspace(refused: ToolResulted) -> bool:
    """Whether a call was refused for its path: what the argument check says has a type and a message only."""
    error = refused.metadata.get("error")
    return not isinstance(error, dict) or error.get("type") != "invalid_argument" or len(error) > 2


class _Places:
    """The only thing that is asked of a workspace in a replay."""

    root = "/"

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def locate(self, path: str) -> Place:
        turn = self._tape.turn
        for call in turn.calls if turn else ():
            refused = self._tape.refusal(call) if call.args.get("file_path") == path else None
            if refused is not None and _by_workspace(refused):
                raise _failure(refused)
        return Place(path, path)


def _failure(refused: ToolResulted) -> ToolFailure:
    """The failure that gives this result again, member by member."""
    metadata = dict(refused.metadata)
    metadata.pop(EVIDENCE, None)  # made again
    error = metadata.pop("error", None)
    detail = dict(error) if isinstance(error, dict) else {}
    kind = str(detail.pop("type", "internal"))
    detail.pop("message", None)
    return ToolFailure(kind, refused.output, exit_code=refused.exit_code, detail=detail, metadata=metadata)


def played_workspace(tape: Tape) -> Workspace:
    return cast(Workspace, _Places(tape))  # played tools open nothing


class PlayedBlobs:
    """An attachment's digest stands for its bytes."""

    def __init__(self, tape: Tape) -> None:
        self._refs = {ref.sha256: ref for result in tape.results.values() for ref in result.attachments}

    def put(self, data: bytes, kind: Literal["image", "text"], media_type: str, name: str = "") -> AttachmentRef:
        return self._refs[data.decode()]

    def load(self, ref: AttachmentRef) -> bytes:
        return b""


class PlayedTime:
    """Clock and chance: the recorded duration of the call that ends, and nothing to wait for."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.now_ms = tape.now_ms
        self.new_id = tape.new_id

    def monotonic(self) -> float:
        return self._tape.seconds()

    async def sleep(self, seconds: float) -> None:
        """No time passes."""

    def jitter(self) -> float:
        return 0.0


class Inline:
    """Callbacks in the loop's own thread, as nothing blocks here."""

    async def call_host(self, fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

    async def call_within(self, seconds: float, fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

    def abandoned(self, fn: Callable[..., Any]) -> int:
        return 0

    async def in_thread(self, fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

"""The command ``a3s-code``. In: arguments. Out: what the command prints, and an exit code.

Exit codes: 0 good, 1 the run failed or something was found wrong, 2 bad usage or configuration, 130 interrupted.

One rule: each command is a module of its own, loaded when it is called; an error of the runtime is one sentence.
Known weakness: none known.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from a3s_code.errors import CodeError

EPILOG: Final = (
    "Without --config the file agent.acl or .a3s/agent.acl of the workspace is used, else OPENAI_API_KEY or "
    "ANTHROPIC_API_KEY, else the offline model."
)
_USAGE: Final = frozenset({"CONFIG_ERROR", "SESSION_CONFIGURATION_ERROR", "INVALID_REQUEST", "SESSION_MISMATCH"})
_WHAT_TO_DO: Final = {
    "SESSION_BUSY": "Wait until that has ended, or begin another session (leave --session out)",
    "CONTEXT_ERROR": "Ask again in the same session with a new prompt instead of --resume",
    "LLM_ERROR": "`a3s-code doctor` shows which keys are found",
    "INTERNAL_ERROR": "This is a fault of a3s-code: please report it",
}


def entry() -> None:
    """The script that is installed."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Runs one command and gives its exit code."""
    args = parser().parse_args(arguments)
    try:
        command = importlib.import_module(f"a3s_code.cli.{args.module}")
        code: int = command.go(args)
        sys.stdout.flush()
    except CodeError as error:
        print(told(error), file=sys.stderr)
        return 2 if error.code in _USAGE else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed at the exit
        return 141
    return code


def told(error: CodeError) -> str:
    """The error for a person: its code, what is wrong, and what to do."""
    advice = _WHAT_TO_DO.get(error.code)
    return f"a3s-code: {error.code}: {error}" + (f". {advice}." if advice else "")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="a3s-code", description="A coding agent whose every step is a fact in a log.", epilog=EPILOG
    )
    top.add_argument("--version", action="version", version=f"a3s-code {version('a3s-code-py')}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _run(commands.add_parser("run", help="send one prompt and watch the run", epilog=EPILOG))
    _chat(commands.add_parser("chat", help="talk to an agent", epilog=EPILOG))
    _sessions(commands.add_parser("sessions", help="list the sessions of a workspace"))
    _runs(commands.add_parser("runs", help="list the runs of a session"))
    _log(commands.add_parser("log", help="look at, check, mend or replay a session's log"))
    _doctor(commands.add_parser("doctor", help="what is found here, and what to do about what is missing"))
    return top


def _run(run: argparse.ArgumentParser) -> None:
    run.set_defaults(module="run")
    run.add_argument("prompt", nargs="?", help="what to do; - reads it from standard input")
    _where(run)
    _agent(run)
    run.add_argument("--json", action="store_true", help="print the events as JSON, one a line")
    run.add_argument("--resume", action="store_true", help="go on with the run of --session that was left open")
    run.add_argument(
        "--attach", metavar="FILE", action="append", default=[], help="a file or image for the prompt (repeatable)"
    )


def _chat(chat: argparse.ArgumentParser) -> None:
    chat.set_defaults(module="chat")
    _where(chat)
    _agent(chat)


def _sessions(sessions: argparse.ArgumentParser) -> None:
    sessions.set_defaults(module="listing", what="sessions")
    _where(sessions)
    sessions.add_argument("--json", action="store_true", help="one JSON object a session")


def _runs(runs: argparse.ArgumentParser) -> None:
    runs.set_defaults(module="listing", what="runs")
    runs.add_argument("session", help="the session's id, or its first letters")
    _where(runs)
    runs.add_argument("--json", action="store_true", help="one JSON object a run")


def _log(log: argparse.ArgumentParser) -> None:
    log.set_defaults(module="log")
    log.add_argument(
        "action",
        choices=("show", "verify", "repair", "replay"),
        help="show prints a line a fact; verify checks every line and sum; repair keeps what comes before the damage; "
        "replay runs the recorded turns and results through the loop again and compares every fact",
    )
    log.add_argument("log", help="a log file, or a session's id or its first letters")
    _where(log)
    log.add_argument("--json", action="store_true", help="show: the lines as they are in the file")


def _doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.set_defaults(module="doctor")
    _where(doctor)
    doctor.add_argument("--config", metavar="FILE", help="an ACL file")
    doctor.add_argument("--json", action="store_true", help="one JSON object")


def _where(command: argparse.ArgumentParser) -> None:
    command.add_argument("-w", "--workspace", metavar="DIR", default=".", help="the directory to work in (default: .)")


def _agent(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="PROVIDER/MODEL", help="a declared model (default: the configured one)")
    command.add_argument("--config", metavar="FILE", help="an ACL file")
    command.add_argument("--session", metavar="ID", help="go on with this session of the workspace")


if __name__ == "__main__":
    entry()

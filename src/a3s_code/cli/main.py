"""The command ``a3s-code``. In: arguments. Out: what the command prints, and an exit code.

Exit codes: 0 good, 1 the run failed or something was found wrong, 2 bad usage or configuration, 3 something
waits for an answer (``policy explain``: it asks), 4 denied (``policy explain``), 130 interrupted.

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
_PRESETS: Final = ("workspace", "read_only", "full")
_USAGE: Final = frozenset({"CONFIG_ERROR", "SESSION_CONFIGURATION_ERROR", "INVALID_REQUEST", "SESSION_MISMATCH"})
_WHAT_TO_DO: Final = {
    "SESSION_BUSY": "Wait until that has ended, or begin another session (leave --session out)",
    "CONTEXT_ERROR": "Give the options that the run began with (--policy, --model), or a prompt instead of --resume",
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
    _pending(commands.add_parser("pending", help="list what waits for an answer"))
    _answer(commands.add_parser("answer", help="answer what waits in a session"))
    _control(commands.add_parser("steer", help="give the run of a session a newer direction"), "steer")
    _control(commands.add_parser("interrupt", help="end the run of a session"), "interrupt")
    _control(commands.add_parser("passivate", help="have a session left by who holds it, for others"), "passivate")
    _policy(commands.add_parser("policy", help="what a policy decides about a command or a call, and why"))
    _sessions(commands.add_parser("sessions", help="list, show, delete, fork or export sessions"))
    _runs(commands.add_parser("runs", help="list the runs of a session"))
    _resume(commands.add_parser("resume", help="go on with the run of a session that was left open", epilog=EPILOG))
    _log(commands.add_parser("log", help="look at, check, mend or replay a session's log"))
    _store(commands.add_parser("store", help="check a session store, or bring it to this version"))
    _doctor(commands.add_parser("doctor", help="what is found here, and what to do about what is missing"))
    return top


def _run(run: argparse.ArgumentParser) -> None:
    run.set_defaults(module="run")
    run.add_argument("prompt", nargs="?", help="what to do; - reads it from standard input")
    _where(run)
    _agent(run)
    _store_name(run)
    run.add_argument("--json", action="store_true", help="print the events as JSON, one a line")
    run.add_argument("--resume", action="store_true", help="go on with the run of --session that was left open")
    run.add_argument(
        "--attach", metavar="FILE", action="append", default=[], help="a file or image for the prompt (repeatable)"
    )


def _chat(chat: argparse.ArgumentParser) -> None:
    chat.set_defaults(module="chat")
    _where(chat)
    _agent(chat)
    _store_name(chat)


def _pending(pending: argparse.ArgumentParser) -> None:
    pending.set_defaults(module="pending")
    pending.add_argument("session", nargs="?", help="only this session's: its id, or its first letters")
    _where(pending)
    pending.add_argument("--json", action="store_true", help="one JSON object a call or question")


def _answer(answer: argparse.ArgumentParser) -> None:
    answer.set_defaults(module="answer")
    answer.add_argument("session", help="the session's id, or its first letters")
    answer.add_argument("call", help="the call's id as `pending` lists it, or its first letters")
    answer.add_argument("answer", help="yes or no for a call; the text, or an option's number, for a question")
    answer.add_argument("--reason", metavar="TEXT", help="what the model is told with yes or no")
    _which_store(answer, beside_subcommands=False)
    _receipt(answer)


def _control(control: argparse.ArgumentParser, kind: str) -> None:
    control.set_defaults(module="control", kind=kind)
    control.add_argument("session", help="the session's id, or its first letters")
    if kind == "steer":
        control.add_argument("text", help="what it is told before the model is asked again")
    if kind == "passivate":
        control.add_argument("--deadline", metavar="SECONDS", type=float, help="interrupt a call that takes longer")
    _which_store(control, beside_subcommands=False)
    _receipt(control)


def _receipt(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wait", metavar="SECONDS", type=float, default=10.0, help="how long to wait for the holder (default: 10)"
    )
    command.add_argument("--json", action="store_true", help="the holder's receipt as one JSON object")


def _policy(policy: argparse.ArgumentParser) -> None:
    policy.set_defaults(module="policy")
    policy.add_argument("action", choices=("explain",), help="explain says what is decided, without running anything")
    policy.add_argument("call", metavar="CMD", help="a command line; with --tool its path, URL or JSON arguments")
    policy.add_argument("--tool", default="bash", metavar="NAME", help="the tool that is called (default: bash)")
    _where(policy)
    _which_policy(policy)
    policy.add_argument("--json", action="store_true", help="one JSON object")


def _sessions(sessions: argparse.ArgumentParser) -> None:
    """Without a subcommand it is ``list``; options stand before or behind one."""
    sessions.set_defaults(module="listing", what="sessions")
    _list(sessions, beside_subcommands=False)
    actions = sessions.add_subparsers(title="subcommands", metavar="SUBCOMMAND")
    listed = actions.add_parser("list", help="the sessions of a workspace and of a store (the default)")
    _list(listed, beside_subcommands=True)
    show = actions.add_parser("show", help="what there is of one session")
    show.set_defaults(module="show")
    delete = actions.add_parser("delete", help="delete sessions by their ids, or by age, number and size")
    _delete(delete)
    fork = actions.add_parser("fork", help="begin a session with a copy of another one's log")
    fork.set_defaults(module="fork")
    export = actions.add_parser("export", help="everything of one session as one JSON document")
    export.set_defaults(module="export")
    for command in (show, fork, export):
        command.add_argument("session", help="the session's id, or its first letters")
    for command in (show, delete, fork, export):
        _which_store(command, beside_subcommands=True)
    for command in (show, delete, fork):
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object")
    fork.add_argument("--at", metavar="SEQ", type=int, help="copy the facts up to this one (default: all)")
    fork.add_argument("--as", metavar="NEWID", dest="new_id", help="the new session's id (default: one is made)")
    export.add_argument("-o", metavar="FILE", dest="output", help="a file instead of the standard output")


def _list(command: argparse.ArgumentParser, *, beside_subcommands: bool) -> None:
    unset = argparse.SUPPRESS if beside_subcommands else None
    _which_store(command, beside_subcommands=beside_subcommands)
    command.add_argument("--tenant", metavar="ID", default=unset, help="only what the store has of this tenant")
    command.add_argument("--json", action="store_true", default=unset or False, help="one JSON object a session")


def _delete(delete: argparse.ArgumentParser) -> None:
    delete.set_defaults(module="delete")
    delete.add_argument("session", nargs="*", help="a session's id, or its first letters")
    delete.add_argument("--older-than", metavar="AGE", help="those unused for this long: 30d, 12h, 90m")
    delete.add_argument("--keep", metavar="N", type=int, help="all but the N that were used last")
    delete.add_argument("--max-bytes", metavar="SIZE", help="the oldest, until the rest takes no more: 500M, 2G")
    delete.add_argument("--tenant", metavar="ID", default=argparse.SUPPRESS, help="with these: only of this tenant")
    delete.add_argument("--dry-run", action="store_true", help="say what would be deleted")
    delete.add_argument("--yes", action="store_true", help="don't ask")
    delete.add_argument("--force", action="store_true", help="also with an open run")


def _resume(resume: argparse.ArgumentParser) -> None:
    resume.set_defaults(module="resume", prompt=None, attach=[], resume=True)
    resume.add_argument(
        "session", nargs="?", help="its id, or its first letters (default: the newest with an open run)"
    )
    _where(resume)
    _store_name(resume)
    _model(resume)
    _rights(resume)
    resume.add_argument("--json", action="store_true", help="print the events as JSON, one a line")


def _store(store: argparse.ArgumentParser) -> None:
    store.set_defaults(module="store")
    store.add_argument(
        "action",
        choices=("check", "migrate"),
        help="check reads every document and names what is damaged; migrate makes what is missing of the store",
    )
    _which_store(store, beside_subcommands=False)
    store.add_argument("--json", action="store_true", help="one JSON object")


def _which_store(command: argparse.ArgumentParser, *, beside_subcommands: bool) -> None:
    unset = argparse.SUPPRESS if beside_subcommands else None
    _where(command, unset or ".")
    _store_name(command, unset)
    command.add_argument("--config", metavar="FILE", default=unset, help="an ACL file")


def _store_name(command: argparse.ArgumentParser, unset: str | None = None) -> None:
    command.add_argument(
        "--store",
        metavar="STORE",
        default=unset,
        help="file:DIR, sqlite:PATH or postgresql://... (default: the configuration's)",
    )
    command.add_argument(
        "--store-key-env", metavar="NAME", default=unset, help="the variable that holds the key of file:DIR"
    )


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


def _where(command: argparse.ArgumentParser, unset: str = ".") -> None:
    command.add_argument(
        "-w", "--workspace", metavar="DIR", default=unset, help="the directory to work in (default: .)"
    )


def _agent(command: argparse.ArgumentParser) -> None:
    _model(command)
    command.add_argument("--session", metavar="ID", help="go on with this session of the workspace")
    _rights(command)


def _model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="PROVIDER/MODEL", help="a declared model (default: the configured one)")
    command.add_argument("--config", metavar="FILE", help="an ACL file")


def _rights(command: argparse.ArgumentParser) -> None:
    _which_policy(command)
    command.add_argument("--yes", action="store_true", help="approve everything that asks")
    command.add_argument(
        "--sandbox", choices=("native", "host"), help="host runs commands without a sandbox (default: native)"
    )


def _which_policy(command: argparse.ArgumentParser) -> None:
    choice = command.add_mutually_exclusive_group()
    choice.add_argument(
        "--policy",
        choices=_PRESETS,
        help="workspace: what stays inside it runs, the rest asks; read_only: nothing that changes anything; "
        "full: everything runs (default: workspace)",
    )
    choice.add_argument(
        "--policy-file", metavar="FILE", help="rules of your own: deny, ask, allow, default_decision, as ACL or JSON"
    )


if __name__ == "__main__":
    entry()

"""Session options (api.md, *SessionOptions*)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3s_code.api.option_checks import CHECKS
from a3s_code.api.options import HARMLESS_YET, NOT_YET, SessionOptions
from a3s_code.core.policy import ConfirmationPolicy, PermissionPolicy
from a3s_code.core.retention import SessionRetentionLimits
from a3s_code.errors import SessionConfigurationError
from a3s_code.ports.clock import HostEnvConfig

SPEC_DEFAULTS = {
    "llm_api_timeout_ms": 120000,
    "circuit_breaker_threshold": 3,
    "planning_mode": "auto",
    "goal_tracking": False,
    "max_tool_rounds": 50,
    "tool_budget": 8,
    "step_limit": 32,
    "max_parse_retries": 2,
    "tool_timeout_ms": None,
    "duplicate_tool_call_threshold": 3,
    "max_execution_time_ms": None,
    "continuation_enabled": True,
    "max_continuation_turns": 3,
    "auto_compact": False,
    "auto_compact_threshold": 0.80,
    "budget_guard_timeout_ms": 5000,
    "sandbox": "native",
    "allow_process_host_sandbox": False,
    "sandbox_writable": None,
    "credential_policy": "ask",
    "completion_gate": "report",
    "verifier_enabled": False,
    "enforce_active_skill_tool_restrictions": False,
    "auto_save": False,
    "auto_recall": True,
    "log_durability": "fsync",
    "unknown_outcome": "run",
    "discover_agent_dirs": True,
    "auto_parallel": True,
    "max_parallel_tasks": 4,
    "manual_delegation_enabled": True,
    "task_priority": "interactive",
}

WRONG = [
    ("max_tool_rounds", "3", "`int`, got '3'"),
    ("max_tool_rounds", True, "got True"),
    ("max_tool_rounds", -1, ">= 0, got -1"),
    ("step_limit", 0, ">= 1"),
    ("llm_api_timeout_ms", 0, ">= 1"),
    ("budget_guard_timeout_ms", 0, ">= 1"),
    ("tool_timeout_ms", 0, ">= 1"),
    ("max_execution_time_ms", 0, ">= 1"),
    ("tool_budget", 1.5, "got 1.5"),
    ("temperature", float("nan"), "got nan"),
    ("temperature", 3, "<= 2"),
    ("goal_tracking", 1, "got 1"),
    ("session_id", "", "non-blank"),
    ("session_id", "\ud800", "surrogates"),
    ("model", 3, "got 3"),
    ("llm_client", object(), "stream()"),
    ("role", b"x", "string"),
    ("extra", "é" * 16385, "32768 bytes, got 32770"),
    ("output_language", "not a tag", "BCP-47"),
    ("prompt_slots", {"rol": "x"}, "did you mean 'role'"),
    ("prompt_slots", {"role": 3}, "got 3"),
    ("user_instructions_dir", 3, "a path"),
    ("project_doc_fallback_filenames", "AGENT.md", "array"),
    ("planning_mode", "maybe", "'auto', 'enabled' or 'disabled'"),
    ("sandbox", "docker", "'native' or 'host'"),
    ("log_durability", "none", "'fsync' or 'os'"),
    ("unknown_outcome", None, "'run', 'ask' or 'report'"),
    ("retention_limits", {"maxRunsRetaind": 1}, "did you mean 'max_runs_retained'"),
    ("retention_limits", {"max_runs_retained": -1}, "'max_runs_retained': Expected `int` >= 0, got -1"),
    ("retention_limits", 7, "SessionRetentionLimits or a mapping"),
    ("confirmation_policy", {"timeout_action": "explode"}, "'reject'"),
    ("confirmation_policy", {"yolo_lanes": ["fast"]}, "'yolo_lanes'"),
    ("confirmation_policy", True, "got True"),
    ("permission_policy", "some", "'full' or 'read_only'"),
    ("permission_policy", {"deny": ["bash("]}, "malformed"),
    ("permission_policy", PermissionPolicy(deny=["bash()"]), "malformed"),
    ("permission_policy", PermissionPolicy(default_decision="maybe"), "'default_decision'"),  # type: ignore[arg-type]  # wrong on purpose
    ("permission_policy", PermissionPolicy(deny="bash"), "'deny'"),
    ("host_env", {"fixed_time": 1}, "did you mean 'fixed_time_ms'"),
    ("host_env", 3, "HostEnvConfig"),
    ("tools", [3], "got 3"),
    ("tools", "bash", "list"),
]


def test_every_field_has_a_check_and_the_documented_default() -> None:
    """The annotations, the checks and the defaults of api.md name the same fields."""
    annotated = set(SessionOptions.__annotations__) - {"fields"}
    assert annotated == set(CHECKS)
    assert {name: getattr(SessionOptions(), name) for name in SPEC_DEFAULTS} == SPEC_DEFAULTS
    assert set(NOT_YET) <= annotated
    assert set(HARMLESS_YET) <= set(NOT_YET)


def test_fields_are_attributes_and_keyword_arguments() -> None:
    """A field can be given either way, and set later."""
    options = SessionOptions(max_tool_rounds=3)
    options.model = "p/m"
    assert options == SessionOptions(model="p/m", max_tool_rounds=3)
    assert options.given() == {"max_tool_rounds": 3, "model": "p/m"}
    assert repr(options) == "SessionOptions(max_tool_rounds=3, model='p/m')"


MISSPELT: dict[str, Callable[[Any], Any]] = {
    "argument": lambda options: type(options)(permisson_policy="full"),
    "set": lambda options: setattr(options, "permisson_policy", "full"),
    "get": lambda options: options.permisson_policy,
    "override": lambda options: options.merged({"permisson_policy": "full"}),
}


@pytest.mark.parametrize("use", MISSPELT.values(), ids=MISSPELT)
def test_unknown_attribute_suggests_the_nearest_name(use: Callable[[Any], Any]) -> None:
    """A misspelt option is an AttributeError that names the right one, wherever it is used (case E15)."""
    with pytest.raises(AttributeError, match="did you mean 'permission_policy'"):
        use(SessionOptions())


@pytest.mark.parametrize(("field", "value", "said"), WRONG)
def test_wrong_value_is_refused_naming_field_expected_and_got(field: str, value: Any, said: str) -> None:
    """Every wrong type or range is a SESSION_CONFIGURATION_ERROR that names the field."""
    with pytest.raises(SessionConfigurationError) as caught:
        SessionOptions(**{field: value}).validate()
    assert caught.value.code == "SESSION_CONFIGURATION_ERROR"
    assert f"'{field}'" in str(caught.value)
    assert said in str(caught.value)


@given(
    st.sampled_from(sorted(CHECKS)),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.lists(st.text())
    | st.dictionaries(st.text(), st.text()),
)
def test_no_value_gets_another_error(field: str, value: Any) -> None:
    """Whatever is given, it is accepted or refused as a configuration error, never anything else."""
    options = SessionOptions(**{field: value})
    try:
        checked = options.validate()
    except SessionConfigurationError as error:
        assert field in str(error)  # noqa: PT017  both outcomes are right
    else:
        assert checked.validate() == checked


def test_long_wrong_values_are_not_repeated() -> None:
    """A message shows only the beginning of what was given."""
    with pytest.raises(SessionConfigurationError) as caught:
        SessionOptions(max_tool_rounds="s" * 5000).validate()  # type: ignore[arg-type]  # wrong on purpose
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("field", sorted(NOT_YET))
def test_features_of_later_versions_are_refused_by_name(field: str) -> None:
    """Asking for what this version lacks says so, and is never ignored (case E15)."""
    value: Any = {
        "credential_policy": "deny",
        "completion_gate": "require",
        "task_priority": "urgent",
        "max_parallel_tasks": 2,
        "budget_guard": type("Guard", (), {"check_before_llm": lambda *_: None})(),
        "security_provider": type("Security", (), {"sanitize": lambda *_: ""})(),
    }.get(field, True if isinstance(getattr(SessionOptions, field), bool | None) else ["x"])
    with pytest.raises(SessionConfigurationError, match="not available in this version"):
        SessionOptions(**{field: value}).validate()


@pytest.mark.parametrize("field", sorted(NOT_YET))
def test_their_defaults_are_accepted(field: str) -> None:
    """Saying the default aloud, or turning off what does not exist, is no error."""
    for value in (getattr(SessionOptions, field), *HARMLESS_YET.get(field, ())):
        SessionOptions(**{field: value}).validate()


def test_planning_loses_to_planning_mode() -> None:
    """``planning`` is another name for the mode, and counts only when no mode is given."""
    assert not SessionOptions(planning=True, planning_mode="disabled").validate().plans()
    assert SessionOptions(planning=True).validate().plans()
    assert SessionOptions(planning=False, planning_mode="enabled").validate().plans()


def test_mappings_become_typed_objects_in_either_spelling() -> None:
    """camelCase and snake_case keys are the same; what is left out keeps its default."""
    checked = SessionOptions(
        retention_limits={"maxRunsRetained": 2},
        confirmation_policy={"default_timeout_ms": 5, "yoloLanes": ["query"]},
        permission_policy={"deny": ["bash"], "defaultDecision": "allow"},
        host_env={"fixedTimeMs": 7},
    ).validate()
    assert checked.retention() == SessionRetentionLimits(max_runs_retained=2)
    assert checked.confirmations() == ConfirmationPolicy(default_timeout_ms=5, yolo_lanes=("query",))
    assert list(checked.permissions().deny) == ["bash"]
    environment = checked.environment()
    assert environment is not None
    assert environment.fixed_time_ms == 7


def test_whole_options_may_be_a_mapping() -> None:
    """A mapping stands for options; an unknown key names itself and the nearest one."""
    assert SessionOptions.of({"maxToolRounds": 2}) == SessionOptions(max_tool_rounds=2)
    assert SessionOptions.of(None) == SessionOptions()
    with pytest.raises(SessionConfigurationError, match=r"'maxToolRound' \(did you mean 'max_tool_rounds'\?\)"):
        SessionOptions.of({"maxToolRound": 2})
    with pytest.raises(SessionConfigurationError, match="mapping"):
        SessionOptions.of(3)  # type: ignore[arg-type]  # wrong on purpose


def test_overrides_win_and_leave_the_original_alone() -> None:
    """``merged`` gives a new object."""
    options = SessionOptions(model="a", step_limit=5)
    assert options.merged({"model": "b"}).given() == {"model": "b", "step_limit": 5}
    assert options.model == "a"


def test_the_callers_objects_are_kept_where_identity_counts() -> None:
    """A host environment counts ids in the object that the host holds; tools are the host's own."""
    env = HostEnvConfig("p")

    def tool(path: str) -> str:
        return path

    checked = SessionOptions(host_env=env, tools=[tool]).validate()
    assert checked.environment() is env
    assert list(checked.tools) == [tool]


def test_blank_slots_are_absent_and_a_slots_own_option_wins() -> None:
    """Blank text means nothing was said; ``prompt_slots`` fills what has no option of its own."""
    checked = SessionOptions(role="  ", extra="end", prompt_slots={"role": "pilot", "extra": "x"}).validate()
    slots = checked.slots()
    assert (slots["role"], slots["extra"], slots["guidelines"]) == ("pilot", "end", None)


@pytest.mark.parametrize("tag", ["de", "pt-BR", "zh-Hant-TW", "x-klingon", "en-US-u-ca-buddhist"])
def test_language_tags_are_accepted(tag: str) -> None:
    """Well-formed BCP-47 tags pass."""
    assert SessionOptions(output_language=tag).validate().output_language == tag


def test_compaction_threshold_is_clamped() -> None:
    """The threshold is moved into 0.05 to 1.0."""
    assert SessionOptions(auto_compact_threshold=7).validate().auto_compact_threshold == 1.0
    assert SessionOptions(auto_compact_threshold=0.0).validate().auto_compact_threshold == 0.05


def test_paths_may_be_path_objects() -> None:
    """A ``Path`` is as good as a string."""
    assert SessionOptions(user_instructions_dir=Path("/x")).validate().user_instructions_dir == "/x"

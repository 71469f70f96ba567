"""Public events: their names and their envelope."""

from __future__ import annotations

from a3s_code.core.events.catalogue import AGENT_EVENT_TYPES_V1, EventType, agent_event_types_v1
from a3s_code.core.events.envelope import AgentEvent, merge, mergeable

__all__ = ["AGENT_EVENT_TYPES_V1", "AgentEvent", "EventType", "agent_event_types_v1", "merge", "mergeable"]

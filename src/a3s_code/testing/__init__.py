"""What users test with. In: scripts. Out: a model that follows them, and time and ids that stand still."""

from a3s_code.testing.clock import JumpingClock, SequentialEntropy, fixed_time
from a3s_code.testing.scripted import ScriptedModel
from a3s_code.testing.turns import Piece, Turn, call, calls, cut, delay, error, text, thought, turn

__all__ = [
    "JumpingClock",
    "Piece",
    "ScriptedModel",
    "SequentialEntropy",
    "Turn",
    "call",
    "calls",
    "cut",
    "delay",
    "error",
    "fixed_time",
    "text",
    "thought",
    "turn",
]

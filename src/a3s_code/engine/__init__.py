"""The shell around the core: it performs steps and appends the facts that record what came of them.

Where to look: ``driver`` is the only loop, ``a3s_code.core.decide.next_step`` chooses, ``perform`` sends each step to
its doer, ``writer`` is the only appender.
"""

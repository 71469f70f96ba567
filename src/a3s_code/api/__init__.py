"""The public API: Agent, Session, options, results, streams. ``wiring`` puts the parts together."""

"""A runtime for coding agents whose every step is a fact in an append-only log."""

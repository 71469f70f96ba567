"""The sandbox for commands (tools.md §3.7).

``policy`` says what a command may touch, ``bubblewrap`` (with ``seccomp``) and ``seatbelt`` turn that into a command
line, ``placeholders`` hold the place of protected names that don't exist, ``session`` puts them together.
"""

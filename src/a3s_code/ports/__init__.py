"""Protocols between the engine and everything that touches the world. One port a file."""

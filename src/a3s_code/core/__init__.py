"""The pure core: facts are folded to a view, the view and the rules give the next step.

One rule: no I/O, clock, chance, event loop or logging in this package.
"""

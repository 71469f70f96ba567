"""The kernel: the one way of every invocation, whoever asked for it (tools.md §2).

``admission`` holds the steps before anything happens, ``execute`` the call itself, ``kernel`` puts them in order.
"""

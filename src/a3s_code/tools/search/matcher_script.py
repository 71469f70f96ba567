"""The program that tries an expression apart. In, on standard input: a line of JSON (``pattern``, ``flags``, and the
``sizes`` of the texts in bytes), then the texts. Out: a line for each text, ``1`` for a line that matches, else ``0``.

One rule: it needs nothing but the standard library and may be killed at any time.
Known weakness: none known.
"""

import json
import re
import sys


def main() -> None:
    source, target = sys.stdin.buffer, sys.stdout
    asked = json.loads(source.readline())
    search = re.compile(asked["pattern"], asked["flags"]).search
    for size in asked["sizes"]:
        lines = source.read(size).decode().split("\n")
        target.write("".join("1" if search(line) else "0" for line in lines) + "\n")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Turns C and C++ text into the same number of lines without comments and without what literals hold."""

import re

# One of these at a time, leftmost first: a quote within a comment is no string and the other way round.
_TOKEN = re.compile(
    r"""
      (?P<line_comment>//(?:[^\n\\]|\\.|\\\n)*)
    | (?P<block_comment>/\*.*?(?:\*/|\Z))
    | (?P<raw>(?:u8|u|U|L)?R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)")
    | (?P<string>"(?:[^"\\\n]|\\.|\\\n)*")
    | (?P<number>\b\d(?:'?[\w.])*)
    | (?P<character>'(?:[^'\\\n]|\\.)+')
    """,
    re.VERBOSE | re.DOTALL)


def _blank(match: re.Match) -> str:
    kind = match.lastgroup if match.lastgroup != "mark" else "raw"
    text = match.group(0)
    lines = "\n" * text.count("\n")
    if kind == "number":
        return text.replace("'", "")
    if kind in ("line_comment", "block_comment"):
        return " " + lines
    return ('""' if kind in ("raw", "string") else "0") + lines


def without_literals(text: str) -> str:
    """Comments become spaces, strings `""`, characters `0`. Includes keep their names."""
    parts = []
    for line in re.split(r"(?m)^([ \t]*#[ \t]*include[^\n]*\n)", text):
        parts.append(line)
    # Odd parts are the include lines that the pattern caught; their quotes name files.
    return "".join(part if index % 2 else _TOKEN.sub(_blank, part) for index, part in enumerate(parts))


def without_preprocessor(text: str) -> str:
    """Directives become empty lines, and of `#if ... #else ... #endif` only the first branch stays."""
    result = []
    hidden: list[bool] = []
    continued = False
    for line in text.split("\n"):
        stripped = line.lstrip()
        if continued or stripped.startswith("#"):
            if not continued:
                _enter_directive(stripped[1:].lstrip(), hidden)
            continued = line.rstrip().endswith("\\")
            result.append("")
            continue
        result.append("" if any(hidden) else line)
    return "\n".join(result)


def _enter_directive(directive: str, hidden: list[bool]) -> None:
    if directive.startswith("if"):
        hidden.append(False)
    elif directive.startswith(("else", "elif")) and hidden:
        hidden[-1] = True
    elif directive.startswith("endif") and hidden:
        hidden.pop()

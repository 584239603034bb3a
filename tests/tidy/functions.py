# SPDX-License-Identifier: Apache-2.0
"""Finds functions and their lengths in C, C++, Python and bash."""

import ast
import re
from dataclasses import dataclass

from source_text import without_literals, without_preprocessor
from tree import SourceFile


@dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    lines: int


def functions_of(file: SourceFile) -> list[Function]:
    if file.kind == "cpp":
        return cpp_functions(file.text)
    if file.kind == "python":
        return python_functions(file.text)
    if file.kind == "bash":
        return bash_functions(file.text)
    return []


def python_functions(text: str) -> list[Function]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1))
    return found


def bash_functions(text: str) -> list[Function]:
    """A function ends at the brace in the column where its definition began."""
    found = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        match = re.match(r"(\s*)(?:function\s+)?([\w:-]+)\s*\(\)\s*[{(]\s*(?:#.*)?$", line)
        if not match:
            continue
        closing = re.compile(re.escape(match.group(1)) + r"[})]")
        end = next((at for at in range(index + 1, len(lines)) if closing.match(lines[at])), len(lines) - 1)
        found.append(Function(match.group(2), index + 1, end - index + 1))
    return found


_WORDS_BEFORE_BODY = {"const", "noexcept", "override", "final", "try", "mutable", "volatile", "constexpr"}
_TYPE_HEAD = re.compile(r"^(?:typedef\s+|template\s*|export\s+|static\s+|constexpr\s+|const\s+)*"
                        r"(?:class|struct|union|enum)\b")
_SCOPE_HEAD = re.compile(r"^(?:inline\s+)?namespace\b|^extern\s*\"\"$")


def cpp_functions(text: str) -> list[Function]:
    """Bodies at namespace or class level; what stands inside a function counts as its lines."""
    return _Scanner(without_preprocessor(without_literals(text))).functions()


class _Scanner:
    """Walks over the text once. `head` is what stands between the last end of a declaration and a brace."""

    def __init__(self, text: str):
        self.text = text
        self.found: list[Function] = []
        self.value_end = -1

    def functions(self) -> list[Function]:
        position = head = parentheses = 0
        while position < len(self.text):
            character = self.text[position]
            if character in "([":
                parentheses += 1
            elif character in ")]":
                parentheses = max(0, parentheses - 1)
            elif character == "{":
                position, head = self._open(position, head, parentheses)
                continue
            elif character in ";}" and parentheses == 0:
                head = position + 1
            elif character == ":" and re.search(r"\b(public|private|protected)\s*$", self.text[head:position]):
                head = position + 1
            position += 1
        return self.found

    def _open(self, brace: int, head: int, parentheses: int) -> tuple[int, int]:
        """Returns where to go on and where the next head begins."""
        kind = "value" if parentheses else self._kind(self.text[head:brace])
        if self.value_end > head and not parentheses and not self.text[self.value_end:brace].strip():
            kind = "body"  # Behind a constructor's last initializer: `: a_{x} {`.
        if kind == "scope":
            return brace + 1, brace + 1
        end = self._closing(brace)
        if kind == "body":
            self._record(head, end)
            return end + 1, end + 1
        self.value_end = end + 1
        return end + 1, head

    def _kind(self, head: str) -> str:
        """scope: declarations follow; body: a function's; value: an initializer, the head goes on behind it."""
        plain = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.DOTALL)
        plain = _without_angles(plain).strip()
        if _SCOPE_HEAD.match(plain) or not plain:
            return "scope"
        if "(" not in plain:
            return "scope" if _TYPE_HEAD.match(plain) else "value"
        tail = plain[plain.rindex(")") + 1:].strip() if ")" in plain else plain
        if not tail or tail.startswith("->") or set(re.findall(r"\w+", tail)) <= _WORDS_BEFORE_BODY:
            return "value" if tail.endswith("=") else "body"
        if re.match(r"(?:(?:const|noexcept|override|final|mutable|&&?)\s*)*(?:->|requires\b)", tail):
            return "body"
        return "value"

    def _closing(self, brace: int) -> int:
        depth = 0
        for match in re.compile(r"[{}]").finditer(self.text, brace):
            depth += 1 if match.group() == "{" else -1
            if depth == 0:
                return match.start()
        return len(self.text) - 1

    def _record(self, head: int, end: int) -> None:
        text = self.text[head:end]
        start = head + len(text) - len(text.lstrip())
        first = self.text.count("\n", 0, start) + 1
        last = self.text.count("\n", 0, end) + 1
        name = re.search(r"([\w:]*operator\s*[^\s\w(]+|[~\w:]+)\s*\(", self.text[start:end])
        self.found.append(Function(name.group(1) if name else "lambda", first, last - first + 1))


def _without_angles(text: str) -> str:
    """Removes template arguments, innermost first, so that their parentheses count for nothing."""
    text = text.replace("->", "\x00").replace("<<", "  ").replace("<=", "  ").replace(">=", "  ")
    previous = None
    while previous != text:
        previous = text
        text = re.sub(r"<[^<>;{}]*>", " ", text)
    return text.replace("\x00", "->")

# SPDX-License-Identifier: Apache-2.0
"""The public names of a module and their parameters, read off its source: not all of comfy_aimdo can be imported when it
matters, since that would import torch."""

from __future__ import annotations

import ast

# Name -> parameters, those with a default end in "="; None: not a function. What is in a class has its name before a dot.
Surface = dict[str, "list[str] | None"]


def surface(text: str) -> Surface:
    found: Surface = {}
    _add(found, ast.parse(text).body, "")
    return {name: value for name, value in found.items()
            if not name.startswith("_") and (not name.rpartition(".")[2].startswith("_") or name.endswith(("__init__", "__del__")))}


def missing(theirs: Surface, ours: Surface) -> set[str]:
    """Names of theirs that ours doesn't have, or not so."""
    different = set()
    for name, parameters in theirs.items():
        mine = ours.get(name, "missing")
        if mine == "missing" or (isinstance(parameters, list) and isinstance(mine, list) and not fits(parameters, mine)):
            different.add(name)
    return different


def fits(theirs: list[str], ours: list[str]) -> bool:
    """Every call of theirs is one of ours: same names in the same order, and what we have more has a default."""
    same = all(one.rstrip("=") == other.rstrip("=") and (other.endswith("=") or not one.endswith("="))
               for one, other in zip(theirs, ours))
    return same and len(ours) >= len(theirs) and all(name.endswith("=") for name in ours[len(theirs):])


def _add(found: Surface, body: list[ast.stmt], prefix: str) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
            found[prefix + node.name] = None if is_property else _parameters(node.args)
        elif isinstance(node, ast.ClassDef):
            found[prefix + node.name] = None
            _add(found, node.body, f"{node.name}.")
        elif isinstance(node, ast.Assign):
            found.update({prefix + target.id: None for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[prefix + node.target.id] = None


def _parameters(given: ast.arguments) -> list[str]:
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    plain = len(names) - len(given.defaults)
    found = [name if index < plain else f"{name}=" for index, name in enumerate(names)]
    return [*found, *(f"{one.arg}=" for one in given.kwonlyargs)]

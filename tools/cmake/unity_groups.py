#!/usr/bin/env python3
"""Prints which sources of a target are compiled together, as lines "GROUP FILE".

    unity_groups.py LINES FILE...     LINES: how long a group may be; FILE: the target's sources, in their order

Sources in one translation unit share their headers and template instances, which are most of what a compiler does
here. They also share their file-local names: a name that two files declare for themselves (in an anonymous namespace,
as static, or as a macro) keeps these files apart. The names are read off the text, which relies on the layout that
.clang-format gives: what is declared in a namespace begins in the first column.
"""

from __future__ import annotations

import pathlib
import re
import sys

OPENS = re.compile(r"^namespace \{")
CLOSES = re.compile(r"^\}  // namespace$")
ALIAS = re.compile(r"^(?:using|namespace) (\w+) = ")
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union|concept) (\w+)")
FUNCTION = re.compile(r"(?<!::)\b(\w*[a-z]\w*)\(")  # not a macro's call
CONSTANT = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[\])?\s*(?:=|\{|\(|;|$)")
MACRO = re.compile(r"^#define (\w+)", re.M)


def without_contents(line: str) -> str:
    """The line without what stands between brackets."""
    depth, text = 0, []
    for c in line:
        depth -= c in ")}>]"
        if depth == 0:
            text.append(c)
        depth += c in "({<["
    return "".join(text)


def declared(line: str) -> list[str]:
    """The names that a line in the first column declares."""
    if kind := TYPE.match(line):
        return [kind.group(1)]
    outline = without_contents(line)
    if line.startswith(("const", "static const", "inline const")):
        found = [CONSTANT.search(part) for part in outline.split(",")]
        return [f.group(1) for f in found if f]
    found = FUNCTION.search(outline)
    return [found.group(1)] if found else []


def local_names(text: str) -> dict[str, str]:
    """Each with the text of its declaration where others may repeat it word by word (an alias), else with nothing."""
    names = dict.fromkeys(MACRO.findall(text), "")
    inside = False
    for line in text.splitlines():
        if OPENS.match(line):
            inside = True
        elif CLOSES.match(line):
            inside = False
        elif alias := ALIAS.match(line):
            names[alias.group(1)] = line
        elif re.match(r"(?!using|namespace|template)[A-Za-z]", line) and (inside or line.startswith("static ")):
            names.update(dict.fromkeys(declared(line), ""))
    return names


def may_join(taken: dict[str, str], names: dict[str, str]) -> bool:
    return all(taken[n] == text != "" for n, text in names.items() if n in taken)


def groups(limit: int, files: list[str]) -> list[list[str]]:
    """First fit: each file joins the first group that has room and in which its names are free."""
    made: list[tuple[list[str], dict[str, str], int]] = []
    for file in files:
        text = pathlib.Path(file).read_text(encoding="utf-8")
        names, lines = local_names(text), text.count("\n")
        for i, (members, taken, length) in enumerate(made):
            if length + lines <= limit and may_join(taken, names):
                made[i] = ([*members, file], taken | names, length + lines)
                break
        else:
            made.append(([file], names, lines))
    return [members for members, _, _ in made]


def main() -> None:
    for i, members in enumerate(groups(int(sys.argv[1]), sys.argv[2:])):
        for file in members:
            print(i, file)


if __name__ == "__main__":
    main()

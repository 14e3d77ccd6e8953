#!/usr/bin/env python3
"""Prints which sources of a target are compiled together, as lines "GROUP FILE".

    unity_groups.py LINES FILE...     LINES: how long a group may be; FILE: the target's sources, in their order

Sources in one translation unit share their headers and template instances, which are most of what a compiler does
here. They also share their file-local names: a name that two files declare for themselves (in an anonymous namespace,
as static, or as a macro) keeps these files apart, and so does one that a file declares for itself and another one uses
in another meaning. The names are read off the text, which relies on the layout that .clang-format gives: what is
declared in a namespace begins in the first column.
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
CONSTANTS = ("const", "static const", "inline const")
NO_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')  # comments and texts
CALL = re.compile(r"(?<![\w.:>])(\w+)\(")  # of no member, and without a namespace
WORD = re.compile(r"(?<![\w.:>])([a-z]\w+)\b")


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
    if line.startswith(CONSTANTS):
        found = [CONSTANT.search(part) for part in outline.split(",")]
        return [f.group(1) for f in found if f]
    found = FUNCTION.search(outline)
    return [found.group(1)] if found else []


class Source:
    """What matters of a source to others of its group."""

    def __init__(self, path: str) -> None:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.path = path
        self.lines = text.count("\n")
        # Each with the text of its declaration where others may repeat it word by word (an alias), else with nothing.
        self.names: dict[str, str] = dict.fromkeys(MACRO.findall(text), "")
        self.functions: set[str] = set()
        self.types: set[str] = set()
        self._read(text)
        code = NO_CODE.sub("", text)
        self.calls = set(CALL.findall(code)) - self.names.keys()
        self.words = set(WORD.findall(code)) - self.names.keys()

    def _read(self, text: str) -> None:
        inside = False
        for line in text.splitlines():
            if OPENS.match(line):
                inside = True
            elif CLOSES.match(line):
                inside = False
            elif alias := ALIAS.match(line):
                self.names[alias.group(1)] = line
            elif re.match(r"(?!using|namespace|template)[A-Za-z]", line) and (inside or line.startswith("static ")):
                found = declared(line)
                self.names.update(dict.fromkeys(found, ""))
                if TYPE.match(line):
                    self.types.update(found)
                elif not line.startswith(CONSTANTS):
                    self.functions.update(found)

    def hides(self, other: Source) -> bool:
        """Whether the other one means something else by a name that this one declares for itself."""
        return bool(self.functions & other.calls or self.types & other.words)

    def may_join(self, other: Source) -> bool:
        same = self.names.keys() & other.names.keys()
        if any(self.names[n] != other.names[n] or not self.names[n] for n in same):
            return False
        return not self.hides(other) and not other.hides(self)


def groups(limit: int, files: list[str]) -> list[list[str]]:
    """First fit: each file joins the first group that has room, and whose members it may join."""
    made: list[list[Source]] = []
    for source in map(Source, files):
        for members in made:
            room = limit - sum(m.lines for m in members)
            if source.lines <= room and all(source.may_join(m) for m in members):
                members.append(source)
                break
        else:
            made.append([source])
    return [[m.path for m in members] for members in made]


def main() -> None:
    for i, members in enumerate(groups(int(sys.argv[1]), sys.argv[2:])):
        for file in members:
            print(i, file)


if __name__ == "__main__":
    main()

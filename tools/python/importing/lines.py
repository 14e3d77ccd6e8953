"""Lines of the user's own source, which refusals name."""

from __future__ import annotations

import inspect
import linecache
import os
import pathlib
import re
import sys
import sysconfig
import traceback
from typing import Any

_own: list[str] = []  # files, and folders with a "/" at their end
# What may lie in such a folder without being the user's own.
_NOT_OWN = (f"{pathlib.Path(__file__).resolve().parents[1]}/", f"{sysconfig.get_path('stdlib')}/")


def own(place: str) -> None:
    """From here on the file, or what is in the folder, is the user's own."""
    if place not in _own:
        _own.append(place)


def is_own(filename: str) -> bool:
    within = [place for place in _own if place.endswith("/") and filename.startswith(place)]
    installed = filename.startswith(_NOT_OWN) or all("/site-packages/" in filename[len(place) - 1 :] for place in within)
    return filename in _own or not installed


def _innermost(calls: list[tuple[str, int]]) -> str:
    """Of calls, the outermost first: the last in the user's own source, else in a library that is not torch's."""
    outside = [c for c in calls if not c[0].startswith((*_NOT_OWN, "<")) and "/site-packages/torch/" not in c[0]]
    chosen = [c for c in calls if is_own(c[0])] or outside
    return where(*chosen[-1]) if chosen else ""


def where(filename: str, number: int | None) -> str:
    """' (model.py:12: `y = self.net(x)`)'"""
    text = linecache.getline(filename, number or 0).strip()
    return f" ({os.path.basename(filename)}:{number}" + (f": `{text}`)" if text else ")")


def of_stack(trace: str) -> str:
    """Of a call's stack as text, as torch.export keeps it; "" where no line is known."""
    calls = re.findall(r'^ *File "([^"]+)", line (\d+)', trace, re.MULTILINE)
    return _innermost([(file, int(number)) for file, number in calls])


def of_error(e: BaseException) -> str:
    """Of where an exception passed through, its causes included: the innermost, of the first cause that has one."""
    seen: list[BaseException] = []
    at: BaseException | None = e
    found = ""
    while at is not None and at not in seen:
        seen.append(at)
        calls = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(at.__traceback__)]
        line = _innermost(calls)
        found = line if line and (not found or any(is_own(file) for file, _ in calls)) else found
        at = at.__cause__ or at.__context__
    return found


def in_library(e: BaseException) -> str:
    """Of an exception that the user's own call of a library has raised: the innermost line there."""
    found = ""
    seen: list[BaseException] = []
    at: BaseException | None = e
    while at is not None and at not in seen:
        seen.append(at)
        calls = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(at.__traceback__)]
        outside = [c for c in calls if not c[0].startswith((*_NOT_OWN, "<")) and "/site-packages/torch/" not in c[0]]
        if outside and not is_own(outside[-1][0]) and any(is_own(file) for file, _ in outside):
            found = found or f", in its call{where(*outside[-1])}"
        at = at.__cause__ or at.__context__
    return found


def of_function(function: Any) -> str:
    """Where it is defined."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not is_own(code.co_filename):
        return ""
    numbers = range(code.co_firstlineno, code.co_firstlineno + 20)  # decorators come first
    defined = (n for n in numbers if linecache.getline(code.co_filename, n).lstrip().startswith(("def ", "async def ")))
    return where(code.co_filename, next(defined, code.co_firstlineno))


def of_change(function: Any, name: str) -> str:
    """Where a function changes what an attribute of that name holds, else where it is defined."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    changes = re.compile(rf"\.{name}(\[.*\]\s*[-+*/|&]?=[^=]|\.(append|extend|insert|update|pop|clear|add|setdefault)\()")
    for number in sorted({n for _, _, n in code.co_lines() if n} if code is not None else ()):
        if is_own(code.co_filename) and changes.search(linecache.getline(code.co_filename, number)):
            return where(code.co_filename, number)
    return of_function(function)


def of_caller() -> str:
    """Of the code that is running now."""
    frame = sys._getframe(1)
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return where(frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""

#!/usr/bin/env python3
"""Problems as they are quoted in exported files, and what KernelBench's static checker says of such files.

    quote_source.py quote FILE   the source without comments and docstrings, with `...` for `pass`
    quote_source.py rules FILE   a JSON list of sentences: what the checker refuses in it

KernelBench searches a file's text for words such as `pass` and `try:`, wherever they stand; see check_code_bypass and
its neighbours in its kernel_static_checker.py. The quoted source is the same program: both are parsed and compared.
"""

from __future__ import annotations

import ast
import io
import json
import pathlib
import re
import sys
import tokenize

# As in kernel_static_checker.py: what makes a file invalid in its default settings.
RULES = (
    (r"\btry\s*:|\bexcept\s*:|\bexcept\s+\w+", "it has try/except"),
    (r"\bpass\b", "it has the word `pass`"),
    (r"threading\.Thread\s*\(|import\s+threading|from\s+threading\s+import|concurrent\.futures|ThreadPoolExecutor"
     r"|ProcessPoolExecutor|import\s+multiprocessing|multiprocessing\.(Process|Pool|Manager|Queue|Pipe)",
     "it uses threads or processes"),
    (r"_make_subclass|class\s+\w+.*\(torch\.Tensor\)|class\s+\w+.*\(Tensor\)|torch\.Tensor\.__new__",
     "it has a subclass of Tensor"),
    (r"(torch\.cuda\.Event(\.record|\.elapsed_time)?|torch\.cuda\.synchronize|time\.perf_counter|time\.time)\s*=",
     "it assigns to a timing function"),
)


def searched(text: str) -> str:
    """What the checker looks at: each line up to the first # or //, also within strings."""
    return "\n".join(line.split("#")[0].split("//")[0] for line in text.split("\n"))


def broken_rules(text: str) -> list[str]:
    code = searched(text)
    return [sentence for pattern, sentence in RULES if re.search(pattern, code)]


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def without_texts(tree: ast.Module) -> ast.Module:
    """The tree without statements that do nothing: strings, `pass` and `...`."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                idle = [s for s in statements if is_text(s) or isinstance(s, ast.Pass) or (
                    isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and s.value.value is Ellipsis)]
                setattr(node, field, [s for s in statements if s not in idle])
    return tree


def removals(source: str) -> list[tuple[int, int, bool]]:
    """Ranges of characters, and whether a statement is removed there; without: a comment."""
    lines = [line + "\n" for line in source.split("\n")]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(row: int, byte: int) -> int:
        return starts[row - 1] + len(lines[row - 1].encode()[:byte].decode())

    found = [(at(n.lineno, n.col_offset), at(n.end_lineno, n.end_col_offset), True)
             for n in ast.walk(ast.parse(source)) if is_text(n) or isinstance(n, ast.Pass)]
    for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
        if token.type == tokenize.COMMENT:
            begin = starts[token.start[0] - 1] + token.start[1]
            found.append((begin, begin + len(token.string), False))
    return sorted(found)


def is_at_line_end(source: str, end: int) -> bool:
    return not source[end:].split("\n", 1)[0].split("#")[0].strip()


def quoted(source: str) -> str:
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    pieces: list[str] = []
    done = 0
    for begin, end, statement in removals(source):
        line_begin = source.rfind("\n", 0, begin) + 1
        indent = source[line_begin:begin]
        # `...` keeps a body from being empty. At the top of a module nothing is needed, and __future__ must be first.
        filling = "..." if statement and (indent or not is_at_line_end(source, end)) else ""
        kept = source[done:begin]
        if not filling and not indent.strip():
            line_end = source.find("\n", end)
            if is_at_line_end(source, end) and line_end >= 0:  # the whole line goes
                kept = source[done:line_begin]
                end = line_end + 1
        pieces.append(kept if filling or kept.endswith("\n") else kept.rstrip(" \t"))
        pieces.append(filling)
        done = end
    text = "".join(pieces) + source[done:]
    if ast.dump(without_texts(ast.parse(text))) != ast.dump(without_texts(ast.parse(source))):
        raise ValueError("the quoted source is another program than the problem's")
    return text


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("quote", "rules"):
        print(__doc__, file=sys.stderr)
        return 2
    source = pathlib.Path(sys.argv[2]).read_bytes().decode()
    if sys.argv[1] == "quote":
        sys.stdout.buffer.write(quoted(source).encode())
    else:
        print(json.dumps(broken_rules(source)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

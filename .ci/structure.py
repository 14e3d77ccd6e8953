#!/usr/bin/env python3
"""Checks the source tree by its text: which folder uses which; prints the sizes of folders, files and functions.

    structure.py check          fails where a folder uses one that comes after it, or two files share a name, or two
                                headers define one type (CI)
    structure.py table [REV]    lines and files by folder, long functions, files that name a kind of device
"""

import collections
import os
import re
import subprocess
import sys

# In dependency order: a folder uses only itself and those before it. Files directly in `sandbox/` are the records of an
# evaluation, which all later folders of the sandbox share.
ORDER = """
config/base
config
sandbox/program
sandbox
sandbox/isolation
sandbox/interpreter
sandbox/referee
sandbox/device
sandbox/cpu
sandbox/cuda
sandbox/verify
store
policy/graph
policy/proof_check
policy/tile
policy/body
policy/codegen
policy/internal_operators
policy/moves
policy/estimate
policy/chat
policy/model
policy/contrastive
policy/prompt
policy/search
actors/messages
actors/transport
actors/agent
actors/experiment
actors/coordinator
actors/clients
actors
tools/charts
tools/kernelbench/runtime
tools/cli
tools/cli/report
tools/cli/arms
tools/cli/page
tools/baseline
tools/kernelbench
tools/serve
tools/cli/commands
tools
tests
""".split()

SOURCES = (".cpp", ".hpp", ".cuh", ".in")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.M)
TYPE = re.compile(r"^(?:struct|class|enum class|enum) (\w+)\b[^;{]*\{", re.M)
INCLUDE = re.compile(r'^#include "((?:%s)/[^"]+)"' % "|".join(sorted({f.split("/")[0] for f in ORDER})), re.M)
DEVICE_KIND = re.compile(r'"cpu"|"cuda(?!l1)|cuda:|device_kind::|index_of_gpu')
LONG_FUNCTION = 40  # lines


def tracked(revision):
    command = ["git", "ls-tree", "-r", "--name-only", revision] if revision else ["git", "ls-files"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]


def text_of(path, revision):
    if revision:
        return subprocess.run(["git", "show", f"{revision}:{path}"], capture_output=True, check=True).stdout.decode()
    with open(path, encoding="utf-8") as file:
        return file.read()


def room(path):
    """The longest folder of ORDER that holds the path."""
    folder = os.path.dirname(path)
    while folder and folder not in ORDER:
        folder = os.path.dirname(folder)
    return folder


def types_of(text):
    """Types that a header defines in a namespace, qualified; relies on clang-format's layout."""
    spaces = list(NAMESPACE.finditer(text))
    for type_ in TYPE.finditer(text):
        before = [s.group(1) for s in spaces if s.start() < type_.start()]
        yield f"{before[-1]}::{type_.group(1)}" if before else type_.group(1)


def violations(texts):
    """Includes that break the order, names that several source files have, and types that two headers define: the
    linker takes the functions of one of them for both."""
    found = []
    for path, text in texts.items():
        user = room(path)
        for used in INCLUDE.findall(text):
            if ORDER.index(room(used)) > ORDER.index(user):
                found.append(f"{path}: {user} comes before {room(used)} and may not use {used}")
    names = collections.defaultdict(list)
    for path in texts:
        if path.endswith(".cpp") and not path.startswith("tests/"):
            names[os.path.basename(path)].append(path)
    for name, paths in sorted(names.items()):
        if len(paths) > 1:
            found.append(f"{name} is the name of {len(paths)} files: {', '.join(paths)}")
    types = collections.defaultdict(list)
    for path, text in texts.items():
        if path.endswith(".hpp"):
            for name in set(types_of(text)):
                types[name].append(path)
    for name, paths in sorted(types.items()):
        if len(paths) > 1:
            found.append(f"{name} is defined by {', '.join(sorted(paths))}")
    return found


def long_functions(text):
    """First lines and lengths of functions of over LONG_FUNCTION lines; relies on clang-format's layout."""
    found, start, indent, head = [], None, "", ""
    for number, line in enumerate(text.split("\n")):
        if start is None:
            begins = re.match(r"^( {0,4})(?! )[^#/}].*\{$", line)
            if begins and re.search(r"\)( const| noexcept| override|\)?)*( ->.*)? ?(: .*)?\{$", line):
                if not re.match(r"\s*(if|for|while|switch|else|do|namespace|struct|class|enum|union)\b", line):
                    start, indent, head = number, begins.group(1), line.strip()
        elif line.startswith(indent + "}") and len(line) <= len(indent) + 2:
            if number - start + 1 > LONG_FUNCTION:
                found.append((head, number - start + 1))
            start = None
    return found


def table(revision):
    files = [f for f in tracked(revision) if f.endswith(SOURCES + (".py", ".sh"))]
    lines, counts = collections.Counter(), collections.Counter()
    long_by_part, device_files = collections.Counter(), []
    for path in files:
        text = text_of(path, revision)
        part = path.split("/")[0]
        folder = "/".join(path.split("/")[:2]) if path.count("/") > 1 else part
        lines[folder] += text.count("\n")
        counts[folder] += 1
        if path.endswith((".cpp", ".hpp")):
            long_by_part["tests" if part == "tests" else "product"] += len(long_functions(text))
            if part != "tests" and DEVICE_KIND.search(re.sub(r"//.*", "", text)):
                device_files.append(path)
    print(f"{'folder':28} files  lines")
    for folder in sorted(lines):
        print(f"{folder:28} {counts[folder]:5} {lines[folder]:6}")
    outside = sum(n for folder, n in lines.items() if not folder.startswith("tests"))
    print(f"lines outside tests {outside}, in tests {sum(lines.values()) - outside}")
    print(f"functions over {LONG_FUNCTION} lines: {long_by_part['product']} outside tests, {long_by_part['tests']} in tests")
    apart = ("sandbox/cpu/", "sandbox/cuda/", "policy/codegen/cpu/", "policy/codegen/cuda/", "tools/kernelbench/")
    others = [f for f in device_files if not f.startswith(apart)]
    print(f"files that name a kind of device: {len(device_files)}, outside of their own folders {len(others)}:")
    for path in others:
        print("  " + path)


def main(arguments):
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if arguments[:1] == ["table"]:
        table(arguments[1] if len(arguments) > 1 else None)
        return 0
    if arguments != ["check"]:
        print(__doc__, file=sys.stderr)
        return 2
    texts = {f: text_of(f, None) for f in tracked(None) if f.endswith(SOURCES) and room(f)}
    found = violations(texts)
    print("\n".join(found) or f"{len(texts)} files follow the order of folders")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What the programs of a wheel need of the system, read with readelf; and where they look for libraries."""

from __future__ import annotations

import re
import subprocess

# Libraries that a wheel for manylinux takes from the system.
OF_SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|util|mvec))\.so\.\d+")
# Those of torch and of the wheels that it depends on.
OF_TORCH = re.compile(r"lib(c10|c10_cuda|torch|torch_cpu|torch_cuda|torch_python|cudart|nvrtc|cudnn\w*|cublas\w*)\.so(\.\d+)?")
# Packed relocations (-z pack-relative-relocs), which the linker marks with this in place of a number.
PACKED_RELOCATIONS, THEIR_GLIBC = "GLIBC_ABI_DT_RELR", (2, 36)


def is_elf(content: bytes) -> bool:
    return content[:4] == b"\x7fELF"


def newest_glibc(files) -> tuple[int, int]:
    """The newest version of glibc's symbols that one of the files (paths) needs."""
    text = subprocess.run(["readelf", "--version-info", "--wide", *files], capture_output=True, text=True, check=True).stdout
    versions = {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text)}
    if PACKED_RELOCATIONS in text:
        versions.add(THEIR_GLIBC)
    if not versions:
        raise ValueError(f"readelf shows no versions of glibc in {len(files)} files")
    return max(versions)


def needed_libraries(files) -> set[str]:
    text = subprocess.run(["readelf", "--dynamic", "--wide", *files], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", text))


def foreign_libraries(files, inside: set[str]) -> list[str]:
    """Those that neither the wheel, the system nor torch has."""
    return sorted(n for n in needed_libraries(files) - inside if not OF_SYSTEM.fullmatch(n) and not OF_TORCH.fullmatch(n))


def with_path(content: bytes, old: str, new: str) -> bytes:
    """The file with another path of libraries, in the place of the old one, which must occur once and be no shorter."""
    before, after = old.encode() + b"\0", new.encode() + b"\0"
    if content.count(before) != 1:
        raise ValueError(f"the path {old} occurs {content.count(before)} times")
    if len(after) > len(before):
        raise ValueError(f"the path {new} is longer than {old}")
    return content.replace(before, after.ljust(len(before), b"\0"))

#!/usr/bin/env python3
"""Makes a wheel of a build: the programs with their libraries, tasks and scripts, and the client `import cudal1`.

    make_wheel.py --build BUILD --out DIR [--level 0..9]

Prints the wheel's path. Two runs with one build make the same bytes. README.md here says how it is used.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import tomllib
import zipfile

import elf_files
import licences

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLIENT = ROOT / "tools/python_client"
PROGRAMS = "cudal1_programs"  # in site-packages; config/installation.cpp and launch.sh know the name
COMMANDS = ("cudal1", "cudal1-node")
# What programs and libraries of a bundle have as their path (tools/bundle.cmake), and what they have here, where
# SITE_PACKAGES/torch takes the place of the bundle's link.
PATHS = (("$ORIGIN/../lib:$ORIGIN/../torch/lib:$ORIGIN/../torch/../nvidia/cu13/lib",
          "$ORIGIN/../lib:$ORIGIN/../../torch/lib:$ORIGIN/../../nvidia/cu13/lib"),
         ("$ORIGIN:$ORIGIN/../torch/lib:$ORIGIN/../torch/../nvidia/cu13/lib",
          "$ORIGIN:$ORIGIN/../../torch/lib:$ORIGIN/../../nvidia/cu13/lib"))
OURS = re.compile(r"(bin/cudal1.*|lib/libcudal1_.*)")
# These need the system's libraries alone, and those of the PyTorch that loads them.
WITHOUT_PATH = ("lib/libcudal1_cpu_kernels.so", "lib/libcudal1_package.so", "lib/libcudal1_package_runtime.so")
NOT_IN_WHEEL = ("bin/cudal1-setup",)
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip file can express


class Refusal(Exception):
    """What cannot be packed, and why."""


def cached(build: pathlib.Path, name: str) -> str:
    """A variable of the build's CMakeCache.txt."""
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    if not found:
        raise Refusal(f"{build}/CMakeCache.txt has no {name}")
    return found.group(1)


def bootstrap_list(name: str) -> list[str]:
    """An array or variable of tools/bootstrap.sh as it is for this system, so that each version stands in one place."""
    script = f'. "$1"; fit_packages_to_system; printf "%s\\n" "${{{name}[@]}}"'
    return subprocess.run(["bash", "-c", script, "bash", ROOT / "tools/bootstrap.sh"], capture_output=True, text=True,
                          check=True).stdout.split()


def install(build: pathlib.Path, prefix: pathlib.Path):
    done = subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refusal(f"cmake --install {build} failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}; "
                      "build everything first: tools/bootstrap.sh build")


def installed_files(prefix: pathlib.Path) -> dict[str, pathlib.Path]:
    """Files by their names below the prefix. A wheel has no links: a library has the one name by which it is loaded."""
    links, files = {}, {}
    for path in sorted(prefix.rglob("*")):
        name = path.relative_to(prefix).as_posix()
        if path.is_symlink():
            links[path.resolve()] = name
        elif path.is_file() and name not in NOT_IN_WHEEL and "__pycache__" not in path.parts:
            files[name] = path
    return {links.get(path.resolve(), name): path for name, path in files.items()}


def checked_tag(binaries: dict[str, pathlib.Path]) -> str:
    """The wheel's tag, by the symbols that its files need."""
    inside = {pathlib.PurePosixPath(name).name for name in binaries}
    foreign = elf_files.foreign_libraries(list(binaries.values()), inside)
    if foreign:
        raise Refusal(f"the programs need {', '.join(foreign)}, which neither the wheel nor torch has")
    machine = os.uname().machine
    major, minor = elf_files.newest_glibc(list(binaries.values()))
    return f"py3-none-manylinux_{major}_{minor}_{machine}"


def content_of(name: str, path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    if not OURS.fullmatch(name) or name in WITHOUT_PATH:
        return content
    old, new = PATHS[0] if name.startswith("bin/") else PATHS[1]
    return elf_files.with_path(content, old, new)


def client_settings() -> dict:
    return tomllib.loads((CLIENT / "pyproject.toml").read_text())


def client_files() -> dict[str, bytes]:
    """What `pip install ./tools/python_client` installs: its packages with their data, and its modules."""
    settings = client_settings()["tool"]["setuptools"]
    paths = [CLIENT / f"{module}.py" for module in settings.get("py-modules", [])]
    for package in settings["packages"]:
        folder = CLIENT / package.replace(".", "/")
        paths += folder.glob("*.py")
        for pattern in settings.get("package-data", {}).get(package, []):
            paths += folder.glob(pattern)
    return {path.relative_to(CLIENT).as_posix(): path.read_bytes() for path in paths}


def requirements() -> list[str]:
    """torch is the one that the programs were built with. numpy and einops are what models import beside it."""
    torch = bootstrap_list("torch_version")[0]
    beside = [re.sub(r"==.*", "", wheel) for wheel in bootstrap_list("python_wheels") if not wheel.startswith("expecttest")]
    client = client_settings()["project"].get("dependencies", [])
    return [f"torch=={torch}", *beside, *(d for d in client if re.split(r"\W", d)[0] not in ("torch", *beside))]


def metadata(version: str, licence_names: list[str]) -> str:
    head = ["Metadata-Version: 2.4", "Name: cudal1", f"Version: {version}",
            "Summary: Searches for fast CUDA kernels of PyTorch models, with strict measurement",
            "Keywords: cuda,kernels,pytorch,optimization,reinforcement-learning",
            "Classifier: Development Status :: 4 - Beta", "Classifier: Environment :: Console",
            "Classifier: Environment :: GPU :: NVIDIA CUDA :: 13", "Classifier: Intended Audience :: Developers",
            "Classifier: Intended Audience :: Science/Research", "Classifier: Operating System :: POSIX :: Linux",
            "Classifier: Programming Language :: C++", "Classifier: Programming Language :: Python :: 3",
            "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence", "Requires-Python: >=3.10"]
    head += [f"Requires-Dist: {r}" for r in requirements()]
    head += ["Provides-Extra: headers", *(f'Requires-Dist: {w}; extra == "headers"' for w in bootstrap_list("header_wheels"))]
    head += ["Provides-Extra: export", 'Requires-Dist: ninja; extra == "export"']
    head += [f"License-File: {name}" for name in licence_names]
    head += ["Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text()]
    return "\n".join(head)


def wheel_files(version: str, tag: str, licence_files: dict[str, bytes]) -> dict[str, bytes]:
    """The folder cudal1-VERSION.dist-info, but for RECORD."""
    info = f"cudal1-{version}.dist-info"
    top_level = ["cudal1", PROGRAMS, *client_settings()["tool"]["setuptools"].get("py-modules", [])]
    project = client_settings()["project"]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    entries = "\n".join(f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in of.items())
                        for group, of in groups.items())
    return {f"{info}/METADATA": metadata(version, sorted(licence_files)).encode(),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: cudal1 {version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
            f"{info}/entry_points.txt": entries.encode(),
            f"{info}/top_level.txt": "".join(f"{name}\n" for name in top_level).encode(),
            **{f"{info}/licenses/{name}": content for name, content in licence_files.items()}}


def write_wheel(path: pathlib.Path, files: dict[str, bytes], executable: set[str], record: str, level: int):
    """Sorted, without times or owners, so that equal files make equal wheels. `record` is the name of RECORD."""
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        def add(name, content):
            entry = zipfile.ZipInfo(name, FIXED_TIME)
            entry.create_system = 3  # Unix, whose access rights follow
            entry.external_attr = (stat.S_IFREG | (0o755 if name in executable else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=level)

        # Installers find what describes the wheel at its end.
        for name in sorted(files, key=lambda n: (".dist-info/" in n, n)):
            add(name, files[name])
            digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(files[name])}\n")
        add(record, "".join([*lines, f"{record},,\n"]).encode())


def make_wheel(build: pathlib.Path, out: pathlib.Path, level: int) -> pathlib.Path:
    version = cached(build, "CMAKE_PROJECT_VERSION")
    with tempfile.TemporaryDirectory(dir=build) as temporary:
        prefix = pathlib.Path(temporary) / "installed"
        install(build, prefix)
        found = installed_files(prefix)
        binaries = {name: path for name, path in found.items() if elf_files.is_elf(path.read_bytes())}
        tag = checked_tag(binaries)
        files = {f"{PROGRAMS}/{name}": content_of(name, path) for name, path in found.items()}
        executable = {f"{PROGRAMS}/{name}" for name in found if name.startswith("bin/")}
    # With a file of its own the folder is removed as a whole: pip leaves folders that have only folders.
    files[f"{PROGRAMS}/__init__.py"] = b'"""The programs of cudal1, which the commands cudal1 and cudal1-node start."""\n'
    files |= client_files()
    for name in COMMANDS:
        script = f"cudal1-{version}.data/scripts/{name}"
        files[script] = (HERE / "launch.sh").read_bytes()
        executable.add(script)
    libraries = [pathlib.PurePosixPath(n).name for n in binaries if n.startswith("lib/") and not OURS.fullmatch(n)]
    headers = [p for p in bootstrap_list("packages") if re.fullmatch(r"lib.*-dev", p) and not re.search("gtest|gmock|benchmark", p)]
    licence_files = licences.licences_of(libraries, headers, pathlib.Path(cached(build, "LibTorch_ROOT")))
    files |= wheel_files(version, tag, licence_files)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"cudal1-{version}-{tag}.whl"
    partial = path.with_suffix(".partial")
    write_wheel(partial, files, executable, f"cudal1-{version}.dist-info/RECORD", level)
    return partial.rename(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--level", type=int, choices=range(10), default=9, help="of compression (default: 9)")
    arguments = parser.parse_args()
    try:
        print(make_wheel(arguments.build.resolve(), arguments.out.resolve(), arguments.level))
    except (Refusal, ValueError, OSError, subprocess.CalledProcessError) as problem:
        print(f"make_wheel: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

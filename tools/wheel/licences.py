"""Licences of what a wheel contains, from the copyright files of the system's packages (Debian, Ubuntu)."""

from __future__ import annotations

import pathlib
import re
import subprocess

DOCUMENTS = pathlib.Path("/usr/share/doc")
COMMON = pathlib.Path("/usr/share/common-licenses")


def packages_of_libraries(names) -> dict[str, str]:
    """The package that each library (a file name such as libz.so.1) was installed by."""
    found = {}
    patterns = [f"*-linux-gnu/{name}" for name in sorted(names)]
    done = subprocess.run(["dpkg-query", "--search", *patterns], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        package, _, path = line.partition(": ")
        found.setdefault(pathlib.PurePosixPath(path).name, package.split(",")[0].split(":")[0])
    missing = sorted(set(names) - set(found))
    if missing:
        raise ValueError(f"no package of this system has {', '.join(missing)}, so that their licences are not known")
    return found


def sources_of(packages) -> dict[str, tuple[str, str]]:
    """Name and version of the source of each package."""
    done = subprocess.run(["dpkg-query", "--show", "-f", "${Package} ${source:Package} ${source:Version}\n",
                           *sorted(packages)], capture_output=True, text=True, check=True)
    return {package: (source, version) for package, source, version in map(str.split, done.stdout.splitlines())}


def copyright_of(package: str) -> str:
    return (DOCUMENTS / package / "copyright").read_text(encoding="utf-8", errors="replace")


def licences_of(libraries, compiled_in, torch: pathlib.Path) -> dict[str, bytes]:
    """Files by name: NOTICE, SOURCE/copyright for each source package, the common licences that these refer to, and
    PyTorch's, whose headers are compiled into the programs.
    libraries: file names in the wheel; compiled_in: packages of headers; torch: its folder in site-packages."""
    by_library = packages_of_libraries(libraries)
    sources = sources_of(set(by_library.values()) | set(compiled_in))
    files: dict[str, bytes] = {}
    parts: dict[tuple[str, str], set[str]] = {}
    for library, package in by_library.items():
        parts.setdefault(sources[package], set()).add(library)
    for package in compiled_in:
        parts.setdefault(sources[package], set())
    text_of = {source: copyright_of(package) for package, (source, _) in sources.items()}
    for source, text in text_of.items():
        files[f"{source}/copyright"] = text.encode()
        for name in re.findall(rf"{COMMON}/([\w.+-]*\w)", text):
            if (COMMON / name).is_file():
                files[f"common-licenses/{name}"] = (COMMON / name).read_bytes()
    for path in torch.parent.glob("torch-*.dist-info/licenses/*"):
        if path.is_file():
            files[f"torch/{path.name}"] = path.read_bytes()
    if not any(name.startswith("torch/") for name in files):
        raise ValueError(f"{torch.parent} has no licence of torch")
    files["NOTICE"] = notice(parts).encode()
    return files


def notice(parts) -> str:
    lines = ["cudal1 contains the following works. Their copyright notices and licences are in the folder of each name",
             "beside this file, the licences that these refer to in common-licenses.", ""]
    for (source, version), libraries in sorted(parts.items()):
        what = f"the libraries {', '.join(sorted(libraries))}" if libraries else "headers, compiled into the programs"
        lines.append(f"{source} {version}: {what}")
    lines += ["torch: headers, compiled into the programs. Its libraries, and those of NVIDIA that it depends on, are",
              "packages of their own, which pip installs; this one contains none of them.", ""]
    return "\n".join(lines)

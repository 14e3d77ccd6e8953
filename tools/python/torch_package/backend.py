"""Builds the wheel of a package of variants for pip: the files as they are. Only Python's standard library, so that pip
needs no network."""

import base64
import hashlib
import pathlib
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def _project():
    return tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))


def _metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    return "\n".join([*lines, *[f"Requires-Dist: {d}" for d in project["dependencies"]]]) + "\n"


def _info(project):
    return f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"


def _tag():
    return _project()["tool"]["cudal1"]["tag"]


def _items(project, files):
    info = _info(project)
    items = {f"{info}/METADATA": _metadata(project).encode(),
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: cudal1\nRoot-Is-Purelib: false\nTag: {_tag()}\n".encode()}
    for path in sorted(p for p in files if p.is_file() and "__pycache__" not in p.parts):
        items[path.relative_to(HERE).as_posix()] = path.read_bytes()
    for path in sorted([HERE / "NOTICE", *(HERE / "licences").glob("*")]):
        items[f"{info}/{path.relative_to(HERE).as_posix()}"] = path.read_bytes()
    record = ""
    for name, data in items.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    items[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    return items


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = _project()["project"]
    module = HERE / _project()["tool"]["cudal1"]["module"]
    name = f"{project['name'].replace('-', '_')}-{project['version']}-{_tag()}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for item, data in _items(project, module.rglob("*")).items():
            wheel.writestr(item, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("a package of variants is installed from its folder, or from a wheel")

"""Variants of a model of this process by a node that serves, here or elsewhere: the node imports a text of the model
(exported_source.py), searches, and gives the package of what it has found."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
import tempfile
from typing import Any, Dict, Optional
from urllib.parse import quote

from .client import Client
from .errors import InvalidRequest, NotFound
from .exported_source import source_of

_LARGEST_SOURCE = 1 << 20  # bytes, of what a node imports


def fetch_package(client: Client, model: Any, call: Any, name: str, place: pathlib.Path, *, device: str, time_s: float,
                  evaluations: int, search: bool, precision: Optional[str], show: bool) -> str:
    """Puts the package `name` of the model's variants into the folder `place`. What the node knows of this model is taken;
    else it searches. Returns why there is no package, where nothing faster is known or found; else "". Raises InvalidRequest
    for a model that no node can import, NotAllowed for a client that may not import or search, InfrastructureError."""
    source, modes = source_of(model, call)
    if len(source.encode()) > _LARGEST_SOURCE:
        raise InvalidRequest(f"the text of {type(model).__name__} has {len(source.encode()) >> 10} KiB, and a node imports up "
                             f"to {_LARGEST_SOURCE >> 10}: search on this machine")
    try:
        found = _package(client, name, precision)  # the name says which program it is, if not with which weights
    except NotFound as e:
        if not search:
            return e.message
        for task in client.import_model(name, source, replace=True):
            client.search(task, evaluations=evaluations, time_s=time_s, device=device, precision=precision, show=show)
        try:
            found = _package(client, name, precision)
        except NotFound as after:
            return after.message
    _write(found["files"], name, place, modes)
    return ""


def _package(client: Client, name: str, precision: Optional[str]) -> Dict[str, Any]:
    query = {"format": "torch", "name": name, "precision": precision}
    return client._http.ask("GET", f"/v1/tasks/{quote(name, safe='')}/export", query=query, limit_s=300)


def _write(files: Dict[str, str], name: str, place: pathlib.Path, modes: Dict[str, bool]) -> None:
    """The files as they are, but for the modes of the model's modules: the text that the node knows has no modes."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        root = pathlib.Path(scratch) / "package"
        for path, text in files.items():
            parts = pathlib.PurePosixPath(path).parts
            if not parts or path.startswith("/") or ".." in parts or "\\" in path:
                raise InvalidRequest(f"the node's package names the file {path!r}, which is no file of a package")
            target = root.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(text, validate=True))
        index = root / name / "index.json"
        document = json.loads(index.read_text(encoding="utf-8"))
        for m in document["models"]:
            for case in m["cases"]:
                case["modes"] = modes
        index.write_text(json.dumps(document, indent=1), encoding="utf-8")
        if place.exists():
            shutil.rmtree(place)
        root.rename(place)


__all__ = ["fetch_package"]

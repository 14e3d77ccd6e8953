"""A model of this process with its forward replaced by what a search found: by the program `cudal1`, which imports the model,
searches on its data folder and writes a package of variants (`cudal1 export --format torch`), or by a node that serves."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings
from typing import Any, List, Optional, Sequence, Tuple

from .client import Client, connect
from .errors import Cudal1Error, InfrastructureError, InvalidRequest

_SOURCE = '''"""Written by cudal1.optimize: {name}, as it was in a process of Python."""
import pathlib
import pickle
import runpy
import sys

sys.path.extend(p for p in {paths!r} if p not in sys.path)

import torch

_HERE = pathlib.Path({folder!r})
_MAIN = {main!r}
_main = {{}}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module != "__main__":
            return super().find_class(module, name)
        if not _main:
            _main.update(runpy.run_path(_MAIN, run_name="__mp_main__"))  # the script, without what it does as a program
        return _main[name]


class _Pickle:
    Unpickler, load, __name__ = _Unpickler, staticmethod(pickle.load), "pickle"


def _loaded(file):
    return torch.load(_HERE / file, map_location="cpu", weights_only=False, pickle_module=_Pickle)


def make():
    return _loaded("model.pt")


def example_inputs():
    calls = _loaded("inputs.pt")
    return calls[0] if len(calls) == 1 else (call for call in calls)
'''


class NothingFaster(UserWarning):
    """The search has found no variant that is faster than the model's own forward."""


def optimize(model: Any, inputs: Any, *, data: Optional[str] = None, time_s: float = 120.0, evaluations: int = 60,
             search: bool = True, folder: Optional[str] = None, program: Optional[str] = None, show: bool = True,
             precision: Optional[str] = None, node: Optional[str] = None, token: Optional[str] = None,
             ca_file: Optional[str] = None, batch: Optional[range] = None) -> Any:
    """A module that computes what `model` does, faster where a variant was found for the call: of the same class, with the
    model's own parameters, buffers, state_dict and signature; `cudal1_package(module).report()` counts its calls. Its
    device is that of the model's parameters. Other calls than `inputs` run the model's own forward.

    `inputs`: what forward is called with: a tensor, a tuple by position, a dict by keyword; or a list of such tuples or
    dicts, as for several batch sizes: each is searched, and a call runs the variant of its shapes. The model's class must be one
    that another process can import (not one of a notebook). What the store in `data` (default: $CUDAL1_DATA, else
    ~/.local/share/cudal1) knows of this model is taken; else it is searched for `time_s` seconds and `evaluations`
    evaluations for each of the inputs, unless `search` is false. `folder`: of the package, which stays (default: below ~/.cache/cudal1).

    `batch`: range(1, 257), say: one set of kernels for batches of 1 to 256, the first dimension of the inputs, beside those of
    the tuned shapes, where the moves of a variant allow it; checked and measured at several sizes. Its step must be 1.

    `precision`: what error against float64 is accepted. "eager" (as exact as PyTorch ships it, TF32 where it uses that),
    "strict" (as float32 without TF32), "half" (float32 products of operands in float16 or TF32).

    `node`: the URL of a node that serves, as in "https://gpu-box:4980", which imports a text of the model and searches in the
    place of this machine; with `token` (default: $CUDAL1_TOKEN), which must be one that may import and search, and for https
    `ca_file`, as for connect(). One call, given by one of `inputs`. The package that it answers with is code that this process
    runs: name only a node that you trust. It is checked and measured here before it is used.

    Where nothing faster is found the model itself is returned, with the warning NothingFaster. Raises InvalidRequest
    (a model that cannot be imported), InfrastructureError (no program, a search that failed), NotAllowed (a node's token)."""
    import torch

    if not isinstance(model, torch.nn.Module):
        raise InvalidRequest(f"optimize takes a torch.nn.Module, and was given a {type(model).__name__}")
    package, _ = package_of(model, inputs, data=data, time_s=time_s, evaluations=evaluations, search=search, folder=folder,
                            program=program, show=show, precision=precision, node=node, token=token, ca_file=ca_file,
                            batch=batch)
    if package is None:
        warnings.warn(f"no variant of {type(model).__name__} was found that is faster than its own forward", NothingFaster,
                      stacklevel=2)
        return model
    return package.optimize(model, example=_example(_calls(inputs)[0], _device_of(model, inputs)))


def package_of(model: Any, inputs: Any, *, data: Optional[str] = None, time_s: float = 120.0, evaluations: int = 60,
               search: bool = True, folder: Optional[str] = None, program: Optional[str] = None,
               show: bool = True, precision: Optional[str] = None, node: Optional[str] = None, token: Optional[str] = None,
               ca_file: Optional[str] = None, batch: Optional[range] = None) -> Tuple[Any, Optional[pathlib.Path]]:
    """The imported package with the variants of a model, and its folder; None twice where nothing faster was found. The
    arguments and errors are those of optimize()."""
    if precision not in (None, "strict", "eager", "half"):
        raise InvalidRequest(f"there is no precision {precision!r}; there is strict, eager and half")
    if batch is not None and (not isinstance(batch, range) or batch.step != 1 or len(batch) == 0 or batch.start < 1):
        raise InvalidRequest("batch is a range of sizes with the step 1, as range(1, 257) for 1 to 256")
    kept_apart = precision if precision in ("strict", "half") else ""
    name = f"{_word(type(model).__name__)}_{_digest(model, inputs, kept_apart)}"
    package = name if batch is None else f"{name}_{batch.start}_{batch.stop - 1}"
    device = _device_of(model, inputs)
    if node is not None:
        if batch is not None:
            raise InvalidRequest("batch goes with a search on this machine: a node's packages are for tuned shapes alone")
        if data or program:
            raise InvalidRequest("data and program are of a search on this machine, and node of one elsewhere: give one")
        return _by_node(connect(node, token, ca_file=ca_file), model, inputs, _task_name(name), folder, time_s=time_s,
                        evaluations=evaluations, search=search, precision=precision, show=show, device=device)
    run = _Program(program, data, show)
    place = pathlib.Path(folder) if folder else _cache() / package
    held = ["--precision", precision] if precision else []
    if not _is_exported(place, package):
        calls = _calls(inputs)
        file = _written(model, calls, place, name)
        tasks = f"{name}.make" if len(calls) == 1 else f"{name}.make_*"  # several are named by their shapes
        words = ["--format", "torch", "--name", package, "--task", tasks, "--force", *held]
        if batch is not None:
            words += ["--batch", f"{batch.start}..{batch.stop - 1}"]
        known = run("export", str(place), *words, quiet=True) == 0  # what the store knows, if it knows the model
        if not known and search:
            limits = ["--time", f"{time_s * len(calls):g}s", "--evaluations", str(evaluations), "--device", str(device), *held]
            if run("run", f"{file}:make", *limits) != 0:
                raise InvalidRequest(f"cudal1 could not search for variants of {type(model).__name__}: " + run.said())
            known = run("export", str(place), *words) == 0
        if not known:
            return None, None
    return _imported(place, package), place


def cudal1_package(module: Any) -> Any:
    """The package whose variants a module runs: its report(), eager(), models."""
    name = getattr(type(module), "_cudal1_package", None)
    if name is None:
        raise InvalidRequest(f"{type(module).__name__} is not a module that cudal1 has made")
    return sys.modules[name]


def _by_node(client: Client, model: Any, inputs: Any, name: str, folder: Optional[str], *, device: Any,
             **limits: Any) -> Tuple[Any, Optional[pathlib.Path]]:
    from .by_node import fetch_package

    calls = _calls(inputs)
    if len(calls) != 1:
        raise InvalidRequest("a node searches for one call: name the inputs of one, or search on this machine")
    place = pathlib.Path(folder) if folder else _cache() / "nodes" / name
    if not _is_exported(place, name):
        why = fetch_package(client, model, calls[0], name, place, device=device.type, **limits)
        if not why:
            why = _problem_with(place, name)
            if why:
                shutil.rmtree(place)
        if why:
            warnings.warn(f"the node has nothing that is used here: {why}", NothingFaster, stacklevel=4)
            return None, None
    return _imported(place, name), place


def _problem_with(place: pathlib.Path, name: str) -> str:
    """Why a fetched package is not used on this machine; "" if it is right and not slower."""
    environment = {**os.environ, "PYTHONPATH": str(place.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", name, "--json"], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        lines = (done.stderr or "").strip().splitlines()
        return f"its check ended with exit code {done.returncode}" + (f": {lines[-1]}" if lines else "")
    bad = [c for c in found["cases"] if c["status"] in ("wrong", "slower", "cannot run")]
    return "; ".join([f"{c['status']} on this machine" + (f": {c['why']}" if c.get("why") else "") for c in bad])


class _Program:
    """Runs the program `cudal1` with the Python of this process."""

    def __init__(self, program: Optional[str], data: Optional[str], show: bool):
        found = program or shutil.which("cudal1")
        if not found:
            raise InfrastructureError("there is no program cudal1 on the PATH; name it by `program`")
        self.program, self.data, self.show = found, data, show
        self.last: Optional[str] = None  # what it wrote to standard error, where that was not shown

    def said(self) -> str:
        lines = [line for line in (self.last or "").splitlines() if "refused" in line or "cudal1:" in line]
        return "; ".join(lines[:2]) if self.last is not None else "what it printed says why"

    def __call__(self, *words: str, quiet: bool = False) -> int:
        environment = {**os.environ, "CUDAL1_PYTHON": os.environ.get("CUDAL1_PYTHON") or sys.executable}
        command = [self.program, *words, *(["--data", self.data] if self.data else [])]
        shown = None if self.show and not quiet else subprocess.PIPE
        done = subprocess.run(command, env=environment, stdout=shown, stderr=shown, text=True)
        self.last = done.stderr
        if done.returncode == 3 and not quiet:
            raise InfrastructureError(f"`{' '.join(command[:2])}` failed: {(done.stderr or 'see its output').strip()}")
        return done.returncode


def _calls(inputs: Any) -> List[Any]:
    """What forward is called with, each time."""
    several = isinstance(inputs, list) and inputs and all(isinstance(i, (tuple, dict)) for i in inputs)
    return list(inputs) if several else [inputs]


def _device_of(model: Any, inputs: Any) -> Any:
    """Of the model's tensors; of one without any, that of its inputs."""
    import torch

    tensors = [*model.parameters(), *model.buffers(), *[t for t in _leaves(inputs) if isinstance(t, torch.Tensor)]]
    return next((t.device for t in tensors), torch.device("cpu"))


def _task_name(name: str) -> str:
    """As a node takes it: of lower case, with a letter in front."""
    named, _, digest = name.lower().rpartition("_")
    named = named.strip("_")[:40]
    return f"{named if named[:1].isalpha() and named.isascii() else 'model'}_{digest}"


def _word(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def _cache() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "cudal1" / "packages"


def _leaves(value: Any) -> List[Any]:
    import torch

    return torch.utils._pytree.tree_flatten(value)[0]


def _digest(model: Any, inputs: Any, precision: str = "") -> str:
    """What decides which program a model is: its classes with their text, its hyperparameters as it prints them, modes and
    types, and the inputs' types. Its weights' values do not."""
    import torch

    def form(value: Any) -> Tuple:
        if isinstance(value, torch.Tensor):
            return str(value.dtype), tuple(value.shape), tuple(value.stride()), value.device.type
        return (repr(value),)

    parts = [repr(model), str(torch.utils._pytree.tree_flatten(inputs)[1])]
    for cls in dict.fromkeys(type(m) for m in model.modules()):
        parts.append(f"{cls.__module__}.{cls.__qualname__}")
        if not cls.__module__.startswith("torch."):
            try:
                parts.append(inspect.getsource(cls))
            except (OSError, TypeError):
                parts.append("")
    parts += [repr([(n, m.training) for n, m in model.named_modules()]),
              repr([(n, form(t)) for n, t in [*model.named_parameters(), *model.named_buffers()]]),
              repr([form(v) for v in _leaves(inputs)])]
    if precision:
        parts.append(precision)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _written(model: Any, calls: List[Any], place: pathlib.Path, name: str) -> pathlib.Path:
    """Writes the model and the inputs of its calls as files that another process can import."""
    import torch

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if any(type(m).__module__ == "__main__" for m in model.modules()) and main is None:
        raise InvalidRequest(f"the class {type(model).__name__} is one of a notebook or an interactive Python, which no other "
                             "process can import: put it into a module")
    place.parent.mkdir(parents=True, exist_ok=True)
    source = place.parent / f"{place.name}.source"
    source.mkdir(exist_ok=True)
    try:
        torch.save(model, source / "model.pt")
        torch.save(calls, source / "inputs.pt")
    except Exception as e:  # whatever cannot be pickled
        raise InvalidRequest(f"{type(model).__name__} or its inputs cannot be pickled: {e}") from e
    file = source / f"{name}.py"
    paths = [os.path.abspath(p) for p in sys.path]
    file.write_text(_SOURCE.format(name=type(model).__name__, paths=paths, folder=str(source.resolve()),
                                   main=os.path.abspath(main) if main else ""), encoding="utf-8")
    return file


def _is_exported(place: pathlib.Path, name: str) -> bool:
    return (place / name / "index.json").is_file()


def _imported(place: pathlib.Path, name: str) -> Any:
    if name not in sys.modules:
        sys.path.insert(0, str(place.resolve()))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Cudal1Error(f"the package {place} cannot be imported: {e}; delete it") from e


def _example(inputs: Any, device: Any) -> Any:
    """The inputs as a call takes them, where the model is."""
    import torch

    moved = torch.utils._pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, inputs)
    if isinstance(moved, dict):
        return moved
    return tuple(moved) if isinstance(moved, (tuple, list)) else (moved,)


__all__: Sequence[str] = ["NothingFaster", "cudal1_package", "optimize"]

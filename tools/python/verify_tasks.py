#!/usr/bin/env python3
"""Checks imported tasks against PyTorch: does each task's program, run by cudal1's own interpreter, give the same
results as its Python module in eager mode, on the same inputs and weights?

DIR is a folder that `cudal1 tasks import` wrote (or one task file). For each task the module is made again from its
source and seed, its weights are compared with the task's, and it is run several times: the differences between these
runs are its noise. Then cudal1-replay runs the task's program. It agrees "bit for bit", or is "within noise": no
further from the nearest of eager's runs, by the largest difference and by its RMS, than two of these are from each
other.

THE SOURCES ARE EXECUTED, as you, without a sandbox.

Exit codes: 0 all agree; 1 one does not, or could not be compared; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any, Iterator

warnings.filterwarnings("ignore")

import torch  # noqa: E402

from importing.checkpoint import DTYPES, MARK, read_tensors  # noqa: E402
from importing.refusal import Refused  # noqa: E402
from importing.problems import Problem  # noqa: E402
from importing.source import Loaded  # noqa: E402
from importing.state import attribute  # noqa: E402
from importing.structure import places_in, register  # noqa: E402

NAMES = {dtype: name for name, dtype in DTYPES.items()}
CHUNK = 1 << 26  # elements that are compared at once
memcmp = ctypes.CDLL(None).memcmp
memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
AGREES, WITHIN, OFF, FAILED = "bit for bit", "within noise", "OFF", "not compared"


class NotCompared(Exception):
    """Why a task could not be compared."""


# ---- safetensors files ----------------------------------------------------------------------------------------------


def write_tensors(path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> None:
    header, at = {}, 0
    rows = {name: t.detach().contiguous() for name, t in tensors.items()}
    for name, t in rows.items():
        size = t.numel() * t.element_size()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for t in rows.values():
            size = t.numel() * t.element_size()
            if size:
                file.write(memoryview((ctypes.c_char * size).from_address(t.data_ptr())).cast("B"))


# ---- differences ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Difference:
    same: bool = True  # the same bits, but for NaNs' payloads
    largest: float = 0.0
    rms: float = 0.0  # relative to the RMS of the second

    def worst(self, other: Difference) -> Difference:
        return Difference(self.same and other.same, max(self.largest, other.largest), max(self.rms, other.rms))

    def within(self, noise: Difference) -> bool:
        return self.same or (self.largest <= noise.largest and self.rms <= noise.rms)


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.is_contiguous() and b.is_contiguous() and not memcmp(a.data_ptr(), b.data_ptr(),
                                                                  a.numel() * a.element_size())


def difference(a: torch.Tensor, b: torch.Tensor, device: torch.device) -> Difference:
    """Of two tensors in the host's memory; computed on the device, in parts."""
    if a.dtype != b.dtype or a.shape != b.shape:
        raise NotCompared(f"an output is {a.dtype}{list(a.shape)}, and should be {b.dtype}{list(b.shape)}")
    if same_bytes(a, b):
        return Difference()
    result, squares, total = Difference(), 0.0, 0.0
    for first in range(0, a.numel(), CHUNK):
        x, y = (t.reshape(-1)[first:first + CHUNK].to(device) for t in (a, b))
        if x.is_floating_point():
            result.same &= bool(((x == y) & (x.signbit() == y.signbit()) | (x.isnan() & y.isnan())).all())
        else:
            result.same &= bool(torch.equal(x, y))
        x, y = x.double(), y.double()
        off = torch.where((x == y) | (x.isnan() & y.isnan()), 0.0, (x - y).abs())
        largest = float(off.max())
        result.largest = max(result.largest, math.inf if math.isnan(largest) else largest)
        squares += float((off * off).sum())
        total += float(torch.where(y.isfinite(), y * y, 0.0).sum())
    result.rms = math.sqrt(squares / total) if total > 0 else (0.0 if squares == 0 else math.inf)
    result.rms = math.inf if math.isnan(result.rms) else result.rms
    return result


def differences(a: list[torch.Tensor], b: list[torch.Tensor], device: torch.device) -> Difference:
    if len(a) != len(b):
        raise NotCompared(f"there are {len(a)} outputs, and should be {len(b)}")
    result = Difference()
    for x, y in zip(a, b):
        result = result.worst(difference(x, y, device))
    return result


# ---- the two sides --------------------------------------------------------------------------------------------------


def leaves(values: Any) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]


def on_device(device: torch.device, values: Any) -> Any:
    """Copies, which forward may change."""
    return torch.utils._pytree.tree_map(
        lambda x: x.to(device, copy=True) if isinstance(x, torch.Tensor) else x, values)


class Eager:
    """The module that a task was imported from."""

    def __init__(self, task: dict[str, Any], blobs: pathlib.Path, device: torch.device) -> None:
        origin = task.get("origin")
        if not origin:
            raise NotCompared("it has no origin: it was not imported")
        source = blobs / origin["source"]
        if not source.is_file():
            raise NotCompared(f"its source {source} is missing; import it again")
        self.loaded = Loaded(Problem(task["name"], source.read_bytes(), origin["kind"], origin.get("level"),
                                     origin.get("problem")))
        self.task, self.seed, self.device = task, origin["seed"], device
        self.inputs = self.loaded.inputs(self.seed)
        self.model = self.loaded.model(self.seed)

    def check_weights(self, task: dict[str, Any], blobs: pathlib.Path) -> None:
        """The task's weights are those that this machine makes from source and seed."""
        state = self.model.state_dict()
        contents = [w["content"] for w in task["weights"] if "content" in w]
        for file in dict.fromkeys(c["file"] for c in contents):
            stored = read_tensors(blobs / file)
            if hasattr(self.loaded.module, MARK):
                self.model.load_state_dict({n: t for n, t in stored.items() if n in state}, strict=False)
            for name in (c["tensor"] for c in contents if c["file"] == file):
                if name in state and not torch.equal(state[name].cpu(), stored[name]):
                    raise NotCompared(f"its weight {name} is not what this machine makes from source and seed")

    def run(self) -> list[torch.Tensor]:
        """A copy of the module each time, since forward may change its buffers; the outputs, in the host's memory."""
        model = copy.deepcopy(self.model).to(self.device)
        given = on_device(self.device, self.inputs)
        with torch.inference_mode():
            result = model(*given)
            register(result)
            outputs = self.outputs(model, given, leaves(result))
            return [x.cpu().contiguous() for x in outputs]

    def outputs(self, model: torch.nn.Module, given: Any, results: list[torch.Tensor]) -> list[torch.Tensor]:
        """As the program has them: what forward returned, and what it left in the module and in its inputs."""
        if "returns" not in self.task:
            return results
        found = dict(zip(places_in(self.task["returns"]), results, strict=True))
        inputs = {declared["name"]: x for declared, x in zip(self.task["inputs"], leaves(given))}
        for state in self.task.get("states", ()):
            after = inputs[state["input"]] if state["kind"] == "argument" else attribute(model, state["name"])
            found[self.task["outputs"].index(state["output"])] = after
        return [found[i] for i in range(len(self.task["outputs"]))]

    def given(self) -> list[torch.Tensor]:
        """The program's inputs in the first call: forward's, and what the module has kept."""
        kept = [s["name"] for s in self.task.get("states", ()) if s["kind"] != "argument"]
        return leaves(self.inputs) + [attribute(self.model, name).detach() for name in kept]


class Replay:
    """cudal1-replay, for one task after another; started again if a task ended it."""

    def __init__(self, program: str, device: str, threads: int) -> None:
        self.command = [program, "--device", device, "--threads", str(threads)]
        self.process: subprocess.Popen[str] | None = None

    def run(self, task: pathlib.Path, tensors: pathlib.Path, out: pathlib.Path) -> None:
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin and self.process.stdout
        request = {"task": str(task), "tensors": str(tensors), "out": str(out)}
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.process.wait()
            self.process = None
            raise NotCompared(f"cudal1-replay ended with exit code {code}")
        answer = json.loads(line)
        if "error" in answer:
            raise NotCompared(f"cudal1-replay: {answer['error']}")

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()  # it ends with its input
            self.process = None


# ---- one task -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Line:
    task: str
    verdict: str
    reason: str = ""
    eager: Difference | None = None  # between its runs
    replay: Difference | None = None  # to the nearest of them
    seconds: float = 0.0


def free_gpu_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()


def scratch_for(size: int, wanted: str | None) -> str:
    """A folder in memory if there is enough of it: a task's inputs may be gigabytes."""
    for folder in [wanted] if wanted else ["/dev/shm", tempfile.gettempdir()]:
        if os.path.isdir(folder) and shutil.disk_usage(folder).free > size + (64 << 20):
            return folder
    raise NotCompared(f"there is no space for {size >> 20} MiB of inputs and outputs; name a folder with --scratch")


def verify(path: pathlib.Path, replay: Replay, device: torch.device, o: argparse.Namespace) -> Line:
    task = json.loads(path.read_text(encoding="utf-8"))
    blobs = path.parent / "blobs"
    eager = Eager(task, blobs, device)
    eager.check_weights(task, blobs)
    runs = [eager.run() for _ in range(o.runs)]
    noise = Difference()
    for i, a in enumerate(runs):
        for b in runs[:i]:
            noise = noise.worst(differences(a, b, device))
    tensors = eager.given()
    if len(tensors) != len(task["inputs"]):
        raise NotCompared(f"its module gives {len(tensors)} tensors, and the task has {len(task['inputs'])} inputs")
    inputs = {declared["name"]: x.cpu() for declared, x in zip(task["inputs"], tensors)}
    del eager, tensors
    free_gpu_memory(device)
    size = sum(x.numel() * x.element_size() for x in [*inputs.values(), *runs[0]])
    with tempfile.TemporaryDirectory(prefix="cudal1-verify-", dir=scratch_for(size, o.scratch)) as folder:
        given, out = pathlib.Path(folder) / "in.safetensors", pathlib.Path(folder) / "out.safetensors"
        write_tensors(given, inputs)
        del inputs
        replay.run(path.resolve(), given, out)
        given.unlink()
        written = read_tensors(out)
    ours = [written[name] for name in task["outputs"]]
    nearest = min((differences(ours, theirs, device) for theirs in runs), key=lambda d: (not d.same, d.rms))
    verdict = AGREES if nearest.same else WITHIN if nearest.within(noise) else OFF
    return Line(task["name"], verdict, "", noise, nearest)


# ---- the report -----------------------------------------------------------------------------------------------------


def numbers_text(d: Difference | None) -> str:
    if d is None:
        return f"{'-':>9} {'-':>9}"
    return f"{'0':>9} {'0':>9}" if d.same else f"{d.largest:9.2e} {d.rms:9.2e}"


def print_line(line: Line, width: int) -> None:
    text = f"{line.task:{width}}  {numbers_text(line.eager)}  {numbers_text(line.replay)}  {line.seconds:6.1f}  {line.verdict}"
    print(text + (f": {line.reason}" if line.reason else ""), flush=True)


def print_summary(lines: list[Line], device: str) -> None:
    counts = {v: sum(line.verdict == v for line in lines) for v in (AGREES, WITHIN, OFF, FAILED)}
    print(f"\n{len(lines)} tasks on {device}: {counts[AGREES]} agree bit for bit, {counts[WITHIN]} within eager's own "
          f"run-to-run noise, {counts[OFF]} do not, {counts[FAILED]} could not be compared")


def as_json(line: Line) -> dict[str, Any]:
    finite = {k: dataclasses.asdict(v) if v is not None else None for k, v in (("eager", line.eager),
                                                                             ("replay", line.replay))}
    for d in finite.values():
        for key in ("largest", "rms") if d else ():
            d[key] = d[key] if math.isfinite(d[key]) else str(d[key])
    return {"task": line.task, "verdict": line.verdict, "reason": line.reason, "seconds": line.seconds, **finite}


def find_replay(wanted: str | None) -> str:
    here = pathlib.Path(__file__).resolve().parent
    candidates = [pathlib.Path(wanted)] if wanted else [
        here.parents[2] / "bin" / "cudal1-replay",  # installed: share/cudal1/python
        here.parents[1] / "build" / "bin" / "cudal1-replay"]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    found = None if wanted else shutil.which("cudal1-replay")
    if found:
        return found
    raise SystemExit(f"verify_tasks: there is no {candidates[0]}; build the target cudal1-replay, or give --replay")


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="verify_tasks.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="+", type=pathlib.Path, metavar="DIR", help="a folder of tasks, or a task file")
    parser.add_argument("--only", action="append", default=[], metavar="NAME,...",
                        help="only these tasks: whole names, or beginnings as in level1_023")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu",
                        help="cpu or cuda:N (default: the first GPU, else cpu)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of eager, at least 2 (default 3)")
    parser.add_argument("--threads", type=int, default=1, metavar="N",
                        help="threads of both sides on the cpu (default 1)")
    parser.add_argument("--replay", metavar="PATH", help="the program cudal1-replay (default: beside this)")
    parser.add_argument("--scratch", metavar="DIR", help="of inputs and outputs (default: /dev/shm, else the system's)")
    parser.add_argument("--json", action="store_true", help="one line of JSON per task on stdout")
    o = parser.parse_args(words)
    if o.runs < 2:
        parser.error("--runs: noise needs two runs")
    return o


def task_files(o: argparse.Namespace) -> Iterator[pathlib.Path]:
    wanted = [w for words in o.only for w in words.split(",") if w]
    for source in o.source:
        if not source.exists():
            raise SystemExit(f"verify_tasks: there is no {source}")
        for path in sorted(source.glob("*.json")) if source.is_dir() else [source]:
            if not wanted or any(path.stem == w or path.stem.startswith(w + "_") for w in wanted):
                yield path


def main(words: list[str]) -> int:
    o = parse(words)
    paths = list(task_files(o))
    if not paths:
        print("verify_tasks: there is no such task", file=sys.stderr)
        return 2
    device = torch.device(o.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(o.threads)  # the number of threads changes how sums are split and rounded
    replay = Replay(find_replay(o.replay), o.device, o.threads)
    width = max(len(path.stem) for path in paths)
    if not o.json:
        print(f"{'':{width}}  {'eager, run to run':^19}  {'ours, from eager':^19}\n"
              f"{'task':{width}}  {'max abs':>9} {'rel. RMS':>9}  {'max abs':>9} {'rel. RMS':>9}  {'s':>6}")
    lines = []
    for path in paths:
        began = time.monotonic()
        try:
            line = verify(path, replay, device, o)
        except (NotCompared, Refused, OSError, ValueError, KeyError, RuntimeError) as e:
            text = str(e).splitlines()
            line = Line(path.stem, FAILED, (text[0] if text else type(e).__name__)[:300])
        free_gpu_memory(device)
        line.seconds = time.monotonic() - began
        lines.append(line)
        if o.json:
            print(json.dumps(as_json(line)), flush=True)
        else:
            print_line(line, width)
    replay.close()
    if not o.json:
        print_summary(lines, o.device)
    return 0 if all(line.verdict in (AGREES, WITHIN) for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Runs PyTorch's own operator database (op_db: the samples that PyTorch tests its operators with) through the importer,
our rules and our interpreter, and compares the results with PyTorch's.

Each sample is a call. It is recorded as torch.export records it, or decomposed to the core set of ATen's operators,
brought into a program by the importer's passes, and run by cudal1-replay: in its own element types, where it must give
PyTorch's bits if both run the same kernels, and rounding errors at most if the importer has decomposed or copied; and
in float64, as the referee's exact answer. What is refused must be among exceptions.txt, with the reason.

Exit codes: 0 all as it should be; 1 not; 2 the command line is wrong; 77 a Python package is missing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)  # PyTorch's, of calls that it refuses
os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "python"))

import torch  # noqa: E402

try:
    import expecttest  # noqa: E402, F401
    import numpy  # noqa: E402, F401
except ModuleNotFoundError as e:
    print(f"skipped: PyTorch's operator database needs {e.name}, which tools/bootstrap.sh installs", file=sys.stderr)
    sys.exit(77)

import programs  # noqa: E402
import report  # noqa: E402
import samples  # noqa: E402
from importing import operators, replay, rules  # noqa: E402
from importing.refusal import Refused  # noqa: E402
from verify_tasks import read_tensors, write_tensors  # noqa: E402

AHEAD = 32  # samples whose answers are awaited later
EXACT = 1e-9  # of the largest value: float64, perhaps with another kernel


class Waiting:
    """A sample that the interpreter has been asked for."""

    def __init__(self, sample: samples.Sample, built: programs.Built, expected: list, exact: list | None) -> None:
        self.sample, self.built, self.expected, self.exact = sample, built, expected, exact
        self.request: dict[str, str] = {}


class Changes(Exception):
    """A call changes its operand."""


def eager(call: object, bases: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    given = [t.to(device, copy=True) for t in bases]
    with torch.no_grad():
        found = call(*given)
    if not all(replay.same(a.cpu(), b) for a, b in zip(given, bases)):
        raise Changes("PyTorch's call changes its operand")
    leaves = torch.utils._pytree.tree_leaves(found)
    return [x.detach().cpu().contiguous() for x in leaves if isinstance(x, torch.Tensor)]


def close(a: torch.Tensor, b: torch.Tensor, limit: float) -> bool:
    """Whether `a` is `b` within rounding in float64; in what PyTorch makes of integers, or was asked for."""
    if b.is_floating_point() and b.dtype != torch.float64:
        a, limit = a.to(b.dtype), max(1e-6, 2 * torch.finfo(b.dtype).eps)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    finite = b.isfinite()
    if not torch.equal(a.isnan(), b.isnan()) or not torch.equal(a[~finite & ~b.isnan()], b[~finite & ~b.isnan()]):
        return False
    if not finite.any():
        return True
    return bool(((a - b)[finite].abs().max()) <= limit * max(float(b[finite].abs().max()), 1.0))


def difference(ours: list[torch.Tensor], theirs: list[torch.Tensor], same_kernels: bool) -> tuple[str, str]:
    """The outcome and what is wrong."""
    if len(ours) != len(theirs):
        return report.WRONG, f"{len(ours)} outputs, and PyTorch has {len(theirs)}"
    outcome = report.BITS
    for a, b in zip(ours, theirs):
        if a.shape != b.shape or a.dtype != b.dtype:
            return report.WRONG, f"{a.dtype}{list(a.shape)}, and PyTorch's is {b.dtype}{list(b.shape)}"
        if replay.same(a, b):
            continue
        if same_kernels or replay.rounding_between(a, b) is None:
            off = float((a.double() - b.double()).abs().nan_to_num(0).max())
            return report.WRONG, f"off by up to {off:.3g}" + (", with the same kernels" if same_kernels else "")
        outcome = report.ROUNDING
    return outcome, ""


class Run:
    def __init__(self, o: argparse.Namespace, asked: rules.Rules, folder: pathlib.Path) -> None:
        self.o, self.asked, self.folder = o, asked, folder
        self.interpreter = programs.Interpreter(o.replay, o.device)
        self.lines: list[report.Line] = []
        self.waiting: list[Waiting] = []
        self.count = 0

    def _keep(self, line: report.Line) -> None:
        self.lines.append(line)
        if self.o.json:
            print(json.dumps(line.as_json()), file=self.o.json, flush=True)

    def add(self, sample: samples.Sample) -> None:
        line = report.Line(sample)
        begin = time.monotonic()
        try:
            expected = eager(sample.call, sample.bases, self.o.device)
        except Changes as e:
            line.outcome, line.reason = report.REFUSED, str(e)
            self._keep(line)
            return
        except Exception:
            if self.o.device != "cpu":
                torch.cuda.synchronize()  # ends this run if the device can do nothing any more
            return  # PyTorch itself cannot, with this layout or on this device
        if any(t.numel() == 0 for t in expected):
            return
        try:
            built = programs.build(sample, self.asked)
        except Refused as e:
            line.outcome, line.reason = report.REFUSED, str(e)
            line.recorded = getattr(e, "recorded", [])
            self._keep(line)
            return
        except Exception as e:
            line.outcome, line.reason = report.WRONG, f"the importer failed: {type(e).__name__}: {e}"
            self._keep(line)
            return
        if self.o.keep and time.monotonic() - begin > 0.5:
            print(f"{sample.name} took {time.monotonic() - begin:.1f} s", flush=True)
        exact = None
        if any(t.is_floating_point() for t in (*sample.bases, *expected)):
            try:
                exact = eager(sample.widened, [samples.float64(t) for t in sample.bases], self.o.device)
            except Exception:
                pass  # it has no kernel for float64
        self._ask(Waiting(sample, built, expected, exact))

    def _ask(self, w: Waiting) -> None:
        self.count += 1
        base = self.folder / str(self.count)
        names = {k: f"{base}.{k}" for k in ("task", "tensors", "out", "exact")}
        pathlib.Path(names["task"]).write_text(programs.task_text(w.built.program))
        given = dict(zip((v.name for v in w.built.program.inputs), w.sample.bases))
        given.update({v.name: v.data for v in w.built.program.weights})
        write_tensors(pathlib.Path(names["tensors"]), given)
        w.request = names if w.exact is not None else {**names, "exact": ""}
        self.waiting.append(w)
        self.interpreter.send(w.request)
        if len(self.waiting) > AHEAD:
            self.receive()

    def receive(self) -> None:
        w = self.waiting.pop(0)
        answer = self.interpreter.receive()
        line = report.Line(w.sample, recorded=w.built.recorded)
        names = [v.name for v in w.built.program.outputs]
        if "error" in answer and not answer["error"].startswith("in float64"):
            line.outcome, line.reason = report.WRONG, answer["error"]
        else:
            ours = read_tensors(pathlib.Path(w.request["out"]))
            same = w.built.same_kernels and self.o.device == "cpu"
            line.outcome, line.reason = difference([ours[n] for n in names], w.expected, same)
            if line.outcome == report.WRONG and self._is_pytorchs_fault(w, [ours[n] for n in names]):
                line.outcome, line.reason = report.REFUSED, "PyTorch gives another result than for contiguous operands"
            elif line.outcome != report.WRONG and w.exact is not None:
                self._compare_exact(w, answer, names, line)
        if line.outcome == report.WRONG and self.o.keep:
            line.reason += " | " + programs.task_text(w.built.program)
        self._keep(line)
        programs.remove(*(pathlib.Path(p) for p in w.request.values() if p))

    def _is_pytorchs_fault(self, w: Waiting, ours: list[torch.Tensor]) -> bool:
        """Of a layout: it may read beyond an expanded tensor, as median does."""
        if w.sample.layout == "contiguous":
            return False
        return difference(ours, eager(w.sample.compact, w.sample.bases, self.o.device), False)[0] != report.WRONG

    def _compare_exact(self, w: Waiting, answer: dict, names: list[str], line: report.Line) -> None:
        if "error" in answer:
            line.exact, line.reason = report.REFUSED, answer["error"]
            return
        ours = read_tensors(pathlib.Path(w.request["exact"]))
        # What the importer, or a decomposition, has computed of constants in another type stays what it is.
        types = {v.fake.dtype for v in w.built.program.weights} | ({w.sample.dtype, torch.float32} if w.sample.form == "core" else set())
        limit = max([EXACT, *(8 * torch.finfo(t).eps for t in types if t.is_floating_point)])
        good = len(names) == len(w.exact) and all(close(ours[n], b, limit) for n, b in zip(names, w.exact))
        line.exact = report.BITS if good else report.WRONG
        if not good:
            line.outcome, line.reason = report.WRONG, "in float64: not PyTorch's result in float64"

    def finish(self) -> None:
        while self.waiting:
            self.receive()
        self.interpreter.close()


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="operator_database", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "bin", metavar="DIR",
                        help="with cudal1 and cudal1-replay (default: build/bin)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0: where both sides compute (default cpu)")
    parser.add_argument("--fast", action="store_true", help="three samples of each operator")
    parser.add_argument("--only", default="", metavar="NAME,...", help="only these operators of the database")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th operator, from the I-th")
    parser.add_argument("--keep", action="store_true", help="show the programs of wrong samples")
    parser.add_argument("--json", type=argparse.FileType("w"), metavar="FILE", help="write one line for each sample")
    parser.add_argument("--show", nargs="+", type=pathlib.Path, metavar="FILE",
                        help="run nothing: the tables of what --json wrote, of all parts")
    o = parser.parse_args(words)
    o.cudal1, o.replay = str(o.bin / "cudal1"), str(o.bin / "cudal1-replay")
    o.part, o.parts = (int(x) for x in o.part.split("/"))
    return o


def run_samples(o: argparse.Namespace, folder: pathlib.Path) -> list[dict]:
    only = {w for w in o.only.split(",") if w}
    with rules.asked_of(o.cudal1) as asked:
        run = Run(o, asked, folder)
        for place, op in enumerate(samples.op_db):
            if (only and not only & {op.name, op.full_name}) or place % o.parts != o.part:
                continue
            chosen = samples.fast_choice(place) if o.fast else samples.combinations(samples.Choice())
            for sample in samples.samples_of(op, chosen):
                run.add(sample)
        run.finish()
    return [line.as_json() for line in run.lines]


def main(words: list[str]) -> int:
    o = parse(words)
    torch.set_num_threads(1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        operators.load(operators.text_of(o.cudal1))
        lines = report.read(o.show) if o.show else run_samples(o, pathlib.Path(folder))
    whole = not (o.fast or o.only or o.parts > 1)
    return report.show(lines, operators.names(), time.monotonic() - begin, whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

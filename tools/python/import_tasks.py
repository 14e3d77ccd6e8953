#!/usr/bin/env python3
"""Turns PyTorch models into tasks of cudal1.

SOURCE is a KernelBench problem (FOLDER/level1/23_Softmax.py), a definition of FlashInfer-Bench or SOL-ExecBench (JSON,
with its workloads) or a folder of them, any Python file with Model, get_inputs and
get_init_inputs, a folder of such files, JSON lines with level, problem_id, code and perhaps name, or FILE.py:NAME or
package.module:NAME: a module's class, a module, a function that makes one, or a function of tensors. What those are
called with is given by example_inputs() beside them: a tuple by position, a dict by keyword, several if it yields. The results
are DIR/NAME.json and, named by their SHA-256, DIR/blobs/*.safetensors (weights as KernelBench seeds them) and
*.py (sources).

THE FILES ARE EXECUTED, as you, without a sandbox: import only what you would run.

Exit codes: 0 everything was imported; 1 something was refused, and the rest imported; 2 the command line is
wrong.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import sys
import time
import warnings
from typing import Any, Callable

from importing import command_line
from importing.problems import Problem, check_syntax

warnings.filterwarnings("ignore")
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # an import needs no GPU, and another process may measure on it

if __name__ == "__main__":
    command_line.begin(__doc__ or "", sys.argv[1:])

import torch  # noqa: E402

from importing import (  # noqa: E402
    autocasting,
    checkpoint,
    draws,
    exporting,
    lines,
    modes,
    operators,
    part,
    passes,
    reading,
    replay,
    rules,
    smaller_batch,
    state,
    targets,
    task_file,
    weights,
)
from importing.program import Program  # noqa: E402
from importing.refusal import Refused  # noqa: E402
from importing.source import (  # noqa: E402
    SEED,
    ImportsNeighbour,
    Loaded,
    OnCpu,
    OtherInputs,
    one_line,
    running,
)


@dataclasses.dataclass
class Options:
    out: pathlib.Path
    verify_s: float
    rules: str  # the path of cudal1
    inputs: list[str]  # functions or values, in place of what is beside the model
    weights: str  # a file with the model's state_dict, or ""
    module: str = ""  # of the model, alone
    show_output: bool = False  # of the problem's own code


def import_problem(problem: Problem, options: Options) -> list[dict[str, Any]]:
    """Writes the tasks of a problem, and gives a line of the report for each."""
    check_syntax(problem)
    if problem.kind == "kernelbench" and problem.level == 4:
        raise Refused(
            "KernelBench's level 4 downloads pretrained models by their names, and a task holds all that it is made "
            "of; take levels 1 to 3, or write the model as a file of its own: its transformers class made from a "
            "configuration (`from_config`, which needs transformers in this Python), and its weights by --weights"
        )
    if not problem.target and not options.inputs:
        with contextlib.suppress(OtherInputs, ImportsNeighbour):
            loaded = Loaded(problem)
            if loaded.is_complete():
                return [import_task(problem, options, loaded, [])]

    def imported(one: targets.Adapted) -> list[dict[str, Any]]:
        return [import_task(one.problem, options, Loaded(one.problem), one.notes)]

    every = targets.adapted(problem, options.inputs)
    return [line for one in every for line in _lines(one.problem.name, lambda: imported(one))]


def import_task(problem: Problem, options: Options, loaded: Loaded, notes: list[str]) -> dict[str, Any]:
    """Of a problem with Model, get_inputs and get_init_inputs."""
    arguments, drawn = draws.draw_inputs(loaded, torch.utils._pytree.tree_leaves)
    found, more = checkpoint.find(options.weights, problem.folder, problem.file)
    model = loaded.model()
    loaded.checkpoint, said = checkpoint.fitting(found, model)
    notes = [*notes, *more, *said]
    with rules.asked_of(options.rules) as asked:
        recorder = Recorder(problem, loaded, drawn, asked)
        program = recorder.task_program(model, arguments)
        compared = compare(program, recorder, arguments, options.verify_s)
    checked = compared.checked
    program.modes = modes.that_matter(loaded.model(), arguments)
    if all(d.same and d.fixed for d in drawn) and all(v.kind == "constant" for v in program.weights):
        raise Refused(
            "its inputs have the same values in every call, and it has no weights, so that a program without work could "
            "return the results: draw one of its inputs at random (torch.rand, randn, randint)"
        )
    drawn += [draws.draw_of_state(values) for values in checked.states]
    if options.module:
        program, drawn = part.take_part(program, options.module, loaded, drawn)
    blobs = options.out / "blobs"
    blob = weights.write_weights(program, blobs)
    recorded = task_file.recorded_tensors(program, drawn)
    records = weights.write_tensors(recorded, blobs) if recorded else None
    source = weights.write_source(checkpoint.marked(problem.code, loaded.checkpoint), blobs)
    declared = weights.declare_weights(program, blob or "")
    task = task_file.task_json(problem, model, program, drawn, declared, records, source, options.module)
    if compared.uncompared:
        task["origin"]["uncompared"] = compared.uncompared
    path = options.out / f"{problem.name}.json"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(task_file.task_text(task), encoding="utf-8")
    os.replace(unfinished, path)
    size = sum(w.data.numel() * w.data.element_size() for w in program.weights)
    return {
        "name": problem.name,
        "file": path.name,
        "family": task["family"],
        "inputs": len(program.inputs),
        "weights": len(program.weights),
        "weight_bytes": size,
        "steps": len(program.steps),
        "verified": checked.calls > 0,
        "uncompared": compared.uncompared,
        "rounding": checked.rounding,
        "rewritings": program.rewritings.checked,
        "unchecked": program.rewritings.unchecked,
        "files": read_files(problem, loaded),
        "notes": notes + notes_on(program, drawn) + compared.notes,
    }


class Recorder:
    """Makes a task's program of a model."""

    def __init__(self, problem: Problem, loaded: Loaded, drawn: list[draws.Drawn], asked: rules.Rules) -> None:
        self.loaded, self.drawn, self.asked = loaded, drawn, asked
        self.is_fixed = weights.fixed_test(lambda seed: Loaded(problem, seed).model(seed), SEED)

    def task_program(self, model: torch.nn.Module, arguments: list[Any]) -> Program:
        program, watch = exporting.export(model, arguments, self.loaded.module.__name__)
        if len(program.inputs) != len(self.drawn):
            raise Refused(f"forward takes {len(program.inputs)} tensors, and get_inputs gives {len(self.drawn)}")
        watch.check_asked(program, self.is_fixed)
        others_are_read = watch.read_by(program)
        passes.make_task_program(program, self.is_fixed)
        weights.name_values(program)
        if watch.others and (others_are_read or is_another_later(self.loaded, arguments, program, watch, self.is_fixed)):
            changed = ", ".join(watch.where(path) for path in watch.others)
            raise Refused(
                f"forward changes {changed}, which a task cannot keep from call to call, and a later call depends on "
                "it: keep a tensor of one shape and dtype, made in __init__ (register_buffer), in the place of a "
                "number, a list or None"
            )
        program.dropped += watch.others
        unknown = {s.name + s.where for s in program.steps if not operators.is_known(s.op) and not reading.has_parts(s.op)}
        if unknown:
            raise Refused(
                f"it needs {', '.join(sorted(unknown))}, which is not among the operators of a task; write it "
                "with others"
            )
        if program.unlike_cpu:
            check_types_are_not_asked_for(self.loaded, arguments, program, self.is_fixed)
        program.fitted = rules.fit_to_rules(program, self.asked)
        weights.name_values(program)
        return program


# What no part of the batch can stand for gets more time.
PATIENCE = 3


@dataclasses.dataclass
class Compared:
    checked: replay.Checked
    uncompared: str = ""  # why the program was not compared with its model
    notes: list[str] = dataclasses.field(default_factory=list)


def compare(program: Program, recorder: Recorder, arguments: list[Any], limit_s: float) -> Compared:
    """The program with its model on the CPU, with a part of the batch if the whole takes too long."""
    loaded = recorder.loaded
    checked = replay.check(program, loaded.model(), arguments, 0.0 if program.unlike_cpu else limit_s)
    if program.unlike_cpu:
        return Compared(checked, autocasting.UNLIKE_CPU)
    if checked.calls:
        return Compared(checked, notes=never_finite(program, checked, loaded))
    if limit_s <= 0:
        return Compared(checked, "it was imported with --verify 0")

    def record(given: list[Any]) -> Program:
        return recorder.task_program(loaded.model(), given)

    checked, part_of_batch = smaller_batch.check(program, record, loaded.model, arguments, limit_s)
    if checked.calls:
        return Compared(checked, notes=[f"compared with the model on {part_of_batch} of its batch", *checked.never_finite])
    checked = replay.check(program, loaded.model(), arguments, PATIENCE * limit_s)
    if checked.calls:
        return Compared(checked, notes=never_finite(program, checked, loaded))
    return Compared(checked, f"a call of its model is estimated to take {replay.seconds_of(program):.0f} s on a CPU")


def never_finite(program: Program, checked: replay.Checked, loaded: Loaded) -> list[str]:
    """Of outputs without a finite element in a call with KernelBench's inputs, those that have none with others, too."""
    if not checked.never_finite or program.states:
        return checked.never_finite
    with torch.no_grad():
        outputs = replay.run(program, replay.tensors_in(loaded.inputs(SEED + 1)))
    if any(x.numel() and not x.isfinite().any() for x in outputs):
        return [f"{sentence}, with other inputs too: no right answer can be told from a wrong one" for sentence in checked.never_finite]
    return []


def check_types_are_not_asked_for(loaded: Loaded, arguments: list[Any], program: Program, is_fixed: Any) -> None:
    """Under the autocast of a GPU, some tensors have types that no run on the CPU shows. They matter if forward asks."""
    with autocasting.unseen():
        other, _ = exporting.export(loaded.model(), arguments, loaded.module.__name__)
    passes.make_task_program(other, is_fixed)
    weights.name_values(other)
    if task_file.program_text(other) != task_file.program_text(program):
        raise Refused(
            'under torch.autocast("cuda") forward asks for types of tensors (x.dtype), which are others on a GPU than where it '
            "is imported; convert with .to(torch.bfloat16) or .float() in their place"
        )


def read_files(problem: Problem, loaded: Loaded) -> list[dict[str, Any]]:
    """The files of the user's own that the task was made of, beside its source, as they are now."""
    paths = [str(getattr(module, "__file__", None)) for module in list(sys.modules.values())]
    own = [path for path in paths if lines.is_own(path) and os.path.isabs(path)]
    if loaded.checkpoint is not None:
        own.append(str(loaded.checkpoint.path))
    now = {path: os.stat(path) for path in sorted(set(own))}
    return [{"path": path, "bytes": s.st_size, "modified_ns": s.st_mtime_ns} for path, s in now.items()]


def is_another_later(
    loaded: Loaded, arguments: list[Any], program: Program, watch: state.Watch, is_fixed: Any
) -> bool:
    """Of attributes that forward changes and that are no tensors (a number, a list that grows, nothing before the first
    call): whether the program is another one after a call, or after many."""
    if state.hold_tensors(watch.others) and replay.seconds_of(program) < 5 and is_cache(loaded, watch):
        return False
    can_be_called = replay.seconds_of(program) < 5
    for calls in (1, 2, 1000):
        model = loaded.model()
        if can_be_called:  # what else a first call does, as to install what a flag says is there, is done then
            with running("forward"), torch.no_grad(), OnCpu():
                for seed in range(SEED + 1, SEED + 1 + min(calls, 2)):
                    model(*loaded.inputs(seed))
        for path, (before, after) in watch.others.items():
            if not can_be_called or calls > 2 and type(after) in (int, float):
                state.put(model, path, state.like(after, calls, before))
        try:
            later, _ = exporting.export(model, arguments, loaded.module.__name__)
            passes.make_task_program(later, is_fixed)
            weights.name_values(later)
            same = task_file.program_text(later) == task_file.program_text(program)
        except Refused:
            same = False
        if not same:
            return True
    return False


def is_cache(loaded: Loaded, watch: state.Watch) -> bool:
    """Whether what forward keeps in its attributes is the same whatever the inputs, and no result depends on its being
    there: a mask or a bias that is computed once."""

    def called(seeds: list[int]) -> tuple[torch.nn.Module, Any]:
        model = loaded.model()
        with running("forward"), torch.no_grad(), OnCpu():
            return model, [model(*loaded.inputs(seed)) for seed in seeds][-1]

    for seed in (SEED + 1, SEED + 2):
        (first, result), (later, again) = called([seed]), called([SEED, seed])
        kept = [[state.attribute(model, path) for path in watch.others] for model in (first, later)]
        if not replay.same_leaves(result, again) or not replay.same_leaves(*kept):
            return False
    return True


def notes_on(program: Program, drawn: list[draws.Drawn]) -> list[str]:
    """What the task takes from records, keeps from call to call, does not keep, copies, and computes by parts."""
    states = {s.input: s for s in program.states}
    fitted = program.fitted
    notes = []
    for v, d in zip(program.inputs, drawn):
        if d.recorded and v not in states:
            how = f"recorded: {len(d.recorded)} draws" if not d.same else "given by its values"
            notes.append(f"{v.name} is {how}" + (", and always these" if d.same and d.fixed else ""))
    for v, s in states.items():
        what = "is an input that forward changes" if s.kind == "argument" else "is kept from call to call"
        notes.append(f"{s.path} {what}")
    statistics = [p for p in program.dropped if weights.is_statistic(p)]
    others = [p for p in program.dropped if not weights.is_statistic(p)]
    if statistics:
        notes.append(f"running statistics are not kept, since no output reads them ({len(statistics)} buffers)")
    if others:
        named = ", ".join(others) if len(others) <= 5 else f"{', '.join(others[:5])} and {len(others) - 5} more"
        notes.append(f"not kept, since no output reads them: {named}")
    if program.transforms:
        lengths = ", ".join(map(str, sorted(program.transforms)))
        notes.append(f"Fourier transforms of {lengths} elements are products with tables, slower than PyTorch's on a CPU")
    if program.chosen_rows:
        notes.append("rows that a mask chooses are all computed, and the mask chooses where they are written")
    if program.cpu_casts:
        notes.append('it casts as torch.autocast("cpu") does, on a GPU too; "cuda" is recorded as a GPU casts')
    if program.unlike_cpu:
        notes.append('it casts as torch.autocast("cuda") does, and a CPU does not')
    if fitted.copies:
        what = "1 tensor is" if fitted.copies == 1 else f"{fitted.copies} tensors are"
        notes.append(f"{what} copied to be contiguous, as the rules of the operators that read them ask")
    if fitted.parts:
        notes.append(f"computed by parts, since the rules refuse the whole: {', '.join(fitted.parts)}")
    return notes


def _lines(name: str, imported: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What was imported, or one line with the reason why it was not."""
    try:
        return imported()
    except Refused as e:
        reason = str(e)
    except MemoryError:
        reason = "it needs more memory than there is; import it on a larger machine"
    except Exception as e:
        at = e.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = (
            f" ({pathlib.Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})" if at is not None else ""
        )
        reason = f"the importer failed: {one_line(e)}{where}; please report it"
    return [{"name": name, "reason": reason}]


def _child(problem: Problem, options: Options, answer: multiprocessing.connection.Connection) -> None:
    """Imports one problem in a process of its own, so that the effects of its code end with it."""
    command_line.end_with_parent()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0,) if options.show_output else (0, 1, 2):
        os.dup2(nothing, stream)
    if options.show_output:
        os.dup2(2, 1)  # standard output has the report
    answer.send(_lines(problem.name, lambda: import_problem(problem, options)))
    answer.close()


class Jobs:
    """Problems in child processes, a few at a time."""

    def __init__(self, options: Options, jobs: int, limit_s: float) -> None:
        self.options, self.jobs, self.limit_s = options, jobs, limit_s
        self.context = multiprocessing.get_context("fork")
        self.running: dict[Any, tuple[Any, Problem, float]] = {}

    def _start(self, problem: Problem) -> None:
        ours, theirs = self.context.Pipe(duplex=False)
        child = self.context.Process(target=_child, args=(problem, self.options, theirs))
        child.start()
        theirs.close()
        self.running[ours] = (child, problem, time.monotonic() + self.limit_s)

    def _finished(self, answer: Any) -> tuple[Problem, list[dict[str, Any]]]:
        child, problem, _ = self.running.pop(answer)
        try:
            found = answer.recv()
        except EOFError:
            child.join()
            how = f"signal {-child.exitcode}" if (child.exitcode or 0) < 0 else f"exit code {child.exitcode}"
            hint = "; there may not be enough memory: try --jobs 1" if child.exitcode == -9 else ""
            found = [{"name": problem.name, "reason": f"its process ended with {how}{hint}"}]
        child.join()
        return problem, found

    def run(self, problems: list[Problem], progress: command_line.Progress) -> list[dict[str, Any]]:
        """The report's lines, in the order of the problems."""
        waiting = list(reversed(problems))
        found: dict[Problem, list[dict[str, Any]]] = {}

        def finished(problem: Problem, own: list[dict[str, Any]]) -> None:
            found[problem] = own

        while waiting or self.running:
            while waiting and len(self.running) < self.jobs:
                self._start(waiting.pop())
            progress.show(len(found), len(problems), [p.name for _, p, _ in self.running.values()])
            for answer in multiprocessing.connection.wait(list(self.running), timeout=1.0):
                finished(*self._finished(answer))
            for answer, (child, problem, end) in list(self.running.items()):
                if time.monotonic() > end:
                    child.kill()
                    child.join()
                    del self.running[answer]
                    reason = f"it took longer than {self.limit_s:.0f} s"
                    finished(problem, [{"name": problem.name, "reason": reason}])
        return [line for problem in problems for line in found[problem]]


def _warm_up() -> None:
    """Loads what the first export needs, once for all children."""

    class Small(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    exporting.export(Small(), [torch.zeros(2)])


def main(words: list[str]) -> int:
    o = command_line.parse(__doc__ or "", words)
    problems = command_line.problems_of(o)
    if o.module:
        problems = [dataclasses.replace(problems[0], name=part.name_of(problems[0].name, o.module))]
    jobs = o.jobs or max(1, len(os.sched_getaffinity(0)) // 2)
    operators.load(o.operators.read_bytes() if o.operators else operators.text_of(o.rules))
    torch.set_num_threads(1)
    autocasting.install()
    _warm_up()
    (o.out / "blobs").mkdir(parents=True, exist_ok=True)
    progress = command_line.Progress(is_shown=not o.show_output)
    options = Options(o.out, o.verify, o.rules, o.inputs, o.weights, o.module, o.show_output)
    progress.stop_counting()
    report = Jobs(options, jobs, o.limit).run(problems, progress)
    progress.clear()
    return command_line.give_report(o, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The tools and resources that an agent sees."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from .client import Client, Job
from .errors import Cudal1Error
from .records import Variant, Verdict

_Tell = Optional[Callable[[float, Optional[float], str], None]]


class Call:
    """A call of a tool that runs: its progress, and its cancellation."""

    def __init__(self, client: Client, tell: _Tell):
        self.client, self._tell = client, tell
        self._lock = threading.Lock()
        self._job: Optional[Job] = None
        self.is_cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.is_cancelled, job = True, self._job
        if job is not None:
            try:
                job.cancel()
            except Cudal1Error:
                pass  # it has ended meanwhile, or the node is away

    def follow(self, job: Job, limit_s: float) -> None:
        with self._lock:
            self._job = job
            is_late = self.is_cancelled
        if is_late:
            job.cancel()
        count = 0
        for now in job.events(limit_s):
            count += 1  # must grow with each notification
            if self._tell is not None and not now.has_ended:
                self._tell(float(count), None, _state_line(now))


def _state_line(job: Job) -> str:
    d = job.document
    if d["position"] is None:
        return f"{d['finished']} of {d['evaluations']} evaluated"
    return f"waits: {d['position']} before it, about {d['expected_wait_s'] or 0:.0f} s"


@dataclass(frozen=True)
class Tool:
    name: str
    about: str
    properties: Dict[str, Any]
    required: Tuple[str, ...]
    run: Callable[[Call, Dict[str, Any]], Dict[str, Any]]

    def document(self) -> Dict[str, Any]:
        schema = {"type": "object", "properties": self.properties, "required": list(self.required),
                  "additionalProperties": False}
        return {"name": self.name, "description": self.about, "inputSchema": schema}

    def problem_of(self, arguments: Any) -> str:
        if not isinstance(arguments, dict):
            return "the arguments are not an object"
        kinds: Dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
        for name in self.required:
            if name not in arguments:
                return f'{self.name}: "{name}" is missing'
        for name, value in arguments.items():
            if name not in self.properties:
                return f'{self.name}: "{name}" is not known; there is: {", ".join(self.properties)}'
            if not isinstance(value, kinds[self.properties[name]["type"]]):
                return f'{self.name}: "{name}" is not of type {self.properties[name]["type"]}'
        return ""


def _result(text: str, document: Any = None, is_error: bool = False) -> Dict[str, Any]:
    out: Dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if isinstance(document, dict):
        out["structuredContent"] = document
    return out


def _text(about: str) -> Dict[str, str]:
    return {"type": "string", "description": about}


_TASK = _text("a task's name, as list_tasks gives it")
_DEVICE = _text("cpu, cuda:0, ...; without: the first GPU, else cpu")


def _list_tasks(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    http = call.client._http
    tasks = http.ask("GET", "/v1/tasks", query={"device": a.get("device")})["tasks"]
    imported = http.ask("GET", "/v1/imported")["tasks"]
    rows = [{"name": t["name"], "summary": t["summary"], "family": t["family"]} for t in tasks]
    rows += [{"name": t["name"], "summary": "imported", "family": ""} for t in imported]
    return _result("\n".join(f"{r['name']}: {r['summary']}" for r in rows), {"tasks": rows})


def _describe_task(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    task = call.client.task(a["task"], a.get("device"))
    if a.get("gpu"):
        document = {"task": task.document, "bounds": task.bounds(a["gpu"])}
    else:
        shown = task.exemplars()
        document = {"task": task.document, "bounds": shown["bounds"], "analysis": shown["analysis"]}
    return _result(json.dumps(document, indent=1), document)


def _python_problem(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    return _result(call.client.task(a["task"], a.get("device")).python())


def _told(verdict: Verdict) -> Dict[str, Any]:
    lines = [verdict.feedback()]
    lines += [f"{'pass' if g.passed else 'FAIL'}  {g.name}: {g.reason}" for g in verdict.gates]
    if verdict.variant:
        lines.append(f"variant {verdict.variant}")
    return _result("\n".join(lines), verdict.document)


def _evaluate(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    variant = Variant(program=a.get("program", ""), schedule=a.get("schedule", ""), python=a.get("python", ""), label="mcp")
    job = call.client.submit(a["task"], [variant], device=a.get("device"))
    call.follow(job, float(a.get("limit_s", 600)))
    if call.is_cancelled:
        return _result("cancelled", is_error=True)
    return _told(job.verdicts()[0])


def _explain(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    return _told(Verdict.of(call.client._http.ask("GET", f"/v1/variants/{a['variant']}/verdict")))


def _best(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    best = call.client.task(a["task"], a.get("device")).best(a.get("count", 5))
    if not best:
        return _result("There is no correct variant yet: the reference itself is the best.", {"variants": []})
    rows: List[Dict[str, Any]] = [{"variant": b.variant, "speedup": b.speedup, "interval": list(b.interval),
                                   "confirmed": b.confirmed, "schedule": b.schedule} for b in best]
    shown = call.client.variant(best[0].variant)
    program = _program_of(shown)
    lines = [f"{r['speedup']:.4g}x [{r['interval'][0]:.4g}, {r['interval'][1]:.4g}] {r['variant']} {r['schedule']}"
             for r in rows]
    return _result("\n".join(lines) + "\n\nThe program of the first:\n" + program, {"variants": rows, "program": program})


def _program_of(shown: Dict[str, Any]) -> str:
    record = shown.get("variant")
    return record.get("program", "") if isinstance(record, dict) else shown.get("program", "")


def _prompt(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    return _result(call.client.task(a["task"], a.get("device")).prompt(form=a.get("form"), tokens=a.get("tokens")))


def _import_model(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    names = call.client.import_model(a["name"], a["source"])
    return _result("Imported: " + ", ".join(names), {"tasks": names})


def _export(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    files = call.client.task(a["task"], a.get("device")).export()
    return _result("\n".join(f"===== {name}\n{text}" for name, text in files.items()), {"files": files})


def _moves(call: Call, a: Dict[str, Any]) -> Dict[str, Any]:
    moves = call.client.moves()
    return _result("\n".join(f"{m['name']}: {m['about']}" for m in moves), {"moves": moves})


TOOLS: Dict[str, Tool] = {
    t.name: t
    for t in (
        Tool("list_tasks", "The tasks that can be made faster.", {"device": _DEVICE}, (), _list_tasks),
        Tool("describe_task", "A task: its program, inputs, least work, and what bounds its time.",
             {"task": _TASK, "device": _DEVICE, "gpu": _text("the bounds on this GPU, as in H200")}, ("task",),
             _describe_task),
        Tool("python_problem",
             "The task as a PyTorch model with Model and get_inputs: what a Python file with ModelNew has to compute.",
             {"task": _TASK, "device": _DEVICE}, ("task",), _python_problem),
        Tool("evaluate",
             "Check and time one variant: a program (JSON head, a line ---, CUDA C++), a schedule of moves, or a Python "
             "file with ModelNew. Says the speedup with its 95% interval, or the failing gate and what to write instead.",
             {"task": _TASK, "program": _text("the program's text: cudal1://format"),
              "schedule": _text("moves, as in row_kernel(steps=0)"),
              "python": _text("a Python file with ModelNew, for what python_problem gives"), "device": _DEVICE,
              "limit_s": {"type": "number", "description": "give up, and cancel, after so many seconds (600)"}},
             ("task",), _evaluate),
        Tool("explain", "The newest verdict on a variant, gate by gate, with what to write instead.",
             {"variant": _text("its id, or the first digits")}, ("variant",), _explain),
        Tool("best", "The best correct variants of a task, and the program of the first.",
             {"task": _TASK, "device": _DEVICE, "count": {"type": "integer", "description": "how many (5)"}}, ("task",),
             _best),
        Tool("prompt", "All that is known for a writer of variants: the task, device, format, earlier variants with scores.",
             {"task": _TASK, "device": _DEVICE, "form": _text("program or schedule"),
              "tokens": {"type": "integer", "description": "the budget"}}, ("task",), _prompt),
        Tool("import_model",
             "Make tasks of a PyTorch model's source (Model, get_inputs, get_init_inputs). The node executes it, and must "
             "allow that.", {"name": _text("of the task: lower-case letters, digits, _"), "source": _text("Python")},
             ("name", "source"), _import_model),
        Tool("export", "The best confirmed variant of a task as files.", {"task": _TASK, "device": _DEVICE}, ("task",),
             _export),
        Tool("moves", "The moves that schedules are made of.", {}, (), _moves),
    )
}

RESOURCES: List[Dict[str, str]] = [
    {"uri": "cudal1://format", "name": "format guide", "mimeType": "text/markdown",
     "description": "how programs and schedules are written, what kernels may use, what is refused, what is fast"},
    {"uri": "cudal1://vocabulary", "name": "vocabulary", "mimeType": "application/json",
     "description": "the operators that steps may call"},
    {"uri": "cudal1://examples", "name": "examples", "mimeType": "text/markdown",
     "description": "good programs for the built-in tasks"},
]


def _format_text(guide: Dict[str, Any]) -> str:
    lines = ["# Programs", guide["program"], "# Schedules", guide["schedule"], "# The device", guide["device"], "# Dialect"]
    lines += [f"- {text}" for part in guide["dialect"] for text in part]
    lines.append("# Refused")
    lines += [f"- {r['what']}: {r['why']}" for part in guide["refused"] for r in part]
    lines.append("# What is fast")
    lines += [f"- {text}" for text in guide["performance"]]
    return "\n".join(lines) + "\n"


def read_resource(client: Client, uri: str) -> Tuple[str, str]:
    """Its text and kind; KeyError."""
    kind = {r["uri"]: r["mimeType"] for r in RESOURCES}[uri]
    if uri == "cudal1://format":
        return _format_text(client.format_guide()), kind
    if uri == "cudal1://vocabulary":
        return json.dumps(client.vocabulary(), indent=1), kind
    examples = client.examples()
    return "\n".join(f"## {e['task']}: {e['name']}\n\n```\n{e['program']}\n```\n" for e in examples), kind

"""Tasks, evaluations, jobs and searches of a node."""

from __future__ import annotations

import os
import sys
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union
from urllib.parse import quote

from .errors import InfrastructureError, InvalidRequest, NotFound, TimeLimit, fault_of
from .records import Best, Item, Progress, Variant, Verdict
from .transport import Transport, default_url

#: The most that one request waits for a job; longer waits are several requests.
_WAIT_S = 60.0
_POLL_S = 0.5


def connect(url: Optional[str] = None, token: Optional[str] = None, *, ca_file: Optional[str] = None,
            name: Optional[str] = None, insecure_tls: bool = False) -> "Client":
    """A client of the node at `url` (default: $CUDAL1_URL, else the node that serves on the data folder). `token`:
    default $CUDAL1_TOKEN. `ca_file`: the PEM file of the cluster's authority, for https. `name` keeps clients of one
    machine without tokens apart: each gets its fair share."""
    transport = Transport(url or default_url(), token or os.environ.get("CUDAL1_TOKEN"), ca_file, name, insecure_tls)
    return Client(transport)


def _is_interactive() -> bool:
    return "ipykernel" in sys.modules


class Client:
    def __init__(self, transport: Transport):
        self._http = transport

    def __repr__(self) -> str:
        return f"cudal1.Client({self._http.url!r})"

    # ---- what is known

    def health(self) -> Dict[str, Any]:
        return self._http.ask("GET", "/v1/health")

    def devices(self) -> List[Dict[str, Any]]:
        return self._http.ask("GET", "/v1/devices")["devices"]

    def tasks(self, device: Optional[str] = None) -> List[str]:
        """The names of the built-in tasks and of those that were imported."""
        built_in = self._http.ask("GET", "/v1/tasks", query={"device": device})["tasks"]
        imported = self._http.ask("GET", "/v1/imported")["tasks"]
        return [t["name"] for t in built_in] + [t["name"] for t in imported]

    def task(self, name: str, device: Optional[str] = None) -> "Task":
        """NotFound, naming similar ones, if there is none."""
        return Task(self, self._http.ask("GET", f"/v1/tasks/{quote(name, safe='')}", query={"device": device})["tasks"][0],
                    device)

    def import_model(self, name: str, source: str, *, replace: bool = False) -> List[str]:
        """The tasks of a PyTorch model's source. The node executes it, confined; its client needs the permission.
        `replace`: the name may be that of a task that was imported from another source."""
        report = self._http.ask("POST", "/v1/tasks", {"name": name, "source": source, "replace": replace}, limit_s=600)
        if report["refused"]:
            raise InvalidRequest("; ".join(f"{r['name']} was refused: {r['reason']}" for r in report["refused"]))
        return [t["name"] for t in report["imported"]]

    def variant(self, variant: str) -> Dict[str, Any]:
        return self._http.ask("GET", f"/v1/variants/{variant}")

    def moves(self) -> List[Dict[str, str]]:
        return self._http.ask("GET", "/v1/moves")["moves"]

    def vocabulary(self) -> List[Dict[str, Any]]:
        return self._http.ask("GET", "/v1/vocabulary")["operators"]

    def format_guide(self, device: Optional[str] = None) -> Dict[str, Any]:
        return self._http.ask("GET", "/v1/format", query={"device": device})

    def examples(self, device: Optional[str] = None) -> List[Dict[str, str]]:
        return self._http.ask("GET", "/v1/examples", query={"device": device})["examples"]

    # ---- evaluations

    def submit(self, task: str, variants: Sequence[Union[Variant, str]], *, device: Optional[str] = None,
               key: Optional[str] = None) -> "Job":
        """Returns once the node has accepted the job: from then on it is carried out, also if the node is restarted. A
        text is a program. `key`: the same key with the same request is the same job; by default each call has its own,
        with which it is repeated where the connection is lost."""
        body = self._body(task, variants, device)
        document = self._http.ask("POST", "/v1/evaluate", body, headers={"Idempotency-Key": key or str(uuid.uuid4())},
                                  may_repeat=True, retry_limit_s=300)
        return Job(self, document)

    def job(self, id: str) -> "Job":
        return Job(self, self._http.ask("GET", f"/v1/jobs/{id}"))

    def jobs(self) -> List[Dict[str, Any]]:
        return self._http.ask("GET", "/v1/jobs")["jobs"]

    @staticmethod
    def _body(task: str, variants: Sequence[Union[Variant, str]], device: Optional[str]) -> Dict[str, Any]:
        documents = [(Variant(program=v) if isinstance(v, str) else v).document() for v in variants]
        body: Dict[str, Any] = {"task": task, "variants": documents}
        if device:
            body["device"] = device
        return body

    # ---- searches

    def search(self, *tasks: str, evaluations: Optional[int] = None, time_s: Optional[float] = None,
               device: Optional[str] = None, policy: Optional[str] = None, seed: Optional[int] = None,
               precision: Optional[str] = None, show: bool = True, wait: bool = True) -> "Search":
        """Searches for faster variants of the tasks, until one of the limits. With `show` its progress is seen in the
        terminal or the notebook; without `wait` it goes on by itself. `precision`: strict, eager or half; refused unless it
        is the node's."""
        given = {"tasks": list(tasks), "evaluations": evaluations, "time_s": time_s, "device": device, "policy": policy,
                 "seed": seed, "precision": precision}
        started = self._http.ask("POST", "/v1/searches", {k: v for k, v in given.items() if v is not None}, limit_s=180)
        search = Search(self, Progress.of(started))
        return search.wait(show=show) if wait else search


class Task:
    """A task; `document` has its inputs, program and least work."""

    def __init__(self, client: Client, document: Dict[str, Any], device: Optional[str]):
        self._client, self.document, self.device = client, document, device
        self.name: str = document["name"]
        self.summary: str = document["summary"]

    def __repr__(self) -> str:
        return f"cudal1.Task({self.name!r})"

    def evaluate(self, source: Optional[str] = None, *, schedule: Optional[str] = None, answer: Optional[str] = None,
                 python: Optional[str] = None, label: str = "", limit_s: float = 600.0) -> Verdict:
        """Checks and times one variant: a program's text, moves, a language model's whole answer, or the text of a Python
        file with ModelNew. Raises InfrastructureError (TimeLimit among them) where there is no verdict: that is nothing
        that a variant can be blamed for."""
        variant = Variant(program=source or "", schedule=schedule or "", answer=answer or "", python=python or "",
                          label=label)
        return self.evaluate_batch([variant], limit_s=limit_s)[0]

    def evaluate_batch(self, variants: Sequence[Union[Variant, str]], *, limit_s: float = 600.0) -> List[Verdict]:
        """All of them, in the given order; raises where one has no verdict. Cancelled if it takes longer."""
        job = self.submit(variants)
        try:
            job.wait(limit_s)
        except BaseException:
            job.cancel()
            raise
        return job.verdicts()

    def submit(self, variants: Sequence[Union[Variant, str]], *, key: Optional[str] = None) -> "Job":
        return self._client.submit(self.name, variants, device=self.device, key=key)

    def best(self, count: int = 10) -> List[Best]:
        """The best correct variants, the fastest first; none before there is one."""
        try:
            found = self._client._http.ask("GET", f"/v1/tasks/{self.name}/best", query={"count": count})
        except NotFound:
            return []
        return [Best.of(v) for v in found["variants"]]

    def prompt(self, *, form: Optional[str] = None, tokens: Optional[int] = None, experiment: Optional[str] = None,
               seed: Optional[int] = None) -> str:
        """What a language model is shown now: the task, the device, the format, earlier variants with their scores."""
        text = self.messages(form=form, tokens=tokens, experiment=experiment, seed=seed)
        return text["system"] + text["user"]

    def messages(self, *, form: Optional[str] = None, tokens: Optional[int] = None, experiment: Optional[str] = None,
                 seed: Optional[int] = None) -> Dict[str, str]:
        """The same as {"system": ..., "user": ...}."""
        text = self._client._http.ask(
            "GET", f"/v1/tasks/{self.name}/prompt",
            query={"form": form, "tokens": tokens, "experiment": experiment, "seed": seed, "device": self.device})["text"]
        return {"system": text["system"], "user": text["user"]}

    def exemplars(self) -> Dict[str, Any]:
        return self._client._http.ask("GET", f"/v1/tasks/{self.name}/exemplars", query={"device": self.device})

    def bounds(self, gpu: Optional[str] = None) -> Dict[str, Any]:
        return self._client._http.ask("GET", f"/v1/tasks/{self.name}/bounds", query={"gpu": gpu})

    def python(self) -> str:
        """The task as a PyTorch model, with Model and get_inputs: what a ModelNew is compared with."""
        return self._client._http.ask("GET", f"/v1/tasks/{self.name}/python", query={"device": self.device})["source"]

    def baselines(self) -> List[Dict[str, Any]]:
        return self._client._http.ask("GET", f"/v1/tasks/{self.name}/baselines")["baselines"]

    def export(self) -> Dict[str, str]:
        """The best confirmed variant as files: their names with their texts."""
        return self._client._http.ask("GET", f"/v1/tasks/{self.name}/export")["files"]


class Job:
    """Evaluations that were accepted together."""

    def __init__(self, client: Client, document: Dict[str, Any]):
        self._client, self.document = client, document

    def __repr__(self) -> str:
        d = self.document
        return f"cudal1.Job({d['id']!r}, {d['state']}, {d['finished']} of {d['evaluations']})"

    @property
    def id(self) -> str:
        return self.document["id"]

    @property
    def has_ended(self) -> bool:
        return self.document["state"] in ("done", "failed", "cancelled")

    @property
    def items(self) -> List[Item]:
        return [Item.of(r) for r in self.document["results"]]

    def refresh(self) -> "Job":
        self.document = self._client._http.ask("GET", f"/v1/jobs/{self.id}")
        return self

    def cancel(self) -> "Job":
        self.document = self._client._http.ask("DELETE", f"/v1/jobs/{self.id}")
        return self

    def events(self, limit_s: float = 600.0) -> Iterator["Job"]:
        """This job at each of its changes, up to its end. A lost connection is made again."""
        end = time.monotonic() + limit_s
        while not self.has_ended:
            try:
                for _, document in self._client._http.events(f"/v1/jobs/{self.id}/events", 30.0):
                    self.document = document
                    yield self
                    if time.monotonic() > end:
                        raise TimeLimit(f"job {self.id} did not end within {limit_s:g} s")
            except TimeLimit:
                raise
            except InfrastructureError:
                if time.monotonic() > end:
                    raise
                time.sleep(_POLL_S)
                self.refresh()

    def wait(self, limit_s: float = 600.0, on_change: Optional[Callable[["Job"], None]] = None) -> "Job":
        """TimeLimit if it takes longer; it goes on all the same."""
        for job in self.events(limit_s):
            if on_change is not None:
                on_change(job)
        return self

    def verdicts(self) -> List[Verdict]:
        """Raises where an evaluation has no verdict."""
        out = []
        for item in self.items:
            if item.verdict is None:
                raise fault_of(item.error or {"message": f"evaluation {item.index} is {item.state}"}, f"job {self.id}")
            out.append(item.verdict)
        return out


class Search:
    """A search that runs on the node, or has ended."""

    def __init__(self, client: Client, progress: Progress):
        self._client, self.progress = client, progress

    def __repr__(self) -> str:
        return f"cudal1.Search({self.progress.line()})"

    def _repr_html_(self) -> str:
        return self.progress._repr_html_()

    @property
    def experiment(self) -> str:
        return self.progress.experiment

    def refresh(self) -> "Search":
        self.progress = Progress.of(self._client._http.ask("GET", f"/v1/searches/{self.experiment}"))
        return self

    def stop(self) -> "Search":
        """What it has found is kept."""
        self.progress = Progress.of(self._client._http.ask("DELETE", f"/v1/searches/{self.experiment}"))
        return self

    def best(self, task: str, count: int = 10) -> List[Best]:
        found = self._client._http.ask("GET", f"/v1/tasks/{quote(task, safe='')}/best",
                                       query={"count": count, "experiment": self.experiment})
        return [Best.of(v) for v in found["variants"]]

    def wait(self, show: bool = True) -> "Search":
        """Ctrl-C stops the search."""
        shown = _Shown() if show else None
        try:
            while not self.progress.has_ended:
                if shown is not None:
                    shown.update(self)
                time.sleep(_POLL_S)
                self.refresh()
        except KeyboardInterrupt:
            self.stop()
            raise
        finally:
            if shown is not None:
                shown.close(self)
        return self


class _Shown:
    """The progress in a notebook, else as one line of the terminal."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._width = 0

    def update(self, search: Search) -> None:
        if _is_interactive():
            from IPython.display import display  # type: ignore[import-not-found]

            if self._handle is None:
                self._handle = display(search, display_id=True)
            else:
                self._handle.update(search)
        elif sys.stderr.isatty():
            line = search.progress.line()
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)

    def close(self, search: Search) -> None:
        self.update(search)
        if not _is_interactive():
            sys.stderr.write(("\n" if sys.stderr.isatty() else search.progress.line() + "\n"))

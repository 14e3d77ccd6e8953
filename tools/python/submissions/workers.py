"""The referee's end of a worker: starts it, asks it, times its calls, and ends it.

The referee's own memory is in no process that runs a line of a problem or of a submission.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable

from submissions.protocol import DONE, FAILED, GO, READY, Broken, Line

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START_S = 60.0
MOST_OUTPUT = 16 << 20
KEPT_OUTPUT = 1 << 16
MOST_EVIDENCE = 1 << 16


class Died(Exception):
    """The worker ended, broke the protocol or its limits, or took too long; the text says which."""


class MachineRefuses(Exception):
    """Workers cannot be confined here."""

    def advice(self) -> str:
        return (f"{self}. It takes user, process, network and mount namespaces; a container needs the right to make them")


@dataclasses.dataclass
class Limits:
    data_bytes: int = 4 << 30
    tmp_bytes: int = 512 << 20
    processes: int = 64
    cpu_seconds: int = 600
    load_s: float = 180.0
    call_s: float = 60.0


def visible_gpus() -> str:
    """The same as here, so that cuda:0 is the same one."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return os.environ["CUDA_VISIBLE_DEVICES"]
    import torch

    return ",".join(str(i) for i in range(torch.cuda.device_count()))


class Zygote:
    """The process that has torch loaded and forks workers; started once."""

    def __init__(self, core: int, confined: bool, place: Any):
        self.core, self.confined, self.place = core, confined, place
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {n: os.environ[n] for n in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME", "CC", "CXX")
                       if n in os.environ}
        environment.update(PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                           PYTHONDONTWRITEBYTECODE="1", TORCHINDUCTOR_COMPILE_THREADS="1", PYTORCH_NVML_BASED_CUDA_CHECK="1",
                           CUDA_VISIBLE_DEVICES=visible_gpus() if place.is_gpu else "")
        # In a folder of ours: modules of the user's own, as in a checkout of PyTorch, would come before the installed ones.
        self.process = subprocess.Popen([sys.executable, "-m", "submissions.zygote", str(its.fileno()), place.device],
                                        pass_fds=[its.fileno()], env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, cwd=PACKAGE)
        its.close()
        self.line = ours
        self.ready = False
        self.users = 0
        self.lock = threading.Lock()  # builds are started by threads
        self.folder = "" if confined else tempfile.mkdtemp(prefix="cudal1-worker-")  # for unconfined files

    def wait(self) -> None:
        with self.lock:
            if self.ready:
                return
            self.line.settimeout(300)
            said = self.line.recv(1 << 12)
            if not said:
                raise MachineRefuses("the process that loads torch ended; what it printed is above")
            threads = json.loads(said)["threads"]
            if len(threads) != 1:
                raise MachineRefuses(f"importing torch started threads ({', '.join(threads)}); a process with threads "
                                     "cannot be forked safely")
            self.ready = True

    def next_user(self) -> int:
        with self.lock:
            self.users += 1
        return 2_000_000_000 + os.getpid() * 4096 % 100_000_000 + self.users

    def close(self) -> None:
        self.line.close()
        self.process.kill()
        self.process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


class Drain(threading.Thread):
    """Reads what a worker prints, keeps the end of it, and kills the worker if it is too much."""

    def __init__(self, fd: int, kill: Callable[[], None], most: int):
        super().__init__(daemon=True)
        self.fd, self.kill, self.most = fd, kill, most
        self.kept, self.total = b"", 0
        self.start()

    def run(self) -> None:
        while data := os.read(self.fd, 1 << 16):
            self.total += len(data)
            self.kept = (self.kept + data)[-KEPT_OUTPUT:]
            if self.total > self.most:
                self.kill()
                break
        os.close(self.fd)


class Worker:
    """One confined process, which begins to start when this is made: several start at once. `with` it, it is ready,
    and it is killed at the end, with all that it started."""

    def __init__(self, zygote: Zygote, limits: Limits, built: str = "", build_into: str = ""):
        zygote.wait()
        self.core = zygote.core
        self.limits, self.pidfd, self.pid, self.missing = limits, -1, 0, []
        self.arena: Any = None
        self.place = zygote.place
        self.over, self.used_ns, self.late_ns = False, 0, 0
        self.rests = False
        ours, its = socket.socketpair()
        keeper, its_keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        proof, its_proof = os.pipe()
        output, its_output = os.pipe()
        request = {"tmp_bytes": limits.tmp_bytes, "data_bytes": limits.data_bytes, "cpu_seconds": limits.cpu_seconds,
                   "processes": limits.processes, "built": built or zygote.folder, "build_into": build_into,
                   "core": -1 if self.place.is_gpu else self.core,  # pinned later: contexts take a second to make
                   "confined": zygote.confined, "user": zygote.next_user(), "device": self.place.device}
        socket.send_fds(zygote.line, [json.dumps(request).encode()],
                        [its.fileno(), its_proof, its_output, its_keeper.fileno()])
        for fd in (its, its_keeper):
            fd.close()
        os.close(its_proof)
        os.close(its_output)
        self.stream, self.keeper, self.line = ours, keeper, Line(ours)
        self.output = Drain(output, self.kill_for_output, MOST_OUTPUT)
        self.proof = Drain(proof, lambda: None, MOST_EVIDENCE)

    def ready(self) -> Worker:
        """MachineRefuses where it does not start."""
        if self.pidfd >= 0:
            return self
        self.stream.settimeout(START_S)
        self.keeper.settimeout(START_S)
        try:
            data, fds, _, _ = socket.recv_fds(self.keeper, 1 << 12, 1)
            said = json.loads(data) if data else {"problem": "the keeper ended"}
            if "problem" in said:
                raise MachineRefuses(f"a worker cannot be confined here: {said['problem']}")
            self.pidfd, self.pid = fds[0], said["pid"]
            said = self.line.hear()
        except (Broken, OSError) as problem:
            self.close()
            raise MachineRefuses(f"a worker did not start: {problem}; {self.printed()}") from problem
        except MachineRefuses:
            self.close()
            raise
        if "problem" in said:
            self.close()
            raise MachineRefuses(f"a worker cannot be confined here: {said['problem']}")
        self.missing = said["missing"]
        return self

    def __enter__(self) -> Worker:
        return self.ready()

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill_for_output(self) -> None:
        self.over = True
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        self.stream.close()
        self.keeper.close()
        self.arena = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def printed(self) -> str:
        lines = [line.strip() for line in self.output.kept.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it printed nothing"

    def evidence(self) -> list[str]:
        return sorted({line[:300] for line in self.proof.kept.decode(errors="replace").splitlines() if line})

    def end(self, why: str) -> Died:
        """What to raise; the worker is killed, and how it ended is added."""
        ready = select.select([self.pidfd], [], [], 0.5)[0] if self.pidfd >= 0 else []
        status = None
        if not ready:
            self.signal(signal.SIGKILL)
        else:
            with contextlib.suppress(OSError, ValueError):
                self.keeper.settimeout(2)
                while (said := self.keeper.recv(1 << 12)) and not said.startswith(b"{"):
                    pass
                status = json.loads(said)["status"]
        if self.over:
            return Died(f"it printed more than {MOST_OUTPUT >> 20} MB")
        if status is not None and status >= 0 and os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = {signal.SIGSYS: "SIGSYS: a system call that no kernel needs (tracing, another process's memory)",
                    signal.SIGXCPU: "SIGXCPU: its limit of processor time"}.get(number, signal.Signals(number).name)
            return Died(f"its process was ended by {name}")
        if status is not None and status >= 0:
            return Died(f"its process ended itself with exit code {os.WEXITSTATUS(status)}")
        return Died(why)

    def ask(self, what: str, timeout_s: float = 0.0, fds: tuple[int, ...] = (), **members: Any) -> dict[str, Any]:
        """The reply; Died where there is none. A "problem" in it is the worker's own exception."""
        self.stream.settimeout(timeout_s or self.limits.call_s)
        self.place.synchronize()  # what it reads is there
        try:
            self.resume()
            self.line.say({"do": what, **members}, fds)
            reply = self.line.hear()
            self.rest()
            return reply
        except TimeoutError as problem:
            raise self.end(f"`{what}` did not end within {timeout_s or self.limits.call_s:g} s") from problem
        except (Broken, OSError) as problem:
            raise self.end(str(problem)) from problem

    def share(self, size: int) -> dict[str, Any]:
        fd, self.arena = self.place.memory(size)
        try:
            return self.ask("map", size=self.arena.size, fds=(fd,))
        finally:
            os.close(fd)

    def stop(self) -> None:
        """All of it stands still afterwards, or it is Died: also if it has left other processes."""
        if not self.is_alone():
            raise Died("it has left processes that run between its calls")

    def is_alone(self) -> bool:
        """Stops it: whether it has no other processes, which would go on."""
        self.keeper.settimeout(5)
        try:
            self.keeper.send(b"s")
            said = self.keeper.recv(1 << 12)
        except OSError as problem:
            raise self.end("it could not be stopped") from problem
        if said not in (b"o", b"c"):
            raise self.end("it ended")
        return said == b"o"

    def rest(self) -> None:
        """It stands still until it is asked again: a thread of it that went on would take time from the others. What a
        build leaves (other processes) is looked for in its calls."""
        self.is_alone()
        self.rests = True

    def processor_ns(self) -> int:
        """What all of its threads have computed so far, by the kernel's account; 0 where that keeps none."""
        total = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    total += int(file.read().split()[0])
        return total

    def pin(self) -> None:
        """All of its threads to the core on which calls are timed."""
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                os.sched_setaffinity(int(thread), {self.core})

    def resume(self) -> None:
        self.rests = False
        self.signal(signal.SIGCONT)

    def call(self, request: dict[str, Any], write: Callable[[], None], read: Callable[[], None],
             before: Callable[[], None]) -> tuple[int, dict[str, Any]]:
        """Nanoseconds of a burst by the referee's clock, and the reply. The worker stands still while `write` puts the
        inputs into its memory, while `before` empties the caches, and, after its answer, while `read` takes the outputs.
        On a GPU, which does not stop with its process, `read` begins at once, and late_ns is the time until it has
        ended."""
        self.stream.settimeout(self.limits.call_s)
        clock, send_signal = time.perf_counter_ns, signal.pidfd_send_signal
        stream, pidfd = self.stream, self.pidfd
        try:
            self.resume()
            self.line.say({"do": "call", **request})
            said = self.line.byte()
            if said != READY:
                self.line.kept = said + self.line.kept
                reply = self.line.hear()
                self.rest()
                return 0, reply
            self.stop()
            if self.line.kept or select.select([stream], [], [], 0)[0]:
                raise Died("it answered before it had its inputs")
            write()
            before()
            self.place.synchronize()
            used = self.processor_ns()
            begin = clock()
            send_signal(pidfd, signal.SIGCONT)
            stream.send(GO)
            answer = stream.recv(1)
            send_signal(pidfd, signal.SIGSTOP)
            end = clock()
            if not self.place.is_gpu:
                self.stop()
            read()
            self.place.synchronize()
            self.late_ns = clock() - end
            if self.place.is_gpu:
                self.stop()
            self.used_ns = end - begin if self.place.is_gpu else self.processor_ns() - used
            self.resume()
            if answer not in (DONE, FAILED):
                raise self.end("it answered with something that is no answer")
            reply = self.line.hear()
            self.rest()
        except TimeoutError as problem:
            raise self.end(f"a call did not end within {self.limits.call_s:g} s") from problem
        except (Broken, OSError) as problem:
            raise self.end(str(problem)) from problem
        if answer == FAILED and "problem" not in reply:
            reply["problem"] = "it failed and did not say how"
        return end - begin, reply

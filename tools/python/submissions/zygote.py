"""The zygote: has torch loaded, and forks one confined worker for each request of the referee.

    python -m submissions.zygote DESCRIPTOR DEVICE     of the referee's socket; cpu or cuda:0

A request is {"tmp_bytes", "data_bytes", "cpu_seconds", "processes", "built", "build_into", "core", "confined", "user",
"device"} with three descriptors: the worker's end of its socket, of the pipe for evidence, and of its output; and a fourth, the referee's
line to the keeper. The keeper is forked first. It enters the namespaces, forks the worker, which is process 1 of its own
namespace, and remains outside: it stops the worker when the referee asks, and says how it ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import select
import signal
import socket
import sys

import torch

from submissions import confinement, evidence, protocol, worker

STOP = b"s"
# Where libraries keep what they compile; folders of what a submission's build leaves.
BUILT = {"TORCH_EXTENSIONS_DIR": "extensions", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton",
         "CUDA_CACHE_PATH": "driver"}


def environment_of_worker() -> None:
    keep = {n: os.environ[n] for n in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CC", "CXX", "CUDA_VISIBLE_DEVICES")
            if n in os.environ}
    os.environ.clear()
    os.environ.update(keep)
    os.environ.update({"HOME": "/tmp/build/home", "TMPDIR": "/tmp", "LC_ALL": "C.UTF-8", "USER": "nobody",
                       **{name: f"/tmp/build/{part}" for name, part in BUILT.items()},
                       "TORCHINDUCTOR_COMPILE_THREADS": "1", "MAX_JOBS": "2", "PYTHONDONTWRITEBYTECODE": "1"})


def become_worker(request: dict, stream: socket.socket, proof: int, output: int) -> None:
    """Does not return."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        kept = {0, 1, 2, stream.fileno(), proof}
        for fd in (int(name) for name in os.listdir("/proc/self/fd")):
            if fd not in kept:
                try:
                    os.close(fd)
                except OSError:
                    pass
        os.umask(0o022)
        os.sched_setaffinity(0, {request["core"]} if request["core"] >= 0 else os.sched_getaffinity(0))
        environment_of_worker()
        evidence.prepare(proof)
        missing: list[str] = []
        if request["confined"]:
            missing = confinement.enter_root(request["tmp_bytes"], request["built"], request["build_into"],
                                             request["device"] != "cpu")
        else:
            folder = request["build_into"] or request["built"]
            for name, part in {**BUILT, "HOME": "home"}.items():
                os.environ[name] = os.path.join(folder, part)
            worker.SUBMISSION, worker.PROBLEM = (os.path.join(folder, n) for n in ("submission.py", "problem.py"))
        for name in (*BUILT, "HOME"):
            os.makedirs(os.environ[name], exist_ok=True)
        confinement.limit_resources(request["data_bytes"], request["cpu_seconds"], request["processes"],
                                    request["tmp_bytes"])
        if request["confined"]:
            confinement.drop_capabilities()
            confinement.filter_calls()
        if request["device"] != "cpu":
            worker.make_context(request["device"])
        protocol.Line(stream).say({"confined": request["confined"], "missing": missing})
        worker.serve(stream, request["device"])
        code = 0
    except protocol.Broken:
        code = 0  # the referee is done
    except confinement.NotConfined as problem:
        protocol.Line(stream).say({"problem": str(problem)})
    except BaseException as problem:
        if sys.exc_info()[1] is not None:
            try:
                protocol.Line(stream).say({"problem": worker.sentence(problem)})
            except Exception:
                pass
    finally:
        os._exit(code)


def has_children(pid: int) -> bool:
    """Whether any other process is in its namespace: there all orphans are process 1's children."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            if file.read().strip():
                return True
    return False


def keep(pid: int, line: socket.socket) -> None:
    """Stops the worker on request, and reports its end. Ends when both have."""
    ended = os.pidfd_open(pid)
    while True:
        ready, _, _ = select.select([line, ended], [], [])
        asked = STOP
        if line in ready:
            asked = line.recv(1)
            if asked == STOP:
                try:
                    os.kill(pid, signal.SIGSTOP)
                    got, status = os.waitpid(pid, os.WUNTRACED)
                    if os.WIFSTOPPED(status):
                        line.send(b"c" if has_children(pid) else b"o")
                        continue
                    line.send(json.dumps({"status": status}).encode())
                    return
                except (ChildProcessError, FileNotFoundError, ProcessLookupError):
                    line.send(json.dumps({"status": -1}).encode())
                    return
            os.kill(pid, signal.SIGKILL)  # the referee has closed its end
        if ended in ready or asked != STOP:
            _, status = os.waitpid(pid, 0)
            try:
                line.send(json.dumps({"status": status}).encode())
            except OSError:
                pass
            return


def become_keeper(request: dict, fds: list[int], listening: socket.socket) -> None:
    """Does not return."""
    code = 1
    line = socket.socket(fileno=fds[3])
    try:
        confinement.end_with_parent()
        listening.close()
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("900")
        if request["confined"]:
            confinement.enter_user_and_process_namespaces(request["user"])
        stream = socket.socket(fileno=fds[0])
        pid = os.fork()
        if pid == 0:
            confinement.end_with_parent()
            line.close()
            become_worker(request, stream, fds[1], fds[2])
        stream.close()
        os.close(fds[1])
        os.close(fds[2])
        pidfd = os.pidfd_open(pid)
        socket.send_fds(line, [json.dumps({"pid": pid}).encode()], [pidfd])
        os.close(pidfd)
        keep(pid, line)
        code = 0
    except BaseException as problem:
        try:
            line.send(json.dumps({"problem": worker.sentence(problem)}).encode())
        except OSError:
            pass
    finally:
        os._exit(code)


def load_compilers(device: str) -> None:
    """So that no worker waits for them. Where there is a GPU it is hidden meanwhile: they would start its driver, whose
    threads no fork has. What remembers whether there is one (torch's compiler) is then loaded by its workers."""
    if device == "cpu":
        importlib.import_module("torch.utils.cpp_extension")
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch._inductor.compile_fx")
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    logging.disable(logging.WARNING)  # that there is none
    try:
        importlib.import_module("torch.utils.cpp_extension")
        with contextlib.suppress(ImportError):
            importlib.import_module("triton.language")
        importlib.import_module("submissions.device_memory")  # a confined worker does not see its file
    finally:
        logging.disable(logging.NOTSET)
        os.environ.pop("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = visible


def threads() -> list[str]:
    """The names of this process's threads."""
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
            names.append(file.read().strip())
    return names


def main() -> int:
    confinement.end_with_parent()
    protocol.keep_freed_memory()
    load_compilers(sys.argv[2])
    torch.set_num_threads(1)
    torch.zeros(2).add(1)  # what is loaded at the first operator
    gc.collect()
    gc.freeze()  # a collection of all that torch has made takes a hundred milliseconds, in the middle of a burst
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are nobody's zombies
    listening = socket.socket(fileno=int(sys.argv[1]))
    listening.send(json.dumps({"threads": threads()}).encode())
    while True:
        data, fds, _, _ = socket.recv_fds(listening, 1 << 16, 4)
        if not data:
            return 0
        request = json.loads(data)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become_keeper(request, fds, listening)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    sys.exit(main())

"""Finds Nsight Compute and runs a program under it. What stands in the way is said with its cure."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from nsight import counters

# Sections and not metrics: the tool refuses a metric that the GPU lacks, and a section has those that it has.
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "WarpStateStats", "SchedulerStats", "ComputeWorkloadAnalysis",
            "MemoryWorkloadAnalysis")
MOST_LAUNCHES = 64  # that are read; each runs some tens of times
MOST_SECONDS = 300
NEVER, WHERE_FOUND = "off", "auto"

# What ncu says, what that means, what helps. The first that fits.
PROBLEMS = (
    (r"ERR_NVGPUCTRPERM",
     "this user may not read the GPU's counters. Run as root, or let all users read them: put \"options nvidia "
     "NVreg_RestrictProfilingToAdminUsers=0\" into a file of /etc/modprobe.d and load the driver again; a container needs "
     "--cap-add SYS_ADMIN (Linux 5.8 and driver 565 on: PERFMON)"),
    (r"LibraryNotLoaded|libcuda\.so|Failed to load.*(library|driver)",
     "it cannot load the driver's libraries. In a container, start it with --gpus all and "
     "NVIDIA_DRIVER_CAPABILITIES=compute,utility, so that those of the host's driver are there"),
    (r"driver resource was unavailable|ResourceUnavailable|DCGM|another (tool|profiler)",
     "another program holds the GPU's counters. End other profilers, or let DCGM wait: `dcgmi profile --pause`, later "
     "`--resume`"),
    (r"on MIG|MIG instance", "a MIG instance does not have these counters: use a whole GPU"),
    (r"[Pp]rofiling is not supported on (this )?device|not supported on this (GPU|architecture)|Unknown chip",
     "this version does not know the GPU: install a newer Nsight Compute, and name it with --ncu PATH"),
    (r"(driver|CUDA) version.*(insufficient|not compatible|incompatible)|not compatible with the (driver|CUDA)",
     "this version and the driver do not fit: install the Nsight Compute of the driver's CUDA version, and name it with "
     "--ncu PATH"),
    (r"Failed to find (metric|section)|unrecogni[sz]ed option",
     "this version lacks what is asked for: install Nsight Compute 2022.2 or newer, and name it with --ncu PATH"),
)


class NoSuchProgram(Exception):
    """What --ncu names is no program."""


class NotRead(Exception):
    """Why Nsight Compute was not read, and what to do."""


@dataclasses.dataclass
class Read:
    tool: str  # its version
    kernels: list[dict]
    note: str = ""


def version_in(path: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", path)]


def places() -> list[pathlib.Path]:
    """Where it may be, in the order in which it is looked for; of several versions, the newest first."""
    found = [pathlib.Path(p) for p in [shutil.which("ncu")] if p]
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            found.append(pathlib.Path(os.environ[name]) / "bin/ncu")
    for folder, pattern in (("/usr/local", "cuda*/bin/ncu"), ("/opt/nvidia/nsight-compute", "*/ncu")):
        found += sorted(pathlib.Path(folder).glob(pattern), key=lambda p: version_in(str(p)), reverse=True)
    return found


def find(wanted: str) -> str:
    """Its path. `wanted`: auto, or a path."""
    if wanted != WHERE_FOUND:
        if shutil.which(wanted) is None:
            raise NoSuchProgram(f"{wanted} (--ncu) is no program: give the path of ncu, auto or off")
        return wanted
    for path in places():
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    raise NotRead("there is no ncu on $PATH, in $CUDA_HOME/bin, /usr/local/cuda*/bin or /opt/nvidia/nsight-compute. Install "
                  "Nsight Compute (it is in the CUDA toolkit), or name it with --ncu PATH")


def version_of(ncu: str) -> str:
    said = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"Version\s+([\d.]+)", said)
    return found[1] if found else "of an unknown version"


def command(ncu: str, log: str, program: list[str]) -> list[str]:
    """Each kernel that the program launches between cudaProfilerStart and cudaProfilerStop, run again for each group of
    counters (the tool serialises kernels; cooperative ones stay whole), with empty caches and the clocks as they are."""
    options = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", log, "--target-processes", "all",
               "--profile-from-start", "off", "--launch-count", str(MOST_LAUNCHES), "--replay-mode", "kernel",
               "--clock-control", "none", "--cache-control", "all", "--graph-profiling", "node"]
    for section in SECTIONS:
        options += ["--section", section]
    return [ncu, *options, *program]


def why(said: str, code: int) -> str:
    for pattern, meaning in PROBLEMS:
        if re.search(pattern, said):
            return meaning
    if "No kernels were profiled" in said:
        return "the variant launched no kernel on the GPU in its call"
    errors = [line.strip() for line in said.splitlines() if line.startswith("==ERROR==")] or said.strip().splitlines()[-3:]
    return f"it ended with exit code {code}: {' '.join(errors) or 'it said nothing'}"


def run(words: list[str], most_seconds: float) -> subprocess.CompletedProcess:
    """Ends the tool together with the program under it, whatever ends this function."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", env=os.environ | {"LC_ALL": "C"}, start_new_session=True) as tool:
        try:
            out, err = tool.communicate(timeout=most_seconds)
        except BaseException:
            os.killpg(tool.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, tool.returncode, out, err)


def read(wanted: str, program: list[str], kept: pathlib.Path | None = None, most_seconds: float = MOST_SECONDS) -> Read:
    """Runs `program` under it. What the tool printed is written to `kept`, also after an error."""
    ncu = find(wanted)
    try:
        tool = version_of(ncu)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise NotRead(f"{ncu} does not run: {e}") from e
    with tempfile.TemporaryDirectory(prefix="cudal1-ncu-") as folder:
        log = pathlib.Path(folder) / "log.csv"
        try:
            done = run(command(ncu, str(log), program), most_seconds)
        except subprocess.TimeoutExpired as e:
            raise NotRead(f"{ncu} took more than {most_seconds} seconds, and was ended") from e
        except OSError as e:
            raise NotRead(f"{ncu} does not run: {e}") from e
        printed = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if kept is not None:
        kept.write_text(printed or done.stdout, encoding="utf-8")
    said = printed + done.stdout + done.stderr
    if re.search("ERR_NVGPUCTRPERM", said):  # some versions print a table without numbers after it
        raise NotRead(f"Nsight Compute {tool}: {why(said, done.returncode)}")
    try:
        kernels = counters.kernels_of(printed or done.stdout)
    except counters.Unreadable as e:
        is_said = done.returncode != 0 or "==ERROR==" in said or "No kernels were profiled" in said
        reason = why(said, done.returncode) if is_said else str(e)
        raise NotRead(f"Nsight Compute {tool}: {reason}") from e
    if not any(k["us"] > 0 for k in kernels):
        raise NotRead(f"Nsight Compute {tool}: its table has no times of kernels: {why(said, done.returncode)}")
    launches = sum(k["launches"] for k in kernels)
    note = f"only the first {MOST_LAUNCHES} launches of the call were read" if launches >= MOST_LAUNCHES else ""
    return Read(tool, kernels, note)

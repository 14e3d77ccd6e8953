"""Reads what `ncu --csv --page raw` prints: lines of the tool's own (==PROF==), a row of names, a row of units, and a
row for each profiled launch, all quoted, with commas in numbers. A metric that this version or GPU lacks is None."""

from __future__ import annotations

import collections
import csv
import io
import math
import re
from typing import Iterable

from nsight import words

# By preference: names differ between architectures and versions.
NAMES = {
    "us": ("gpu__time_duration.sum", "gpu__time_duration.avg"),
    "occupancy_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "most_occupancy_pct": ("sm__maximum_warps_per_active_cycle_pct",),
    "dram_pct": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
                 "dram__cycles_active.avg.pct_of_peak_sustained_elapsed"),
    "l2_pct": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"),
    "tensor_pct": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
                   "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                   "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
                   "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
    "fma_pct": ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
                "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
                "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed",
                "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"),
    "waves": ("launch__waves_per_multiprocessor",),
    "registers": ("launch__registers_per_thread",),
    "shared_bytes": ("launch__shared_mem_per_block", "launch__shared_mem_per_block_allocated"),
    "spill_requests": ("derived__local_spilling_requests", "smsp__sass_inst_executed_op_local_st.sum"),
}
SUMMED = ("us", "spill_requests")
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
SAMPLED = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+?)")
LIMIT = re.compile(r"launch__occupancy_limit_(\w+)")
MOST_STALLS = 3
LEAST_SHARE = 0.03  # of a stall that is named
UNITS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6,
         "byte": 1, "byte/block": 1, "Kbyte": 1e3, "Kbyte/block": 1e3, "Mbyte": 1e6, "Mbyte/block": 1e6}


class Unreadable(Exception):
    """What ncu printed is not the CSV of any launch."""


def number(text: str) -> float | None:
    try:
        value = float(text.strip().replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Launch:
    """A row: one launch of a kernel."""

    def __init__(self, row: dict[str, str], units: dict[str, str]):
        self.row = row
        self.units = units
        self.kernel = row.get("Kernel Name", "")
        self.grid, self.block = (dimensions(row.get(name, "")) for name in ("Grid Size", "Block Size"))

    def value(self, metric: str) -> float | None:
        found = number(self.row.get(metric, ""))
        return None if found is None else found * UNITS.get(self.units.get(metric, ""), 1)

    def first(self, names: Iterable[str]) -> float | None:
        return next((v for v in map(self.value, names) if v is not None), None)

    def matching(self, pattern: re.Pattern) -> dict[str, float]:
        found = {}
        for name in self.row:
            match, value = pattern.fullmatch(name), self.value(name)
            if match and value is not None:
                found[words.ALSO_NAMED.get(match[1], match[1])] = value
        return found

    def stalls(self) -> dict[str, float]:
        """The share of each reason in the time of resident warps."""
        found = self.matching(STALL) or {k: v for k, v in self.matching(SAMPLED).items() if not k.endswith("_not_issued")}
        total = sum(found.values())
        return {k: v / total for k, v in found.items()} if total > 0 else {}

    def limits(self) -> list[str]:
        """What allows the fewest resident blocks; nothing where all warps can be resident."""
        most = self.first(NAMES["most_occupancy_pct"])
        if most is not None and most >= 99.5:
            return []
        found = self.matching(LIMIT)
        return [words.LIMITS.get(k, k.replace("_", " ")) for k, v in found.items() if v == min(found.values())]


def dimensions(text: str) -> str:
    """"(2, 66, 1)" as "2 x 66"."""
    sizes = re.findall(r"\d+", text)
    while len(sizes) > 1 and sizes[-1] == "1":
        sizes.pop()
    return " x ".join(sizes)


def launches_in(text: str) -> list[Launch]:
    lines = text.splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        raise Unreadable("ncu printed no table")
    rows = list(csv.reader(io.StringIO("".join(line for line in lines[first:] if not line.startswith("==")))))
    rows = [row for row in rows if row]
    names = rows[0]
    if "Kernel Name" not in names:
        raise Unreadable("the table of ncu has no column \"Kernel Name\"")
    rest, units = rows[1:], {}
    if rest and not rest[0][0].strip():
        units = dict(zip(names, rest[0]))
        rest = rest[1:]
    launches = [Launch(dict(zip(names, row)), units) for row in rest if len(row) == len(names)]
    if not launches:
        raise Unreadable("the table of ncu has no launch")
    return launches


def merged(launches: list[Launch], total: float) -> dict:
    """The launches of one kernel with one grid and block, weighted by their times."""
    times = [launch.first(NAMES["us"]) or 0.0 for launch in launches]
    weights = times if sum(times) > 0 else [1.0] * len(launches)

    def mean(values: list[float | None]) -> float | None:
        known = [(v, w) for v, w in zip(values, weights) if v is not None]
        if len({v for v, _ in known}) == 1:
            return known[0][0]
        weight = sum(w for _, w in known)
        return sum(v * w for v, w in known) / weight if weight > 0 else None

    first = launches[0]
    found = {"kernel": first.kernel, "grid": first.grid, "block": first.block, "launches": len(launches), "us": sum(times),
             "share": sum(times) / total if total > 0 else 0.0, "limited_by": first.limits()}
    for name, metrics in NAMES.items():
        if name == "us":
            continue
        values = [launch.first(metrics) for launch in launches]
        known = [v for v in values if v is not None]
        found[name] = (sum(known) if known else None) if name in SUMMED else mean(values)
    found["near_roof"], found["roof_advice"] = words.near_roof(found)
    shares = collections.defaultdict(float)
    for launch, weight in zip(launches, weights):
        for reason, share in launch.stalls().items():
            shares[reason] += share * weight / sum(weights)
    shares.pop(words.ISSUING, None)
    found["stalls"] = [dict(zip(("reason", "words", "advice", "share"), (reason, *words.stall(reason), share)))
                       for reason, share in sorted(shares.items(), key=lambda s: -s[1])[:MOST_STALLS] if share >= LEAST_SHARE]
    return found


def kernels_of(text: str) -> list[dict]:
    """The kernels of one call, the longest first; members as of kernel_counters (store/counter_profile.hpp)."""
    launches = launches_in(text)
    alike = collections.defaultdict(list)
    for launch in launches:
        alike[launch.kernel, launch.grid, launch.block].append(launch)
    total = sum(launch.first(NAMES["us"]) or 0.0 for launch in launches)
    return sorted((merged(each, total) for each in alike.values()), key=lambda k: -k["us"])

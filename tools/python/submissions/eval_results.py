"""Verdicts in the form that KernelBench's own scripts read: the eval_results.json of a run folder."""

from __future__ import annotations

import json
import pathlib
import statistics
from typing import Any


class SeveralLevels(Exception):
    """Which ones."""


def entry_of(v: dict[str, Any]) -> dict[str, Any]:
    """One sample's. Times are in milliseconds, of a call, on the processor with the copy of its outputs; -1 where there
    is none."""
    metadata: dict[str, Any] = {"judged_by": "cudal1 audit", "verdict": v["verdict"]}
    if v["kind"] or v["why"]:
        metadata["refused"] = ": ".join(x for x in (v["kind"], v["why"]) if x)
    if v["evidence"]:
        metadata["evidence"] = v["evidence"]
    if not v["confined"]:
        metadata["unconfined"] = True
    entry = {"sample_id": v["sample"], "compiled": v["kind"] != "build", "correctness": v["correct"],
             "metadata": metadata, "runtime": -1.0, "runtime_stats": {}, "ref_runtime": -1.0, "ref_runtime_stats": {}}
    if v["correct"]:
        ratios = [r for pool in v["ratios"] for r in pool]
        own, eager = v["own_us"] / 1000, v["eager_us"] / 1000
        metadata.update(device=v.get("device", "cpu"), speedup=v["speedup"], interval=v["interval"], pairs=len(ratios))
        entry.update(runtime=own, runtime_stats={"mean": own, "num_trials": len(ratios)}, ref_runtime=eager,
                     ref_runtime_stats={"mean": eager, "num_trials": len(ratios)})
        if len(ratios) > 1:
            metadata["ratio_stdev"] = round(statistics.stdev(ratios), 4)
    return entry


def results_of(verdicts: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By problem. What was not judged is left out: nothing is known of it. SeveralLevels: a file is of one level."""
    judged = [v for v in verdicts if v["verdict"] != "not_judged" and v["problem_id"] > 0]
    levels = sorted({v["level"] for v in judged})
    if len(levels) > 1:
        raise SeveralLevels(", ".join(map(str, levels)))
    results: dict[str, list[dict[str, Any]]] = {}
    for v in sorted(judged, key=lambda v: (v["problem_id"], v["sample"])):
        results.setdefault(str(v["problem_id"]), []).append(entry_of(v))
    return results


def write(path: pathlib.Path, verdicts: list[dict[str, Any]]) -> int:
    """How many samples it has. A file that is there is replaced whole."""
    results = results_of(verdicts)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(results, indent=4) + "\n", encoding="utf-8")
    new.replace(path)
    return sum(map(len, results.values()))

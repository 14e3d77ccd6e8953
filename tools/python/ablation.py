#!/usr/bin/env python3
"""Trains variants of the contrastive policy on a recorded space and compares them on what was held out.

    python3 tools/python/ablation.py SPACE.jsonl OUT [--folds 3] [--only full:3,reinforce,...] [--seeds 21]
                                     [--steps 150,20,600] [--jobs 2] [--device cpu] [--baselines random,evolutionary]
                                     [--compare-on OTHER.jsonl]

Each fold is held out in turn, and each variant is trained once for each of them, or as often as is said after a colon.
Every variant has the same tasks and seeds, and the steps of the stages that it has. OUT gets a model and a log for
each training, `ablation.json` (numbers with their intervals over operators, trainings and searches, ratios to all
variants before it, curves and tasks) and `ablation.svg` (best-so-far curves). A model that is there is kept if it was
trained in the same way. With --compare-on the models are compared on another space, such as one of another device:
on its tasks whose operators they have not seen. The program is `cudal1`, or what the environment variable CUDAL1 says.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

# Options of `cudal1 train`, beside the steps.
VARIANTS = {
    "full": [],
    "islands": ["--islands", "2"],
    "leave_one_out": ["--advantage", "leave_one_out"],
    "grpo_without_exemplars": ["--exemplars", "0"],
    "reinforce": ["--exemplars", "0", "--advantage", "none"],
    "prompt_without_training": ["--supervised", "0", "--self-supervised", "0", "--contrastive", "0"],
    "without_estimates": ["--estimates", "0"],
    "without_contrastive": ["--contrastive", "0"],
    "without_supervised": ["--supervised", "0"],
    "without_self_supervised": ["--self-supervised", "0"],
}
COLOURS = ["#777777", "#b06d00", "#0b57d0", "#188038", "#a142f4", "#d93025", "#12858d", "#c5221f", "#5f6368", "#e8710a", "#9aa000"]


def cudal1():
    return os.environ.get("CUDAL1", "cudal1")


def model_of(run, options):
    name, fold, training = run
    return options.out / f"{name}.fold{fold}.{training}.json"


def train(run, options):
    name, fold, training = run
    model = model_of(run, options)
    steps = dict(zip(("--supervised", "--self-supervised", "--contrastive"), options.steps.split(",")))
    further = VARIANTS[name]
    steps |= {option: value for option, value in zip(further, further[1:]) if option in steps}
    further = [word for word, before in zip(further, [None, *further]) if word not in steps and before not in steps]
    command = [cudal1(), "train", options.space, "--out", str(model), "--seed", str(training + 1),
               "--folds", str(options.folds), "--fold", str(fold), *further]
    for option, value in steps.items():
        command += [option, value]
    kept = model.with_suffix(".command")
    if model.exists():
        if kept.exists() and kept.read_text() == " ".join(command):
            return
        sys.exit(f"{model} was trained in another way: give another folder")
    kept.write_text(" ".join(command))
    devices = options.device.split(",")
    command += ["--device", devices[options.runs.index(run) % len(devices)]]
    with open(model.with_suffix(".log"), "w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)


def compare(options):
    command = [cudal1(), "compare", options.compare_on or options.space, "--json", "--folds", str(options.folds),
               "--seeds", str(options.seeds), "--evaluations", str(options.evaluations), "--threads",
               str(options.jobs), "--device", options.device]
    for other in options.baselines.split(","):
        command += ["--policy", other]
    for name in dict.fromkeys(run[0] for run in options.runs):
        models = [str(model_of(run, options)) for run in options.runs if run[0] == name]
        command += ["--model", f"{name}={','.join(models)}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["policies"]


def runs_of(options):
    """(variant, fold, training) of each model; the first training of all variants before the second one of any."""
    wanted = [(name, int(count or 1)) for name, _, count in (each.partition(":") for each in options.only.split(","))]
    unknown = {name for name, _ in wanted} - set(VARIANTS)
    if unknown:
        sys.exit(f"there is no variant {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    if len(dict(wanted)) < len(wanted) or any(count < 1 or options.seeds % count for _, count in wanted):
        sys.exit(f"each variant once, with at least one training; --seeds, {options.seeds}, is a multiple of each count")
    if options.evaluations < 4:
        sys.exit("--evaluations is at least 4")
    return [(name, fold, training) for training in range(max(count for _, count in wanted))
            for name, count in wanted if training < count for fold in range(options.folds)]


def plot(policies, path):
    """Best-so-far curves as SVG: the share of the best recorded score over evaluations, on a logarithmic scale."""
    width, height, left, bottom = 860, 480, 60, 40
    lowest = min(p["curve"][3]["value"] for p in policies) - 0.02
    last = len(policies[0]["curve"])

    def place(n, value):
        import math
        x = left + (width - left - 220) * math.log(n) / math.log(last)
        y = 20 + (height - bottom - 20) * (1 - max(value - lowest, 0) / (1 - lowest))
        return f"{x:.1f},{y:.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
           'font-size="12"><rect width="100%" height="100%" fill="white"/>']
    for n in (1, 2, 4, 8, 16, 32, 64):
        if n <= last:
            x, y = place(n, lowest).split(",")
            out.append(f'<text x="{x}" y="{height - 15}" text-anchor="middle">{n}</text>')
    for percent in range(int(lowest * 100) + 1, 101, 2):
        x, y = place(1, percent / 100).split(",")
        out.append(f'<line x1="{left}" x2="{width - 220}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end">{percent}%</text>')
    for i, p in enumerate(policies):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(place(n + 1, v["value"]) for n, v in enumerate(p["curve"]) if v["value"] >= lowest)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{width - 210}" y="{40 + 18 * i}" fill="{colour}">{p["name"]}</text>')
    out.append(f'<text x="{(width - 160) / 2}" y="{height - 2}" text-anchor="middle">evaluations</text></svg>')
    path.write_text("\n".join(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=21, help="searches of each task, a multiple of all trainings")
    parser.add_argument("--evaluations", type=int, default=64, help="of each search")
    parser.add_argument("--steps", default="150,20,600", help="of the three stages")
    parser.add_argument("--jobs", type=int, default=2, help="trainings, and policies that are compared, at the same time")
    parser.add_argument("--device", default="cpu", help="of the models, or several: cuda:0,cuda:1")
    parser.add_argument("--baselines", default="random,evolutionary", help="the first is random")
    parser.add_argument("--compare-on", metavar="OTHER.jsonl", help="a space to compare on, if not SPACE")
    parser.add_argument("--only", default=",".join(VARIANTS), metavar="VARIANT[:TRAININGS],...")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.runs = runs_of(options)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda run: train(run, options), options.runs))
    policies = compare(options)
    (options.out / "ablation.json").write_text(json.dumps(policies))
    plot(policies, options.out / "ablation.svg")
    for p in policies:
        after = "  ".join(f"{n}: {100 * p[f'share_after_{n}']['value']:5.1f}% [{100 * p[f'share_after_{n}']['low']:.1f}, "
                          f"{100 * p[f'share_after_{n}']['high']:.1f}]" for n in (4, 8, 16, 64) if f"share_after_{n}" in p)
        to = p["evaluations_to_95_percent"]
        print(f"{p['name']:26s} {after}  area {100 * p['area']['value']:.2f}%  to 95%: {to['value']:.2f} "
              f"[{to['low']:.2f}, {to['high']:.2f}]")


if __name__ == "__main__":
    main()

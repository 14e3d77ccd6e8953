"""What Nsight Compute read, for a terminal."""

from __future__ import annotations

import textwrap
from typing import Callable

from nsight import words

HEAD = ("kernel", "time", "share", "occupancy", "DRAM", "L2", "tensor", "FMA", "waves", "registers", "spills")
LONGEST_NAME = 28


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME - 3] + "..."


def occupancy(kernel: dict) -> str:
    if kernel["most_occupancy_pct"] is None:
        return percent(kernel["occupancy_pct"])
    return f"{percent(kernel['occupancy_pct'])} of {percent(kernel['most_occupancy_pct'])}"


def roof_line(kernels: list[dict], roof_us: float, limit: str, time_text: Callable[[float], str]) -> str:
    """Where its kernels stand beside the task's floor."""
    total = sum(k["us"] for k in kernels)
    nearest = []
    for name, what, _ in words.ROOFS:
        known = [(k[name], k["us"]) for k in kernels if k[name] is not None]
        if known and sum(us for _, us in known) > 0:
            nearest.append((sum(v * us for v, us in known) / sum(us for _, us in known), what))
    text = f"All kernels: {time_text(total)}"
    if nearest:
        share, what = max(nearest)
        text += f"; the nearest roof is that of {what}, at {share:.0f}%"
    if roof_us > 0 and total > 0:
        text += f". The task's floor is {time_text(roof_us)} ({limit}), {roof_us / total:.0%} of that time"
    return text + "."


def kernel_lines(kernel: dict) -> list[str]:
    lines = []
    if kernel["near_roof"]:
        lines.append(f"it is near the roof of {kernel['near_roof']}. To try: {kernel['roof_advice']}")
    if kernel["limited_by"]:
        lines.append(f"occupancy is limited by {', '.join(kernel['limited_by'])}")
    lines += [f"{s['share']:.0%} of its warps' time: waits for {s['words']}. To try: {s['advice']}" for s in kernel["stalls"]]
    return lines


def table(kernels: list[dict], width: int, time_text: Callable[[float], str]) -> str:
    rows = [HEAD]
    for k in kernels:
        spills = "-" if k["spill_requests"] is None else f"{k['spill_requests']:.0f}"
        rows.append((short(k["kernel"]) + (f" x{k['launches']}" if k["launches"] > 1 else ""), time_text(k["us"]),
                     f"{k['share']:.1%}", occupancy(k), *(percent(k[n]) for n in ("dram_pct", "l2_pct", "tensor_pct", "fma_pct")),
                     "-" if k["waves"] is None else f"{k['waves']:.3g}",
                     "-" if k["registers"] is None else f"{k['registers']:.0f}",
                     spills))
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = []
    for row, kernel in zip(rows, [None, *kernels]):
        line = row[0].ljust(widths[0]) + "".join("  " + row[i].rjust(widths[i]) for i in range(1, len(HEAD)))
        if len(line) > width:  # the name on a line of its own
            lines.append(row[0])
            line = "  " + "  ".join(row[i].rjust(widths[i]) for i in range(1, len(HEAD)))
        lines.append(line.rstrip())
        for text in kernel_lines(kernel) if kernel else []:
            lines += textwrap.wrap(text, max(width - 4, 20), initial_indent="    ", subsequent_indent="      ")
    return "\n".join(lines)

"""Compares two runs of the corpus."""

from __future__ import annotations

from typing import Any


def same_gate(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the first failing gate is the same, or both are among those that random draws may select."""
    by_chance = before["gates_by_chance"]
    return before["gate"] == after["gate"] or (before["gate"] in by_chance and after["gate"] in by_chance)


def same_verdict(before: dict[str, Any], after: dict[str, Any]) -> bool:
    accepted = ("correct", "unmeasurable")  # the precision of the timing does not matter here
    if before["outcome"] in accepted and after["outcome"] in accepted:
        return True
    return before["outcome"] == after["outcome"] and same_gate(before, after)


def verdict_text(r: dict[str, Any] | None) -> str:
    if r is None:
        return "missing"
    return r["outcome"] + (f", gate {r['gate']}" if r["gate"] else "") + (f" ({r['draw']})" if r["draw"] else "")


def table(rows: list[tuple[str, int, int]]) -> str:
    width = max(len(row[0]) for row in rows)
    lines = [f"{'kind of error':<{width}}  count   same"]
    lines += [f"{name:<{width}}  {count:>5}  {same:>5}" for name, count, same in rows]
    return "\n".join(lines)


def compare(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, int]:
    """The report, and the number of verdicts that differ. A variant that is in one run only counts as different."""
    first = {r["name"]: r for r in before["variants"]}
    second = {r["name"]: r for r in after["variants"]}
    counts: dict[str, list[int]] = {}
    differences, other_draws = [], 0
    for name in list(first) + [name for name in second if name not in first]:
        a, b = first.get(name), second.get(name)
        same = a is not None and b is not None and same_verdict(a, b)
        count = counts.setdefault((a or b)["kind"], [0, 0])
        count[0] += 1
        count[1] += same
        if not same:
            reasons = "".join(f"\n    {when}: {r['reason'][:300]}" for when, r in (("before", a), ("after", b)) if r)
            differences.append(f"  {name}: {verdict_text(a)} -> {verdict_text(b)}{reasons}")
        elif a["draw"] != b["draw"]:
            other_draws += 1
    rows = [(kind, count, same) for kind, (count, same) in sorted(counts.items())]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    text = f"{before['device']} against {after['device']}\n\n{table(rows)}\n"
    if other_draws:
        text += f"\n{other_draws} fail on another kind of draw than before, but by the same gate.\n"
    if differences:
        text += f"\n{len(differences)} differ:\n" + "\n".join(differences) + "\n"
    return text, len(differences)

"""The pictures of the results: bars of ratios, times against size, memory against loop length. Each is one SVG text."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.report import label, memories, present
from benchmarks.run import OWN
from gradtape.tools import svg

# middle lightness: they stand out on white and on black
COLORS = {
    "gradtape": "#3b82f6",
    "numpy": "#8b95a5",
    "torch": "#ef4444",
    "tensorflow": "#f59e0b",
    "autograd": "#10b981",
    "jax": "#a855f7",
    "value": "#93c5fd",
    "c": "#64748b",
    "jax_jit": "#a855f7",
    "tf_function": "#f59e0b",
    "tf_xla": "#b45309",
    "torch_compile": "#be123c",
    "torch_eager": "#ef4444",
}
LIMITED = COLORS["torch"]


def ratios(results: dict[str, Any]) -> str:
    """One group of bars per workload: how many times gradtape's time a peer takes; bars to the left are faster peers."""
    peers = [name for name in present(results) if name not in OWN or name == "c"]
    rows = [row for row in results["rows"] if "min" in row["peers"].get("gradtape", {})]
    found = [
        [row["peers"][p]["min"] / row["peers"]["gradtape"]["min"] if "min" in row["peers"].get(p, {}) else None for p in peers]
        for row in rows
    ]
    shown = [(row, group) for row, group in zip(rows, found, strict=True) if any(ratio is not None for ratio in group)]
    rows, found = [row for row, _ in shown], [group for _, group in shown]
    known = [ratio for group in found for ratio in group if ratio is not None] or [1.0]
    low, high = min(0.5, 0.8 * min(known)), max(2.0, 1.3 * max(known))
    height = (9 * len(peers) + 12) * max(len(rows), 1)
    names = [(len(rows) - i - 0.5, row["title"].replace(", forward + backward", "")) for i, row in enumerate(rows)]
    panel = svg.Panel(
        370, 76, 580, height, (low, high), (0, max(len(rows), 1)), "Time relative to gradtape",
        "time of the peer ÷ time of gradtape; right of 1: gradtape is faster", log_across=True, names=names,
    )  # fmt: skip
    for (middle, _), group in zip(names, found, strict=True):
        for k, (peer, ratio) in enumerate(zip(peers, group, strict=True)):
            if ratio is not None:
                at = middle + (0.5 * (len(peers) - 1) - k) * 0.8 / len(peers)
                panel.bar(1.0, ratio, at, 0.68 / len(peers), COLORS[peer])
    panel.segments([((1.0, 0.0), (1.0, float(len(rows))))], svg.INK, width=1.5)
    for peer in peers:
        panel.key(COLORS[peer], label(peer))
    return svg.page(1000, height + 190, [panel.render(), _footer(results, 1000, height + 178)], panel.title, dark=True)


def series(results: dict[str, Any], name: str) -> str:
    """Seconds of a call against size, both logarithmic."""
    found = next(s for s in results["series"] if s["name"] == name)
    what = found.get("what", "min")
    lines = {
        peer: [(p["size"], p["peers"][peer][what]) for p in found["points"] if what in p["peers"].get(peer, {})]
        for peer in present(results)
    }
    sizes = [p["size"] for p in found["points"]]
    times = [t for points in lines.values() for _, t in points]
    wide = 750 if sum(map(bool, lines.values())) < 7 else 960  # the legend is one line
    panel = svg.Panel(
        90, 66, wide - 130, 380, _around(sizes), _around(times), found["title"], found["axis"],
        "seconds, forward + backward" if what == "min" else "seconds of the first call",
        log=True, log_across=True,
    )  # fmt: skip
    for peer, points in lines.items():
        if points:
            _curve(panel, points, COLORS[peer], label(peer))
    return svg.page(wide, 560, [panel.render(), _footer(results, wide, 548)], found["title"], dark=True)


def memory(results: dict[str, Any], kind: str = "eager") -> str:
    """Megabytes held at most against loop length, with and without a limit."""
    kinds = {"free": ("without limit", COLORS["gradtape"]), "limited": (f"limit {results['memory_limit'] / 1e6:g} MB", LIMITED)}
    rows = memories(results)[kind]
    lines = {k: [(r["turns"], r[k]["bytes"] / 1e6) for r in rows if "bytes" in r.get(k, {})] for k in kinds}
    panel = svg.Panel(
        90, 66, 620, 380, _around([r["turns"] for r in rows]), _around([m for line in lines.values() for _, m in line]),
        f"Memory of {'a' if kind == 'eager' else 'a compiled'} loop on vectors of 10,000 elements", "turns of the loop",
        "MB held at most", log=True, log_across=True,
    )  # fmt: skip
    for line, (words, color) in kinds.items():
        if lines[line]:
            _curve(panel, lines[line], color, words)
    return svg.page(750, 560, [panel.render(), _footer(results, 750, 548)], panel.title, dark=True)


def _curve(panel: svg.Panel, points: list[tuple[float, float]], color: str, label: str) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    panel.line(xs, ys, color, label)
    panel.points(xs, ys, color)


def _around(values: list[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis with some air."""
    low, high = min(values), max(values)
    air = max((high / low) ** 0.06, 1.15)
    assert math.isfinite(air)
    return low / air, high * air


def _footer(results: dict[str, Any], width: int, y: float) -> str:
    at = results["machine"]
    words = f"{'quick run, ' if results.get('quick') else ''}{at['date']}, {at['cpu']}, {at['threads']} thread(s)"
    return svg.text(width - 12, y, words, 11, svg.QUIET, "end")

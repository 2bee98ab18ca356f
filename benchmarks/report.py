"""The results as JSON (everything that was measured, and where) and as Markdown tables (ratios to gradtape)."""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.compiling import TITLES as COMPILE
from benchmarks.run import OWN, PEERS
from benchmarks.workloads.jacobian import OUTPUTS

HEADINGS = {"eager": "# Eager benchmarks", "compiled": "# Compiled benchmarks"}
LABELS = {
    "value": "value alone", "c": "C", "jax_jit": "jax jit", "tf_function": "tf.function", "tf_xla": "tf XLA",
    "torch_compile": "torch.compile", "torch_eager": "torch eager",
}  # fmt: skip
IMPORT = "import"
COMPILE_GOALS = dict(zip(COMPILE, (0.100, 0.005), strict=True))  # seconds: traced and compiled, traced and loaded
IMPORT_ALLOWANCE = 0.060  # seconds on top of NumPy's own import
OP_ALLOWANCE = 1.2e-6  # seconds on top of the bare NumPy call ...
OP_FACTOR, OP_LONG = 1.6, 2e-6  # ... or this factor, where that call alone takes longer than this


def machine(threads: int) -> dict[str, Any]:
    """Where and when."""
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": names[0] if names else platform.processor(),
        "processors": os.cpu_count(),
        "threads": threads,
        "system": platform.platform(),
        "load": os.getloadavg()[0],
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def write(folder: Path, name: str, results: dict[str, Any], text: str) -> None:
    """`name`.json and `name`.md in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / f"{name}.md").write_text(text)


def present(results: dict[str, Any]) -> list[str]:
    """The peers that took part, in the order of the columns."""
    return [name for name, about in results["peers"].items() if not about.get("missing")]


def label(name: str) -> str:
    """A peer as the tables call it."""
    return LABELS.get(name, name)


def where(results: dict[str, Any]) -> str:
    """Date, machine, threads, versions, and who is missing and why."""
    at, peers = results["machine"], results["peers"]
    versions = ", ".join(f"{label(name)} {peers[name]['version']}" for name in present(results) if name != "value")
    absent = "; ".join(f"{label(name)} ({found['missing']})" for name, found in peers.items() if found.get("missing"))
    return (
        f"{'**A quick run, only to see that everything works.** ' if results.get('quick') else ''}"
        f"{at['date']}, {at['cpu']}, {at['processors']} processors, {at['threads']} thread(s) for every peer, "
        f"load {at['load']:.1f}. {versions}.{f' Not installed: {absent}.' if absent else ''}"
    )


def where_measured(at: dict[str, Any]) -> str:
    """Date, machine and load."""
    return f"{at['date']}, {at['cpu']}, {at['processors']} processors, {at['threads']} thread(s), load {at['load']:.1f}."


def markdown(results: dict[str, Any], heading: str = "# Eager benchmarks") -> str:
    """The table a person reads, the rows where gradtape is not the fastest, and the price of a Jacobian."""
    shown = present(results)
    lines = [
        *([heading, ""] if heading else []),
        where(results),
        "",
        "Least time of a call (median in brackets); per op where the row says so. In brackets after a peer's time: gradtape's "
        "time divided by it, so below 1 gradtape is faster. Only ratios carry over to another machine.",
        "",
        "| work | " + " | ".join(map(label, shown)) + " | goal |",
        "|---|" + "---|" * (len(shown) + 1),
    ]
    for row in results["rows"]:
        cells = [_cell(row, name) for name in shown]
        lines.append(f"| {row['title']}{', per op' if row['ops'] > 1 else ''} | " + " | ".join(cells) + f" | {verdicts(row)} |")
    slower = [text for text in map(_beaten, results["rows"]) if text]
    if slower:
        lines += ["", "Where gradtape is not the fastest:", "", *(f"* {text}" for text in slower)]
    price = jacobian_price(results)
    if price:
        lines += ["", f"A Jacobian of {OUTPUTS[-1]} outputs costs as much as this many single gradients: {price}."]
    return "\n".join(lines) + "\n"


def _beaten(row: dict[str, Any]) -> str:
    times = {
        name: found["min"] for name, found in row["peers"].items() if "min" in found and (name not in OWN or name == "gradtape")
    }
    own = times.get("gradtape")
    faster = {name: own / time for name, time in times.items() if own is not None and time < own}
    best = ", ".join(
        f"{label(name)} takes 1/{plain(ratio)} of the time" for name, ratio in sorted(faster.items(), key=lambda f: -f[1])
    )
    return f"{row['title']}: {best}" if best else ""


def jacobian_price(results: dict[str, Any]) -> str:
    """The time of the largest Jacobian over that of one gradient, for each peer that has both."""
    rows = {row["name"]: row["peers"] for row in results["rows"]}
    many, one = rows.get(f"jacobian_{OUTPUTS[-1]}", {}), rows.get("jacobian_gradient", {})
    both = [name for name in PEERS if "min" in many.get(name, {}) and "min" in one.get(name, {})]
    return ", ".join(f"{name} {many[name]['min'] / one[name]['min']:.3g}" for name in both)


def scaling_markdown(results: dict[str, Any], heading: str = "# Scaling") -> str:
    """Times against sizes, one table per series, and memory against loop length."""
    lines = [*([heading, ""] if heading else []), where(results)]
    for series in results["series"]:
        shown = [name for name in present(results) if any(name in point["peers"] for point in series["points"])]
        what = series.get("what", "min")
        told = "least time of a call" if what == "min" else "trace and compilation"
        lines += ["", f"{series['title']}, forward + backward, {told}. A dash: a call would take too long.", ""]
        lines += [f"| {series['axis']} | " + " | ".join(map(label, shown)) + " |", "|---:|" + "---|" * len(shown)]
        for point in series["points"]:
            cells = [_cell({"peers": point["peers"], "ops": 1}, name, what) for name in shown]
            lines.append(f"| {point['size']:,} | " + " | ".join(cells) + " |")
    for kind, rows in memories(results).items():
        limit = results["memory_limit"] / 1e6
        loop = "A loop" if kind == "eager" else "The same loop in a compiled function"
        lines += ["", f"{loop} on vectors of 10,000 elements: most bytes held at once, time of forward + backward.", ""]
        lines += [f"| turns | without limit | `memory_limit` of {limit:g} MB |", "|---:|---|---|"]
        for row in rows:
            lines.append(f"| {row['turns']:,} | {_held(row.get('free'))} | {_held(row.get('limited'))} |")
    return "\n".join(lines) + "\n"


def memories(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Memory by kind of run; results of before compiled functions were measured have one kind."""
    found = results["memory"]
    return {"eager": found} if isinstance(found, list) and found else dict(found)


def _held(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    return found.get("error") or f"{found['bytes'] / 1e6:.3g} MB, {_duration(found['seconds'])}"


def _cell(row: dict[str, Any], name: str, what: str = "min") -> str:
    found = row["peers"].get(name)
    if found is None:
        return "–"
    if "error" in found:
        return f"not timed: {found['error']}"
    own = row["peers"].get("gradtape", {})
    if name != "gradtape" and what in own:
        return f"{_duration(found[what] / row['ops'])} ({plain(own[what] / found[what])} ×)"
    if what == "first":
        return _duration(found["first"])
    return f"{_duration(found['min'] / row['ops'])} ({_duration(found['median'] / row['ops'])})"


def plain(ratio: float, figures: int = 3) -> str:
    """A ratio without an exponent."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.{figures}g}" if ratio >= 0.001 else "<0.001"


def _duration(seconds: float) -> str:
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def verdicts(row: dict[str, Any]) -> str:
    """Each goal of a row and whether this run meets it."""
    times = {name: found["min"] / row["ops"] for name, found in row["peers"].items() if "min" in found}
    own = times.pop("gradtape", None)
    if own is None:
        return ""
    floor = times.pop("numpy", None)
    said = []
    if floor is not None and row["name"] == IMPORT:
        extra = own - floor
        said.append(_said(extra <= IMPORT_ALLOWANCE, f"numpy + {extra * 1e3:.0f} ms ≤ {IMPORT_ALLOWANCE * 1e3:.0f} ms"))
    elif floor is not None and floor > OP_LONG:
        said.append(_said(own <= OP_FACTOR * floor, f"{own / floor:.2f} × ≤ {OP_FACTOR} × numpy"))
    elif floor is not None:
        said.append(_said(own - floor <= OP_ALLOWANCE, f"adds {(own - floor) * 1e6:.2f} µs ≤ {OP_ALLOWANCE * 1e6:.1f} µs"))
    if row["name"] in COMPILE_GOALS:
        most = COMPILE_GOALS[row["name"]]
        said.append(_said(own <= most, f"{own * 1e3:.3g} ms ≤ {most * 1e3:g} ms"))
    rivals = [name for name in times if name not in OWN]
    for peer, most in row["goals"]:
        best = min(rivals, key=times.__getitem__, default=None) if peer == "fastest" else peer
        if best in times:
            ratio = own / times[best]
            said.append(_said(ratio <= most, f"{plain(ratio)} ≤ {most} × {label(best)}"))
    return "; ".join(said)


def _said(met: bool, text: str) -> str:
    return f"met: {text}" if met else f"**missed**: {text}"

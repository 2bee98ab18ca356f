"""The results as JSON (everything that was measured, and where) and as a Markdown table (ratios to gradtape)."""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.run import PEERS

IMPORT = "import"
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


def write(path: Path, results: dict[str, Any]) -> None:
    """`path`.json and `path`.md."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(results))


def markdown(results: dict[str, Any]) -> str:
    """The report a person reads."""
    where, peers = results["machine"], results["peers"]
    shown = [name for name in PEERS if name in peers and not peers[name].get("missing")]
    versions = ", ".join(f"{name} {peers[name]['version']}" for name in shown)
    absent = ", ".join(name for name in peers if peers[name].get("missing"))
    lines = [
        "# Eager benchmarks",
        "",
        f"{where['date']}, {where['cpu']}, {where['processors']} processors, {where['threads']} thread(s) for every peer, "
        f"load {where['load']:.1f}. {versions}.{f' Not installed: {absent}.' if absent else ''}",
        "",
        "Least time of a call (median in brackets); per op where the row says so. In brackets after a peer's time: gradtape's "
        "time divided by it, so below 1 gradtape is faster. Only ratios carry over to another machine.",
        "",
        "| work | " + " | ".join(shown) + " | goal |",
        "|---|" + "---|" * (len(shown) + 1),
    ]
    for row in results["rows"]:
        cells = [_cell(row, name) for name in shown]
        lines.append(f"| {row['title']}{', per op' if row['ops'] > 1 else ''} | " + " | ".join(cells) + f" | {verdicts(row)} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any], name: str) -> str:
    found = row["peers"].get(name)
    if found is None:
        return "–"
    if "error" in found:
        return f"not timed: {found['error']}"
    text = f"{_duration(found['min'] / row['ops'])} ({_duration(found['median'] / row['ops'])})"
    own = row["peers"].get("gradtape", {})
    if name == "gradtape" or "min" not in own:
        return text
    return f"{_duration(found['min'] / row['ops'])} ({own['min'] / found['min']:.3g} ×)"


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
    for peer, most in row["goals"]:
        best = min(times, key=times.__getitem__, default=None) if peer == "fastest" else peer
        if best in times:
            ratio = own / times[best]
            said.append(_said(ratio <= most, f"{ratio:.3g} ≤ {most} × {best}"))
    return "; ".join(said)


def _said(met: bool, text: str) -> str:
    return f"met: {text}" if met else f"**missed**: {text}"

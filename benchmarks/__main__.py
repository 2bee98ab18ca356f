"""`python -m benchmarks`: run workloads and scaling series, print the tables, write them down. See `benchmarks/README.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import environments, memory, page, report, run
from benchmarks.workloads import SERIES, WORKLOADS

RIVALS = run.PEERS[2:]
MEMORY = "memory"
NAMES = (*(w.name for w in WORKLOADS), report.IMPORT, *(s.name for s in SERIES), MEMORY)
SCRATCH = run.ROOT / ".benchmarks" / "results"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="gradtape against its peers, side by side")
    parser.add_argument("--quick", action="store_true", help="two short rounds: to see that everything runs")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="whose name starts so (repeatable)")
    parser.add_argument("--peers", nargs="*", default=list(RIVALS), choices=RIVALS, help="whom to measure")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a peer (repeatable)")
    parser.add_argument("--environments", type=Path, metavar="DIR", help="make virtual environments there")
    parser.add_argument("--rounds", type=int, default=7, help="turns of every peer (default 7)")
    parser.add_argument("--threads", type=int, default=1, help="threads of every peer (default 1)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where results go (default: see benchmarks/README.md)")
    options = parser.parse_args(given)
    options.chosen = [name for name in NAMES if not options.only or name.startswith(tuple(options.only))]
    if not options.chosen:
        parser.error(f"nothing has a name that starts with {' or '.join(options.only)}; there are {', '.join(NAMES)}")
    return options


def start(options: argparse.Namespace) -> list[run.Peer]:
    """A worker for gradtape, NumPy and every peer asked for; some may be missing."""
    pythons = dict(entry.split("=", 1) for entry in options.python)
    peers = [run.Peer(name, sys.executable, options.threads) for name in ("gradtape", "numpy")]
    for name in options.peers:
        python, problem = pythons.get(name, sys.executable), ""
        if options.environments and name not in pythons:
            python, problem = environments.prepared(name, options.environments.resolve())
        peers.append(run.Peer(name, python, options.threads, problem))
        if peers[-1].missing:
            print(f"{name} is left out: {peers[-1].missing}", file=sys.stderr)
    return peers


def table(options: argparse.Namespace, peers: list[run.Peer], rounds: int, seconds: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for w in WORKLOADS:
        if w.name in options.chosen:
            print(w.name, file=sys.stderr)
            found = run.measure(w, peers, rounds, seconds)
            rows.append({"name": w.name, "title": w.title, "ops": w.ops, "goals": w.goals, "peers": found})
    if report.IMPORT in options.chosen:
        print(report.IMPORT, file=sys.stderr)
        found = run.import_times({p.name: p.python for p in peers}, options.threads, min(rounds, 5))
        rows.append({"name": report.IMPORT, "title": "import, in a fresh process", "ops": 1, "goals": (), "peers": found})
    return rows


def scaling(options: argparse.Namespace, peers: list[run.Peer], rounds: int, seconds: float) -> dict[str, Any]:
    found = []
    for s in SERIES:
        if s.name in options.chosen:
            print(s.name, file=sys.stderr)
            points = run.scale(s, peers, min(rounds, 3), seconds, 2.0 if options.quick else 20.0)
            found.append({"name": s.name, "title": s.title, "axis": s.axis, "points": points})
    held: list[dict[str, Any]] = []
    if MEMORY in options.chosen:
        print(MEMORY, file=sys.stderr)
        held = memory.measure(patience=10.0 if options.quick else 60.0)
    return {"series": found, "memory": held, "memory_limit": memory.LIMIT}


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    rounds, seconds = (2, 0.05) if options.quick else (options.rounds, 0.2)
    peers = start(options)
    present = [peer for peer in peers if not peer.missing]
    about = {
        "machine": report.machine(options.threads),
        "quick": options.quick,
        "peers": {p.name: {"version": p.version, "python": p.python_version, "missing": p.missing} for p in peers},
    }
    try:
        eager = about | {"rows": table(options, present, rounds, seconds)}
        scaled = about | scaling(options, present, rounds, seconds)
    finally:
        for peer in peers:
            peer.close()
    complete = not options.quick and not options.only and set(options.peers) == set(RIVALS)
    output = options.output or (page.RESULTS if complete else SCRATCH)
    if eager["rows"]:
        print(report.markdown(eager))
        report.write(output, "eager", eager, report.markdown(eager))
    if scaled["series"] or scaled["memory"]:
        print(report.scaling_markdown(scaled))
        report.write(output, "scaling", scaled, report.scaling_markdown(scaled))
    if output.resolve() == page.RESULTS:
        page.publish()
    else:
        for name, text in page.pictures(eager if eager["rows"] else None, scaled).items():
            (output / name).write_text(text)
    print(f"results in {output}", file=sys.stderr)


if __name__ == "__main__":
    main()

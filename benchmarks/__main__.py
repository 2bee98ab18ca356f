"""`python -m benchmarks`: run the workloads, print the table, write it down when asked. See `benchmarks/README.md`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks import report, run
from benchmarks.workloads import WORKLOADS


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="gradtape against its peers, side by side")
    parser.add_argument("--quick", action="store_true", help="two short rounds: to see that everything runs")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="workloads whose name starts so")
    parser.add_argument("--peers", nargs="*", default=list(run.PEERS[2:]), choices=run.PEERS[2:], help="whom to measure")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a peer (repeatable)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of every peer (default 7)")
    parser.add_argument("--threads", type=int, default=1, help="threads of every peer (default 1)")
    parser.add_argument("--output", type=Path, help="write PATH.json and PATH.md")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    pythons = dict(entry.split("=", 1) for entry in options.python)
    chosen = {name: run.default_python(name, pythons) for name in ("gradtape", "numpy", *options.peers)}
    rounds, seconds = (2, 0.05) if options.quick else (options.rounds, 0.2)
    workloads = [w for w in WORKLOADS if not options.only or w.name.startswith(tuple(options.only))]
    peers = [run.Peer(name, python, options.threads) for name, python in chosen.items()]
    rows: list[dict[str, Any]] = []
    try:
        present = [peer for peer in peers if not peer.missing]
        for workload in workloads:
            print(workload.name, file=sys.stderr)
            found = run.measure(workload, present, rounds, seconds)
            rows.append(
                {"name": workload.name, "title": workload.title, "ops": workload.ops, "goals": workload.goals, "peers": found}
            )
    finally:
        for peer in peers:
            peer.close()
    if not options.only or report.IMPORT in options.only:
        print(report.IMPORT, file=sys.stderr)
        found = run.import_times({p.name: p.python for p in present}, options.threads, min(rounds, 5))
        rows.append({"name": report.IMPORT, "title": "import, in a fresh process", "ops": 1, "goals": (), "peers": found})
    results = {
        "machine": report.machine(options.threads),
        "peers": {p.name: {"version": p.version, "python": p.python_version, "missing": p.missing} for p in peers},
        "rows": rows,
    }
    print(report.markdown(results))
    if options.output:
        report.write(options.output, results)


if __name__ == "__main__":
    main()

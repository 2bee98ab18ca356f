"""`python -m benchmarks`: run workloads and scaling series, print the tables, write them down. See `benchmarks/README.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks import compiling, distribute, environments, memory, page, report, run
from benchmarks.workloads import SERIES, WORKLOADS

RIVALS = tuple(environments.PACKAGES)
MEMORY = {"eager": "memory", "compiled": "compiled_memory"}
PREFIX = "compiled_"
NAMES = (*(w.name for w in WORKLOADS), report.IMPORT, *compiling.TITLES, *(s.name for s in SERIES), *MEMORY.values())
SCRATCH = run.ROOT / ".benchmarks" / "results"
# not in a quick run: the one takes up to a minute to compile a function, the other seconds for a call of a long loop
SLOW = {"eager": (), "compiled": ("torch_compile", "autograd")}


@dataclass(frozen=True)
class Pace:
    """How much time a run takes for a figure: a complete one about half an hour, a quick one less than five minutes."""

    rounds: int  # turns of every peer
    seconds: float  # of calls in a turn
    starts: int  # fresh processes that import a library, or compile a small function
    series_rounds: int
    series_patience: float  # seconds of a call in a scaling series; a peer that would take longer leaves it
    series_most: int  # the largest size of a series
    memory_turns: tuple[int, ...]
    memory_patience: float
    patience: float = run.PATIENCE


COMPLETE = Pace(7, 0.2, 3, 3, 8.0, 10**7, memory.TURNS, 30.0)
QUICK = Pace(2, 0.03, 1, 1, 0.5, 10**5, memory.TURNS[1::3], 10.0)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="gradtape against its peers, side by side")
    parser.add_argument("--quick", action="store_true", help="two short rounds: to see that everything runs")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="whose name starts so (repeatable)")
    parser.add_argument("--peers", nargs="*", default=list(RIVALS), choices=RIVALS, help="which libraries to measure")
    parser.add_argument(
        "--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a library (repeatable)"
    )
    parser.add_argument("--environments", type=Path, metavar="DIR", help="make virtual environments there")
    parser.add_argument("--rounds", type=int, help="turns of every peer (default 7, quick 2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of every peer (default 1)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where results go (default: see benchmarks/README.md)")
    options = parser.parse_args(given)
    options.pace = QUICK if options.quick else COMPLETE
    if options.rounds is not None:
        options.pace = replace(options.pace, rounds=options.rounds)
    if options.only == ["distribute"]:
        return options
    starts = tuple(options.only)
    options.chosen = [n for n in NAMES if not starts or n.startswith(starts) or n.removeprefix(PREFIX).startswith(starts)]
    if not options.chosen:
        parser.error(f"nothing has a name that starts with {' or '.join(options.only)}; there are {', '.join(NAMES)}")
    return options


@contextmanager
def told(name: str) -> Iterator[None]:
    """What is measured now and how long it took, for whoever waits."""
    print(name, end=" ", file=sys.stderr, flush=True)
    start = monotonic()
    yield
    print(f"{monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def tables(options: argparse.Namespace) -> list[str]:
    """Which of the two sets of peers are needed for what was chosen."""
    needed = {w.table for w in (*WORKLOADS, *SERIES) if w.name in options.chosen}
    needed |= {"eager"} if report.IMPORT in options.chosen else set()
    needed |= {"compiled"} if any(name in options.chosen for name in compiling.TITLES) else set()
    return [table for table in run.TABLES if table in needed]


prepared = cache(environments.prepared)  # an installation that failed is not tried again for the next column


def start(options: argparse.Namespace, table: str) -> list[run.Peer]:
    """A worker for each peer of a table that was asked for; some may be missing."""
    pythons = dict(entry.split("=", 1) for entry in options.python)
    peers: list[run.Peer] = []
    for name in run.TABLES[table]:
        library = run.LIBRARY.get(name, name)
        own = name in run.OWN
        if (not own and library not in options.peers) or (options.quick and name in SLOW[table]):
            continue
        python, problem = sys.executable if own else pythons.get(library, sys.executable), ""
        if options.environments and not own and library not in pythons:
            python, problem = prepared(library, options.environments.resolve())
        peers.append(run.Peer(name, python, options.threads, problem, options.pace.patience))
        if peers[-1].missing:
            print(f"{name} is left out: {peers[-1].missing}", file=sys.stderr)
    return peers


def rows(options: argparse.Namespace, table: str, peers: list[run.Peer]) -> list[dict[str, Any]]:
    pace: Pace = options.pace
    found: list[dict[str, Any]] = []
    for w in WORKLOADS:
        if w.table == table and w.name in options.chosen:
            with told(w.name):
                measured = run.measure(w, peers, pace.rounds, pace.seconds)
            found.append({"name": w.name, "title": w.title, "ops": w.ops, "goals": w.goals, "peers": measured})
    pythons = {p.name: p.python for p in peers}
    if table == "eager" and report.IMPORT in options.chosen:
        with told(report.IMPORT):
            times = run.import_times(pythons, options.threads, pace.starts)
        found.append({"name": report.IMPORT, "title": "import, in a fresh process", "ops": 1, "goals": (), "peers": times})
    if table == "compiled" and any(name in options.chosen for name in compiling.TITLES):
        with told(" ".join(compiling.TITLES)):
            found += compiling.measure(pythons, pace.starts)
    return found


def scaling(options: argparse.Namespace, table: str, peers: list[run.Peer]) -> list[dict[str, Any]]:
    pace: Pace = options.pace
    found = []
    for s in SERIES:
        if s.table == table and s.name in options.chosen:
            with told(s.name):
                shorter = replace(s, points=tuple(p for p in s.points if p[0] <= pace.series_most))
                points = run.scale(shorter, peers, pace.series_rounds, pace.seconds, pace.series_patience)
            found.append({"name": s.name, "title": s.title, "axis": s.axis, "what": s.what, "points": points})
    return found


def held(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Memory against loop length, for the kinds that were chosen."""
    found = {}
    for kind, name in MEMORY.items():
        if name in options.chosen:
            with told(name):
                found[kind] = memory.measure(kind, options.pace.memory_turns, options.pace.memory_patience)
    return found


def _on_ranks(options: argparse.Namespace) -> None:
    """The benchmarks of several ranks, which have peers of their own."""
    pythons = dict(entry.split("=", 1) for entry in options.python)
    for peer in ("torch", "jax"):
        if options.environments and peer in options.peers and peer not in pythons:
            python, problem = environments.prepared(peer, options.environments)
            pythons |= {} if problem else {peer: python}
    distribute.main([f"--{peer}={python}" for peer, python in pythons.items() if peer in ("torch", "jax")])


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    if options.only == ["distribute"]:
        _on_ranks(options)
        return
    began = monotonic()
    machine = report.machine(options.threads)
    complete = not options.quick and not options.only and set(options.peers) == set(RIVALS)
    output = options.output or (page.RESULTS if complete else SCRATCH)
    output.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[str, Any]] = {}
    scaled: dict[str, Any] = {"machine": machine, "quick": options.quick, "peers": {}, "series": []}
    for table in tables(options):
        peers = start(options, table)
        about = {p.name: {"version": p.version, "python": p.python_version, "missing": p.missing} for p in peers}
        present = [peer for peer in peers if not peer.missing]
        try:
            results = {"machine": machine, "quick": options.quick, "peers": about, "rows": rows(options, table, present)}
            if results["rows"]:  # written down at once: what was measured for long is not lost with what comes after it
                measured[table] = results
                print(report.markdown(results, report.HEADINGS[table]))
                report.write(output, table, results, report.markdown(results, report.HEADINGS[table]))
            scaled["series"] += scaling(options, table, present)
        finally:
            for peer in peers:
                peer.close()
        scaled["peers"] |= about
    scaled |= {"memory": held(options), "memory_limit": memory.LIMIT}
    if scaled["series"] or scaled["memory"]:
        print(report.scaling_markdown(scaled))
        report.write(output, "scaling", scaled, report.scaling_markdown(scaled))
    if output.resolve() == page.RESULTS:
        page.publish()
    else:
        for name, text in page.pictures(measured, scaled).items():
            (output / name).write_text(text)
    print(f"results in {output}, after {(monotonic() - began) / 60:.1f} minutes", file=sys.stderr)


if __name__ == "__main__":
    main()

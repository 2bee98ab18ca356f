"""The first call of programs with long loops and long straight code, value and gradient, beside JAX: `make bench` and
`python -m benchmarks.first_calls [--python jax=PATH] [NAME ...]`, which also writes the table of `docs/benchmarks.md`. How it
grows with straight code is measured of `tensorflow=PATH` and `torch=PATH` too.

Every figure of a first call is the processor time of a fresh process with an empty cache, after another function has started
the compiler; processor time, because a shared machine adds to any other. The later calls of a loop written with `range` and
with `gt.range` take turns in one process. A first call that takes longer than `--limit` is stopped and its cell says so: every
figure, and every bound, comes from this command. Goals stand in `GOALS`; nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from time import perf_counter, process_time
from typing import Any

from benchmarks import plots, report
from benchmarks.run import ROOT, environment

TURNS = {
    "scalar_loop": 1000, "nested_with_a_branch": 100, "lstm": 1024, "gauss_seidel": 40, "triangular_solve": 400, "durbin": 200,
    "functional_while": 4000, "python_while": 8000, "covariance": 50, "stencil": 4000,
}  # fmt: skip
LONG = {"irregular": (1000,), "triangular_gradient": (800,), "straight_line": (100, 300, 1000, 3000, 10_000)}
GOALS = {"jax": 1.0, "range": 1.5, "later": 1.1, "straight": 0.7, "growth": 12.0}
POINT = 1.25
PATIENCE = 900.0  # seconds for one process, on a machine that others use
LIMIT = 120  # seconds of processor time for one first call
OTHERS = {"tf_function": "tensorflow", "torch_compile": "torch"}  # straight code only, and whose interpreter runs it
FORMS = (("gradtape", "range"), ("jax", "jax"), *((form, form) for form in OTHERS))
BEGIN, END = "<!-- first calls: written by `python -m benchmarks.first_calls` -->", "<!-- end of first calls -->"


def _gradtape(name: str, n: int, over: str) -> Callable[[], Any]:
    import gradtape as gt
    from benchmarks import loop_programs

    traced = gt.function(lambda x: getattr(loop_programs, name)(n, x, range if over == "range" else gt.range))

    def call() -> Any:
        x = gt.constant(POINT)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = traced(x)
        return y.numpy(), tape.gradient(y, x).numpy()

    return call


def _jax(name: str, n: int) -> Callable[[], Any]:
    from benchmarks.peers import jax_loop_programs

    compiled = jax_loop_programs.gradient(name, n)
    return lambda: compiled(POINT)


def _other(peer: str) -> Callable[[str, int], Callable[[], Any]]:
    from benchmarks.peers import straight_lines

    def make(name: str, n: int) -> Callable[[], Any]:
        compiled = straight_lines.GRADIENTS[peer](n)
        return lambda: compiled(POINT)

    return make


def _spent() -> float:
    """Processor time of this process and of the compilers that it has run."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def measured(peer: str, name: str, n: int, limit: int) -> dict[str, Any]:
    """In this process, which ends when the call takes too long: `peer` is a library, or what a loop of gradtape goes over."""
    make: Any = _other(peer) if peer in OTHERS else _jax if peer == "jax" else lambda name, n: _gradtape(name, n, peer)
    make("straight_line" if peer in OTHERS else "functional_while", 20)()  # starts the compiler
    call = make(name, n)
    start, began = _spent(), perf_counter()
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(process_time()) + limit, resource.RLIM_INFINITY))
    value, gradient = call()
    found = {"first": _spent() - start, "wall": perf_counter() - began, "value": [float(value), float(gradient)]}
    if peer == "range" and name in TURNS:
        calls = {"range": call, "gt.range": _gradtape(name, n, "gt.range")}
        best = dict.fromkeys(calls, math.inf)
        for one in calls.values():
            one()
        until = perf_counter() + 0.6
        while perf_counter() < until:
            for form, one in calls.items():
                start = perf_counter()
                one()
                best[form] = min(best[form], perf_counter() - start)
        found["later"] = best
    return found


def _elsewhere(python: str, peer: str, name: str, n: int, limit: int) -> dict[str, Any]:
    command = [python, "-W", "ignore", "-m", "benchmarks.first_calls", "--limit", str(limit), "--measure", peer, name, str(n)]
    with tempfile.TemporaryDirectory() as cache:
        settings = environment(1) | {"GRADTAPE_CACHE": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        settings["PYTHONPATH"] = f"{ROOT}:{ROOT / 'src'}"
        settings.pop("PYTHONDONTWRITEBYTECODE", None)  # what is compiled here are programs, not the libraries' own source
        try:
            done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {PATIENCE:.0f} s on a busy machine"}
        except subprocess.CalledProcessError as error:
            if error.returncode == -signal.SIGXCPU:
                return {"more": limit}
            return {"error": (error.stderr.strip().splitlines() or ["failed"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(pythons: dict[str, str], names: Sequence[str] = (), rounds: int = 1, limit: int = LIMIT) -> list[dict[str, Any]]:
    """The rows of the table; the least of several rounds counts."""
    sizes = {name: (n,) for name, n in TURNS.items()} | LONG
    rows = []
    for name, n in [(name, n) for name, several in sizes.items() for n in several if not names or name in names]:
        forms = {"range": "gradtape", **({"gt.range": "gradtape"} if name in TURNS else {}), "jax": "jax"}
        forms |= OTHERS if name == "straight_line" else {}
        row: dict[str, Any] = {"name": name, "size": n, "peers": {}}
        for _ in range(rounds):
            for form, library in forms.items():
                if library in pythons:
                    found = _elsewhere(pythons[library], form, name, n, limit)
                    known = row["peers"].get(form)
                    if known is None or found.get("first", math.inf) < known.get("first", math.inf):
                        row["peers"][form] = found | ({"later": known["later"]} if known and "later" in known else {})
        print(name, n, {form: round(found.get("first", math.nan), 3) for form, found in row["peers"].items()}, file=sys.stderr)
        rows.append(row)
    return rows


def markdown(results: dict[str, Any]) -> str:
    """The table, and how the time grows with the length of straight code."""
    lines = [report.where_measured(results["machine"]), ""]
    lines.append("| program | size | as written | with `gt.range` | JAX | later call / `gt.range` | goals |")
    lines.append("|---|---:|---|---|---|---|---|")
    rows = results["rows"]
    for row in rows:
        peers = row["peers"]
        cells = [_seconds(peers.get(form)) for form in ("range", "gt.range", "jax")]
        later = peers.get("range", {}).get("later")
        cells.append("–" if later is None else f"{later['range'] / later['gt.range']:.2f}")
        cells.append("; ".join(verdicts(row, rows)))
        lines.append(f"| {row['name'].replace('_', ' ')} | {row['size']:,} | {' | '.join(cells)} |")
    grown = {report.label(name): exponent(rows, form) for name, form in FORMS}
    said = ", ".join(f"{label} {power:.2f}" for label, power in grown.items() if power is not None)
    if said:
        lines += [
            "",
            "![first_calls](benchmarks/first_calls.svg)",
            "",
            f"Growth of the first call of straight code, as an exponent of its length: {said}.",
        ]
    return "\n".join(lines) + "\n"


def verdicts(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """Each goal of a row and whether this run meets it."""
    peers = row["peers"]
    own, staged, jax = (peers.get(form, {}).get("first") for form in ("range", "gt.range", "jax"))
    said = []
    if own is None:
        return ["**missed**: no answer"]
    if jax is not None:
        long = row["name"] == "straight_line" and row["size"] >= 1000
        said.append(_said(own / jax, GOALS["straight" if long else "jax"], "JAX"))
    elif "more" in peers.get("jax", {}):
        said.append(
            f"met: less than {own / peers['jax']['more']:.2f} × JAX"
            if own < GOALS["straight"] * peers["jax"]["more"]
            else "open"
        )
    if staged is not None:
        said.append(_said(own / staged, GOALS["range"], "`gt.range`"))
    if later := peers["range"].get("later"):
        said.append(_said(later["range"] / later["gt.range"], GOALS["later"], "later"))
    shorter = [r for r in rows if r["name"] == row["name"] and r["size"] * 10 == row["size"]]
    if shorter and row["size"] == 10_000 and "first" in shorter[0]["peers"].get("range", {}):
        said.append(_said(own / shorter[0]["peers"]["range"]["first"], GOALS["growth"], "a tenth of it"))
    return said


def _said(ratio: float, most: float, of: str) -> str:
    return f"met: {ratio:.2f} ≤ {most} × {of}" if ratio <= most else f"**missed**: {ratio:.2f} > {most} × {of}"


def exponent(rows: list[dict[str, Any]], form: str) -> float | None:
    """Of first-call time in the length of straight code, over all that was measured."""
    points = [(r["size"], r["peers"].get(form, {}).get("first")) for r in rows if r["name"] == "straight_line"]
    known = [(size, first) for size, first in points if first is not None]
    if len(known) < 2:
        return None
    (a, first), (b, last) = known[0], known[-1]
    return math.log(last / first) / math.log(b / a)


def _seconds(found: dict[str, Any] | None) -> str:
    if found is None or "error" in found:
        return "–" if found is None else str(found["error"])
    return f"more than {found['more']} s" if "more" in found else f"{found['first']:.3g} s"


def picture(results: dict[str, Any]) -> str:
    """First-call time against the length of straight code."""
    points = [
        {"size": row["size"], "peers": {label: row["peers"][form] for label, form in FORMS if form in row["peers"]}}
        for row in results["rows"] if row["name"] == "straight_line"
    ]  # fmt: skip
    series = {
        "name": "straight",
        "title": "First call of straight code",
        "axis": "operations",
        "what": "first",
        "points": points,
    }
    return plots.series(
        {"machine": results["machine"], "peers": {label: {} for label, _ in FORMS}, "series": [series]}, "straight"
    )


def publish(results: dict[str, Any]) -> None:
    """The results, and the table on the page."""
    report.write(ROOT / "benchmarks" / "results", "first_calls", results, "# First calls\n\n" + markdown(results))
    page = ROOT / "docs" / "benchmarks.md"
    (page.parent / "benchmarks" / "first_calls.svg").write_text(picture(results))
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n{END}{rest.split(END)[1]}")


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_calls", description="first calls beside JAX")
    parser.add_argument("names", nargs="*", help="programs; all, and the page is written, if none is given")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a library")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="SECONDS", help="processor time after which a call is stopped"
    )
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.measure:
        peer, name, n = options.measure
        print(json.dumps(measured(peer, name, int(n), options.limit)))
        return
    pythons = {"gradtape": sys.executable} | dict(entry.split("=", 1) for entry in options.python)
    results = {"machine": report.machine(1), "rows": measure(pythons, options.names, options.rounds, options.limit)}
    print(markdown(results))
    if not options.names:
        publish(results)


if __name__ == "__main__":
    main()

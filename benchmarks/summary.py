"""The three figures of README.md and the short tables of `docs/benchmarks.md`, made from the results in `benchmarks/results/`.

python -m benchmarks.summary            # print them
python -m benchmarks.summary --write    # put them between the markers of both files

A row where gradtape is not the fastest stands like the others, its ratio in bold. The whole tables stand below it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.report import plain

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
START, END = "<!-- measured -->", "<!-- /measured -->"
PEERS = ("torch", "tensorflow", "autograd", "jax")
NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "autograd": "autograd", "jax": "JAX, no jit"}
COMPILED = {
    "jax_jit": "JAX jit", "tf_function": "tf.function", "tf_xla": "TensorFlow XLA", "torch_compile": "torch.compile",
    "torch_eager": "PyTorch eager", "autograd": "autograd",
}  # fmt: skip
ROWS = (
    "scalar_loop", "vectors_8", "vectors_64", "mlp", "mlp_sgd", "lenet", "rnn", "penalty", "hvp", "jacobian_64", "jacobian_500",
    "op_multiply", "op_sin", "op_matmul", "op_reduce_sum", "op_getitem", "import",
)  # fmt: skip


def duration(seconds: float) -> str:
    """A time with three figures and a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def where(results: dict[str, Any], mode: str, named: str) -> str:
    """The sentence above a table: when, where, who."""
    at = results["machine"]
    return (
        f"{mode}, {'a quick run, ' if results.get('quick') else ''}{at['date']}, {at['cpu']}, {at['processors']} processors, "
        f"{at['threads']} thread(s) for everybody, `make bench`; {named}."
    )


def present(results: dict[str, Any], names: dict[str, str]) -> dict[str, str]:
    """Peer → its version, of those that took part."""
    return {p: results["peers"][p]["version"] for p in names if not results["peers"].get(p, {"missing": "yes"})["missing"]}


def table(results: dict[str, Any]) -> str:
    """Eager mode: gradtape's times, and its time divided by each peer's."""
    peers = present(results, NAMES)
    named = ", ".join(f"{NAMES[p].split(',')[0]} {version}" for p, version in peers.items())
    lines = [
        where(results, "Eager mode", f"{named}, NumPy {results['peers']['numpy']['version']}")
        + " The columns of the peers are gradtape's time divided by theirs: below 1 gradtape is faster, and bold says it is "
        "not. Values and gradients of all were compared before timing.",
        "",
        "| work | gradtape | bare NumPy | " + " | ".join(NAMES[p] for p in peers) + " |",
        "|---|---|---|" + "---|" * len(peers),
    ]
    rows = {row["name"]: row for row in results["rows"]}
    for name in ROWS:
        if name in rows:
            lines.append(_line(rows[name], list(peers)))
    return "\n".join(lines)


def compiled_table(results: dict[str, Any]) -> str:
    """Compiled functions: gradtape's times beside the fastest peer's, whichever that is, and C's."""
    peers = present(results, COMPILED)
    named = ", ".join(f"{COMPILED[p]} {version}" for p, version in peers.items())
    lines = [_compiled_line(row, list(peers)) for row in results["rows"]]
    fastest, rows = sum(1 for _, ahead in lines if ahead), sum(1 for _, ahead in lines if ahead is not None)
    named += f", gcc {results['peers']['c']['version'] or 'absent'}"
    head = where(results, "Compiled functions, value and gradient", named) + (
        f" gradtape is the fastest in {fastest} of {rows} rows. Ratios are gradtape's time divided by the other's: below 1 "
        "gradtape is faster, and bold says that a peer is. C is the same algorithm with a reverse sweep by hand: the limit, "
        "not a peer. The last column is what value and gradient cost beside the value alone."
    )
    columns = "| work | gradtape | fastest peer | ratio to it | ratio to C | ratio to the value |\n|---|---|---|---|---|---|"
    return "\n".join([head, "", columns, *(text for text, _ in lines)])


def _compiled_line(row: dict[str, Any], peers: list[str]) -> tuple[str, bool | None]:
    """The row, and whether gradtape is the fastest; None when there is nobody to compare with."""
    times = {name: found["min"] for name, found in row["peers"].items() if "min" in found}
    own = times.get("gradtape")
    if own is None:
        return f"| {row['title']} | {row['peers'].get('gradtape', {}).get('error', '')} | | | | |", None
    best = min((p for p in peers if p in times), key=times.__getitem__, default=None)
    ahead = None if best is None else own <= times[best]
    cells = [row["title"], duration(own)]
    cells += ["", ""] if best is None else [f"{COMPILED[best]}, {duration(times[best])}", _ratio(own / times[best])]
    cells += [plain(own / times[other]) if other in times else "" for other in ("c", "value")]
    return "| " + " | ".join(cells) + " |", ahead


def _ratio(ratio: float) -> str:
    return plain(ratio, 2) if ratio <= 1 else f"**{plain(ratio)}**"


def _line(row: dict[str, Any], peers: list[str]) -> str:
    own = row["peers"].get("gradtape", {}).get("min")
    if own is None:
        return f"| {row['title']} | {row['peers'].get('gradtape', {}).get('error', '')} |" + " |" * (len(peers) + 1)
    ops = row["ops"] or 1
    bare = row["peers"].get("numpy", {}).get("min")
    cells = [row["title"] + (", per op" if ops > 1 else ""), duration(own / ops), duration(bare / ops) if bare else ""]
    for peer in peers:
        other = row["peers"].get(peer, {}).get("min")
        cells.append(_ratio(own / other) if other else "")
    return "| " + " | ".join(cells) + " |"


def text(folder: Path = RESULTS) -> str:
    """Both tables, of what is stored there."""
    tables = {"compiled": compiled_table, "eager": table}
    stored = {name: folder / f"{name}.json" for name in tables}
    return "\n\n".join(tables[n](json.loads(path.read_text(encoding="utf-8"))) for n, path in stored.items() if path.exists())


def figures(folder: Path = RESULTS) -> str:
    """Three figures: compiled functions beside the fastest peer, loops beside C, eager operations beside each peer."""
    compiled, eager = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("compiled", "eager"))
    times = [{p: found["min"] for p, found in row["peers"].items() if "min" in found} for row in compiled["rows"]]
    beside = [t["gradtape"] / min(t[p] for p in COMPILED if p in t) for t in times if any(p in t for p in COMPILED)]
    to_c = [t["gradtape"] / t["c"] for t in times if "c" in t]
    scalar = next(row["peers"] for row in eager["rows"] if row["name"] == "scalar_loop")
    ratios = ", ".join(f"{plain(scalar['gradtape']['min'] / scalar[p]['min'], 2)} of {NAMES[p].split(',')[0]}'s" for p in PEERS)
    small = [row["peers"] for row in eager["rows"] if row["name"].startswith("op_")]
    single = [p["gradtape"]["min"] / p["torch"]["min"] for p in small]
    own = scalar["gradtape"]["min"] / next(row["ops"] for row in eager["rows"] if row["name"] == "scalar_loop")
    named = ", ".join(f"{COMPILED[p]} {version}" for p, version in present(compiled, COMPILED).items())
    return "\n".join([
        f"* **Compiled functions, value and gradient:** {plain(statistics.median(beside), 2)} of the time of the fastest of "
        f"{named} "
        f"(median of {len(beside)} programs, {plain(min(beside), 2)} to {plain(max(beside), 2)}).",
        f"* **The same beside hand-written C** with a reverse sweep by hand: {plain(min(to_c), 2)} to {plain(max(to_c), 3)} "
        f"times its time, over {len(to_c)} programs.",
        f"* **Eager scalar loops:** {duration(own)} per operation, forward and backward: {ratios} time. "
        f"A single small array operation takes {plain(min(single), 2)} to {plain(max(single), 2)} times PyTorch's time.",
        "",
        f"{compiled['machine']['date']}, {compiled['machine']['cpu']}, one thread for everybody; `make bench` measures again.",
    ])  # fmt: skip


def with_table(page: str, text: str) -> str:
    """A page with a text between its markers."""
    before, rest = page.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n{text}\n{END}{after}"


def write() -> None:
    """README and the page of benchmarks from the stored results."""
    for path, shown in ((ROOT / "README.md", figures()), (ROOT / "docs" / "benchmarks.md", text())):
        path.write_text(with_table(path.read_text(encoding="utf-8"), shown), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="update README.md and docs/benchmarks.md")
    if parser.parse_args().write:
        write()
    else:
        print(figures(), text(), sep="\n\n")


if __name__ == "__main__":
    main()

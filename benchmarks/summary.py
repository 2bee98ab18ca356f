"""The table in README.md, made from `benchmarks/results/eager.json`.

python -m benchmarks.summary            # print it
python -m benchmarks.summary --write    # put it between the markers in README.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "eager.json"
START, END = "<!-- measured -->", "<!-- /measured -->"
PEERS = ("torch", "tensorflow", "autograd", "jax")
NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "autograd": "autograd", "jax": "JAX, no jit"}
ROWS = (
    "scalar_loop", "vectors_8", "vectors_64", "mlp", "mlp_sgd", "rnn", "penalty", "hvp", "jacobian_64", "jacobian_500",
    "op_multiply", "op_sin", "op_matmul", "op_reduce_sum", "op_getitem", "import",
)  # fmt: skip


def duration(seconds: float) -> str:
    """A time with three figures and a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def table(results: dict[str, Any]) -> str:
    """gradtape's times, and its time divided by each peer's."""
    machine, versions = results["machine"], results["peers"]
    peers = [p for p in PEERS if p in versions and not versions[p]["missing"]]
    named = ", ".join(f"{NAMES[p].split(',')[0]} {versions[p]['version']}" for p in peers)
    lines = [
        f"Eager mode, {machine['date']}, {machine['cpu']}, {machine['processors']} processors, {machine['threads']} thread for "
        f"everybody; {named}, NumPy {versions['numpy']['version']}. The columns of the peers are gradtape's time divided by "
        "theirs: below 1 gradtape is faster, and bold says it is not. Values and gradients of all were compared before timing.",
        "",
        "| work | gradtape | bare NumPy | " + " | ".join(NAMES[p] for p in peers) + " |",
        "|---|---|---|" + "---|" * len(peers),
    ]
    rows = {row["name"]: row for row in results["rows"]}
    for name in ROWS:
        if name in rows:
            lines.append(_line(rows[name], peers))
    return "\n".join(lines)


def _line(row: dict[str, Any], peers: list[str]) -> str:
    own = row["peers"]["gradtape"]["min"]
    ops = row["ops"] or 1
    bare = row["peers"].get("numpy", {}).get("min")
    cells = [row["title"] + (", per op" if ops > 1 else ""), duration(own / ops), duration(bare / ops) if bare else ""]
    for peer in peers:
        other = row["peers"].get(peer, {}).get("min")
        ratio = own / other if other else None
        cells.append("" if ratio is None else f"{ratio:.2g}" if ratio < 1 else f"**{ratio:.2g}**")
    return "| " + " | ".join(cells) + " |"


def with_table(readme: str, text: str) -> str:
    """README with the table between its markers."""
    before, rest = readme.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n{text}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="update README.md")
    options = parser.parse_args()
    text = table(json.loads(RESULTS.read_text(encoding="utf-8")))
    if options.write:
        readme = ROOT / "README.md"
        readme.write_text(with_table(readme.read_text(encoding="utf-8"), text), encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

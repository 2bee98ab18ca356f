"""`make house`: the table, the rooms; `--show KEY` the places behind a number, `--tighten` lower bounds, `--json` values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.structure.house.measures import Measure, bounds, measured, tighten
from tests.structure.house.tree import Tree


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.structure.house", description=__doc__)
    parser.add_argument("--show", metavar="KEY", help="the places behind one measure, by its key")
    parser.add_argument("--json", action="store_true", help="the values only")
    parser.add_argument("--tighten", action="store_true", help="write today's values into bounds.json where they are better")
    arguments = parser.parse_args()
    import gradtape

    rows = measured(Tree(Path(gradtape.__path__[0])))
    if arguments.json:
        print(json.dumps({row.key: row.value for row in rows}))
    elif arguments.show:
        print("\n".join(_row(rows, arguments.show).details))
    elif arguments.tighten:
        for key, (before, now) in tighten(rows).items():
            print(f"{key}: {before:g} → {now:g}")
    else:
        print(_table(rows))
        print("\nlines by room")
        print("\n".join(_row(rows, "lines").details))


def _row(rows: list[Measure], key: str) -> Measure:
    by_key = {row.key: row for row in rows}
    if key not in by_key:
        raise SystemExit(f"no measure {key!r}; there are " + " ".join(by_key))
    return by_key[key]


def _table(rows: list[Measure]) -> str:
    limits = bounds()
    lines = [("key", "measure", "now", "bound", "goal", "ok", "")]
    for row in rows:
        goal = "" if row.goal is None else ("≥ " if row.at_least else "≤ ") + row.text(row.goal)
        limit = row.text(limits[row.key]) if row.key in limits else ""
        ok = "" if row.goal is None else "yes" if row.met else "no"
        lines.append((row.key, row.title, row.text(row.value), limit, goal, ok, row.note))
    widths = [max(len(line[i]) for line in lines) for i in range(7)]
    aligned = [str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust, str.ljust]
    return "\n".join(
        "  ".join(align(cell, width) for align, cell, width in zip(aligned, line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    main()

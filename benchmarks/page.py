"""Puts results where readers look: tables into `docs/benchmarks.md`, pictures into `docs/benchmarks/`, figures into README.

`python -m benchmarks.page` does it again from the stored results, without measuring. What stands outside the two marks of the
page is written by hand and stays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import plots, report, summary
from benchmarks.run import OWN, ROOT, TABLES

RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
BEGIN, END = "<!-- results: written by `python -m benchmarks.page` -->", "<!-- end of results -->"


RATIOS = {"eager": "ratios.svg", "compiled": "compiled_ratios.svg"}
TITLES = {"compiled": "## Compiled: `@gt.function` and its peers", "eager": "## Eager: operation by operation"}


def pictures(tables: dict[str, dict[str, Any]], scaling: dict[str, Any] | None) -> dict[str, str]:
    """File name → SVG text, of what was measured."""
    found: dict[str, str] = {}
    for table, results in tables.items():
        if any(name not in OWN for name in report.present(results)):
            found[RATIOS[table]] = plots.ratios(results)
    for series in scaling["series"] if scaling is not None else ():
        found[f"{series['name']}.svg"] = plots.series(scaling, series["name"])  # type: ignore[arg-type]
    for kind in report.memories(scaling) if scaling is not None else ():
        found["memory.svg" if kind == "eager" else f"{kind}_memory.svg"] = plots.memory(scaling, kind)  # type: ignore[arg-type]
    return found


def section(tables: dict[str, dict[str, Any]], scaling: dict[str, Any]) -> str:
    """The generated part of the page."""
    shown = {name: f"![{Path(name).stem}](benchmarks/{name})" for name in pictures(tables, scaling)}
    lines: list[str] = []
    for table, title in TITLES.items():
        if table in tables:
            picture = shown.pop(RATIOS[table], None)
            lines += [title, "", *([picture, ""] if picture else []), report.markdown(tables[table], "")]
    return "\n".join([*lines, "## Scaling", "", *shown.values(), "", report.scaling_markdown(scaling, "")])


def rendered(text: str, tables: dict[str, dict[str, Any]], scaling: dict[str, Any]) -> str:
    """The page with its generated part replaced."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{section(tables, scaling)}\n{END}{after}"


def stored(folder: Path = RESULTS) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The result files of a folder: tables by name, and the scaling."""
    found = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in (*TABLES, "scaling")
        if (folder / f"{name}.json").exists()
    }
    return {name: found[name] for name in TABLES if name in found}, found["scaling"]


def publish() -> None:
    """Tables, page and pictures from the stored results."""
    tables, scaling = stored()
    for name, results in tables.items():
        (RESULTS / f"{name}.md").write_text(report.markdown(results, report.HEADINGS[name]))
    (RESULTS / "scaling.md").write_text(report.scaling_markdown(scaling))
    page = DOCS / "benchmarks.md"
    page.write_text(rendered(page.read_text(), tables, scaling))
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    for name, text in pictures(tables, scaling).items():
        (DOCS / "benchmarks" / name).write_text(text)
    summary.write()


if __name__ == "__main__":
    publish()

"""Puts results where readers look: tables into the page `docs/benchmarks.md`, pictures into `docs/benchmarks/`.

`python -m benchmarks.page` does it again from the stored results, without measuring. What stands outside the two marks of the
page is written by hand and stays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import plots, report
from benchmarks.run import ROOT

RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
BEGIN, END = "<!-- results: written by `python -m benchmarks.page` -->", "<!-- end of results -->"


def pictures(eager: dict[str, Any] | None, scaling: dict[str, Any] | None) -> dict[str, str]:
    """File name → SVG text, of what was measured."""
    found: dict[str, str] = {}
    if eager is not None and any(name not in ("gradtape", "numpy") for name in report.present(eager)):
        found["ratios.svg"] = plots.ratios(eager)
    for series in scaling["series"] if scaling is not None else ():
        found[f"{series['name']}.svg"] = plots.series(scaling, series["name"])  # type: ignore[arg-type]
    if scaling is not None and scaling["memory"]:
        found["memory.svg"] = plots.memory(scaling)
    return found


def section(eager: dict[str, Any], scaling: dict[str, Any]) -> str:
    """The generated part of the page."""
    found = pictures(eager, scaling)
    shown = {name: f"![{Path(name).stem}](benchmarks/{name})" for name in found}
    lines = ["## Side by side", ""]
    lines += [shown.pop("ratios.svg"), ""] if "ratios.svg" in shown else []
    lines += [report.markdown(eager, ""), "## Scaling", "", *shown.values(), "", report.scaling_markdown(scaling, "")]
    return "\n".join(lines)


def rendered(text: str, eager: dict[str, Any], scaling: dict[str, Any]) -> str:
    """The page with its generated part replaced."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{section(eager, scaling)}\n{END}{after}"


def stored(folder: Path = RESULTS) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two result files of a folder."""
    eager, scaling = (json.loads((folder / f"{name}.json").read_text()) for name in ("eager", "scaling"))
    return eager, scaling


def publish() -> None:
    """Tables, page and pictures from the stored results."""
    eager, scaling = stored()
    (RESULTS / "eager.md").write_text(report.markdown(eager))
    (RESULTS / "scaling.md").write_text(report.scaling_markdown(scaling))
    page = DOCS / "benchmarks.md"
    page.write_text(rendered(page.read_text(), eager, scaling))
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    for name, text in pictures(eager, scaling).items():
        (DOCS / "benchmarks" / name).write_text(text)


if __name__ == "__main__":
    publish()

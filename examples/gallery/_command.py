"""The command line all programs of the gallery share: `python examples/gallery/NAME.py [--quick] [--picture FILE]`.

A program has `solve(quick)`, which computes, asserts what it found and gives what there is to draw, and `draw(axes,
...)`. Only drawing needs matplotlib.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def run(solve: Callable[[bool], dict[str, Any]], draw: Callable[..., None], columns: int = 1) -> None:
    """Compute, print the summary, and draw if asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small problem: what the tests run")
    parser.add_argument("--picture", metavar="FILE", help="where to draw the result; needs matplotlib")
    options = parser.parse_args()
    found = solve(options.quick)
    print(found.pop("summary"))
    if options.picture:
        import matplotlib

        matplotlib.use("agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(1, columns, figsize=(4.2 * columns + 0.4, 3.4), layout="constrained", squeeze=False)
        draw(*axes[0], **found)
        figure.savefig(options.picture, dpi=110)

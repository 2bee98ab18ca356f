"""The pictures of the Learn pages, drawn from what the programs on the page leave behind.

`python -m docs._ext.learn_pictures` (`make pictures`) runs the Python blocks of a page as one program and draws its variables,
so that a picture shows what the page computes. Nothing of the pages is repeated here but the names of what is drawn.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

PAGES = Path(__file__).resolve().parents[1] / "learn"
PICTURES = PAGES / "pictures"


def tapes(axes: Any, page: dict[str, Any]) -> None:
    for curve, name in zip(page["curves"], ("tanh", "first derivative", "second", "third"), strict=True):
        axes.plot(page["xs"], curve, label=name)
    axes.axhline(0.0, c="k", lw=0.5)
    axes.legend(fontsize=8)


def training(left: Any, right: Any, page: dict[str, Any]) -> None:
    left.semilogy(page["losses"])
    left.set_xlabel("step")
    left.set_title("loss")
    side = np.linspace(-1.0, 1.0, 81, dtype="float32")
    x, y = np.meshgrid(side, side)
    learned = page["model"](np.stack([x.ravel(), y.ravel()], 1)).numpy().reshape(x.shape)
    levels = np.linspace(-0.8, 0.8, 9)
    filled = right.contourf(x, y, learned, levels=np.linspace(-1.0, 1.0, 21), cmap="RdBu", extend="both")
    right.contour(x, y, x * y, levels=levels, colors="k", linewidths=0.8)
    right.figure.colorbar(filled, ax=right, ticks=[-1.0, 0.0, 1.0])
    right.set_title("colours: learned; lines: the product")
    right.set_aspect("equal")


def higher_derivatives(axes: Any, page: dict[str, Any]) -> None:
    x, y = np.meshgrid(np.linspace(-1.6, 1.6, 161), np.linspace(-3.5, 2.0, 161))
    axes.contour(x, y, page["rosenbrock"](np.stack([x, y])), levels=np.geomspace(0.1, 2000.0, 14), colors="0.7", linewidths=0.7)
    axes.plot(*np.array(page["newton"]).T, "o-", ms=4, label="Newton, 6 steps")
    axes.plot(*np.array(page["descent"]).T, ".-", ms=3, label="gradient descent, 200")
    axes.plot(1.0, 1.0, "r*", ms=12, label="minimum")
    axes.legend(fontsize=8, loc="lower left")


def simulations(left: Any, right: Any, page: dict[str, Any]) -> None:
    gt, simulate, misfit = page["gt"], page["simulate"], page["misfit"]
    time, angle = 0.02 * np.arange(200), gt.constant(np.float64(0.8))
    left.plot(time, page["measured"], lw=5, alpha=0.3, label="measured")
    left.plot(time, simulate(gt.constant(np.float64(1.1)), angle), "--", c="gray", label="guess: length 1.1")
    left.plot(time, simulate(gt.constant(page["answer"].x)[0], angle), label="found: 1.3")
    left.set_title("angle")
    left.set_xlabel("seconds")
    left.legend(fontsize=8)
    lengths = np.linspace(0.9, 1.9, 101)
    right.plot(lengths, [float(misfit(gt.constant(np.array([length])))) for length in lengths])
    for length, style in ((1.1, "--"), (1.3, "-")):
        value, slope = gt.value_and_grad(misfit)(np.array([length]))
        right.plot(length + np.array([-0.12, 0.12]), value + slope[0] * np.array([-0.12, 0.12]), style, c="tab:orange")
    right.set_ylim(-5.0, None)
    right.set_title("misfit and its slope")
    right.set_xlabel("length")


DRAWINGS = {tapes: 1, training: 2, higher_derivatives: 1, simulations: 2}


def program(page: Path) -> str:
    """The Python blocks of a page."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def main() -> None:
    """Run the pages and draw."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    PICTURES.mkdir(exist_ok=True)
    for draw, columns in DRAWINGS.items():
        print(draw.__name__, flush=True)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
            Path("page.py").write_text(program(PAGES / f"{draw.__name__}.md"), encoding="utf-8")
            names = runpy.run_path(os.path.abspath("page.py"))
            figure, axes = pyplot.subplots(1, columns, figsize=(4.2 * columns + 0.4, 3.4), layout="constrained", squeeze=False)
            draw(*axes[0], names)
        figure.savefig(PICTURES / f"{draw.__name__}.png", dpi=110)


if __name__ == "__main__":
    main()

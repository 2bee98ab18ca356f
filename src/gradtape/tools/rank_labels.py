"""What tools say where several ranks run: which rank speaks, a report file for each, and what communication cost by line.

On one rank nothing is added. The figures are those of `distribute/traffic.py`; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from typing import Any, TypeVar

from gradtape.config import launched_ranks
from gradtape.core.hooks import HOOKS

Tool = TypeVar("Tool", bound=Callable[..., Any])


def labelled(text: str) -> str:
    """A text with the rank that says it, where there are several."""
    label = HOOKS.world.label
    return f"[{label}] {text}" if label else text


def on_one_rank(tool: Tool) -> Tool:
    """A tool that runs recorded operations once more: on the rank that asks, without the others."""

    @wraps(tool)
    def alone(*args: Any) -> Any:
        world = HOOKS.world
        if not world.label:
            return tool(*args)
        from gradtape.distribute.alone import Alone

        HOOKS.world = Alone(world.rank, world.size)
        try:
            return tool(*args)
        finally:
            HOOKS.world = world

    return alone  # type: ignore[return-value]


def connected() -> None:
    """Find out which ranks there are, before a script does, and count what they exchange."""
    if launched_ranks() > 1:
        import gradtape.distribute  # noqa: F401  (it connects)

        HOOKS.world.measure()


def own_file(path: str) -> str:
    """Where this rank's report goes: report.html, or report.rank2.html."""
    stem, dot, ending = path.rpartition(".")
    return f"{stem}.rank{HOOKS.world.rank}{dot}{ending}" if HOOKS.world.label else path


def traffic() -> list[Any]:
    """The table of lines, which all ranks make together; empty on one."""
    if not HOOKS.world.label:
        return []
    table: list[Any] = HOOKS.world.traffic_by_line()
    return table


def traffic_section(table: Sequence[Any], seconds: float) -> str:
    """A table for the page."""
    if not table:
        return ""
    from gradtape.distribute.traffic import summary

    heads = "line", "operation", "calls", "bytes", "waited for others", "moved data", "least to most waiting of a rank", "last"
    rows = []
    for one in table:
        least, most = min(one.waited) * 1e3, max(one.waited) * 1e3
        cells = (
            one.line, one.operation, f"{one.own.calls:,}", f"{one.own.bytes:,}", f"{one.own.waited * 1e3:.2f} ms",
            f"{one.own.moved * 1e3:.2f} ms", f"{least:.2f} to {most:.2f} ms", f"rank {one.last}",
        )  # fmt: skip
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    words = "".join(f"<p>{escape(text)}</p>" for text in summary(table, seconds))
    return (
        f'<section class="card"><h2>Communication of {HOOKS.world.label}</h2>{words}<div class="wide"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def traffic_words(table: Sequence[Any], seconds: float) -> list[str]:
    """Lines for the terminal."""
    if not table:
        return []
    from gradtape.distribute.traffic import summary

    return [f"  {text}" for text in summary(table, seconds)]

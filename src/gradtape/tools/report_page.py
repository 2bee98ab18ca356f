"""The page and the closing words of `gradtape run`, made from what a `Collector` found.

Tables are plain HTML, sorted and folded by a few lines of script; graphs are those of `tape.picture()`, started when they come
into view. All text of the user's is escaped. Invariant: the page stays below a few megabytes, whatever the script did.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from html import escape
from time import strftime
from typing import TYPE_CHECKING

import numpy as np

from gradtape.config import VERSION
from gradtape.tools.picture_page import SCRIPTS, embedded, page
from gradtape.tools.picture_text import amount
from gradtape.tools.profile_table import short
from gradtape.tools.rank_labels import labelled, traffic_section, traffic_words
from gradtape.tools.report import Asked, Collector, FunctionTraces, ProfileTotal, TapesAtLine, peak_memory

if TYPE_CHECKING:
    from gradtape.distribute.traffic import LineTraffic
    from gradtape.tools.runner import Ran

ROWS = 40  # of a profile table
LARGE = 600_000  # characters of a graph beyond which only its folded form is put into the page
ALL = 4_000_000  # characters of all graphs together


def report_page(collector: Collector, ran: Ran, traffic: Sequence[LineTraffic] = ()) -> str:
    """The whole report as one HTML document."""
    entries = sorted(collector.made_at.values(), key=lambda e: -(e.forward + e.backward) * e.tapes / max(e.profiled, 1))
    findings = _findings(collector, entries)
    graphs = _Graphs()
    parts = [
        _head(collector, ran),
        _tiles(collector, entries),
        _found(findings, collector),
        traffic_section(traffic, ran.seconds),
        *(_tapes(entry, number, graphs) for number, entry in enumerate(entries)),
        _functions(collector.functions.values()),
        _notes(collector),
        *graphs.parts,
    ]
    body = '<main class="report">\n' + "\n".join(part for part in parts if part) + "\n</main>"
    title = labelled(f"gradtape: {ran.command}")
    return page(title, body, styles=("picture.css", "report.css"), scripts=(*SCRIPTS, "report.js"))


class _Graphs:
    """The data of the graphs on a page, within its size."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0

    def add(self, entry: TapesAtLine) -> str | None:
        """The name of the graph of an entry; None when there is none or the page is full."""
        if entry.picture is None:
            return None
        text = embedded(entry.picture.data)
        if len(text) > LARGE or self.size + len(text) > ALL:
            text = embedded(entry.picture.folded_data)
        if self.size + len(text) > ALL:
            return None
        name = f"graph{len(self.parts)}"
        self.parts.append(f'<script type="application/json" id="{name}">{text}</script>')
        self.size += len(text)
        return name


# -- the parts of the page -------------------------------------------------------------------------------------------------


def _head(collector: Collector, ran: Ran) -> str:
    how = "ended normally" if ran.status == 0 else f"ended with status {ran.status}"
    if ran.error:
        how += f": {ran.error}"
    versions = f"gradtape {VERSION}, Python {platform.python_version()}, NumPy {np.__version__}"
    about = f"{versions}, {strftime('%Y-%m-%d %H:%M')}"
    return (
        '<header class="title"><div>'
        f"<h1>{escape(labelled(ran.command))}</h1>"
        f'<p class="{"" if ran.status == 0 else "alarm"}">{escape(how)} after {duration(ran.seconds)}</p>'
        f'<p class="quiet">{escape(about)}</p></div>'
        '<button type="button" id="theme" class="theme" aria-label="Light or dark" title="Light or dark">◐</button></header>'
    )


def _tiles(collector: Collector, entries: Sequence[TapesAtLine]) -> str:
    retraces = sum(f.count - 1 for f in collector.functions.values())
    peak = peak_memory()
    saved = max((e.bytes for e in entries if e.profiled), default=None)
    tiles = [
        ("tapes", f"{collector.tapes:,}", ""),
        ("gradient calls", f"{collector.asks:,}", ""),
        ("gradients that are None", f"{collector.missing:,}", "warn" if collector.missing else ""),
        ("calls with NaN or infinity", f"{collector.bad:,}", "bad" if collector.bad else ""),
        ("retraces of functions", f"{retraces:,}", "warn" if retraces > 4 else ""),
        ("peak memory of the process", "–" if peak is None else amount(peak), ""),
        ("most bytes saved by one tape", "–" if saved is None else amount(saved), ""),
    ]  # fmt: skip
    boxes = "".join(
        f'<div class="tile {kind}"><strong>{value}</strong><span>{name}</span></div>' for name, value, kind in tiles
    )
    return f'<section class="tiles">{boxes}</section>'


def _findings(collector: Collector, entries: Sequence[TapesAtLine]) -> list[tuple[str, str, str, str]]:
    """(kind, heading, place, text), the gravest first."""
    bad, missing, advice = [], [], []
    for entry in entries:
        for call in entry.asked.values():
            for one in call.bad:
                times = f" ({one.count} calls)" if one.count > 1 else ""
                bad.append(("bad", f"NaN or infinity{times}: {one.what}", one.location or "", one.message))
            for none in call.missing.values():
                times = f" ({none.count} times)" if none.count > 1 else ""
                heading = f"no gradient of {none.target} with respect to {none.source}{times}: {none.cause.replace('_', ' ')}"
                missing.append(("warn", heading, none.location or "", none.message))
        if entry.profiled and (entry.forward + entry.backward) * entry.tapes / entry.profiled > collector.seconds / 10:
            advice += [("hint", "time and memory", f"{entry.site.file}:{entry.site.line}", text) for text in entry.advice]
    for function in collector.functions.values():
        if function.count > 4:
            last = function.traces[-1].reasons
            text = (
                f"`{function.name}` was traced {function.count} times, in {duration(function.seconds)}; the last time: "
                + "; ".join(last)
            )
            advice.append(("warn", "many traces", function.location, text))
    return [*bad, *missing, *advice]


def _found(findings: Sequence[tuple[str, str, str, str]], collector: Collector) -> str:
    if not collector.tapes:
        return (
            '<section class="card"><h2>No tapes</h2><p>The script made no <code>GradientTape</code>, so there is nothing to '
            "report about derivatives. If it should have: was another library's tape used, or the part of the program that "
            "differentiates not reached?</p></section>"
        )
    if not collector.missing and not collector.bad and not findings:
        calm = "<h2>Nothing to worry about</h2><p>Every gradient asked for was there and finite.</p>"
        return f'<section class="card calm">{calm}</section>'
    rows = "".join(
        f'<li class="{kind}"><div><strong>{escape(heading)}</strong> {_spot(place)}</div>'
        f'<p class="words">{escape(text)}</p></li>'
        for kind, heading, place, text in findings
    )
    return f'<section class="card"><h2>Findings</h2><ul class="findings">{rows}</ul></section>'


def _tapes(entry: TapesAtLine, number: int, graphs: _Graphs) -> str:
    site = entry.site
    inside = "" if site.function == "<module>" else f" in {site.function.replace('<locals>.', '')}"
    kind = "traced in a compiled function" if entry.traced else ""
    facts = [f"{entry.tapes:,} tape{'s' * (entry.tapes != 1)}", f"{entry.asks:,} gradient call{'s' * (entry.asks != 1)}"]
    if entry.largest:
        facts.append(f"up to {entry.largest:,} records")
    if entry.profiled:
        facts.append(f"{duration((entry.forward + entry.backward) / entry.profiled)} each")
    if kind:
        facts.append(kind)
    parts = [
        f'<section class="card" id="tapes{number}">',
        f'<h2>{_spot(f"{site.file}:{site.line}")}<span class="quiet">{escape(inside)}</span></h2>',
        f"<pre class='code'>{escape(site.text)}</pre>" if site.text else "",
        f'<p class="quiet">{escape(" · ".join(facts))}</p>',
        _calls(entry.asked.values()),
        _graph(entry, graphs),
        _profile(entry),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _calls(calls: Iterable[Asked]) -> str:
    rows = []
    for call in calls:
        names = ", ".join(call.sources[:8]) + (f", … ({len(call.sources)})" if len(call.sources) > 8 else "")
        nones = sum(m.count for m in call.missing.values())
        rows.append(
            "<tr>"
            f"<td>{_spot(f'{call.site.file}:{call.site.line}')}</td>"
            f"<td><code>{escape(call.targets)}</code></td><td><code>{escape(names)}</code></td>"
            f'<td class="n">{call.count:,}</td><td class="n">{call.gradients:,}</td>'
            f'<td class="n {"warn" if nones else ""}">{nones:,}</td>'
            f'<td class="n {"bad" if call.bad_count else ""}">{call.bad_count:,}</td></tr>'
        )
    if not rows:
        return '<p class="quiet">These tapes were never asked for a gradient.</p>'
    heads = ("line", "target", "sources", "calls", "gradients", "None", "not finite")
    return _table("gradients asked for", heads, rows, "")


def _graph(entry: TapesAtLine, graphs: _Graphs) -> str:
    name = graphs.add(entry)
    if name is None:
        return ""
    which = f"of gradient call {entry.pictured:,} of {entry.asks:,}" if entry.asks > 1 else ""
    return f'<h3>graph <span class="quiet">{which}</span></h3><div class="graph" data-graph="{name}"></div>'


def _profile(entry: TapesAtLine) -> str:
    if not entry.profiled:
        return ""
    total = entry.forward + entry.backward
    rows = sorted((r for r in entry.rows.values() if r.within is None), key=lambda r: -(r.forward + r.backward))
    inner = [r for r in entry.rows.values() if r.within is not None]
    lines = []
    for row in rows[:ROWS]:
        lines.append(_profile_row(row, total))
        below = sorted((r for r in inner if r.within == row.op), key=lambda r: -(r.forward + r.backward))[:6]
        lines += [_profile_row(r, total) for r in below]
    more = f'<p class="quiet">and {len(rows) - ROWS} more rows</p>' if len(rows) > ROWS else ""
    of = "the tape" if entry.tapes == 1 else f"{entry.profiled:,} of {entry.tapes:,} tapes"
    times = f"forward {duration(entry.forward)}, backward {duration(entry.backward)}"
    note = f'<p class="quiet">measured on {of}: {times}; saved bytes are the most of one tape</p>'
    heads = ("line", "operation", "count", "forward", "backward", "saved", "share", "code")
    return _table("profile", heads, lines, "profile") + more + note


def _profile_row(row: ProfileTotal, total: float) -> str:
    share = (row.forward + row.backward) / max(total, 1e-12)
    count = f"{row.count:,}" if row.count else "–"
    return (
        f'<tr class="{"inner" if row.within else ""}"><td>{_spot(row.location or "")}</td>'
        f'<td>{escape(row.op)}</td><td class="n" data-v="{row.count}">{count}</td>'
        f'<td class="n" data-v="{row.forward:.9f}">{duration(row.forward)}</td>'
        f'<td class="n" data-v="{row.backward:.9f}">{duration(row.backward)}</td>'
        f'<td class="n" data-v="{row.bytes}">{amount(row.bytes) if row.bytes else "–"}</td>'
        f'<td class="n share" data-v="{share:.6f}"><span style="width:{min(share, 1):.1%}"></span>{share:.1%}</td>'
        f"<td><code>{escape(row.code[:90])}</code></td></tr>"
    )


def _functions(functions: Iterable[FunctionTraces]) -> str:
    parts = []
    for function in functions:
        rows = [
            f'<tr><td class="n">{t.number}</td><td>{escape("; ".join(t.reasons))}</td>'
            f"<td>{_spot(t.where)}</td>"
            f'<td class="n" data-v="{t.seconds:.9f}">{duration(t.seconds)}</td></tr>'
            for t in function.traces
        ]
        more = function.count - len(function.traces)
        traces = f"{function.count} trace{'s' * (function.count != 1)}, {duration(function.seconds)}"
        parts.append(
            f'<h3><code>{escape(function.name)}</code> {_spot(function.location)} <span class="quiet">{traces}</span></h3>'
            + _table("", ("trace", "why", "called at", "took"), rows, "")
            + (f'<p class="quiet">and {more} more</p>' if more else "")
        )
    return f'<section class="card"><h2>Compiled functions</h2>{"".join(parts)}</section>' if parts else ""


def _notes(collector: Collector) -> str:
    notes = []
    if collector.left_out:
        notes.append(f"{collector.left_out:,} events at further source lines are counted above but not listed.")
    notes += [f"Looking at a tape failed ({count} times): {text}" for text, count in collector.problems.items()]
    if not notes:
        return ""
    return f'<section class="card"><h2>Notes</h2><ul>{"".join(f"<li>{escape(n)}</li>" for n in notes)}</ul></section>'


def _table(title: str, heads: Sequence[str], rows: Sequence[str], kind: str) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    above = f"<h3>{escape(title)}</h3>" if title else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'{above}<div class="wide"><table class="{kind}">{body}</table></div>'


def _spot(place: str) -> str:
    """A place in the source: short, with its folder on hovering."""
    return f'<span class="place" title="{escape(place, quote=True)}">{escape(short(place))}</span>'


def duration(seconds: float) -> str:
    """A time to read."""
    if seconds >= 60:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs" if seconds else "–"


# -- the terminal ----------------------------------------------------------------------------------------------------------


def summary(collector: Collector, ran: Ran, path: str, traffic: Sequence[LineTraffic] = ()) -> list[str]:
    """What the terminal shows at the end."""
    entries = sorted(collector.made_at.values(), key=lambda e: -e.tapes)
    lines = [labelled("gradtape run: ") + f"{ran.command} took {duration(ran.seconds)}, exit status {ran.status}"]
    if not collector.tapes:
        lines.append("  The script made no GradientTape: there is nothing to report about derivatives.")
    else:
        peak = peak_memory()
        lines.append(
            f"  {collector.tapes:,} tape{'s' * (collector.tapes != 1)}, {collector.asks:,} gradient "
            f"call{'s' * (collector.asks != 1)}" + ("" if peak is None else f", peak memory {amount(peak)}")
        )
        for kind, heading, place, text in _findings(collector, entries)[:6]:
            first = text.strip().splitlines()[0] if text.strip() else ""
            lines.append(
                f"  {'!' if kind == 'bad' else '-'} {short(place)}: {heading}" + (f" — {first}" if kind == "hint" else "")
            )
    lines += traffic_words(traffic, ran.seconds)
    retraces = [f for f in collector.functions.values() if f.count > 1]
    if retraces:
        lines.append("  retraced: " + ", ".join(f"{f.name} ({f.count} traces)" for f in retraces[:5]))
    if collector.problems:
        lines.append(f"  {sum(collector.problems.values())} times looking at a tape failed; see the notes of the report")
    return [*lines, f"  report: {path}"]

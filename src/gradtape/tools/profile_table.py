"""A profile as data, text and HTML. Nothing is measured here (`profile.py` does).

Invariant: the seconds of the outer rows and of the row "Python and the rest" add up to the wall-clock time of the tape.
"""

from __future__ import annotations

import html
import linecache
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradtape.tools.rank_labels import labelled

REST = "Python and the rest"
SHOWN = 30  # rows of the text table
INNER = 6  # lines shown of one compiled function


@dataclass
class MeasuredLine:
    """What was measured at one line: seconds, and what is inside of a compiled call."""

    place: tuple[str, int] | None
    op: str
    count: int
    forward: float
    backward: float
    bytes: int
    inner: list[MeasuredLine]


@dataclass(frozen=True)
class ProfileRow:
    """One operation at one line of the user's code. `share` is its part of the whole time, between 0 and 1; `within` names the
    compiled function it runs in, whose row counts its time too."""

    location: str | None
    op: str
    count: int
    forward: float
    backward: float
    bytes: int
    share: float
    within: str | None
    code: str

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward


@dataclass(frozen=True)
class Profile:
    """The rows of a tape, the slowest first; printed, it is a table.

    `forward` and `backward` are the seconds the block and the gradient calls took; `overhead` is what measuring them cost.
    """

    rows: tuple[ProfileRow, ...]
    forward: float
    backward: float
    bytes: int
    overhead: float
    advice: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The whole time."""
        return self.forward + self.backward

    def __iter__(self) -> Iterator[ProfileRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def by_line(self) -> dict[str, tuple[float, int]]:
        """Seconds and saved bytes of each line, the slowest first."""
        lines: dict[str, tuple[float, int]] = {}
        for row in self.rows:
            if row.within is None:
                seconds, size = lines.get(row.location or row.op, (0.0, 0))
                lines[row.location or row.op] = (seconds + row.seconds, size + row.bytes)
        return dict(sorted(lines.items(), key=lambda item: -item[1][0]))

    def __str__(self) -> str:
        return text_table(self)

    def __repr__(self) -> str:
        return f"<profile: {len(self.rows)} rows, {self.seconds:.3g} s, {_bytes(self.bytes)} saved>"

    def _repr_html_(self) -> str:
        """A fragment: one table, for a notebook or a page."""
        return html_table(self)


def made_profile(lines: Sequence[MeasuredLine], forward: float, backward: float, own: float) -> Profile:
    """The profile of what was measured: rows by line and op, and a row for the rest."""
    total = max(forward + backward, 1e-12)
    rows: list[ProfileRow] = []
    merged = _merged(lines)
    for line in sorted(merged, key=lambda one: -(one.forward + one.backward)):
        rows.append(_row(line, total, None))
        rows += [_row(one, total, line.op) for one in _slowest(_merged(line.inner))]
    left = (max(0.0, forward - sum(one.forward for one in merged)), max(0.0, backward - sum(one.backward for one in merged)))
    rest = ProfileRow(None, REST, 0, *left, 0, sum(left) / total, None, "")
    place = next((i for i, row in enumerate(rows) if row.within is None and row.seconds < rest.seconds), len(rows))
    rows.insert(place, rest)
    size = sum(one.bytes for one in merged)
    return Profile(tuple(rows), forward, backward, size, own, _advice(rows, size, total))


def _merged(lines: Sequence[MeasuredLine]) -> list[MeasuredLine]:
    """One entry per place and op: several instructions of one line are one row."""
    merged: dict[tuple[tuple[str, int] | None, str], MeasuredLine] = {}
    for line in lines:
        old = merged.get((line.place, line.op))
        if old is None:
            merged[line.place, line.op] = MeasuredLine(
                line.place, line.op, line.count, line.forward, line.backward, line.bytes, list(line.inner)
            )
        else:
            old.count += line.count
            old.forward += line.forward
            old.backward += line.backward
            old.bytes += line.bytes
            old.inner += line.inner
    return list(merged.values())


def _slowest(lines: Sequence[MeasuredLine]) -> list[MeasuredLine]:
    return sorted(lines, key=lambda one: -(one.forward + one.backward))


def _row(line: MeasuredLine, total: float, within: str | None) -> ProfileRow:
    place = None if line.place is None else f"{line.place[0]}:{line.place[1]}"
    code = "" if line.place is None else linecache.getline(*line.place).strip()
    share = (line.forward + line.backward) / total
    return ProfileRow(place, line.op, line.count, line.forward, line.backward, line.bytes, share, within, code)


def _advice(rows: Sequence[ProfileRow], size: int, total: float) -> tuple[str, ...]:
    """What the numbers suggest."""
    advice = []
    rest = next(row for row in rows if row.op == REST)
    calls = sum(row.count for row in rows if row.within is None)
    if rest.share > 0.5 and calls > 20:
        advice.append(
            f"{rest.share:.0%} of the time is outside of operations ({calls} calls of small ones): decorate the step with "
            "@gt.function, or work on larger tensors"
        )
    heavy = max((row for row in rows if row.within is None), key=lambda row: row.bytes)
    if size > 50_000_000 and heavy.bytes > size / 2:
        advice.append(
            f"{heavy.op} at {short(heavy.location)} keeps {_bytes(heavy.bytes)} of {_bytes(size)}: gt.recompute_grad around "
            "it, or GradientTape(memory_limit=...), trade them for time"
        )
    slow = [row for row in rows if row.within is None and row.op != REST]
    if slow and slow[0].share > 0.5:
        advice.append(f"{slow[0].op} at {short(slow[0].location)} takes {slow[0].share:.0%} of the time: look there first")
    return tuple(advice)


# -- text ------------------------------------------------------------------------------------------------------------


def short(place: str | None) -> str:
    """ "train.py:12" of a place with folders."""
    return "" if place is None else os.path.basename(place)


def _time(seconds: float) -> str:
    if seconds >= 1.0:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.1f} us" if seconds else "-"


def _bytes(size: int) -> str:
    if size < 1000:
        return f"{size} B" if size else "-"
    for unit in ("kB", "MB", "GB"):
        size_in_unit = size / 1000.0 ** (("kB", "MB", "GB").index(unit) + 1)
        if size_in_unit < 1000 or unit == "GB":
            return f"{size_in_unit:.1f} {unit}"
    return ""


def _cells(row: ProfileRow) -> list[str]:
    label = f"  {short(row.location)}" if row.within else short(row.location)
    return [
        label, row.op, str(row.count) if row.count else "-", _time(row.forward), _time(row.backward), _bytes(row.bytes),
        f"{row.share:.1%}",
    ]  # fmt: skip


HEADS = ["line", "op", "count", "forward", "backward", "saved", "share"]


def _shown(rows: Sequence[ProfileRow]) -> list[ProfileRow]:
    """The rows of the text table: of a compiled function only the slowest lines."""
    shown: list[ProfileRow] = []
    inner = 0
    for row in rows:
        inner = inner + 1 if row.within else 0
        if inner <= INNER:
            shown.append(row)
    return shown


def text_table(profile: Profile) -> str:
    """The profile as text."""
    shown = _shown(profile.rows)
    cells = [HEADS, *(_cells(row) for row in shown[:SHOWN])]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADS))]
    lines = []
    for number, row in enumerate(cells):
        parts = [text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))]
        code = "" if not number else shown[number - 1].code[:48]
        lines.append("  ".join(parts) + (f"  {code}" if code else ""))
    lines.insert(1, "  ".join("-" * w for w in widths))
    if len(shown) > SHOWN:
        lines.append(f"... and {len(shown) - SHOWN} more rows")
    lines.append(
        labelled("total: ")
        + f"forward {_time(profile.forward)}, backward {_time(profile.backward)}, saved {_bytes(profile.bytes)} "
        f"(measuring took {_time(profile.overhead)} of it)"
    )
    return "\n".join([*lines, *profile.advice])


# -- HTML ------------------------------------------------------------------------------------------------------------


def html_table(profile: Profile) -> str:
    """The profile as an HTML fragment; colours follow the page's text colour, so it suits light and dark."""
    head = "".join(f'<th style="{_align(i)}">{name}</th>' for i, name in enumerate([*HEADS, "code"]))
    body = "".join(_html_row(row) for row in profile.rows)
    total = labelled(
        f"forward {_time(profile.forward)}, backward {_time(profile.backward)}, saved {_bytes(profile.bytes)} "
        f"(measuring took {_time(profile.overhead)} of it)"
    )
    notes = "".join(f"<p>{html.escape(text)}</p>" for text in (total, *profile.advice))
    return (
        '<div class="gradtape-profile" style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
    )


def _align(column: int) -> str:
    side = "right" if 2 <= column < len(HEADS) else "left"
    return f"text-align:{side};padding:2px 8px;white-space:nowrap"


def _html_row(row: ProfileRow) -> str:
    cells = [*_cells(row), row.code[:80]]
    shade = f"background:linear-gradient(to right,rgba(66,133,244,.35) {row.share:.1%},transparent {row.share:.1%})"
    columns = []
    for i, text in enumerate(cells):
        style = _align(i) + (f";{shade}" if i == len(HEADS) - 1 else "")
        style += ";padding-left:24px" if row.within and not i else ""
        tag = "code" if i == len(cells) - 1 else "span"
        title = f' title="{html.escape(row.location or "", quote=True)}"' if i == 0 else ""
        columns.append(f'<td style="{style}"{title}><{tag}>{html.escape(text.strip())}</{tag}></td>')
    kind = "inner" if row.within else "rest" if row.op == REST else "row"
    return f'<tr class="{kind}">{"".join(columns)}</tr>'

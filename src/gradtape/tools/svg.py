"""Plots as self-contained SVG text: panels with axes, ticks, lines, points, bars, a coloured background and a legend.

It knows nothing about gradtape and draws only what the tools need. Coordinates given to a panel are data; the panel maps
them to the page.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from gradtape.core.typing import Array

INK, QUIET, GRID, PAPER = "#1f2937", "#6b7280", "#e5e7eb", "#ffffff"
# what `page(dark=True)` puts in their place where the reader's screen is dark
DARK = {INK: "#e5e7eb", QUIET: "#9ca3af", GRID: "#374151", PAPER: "#111827", "#fafafa": "#0b0f19"}
FONT = "font-family='Helvetica, Arial, sans-serif'"


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """About `count` round numbers that lie in [low, high]."""
    raw = (high - low) / max(count - 1, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = unit * min((m for m in (1, 2, 2.5, 5, 10) if m * unit >= raw), default=10)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten in [low, high]; with 2 and 5 times them when there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if math.log10(high / low) > 3 else (1, 2, 5)
    return [f * 10.0**p for p in powers for f in factors if low * 0.999 <= f * 10.0**p <= high * 1.001]


def number(value: float) -> str:
    """A number as the label of a tick; large and small powers of ten with an exponent."""
    power = round(math.log10(value)) if value > 0 else 0
    if abs(power) < 4 or abs(value / 10.0**power - 1) > 1e-9:
        return f"{value:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@dataclass
class Panel:
    """One plot at (x, y) of the page, `width` by `height`, showing `xlim` and `ylim`."""

    x: float
    y: float
    width: float
    height: float
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    log: bool = False  # the vertical axis
    log_across: bool = False
    names: Sequence[tuple[float, str]] = ()  # labels on the vertical axis, instead of numbers
    _below: list[str] = field(default_factory=list)
    _above: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str, str]] = field(default_factory=list)

    def across(self, value: float) -> float:
        low, high = self.xlim
        if self.log_across:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return self.x + (value - low) / (high - low) * self.width

    def up(self, value: float) -> float:
        low, high = self.ylim
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return self.y + self.height - (value - low) / (high - low) * self.height

    def image(self, pixels: Array) -> None:
        """Fill the panel with colours: an array (rows from top, columns, 3) of bytes."""
        data = base64.b64encode(_png(np.asarray(pixels, np.uint8))).decode()
        self._below.append(
            f"<image x='{self.x}' y='{self.y}' width='{self.width}' height='{self.height}' "
            f"preserveAspectRatio='none' href='data:image/png;base64,{data}'/>"
        )

    def line(self, xs: Sequence[float], ys: Sequence[float], color: str, label: str = "", width: float = 2.0) -> None:
        corners = " ".join(f"{self.across(x):.2f},{self.up(y):.2f}" for x, y in zip(xs, ys, strict=True))
        self._above.append(
            f"<polyline points='{corners}' fill='none' stroke='{color}' stroke-width='{width}' stroke-linejoin='round'/>"
        )
        if label:
            self._legend.append(("line", color, label))

    def segments(self, pieces: Sequence[Any], color: str, label: str = "", width: float = 2.0) -> None:
        """Many separate strokes, each ((x0, y0), (x1, y1)), as one path."""
        d = "".join(
            f"M{self.across(a[0]):.2f} {self.up(a[1]):.2f}L{self.across(b[0]):.2f} {self.up(b[1]):.2f}" for a, b in pieces
        )
        self._above.append(f"<path d='{d}' stroke='{color}' stroke-width='{width}' stroke-linecap='round' fill='none'/>")
        if label:
            self._legend.append(("line", color, label))

    def points(self, xs: Sequence[float], ys: Sequence[float], color: str, label: str = "", radius: float = 3.2) -> None:
        dots = "".join(
            f"<circle cx='{self.across(x):.2f}' cy='{self.up(y):.2f}' r='{radius}'/>" for x, y in zip(xs, ys, strict=True)
        )
        self._above.append(f"<g fill='{color}' stroke='{PAPER}' stroke-width='0.8'>{dots}</g>")
        if label:
            self._legend.append(("point", color, label))

    def bar(self, start: float, end: float, middle: float, thickness: float, color: str) -> None:
        """A horizontal bar from `start` to `end`, in data coordinates; `thickness` too. `key` puts it in the legend."""
        left, right = sorted((self.across(start), self.across(end)))
        top, bottom = sorted((self.up(middle - thickness / 2), self.up(middle + thickness / 2)))
        self._above.append(
            f"<rect x='{left:.2f}' y='{top:.2f}' width='{right - left:.2f}' height='{bottom - top:.2f}' fill='{color}'/>"
        )

    def key(self, color: str, label: str) -> None:
        """An entry of the legend for what was drawn without one."""
        self._legend.append(("point", color, label))

    def render(self) -> str:
        clip = f"clip{int(self.x)}_{int(self.y)}"
        frame = f"x='{self.x}' y='{self.y}' width='{self.width}' height='{self.height}'"
        return "\n".join([
            f"<clipPath id='{clip}'><rect {frame}/></clipPath>",
            f"<rect {frame} fill='{PAPER}'/>",
            *self._axes(),
            f"<g clip-path='url(#{clip})'>", *self._below, *self._above, "</g>",
            f"<rect {frame} fill='none' stroke='{QUIET}' stroke-width='1'/>",
            *self._key(),
        ])  # fmt: skip

    def _axes(self) -> list[str]:
        bottom, right = self.y + self.height, self.x + self.width
        out = []
        for value in log_ticks(*self.xlim) if self.log_across else ticks(*self.xlim):
            at = self.across(value)
            out.append(f"<line x1='{at:.2f}' y1='{self.y}' x2='{at:.2f}' y2='{bottom}' stroke='{GRID}'/>")
            out.append(f"<line x1='{at:.2f}' y1='{bottom}' x2='{at:.2f}' y2='{bottom + 5}' stroke='{QUIET}'/>")
            out.append(text(at, bottom + 19, number(value), 12, QUIET))
        for value, name in self.names or [(v, number(v)) for v in (log_ticks(*self.ylim) if self.log else ticks(*self.ylim))]:
            at = self.up(value)
            out.append(f"<line x1='{self.x}' y1='{at:.2f}' x2='{right}' y2='{at:.2f}' stroke='{GRID}'/>")
            out.append(f"<line x1='{self.x - 5}' y1='{at:.2f}' x2='{self.x}' y2='{at:.2f}' stroke='{QUIET}'/>")
            out.append(text(self.x - 9, at + 4, name, 12, QUIET, "end"))
        middle = self.x + self.width / 2
        out.append(text(middle, self.y - 14, self.title, 16, INK, weight="600"))
        out.append(text(middle, bottom + 42, self.xlabel, 13, INK))
        out.append(text(self.x - 50, self.y + self.height / 2, self.ylabel, 13, INK, turned=True))
        return out

    def _key(self) -> list[str]:
        """The legend: one row below the panel, so that it hides nothing."""
        widths = [44 + 7.0 * len(label) for _, _, label in self._legend]
        left = self.x + (self.width - sum(widths)) / 2
        middle = self.y + self.height + 68
        out = []
        for (kind, color, label), width in zip(self._legend, widths, strict=True):
            if kind == "point":
                out.append(f"<circle cx='{left + 14:.2f}' cy='{middle}' r='4.5' fill='{color}'/>")
            else:
                out.append(
                    f"<line x1='{left:.2f}' y1='{middle}' x2='{left + 22:.2f}' y2='{middle}' stroke='{color}' "
                    "stroke-width='2.5'/>"
                )
            out.append(text(left + 28, middle + 4, label, 13, INK, "start"))
            left += width
        return out


def text(
    x: float, y: float, words: str, size: int, color: str, anchor: str = "middle", weight: str = "400", turned: bool = False
) -> str:
    """One line of text at a point of the page."""
    turn = f" transform='rotate(-90 {x:.2f} {y:.2f})'" if turned else ""
    return (
        f"<text x='{x:.2f}' y='{y:.2f}' {FONT} font-size='{size}' font-weight='{weight}' fill='{color}' "
        f"text-anchor='{anchor}'{turn}>{escape(words)}</text>"
    )


def page(width: int, height: int, parts: Sequence[str], title: str, dark: bool = False) -> str:
    """A complete SVG document; with `dark` its paper and ink change places on dark screens, other colours stay."""
    rules = "".join(f"[fill='{a}'] {{fill: {b}}} [stroke='{a}'] {{stroke: {b}}} " for a, b in DARK.items())
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>",
        f"<title>{escape(title)}</title>",
        *([f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>"] if dark else []),
        f"<rect width='{width}' height='{height}' fill='#fafafa'/>",
        *parts,
        "</svg>",
        "",
    ])  # fmt: skip


def contour(xs: Array, ys: Array, values: Array, level: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The level line of values[row y, column x] as short strokes: marching squares with linear interpolation."""
    strokes = []
    above = values > level
    for i in range(len(ys) - 1):
        for j in range(len(xs) - 1):
            corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
            crossings = []
            for (r0, c0), (r1, c1) in zip(corners, corners[1:] + corners[:1], strict=True):
                if above[r0, c0] != above[r1, c1]:
                    t = (level - values[r0, c0]) / (values[r1, c1] - values[r0, c0])
                    crossings.append((float(xs[c0] + t * (xs[c1] - xs[c0])), float(ys[r0] + t * (ys[r1] - ys[r0]))))
            strokes += [(crossings[k], crossings[k + 1]) for k in range(0, len(crossings), 2)]
    return strokes


def _png(pixels: Array) -> bytes:
    """An 8-bit RGB picture in the PNG format (ISO/IEC 15948)."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + pixels[r].tobytes() for r in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")

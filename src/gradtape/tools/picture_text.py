"""A picture without a screen: an indented outline for terminals, and Graphviz's DOT language. Both show the folded model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.tools.picture_model import Model
from gradtape.tools.picture_tree import CallGroup, Item, LoopGroup

_LONGEST = 110  # characters of a line of the outline


def outline(model: Model) -> str:
    """The graph as an indented list.

    Each line has the source line, the operation, its shape and what it is computed from; `↻ ×50` heads a loop, `ƒ` a function.
    """
    tape = model.data["tape"]
    facts = [f"{tape['records']:,} operation{'s' * (tape['records'] != 1)}"]
    if tape["variables"]:
        facts.append(f"{tape['variables']} variable{'s' * (tape['variables'] != 1)}")
    total = model.data["measures"]["bytes"].get("total")
    if total:
        facts.append(f"{amount(total)} saved")
    if tape["spent"]:
        facts.append(f"used up at {tape['spent']}")
    lines = ["tape: " + ", ".join(facts)]
    _Outline(model, lines).items(model.tree, "")
    return "\n".join(lines)


class _Outline:
    def __init__(self, model: Model, lines: list[str]) -> None:
        self.model = model
        self.lines = lines
        self.inputs: dict[int, list[tuple[int, int]]] = {}
        for source, sink, slot, _, loop in model.data["edges"]:
            self.inputs.setdefault(sink, []).append((slot, -source - 1 if loop else source))
        self.names = _names(model)

    def items(self, items: Sequence[Item], indent: str) -> None:
        for place, item in enumerate(items):
            last = place == len(items) - 1
            head, below = indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")
            if isinstance(item, LoopGroup):
                self.lines.append(f"{head}↻ ×{times(item)}  {self._title(item)}")
                self.items(item.iterations[0], below)
            elif isinstance(item, CallGroup):
                self.lines.append(f"{head}ƒ {self._title(item)}")
                self.items(item.items, below)
            else:
                self.lines.append(self._line(head, item))

    def _title(self, group: LoopGroup | CallGroup) -> str:
        entry = _find(self.model.data["groups"], group.number)
        if isinstance(group, LoopGroup):
            return str(entry["title"])
        return f"{entry['title']}  {entry['where']}"

    def _line(self, head: str, number: int) -> str:
        node = self.model.nodes[number]
        place = "" if node["site"] is None else self.model.sites[node["site"]].short()
        shape = shape_text(node)
        known = [(slot, self._source(source)) for slot, source in self.inputs.get(number, [])]
        known += [(slot, text or "·") for slot, text in node.get("constants", [])]
        counts: dict[str, int] = {}
        for _, name in sorted(known):
            counts[name] = counts.get(name, 0) + 1
        sources = [name if count == 1 else f"{name} ×{count}" for name, count in counts.items()]
        target = "  ← target" if node.get("target") else ""
        text = f"{head}{self.names[number]} {shape}  {place}"
        if sources:
            text += "  from " + ", ".join(sources[:6]) + (", …" if len(sources) > 6 else "")
        text += target
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def _source(self, source: int) -> str:
        return f"{self.names[-source - 1]} before" if source < 0 else self.names[source]


def _names(model: Model) -> list[str]:
    """What each node is called: its operation, with a number where several have the same name."""
    totals: dict[str, int] = {}
    for node in model.nodes:
        totals[node["op"]] = totals.get(node["op"], 0) + 1
    seen: dict[str, int] = {}
    names = []
    for node in model.nodes:
        op = node["op"]
        seen[op] = seen.get(op, 0) + 1
        names.append(f"{op}#{seen[op]}" if totals[op] > 1 else op)
    return names


def shape_text(node: dict[str, Any]) -> str:
    """ "(32, 64)"; of several outputs their number."""
    shape = node["shape"]
    if isinstance(shape, dict):
        return f"({len(shape['outputs'])} outputs)"
    return f"({', '.join(str(d) for d in shape)}{',' if len(shape) == 1 else ''})"


def times(loop: LoopGroup) -> str:
    """ "50", or "2–7" for a loop that ran several times."""
    low, high = min(loop.counts), max(loop.counts)
    return str(low) if low == high else f"{low}–{high}"


def amount(count: float) -> str:
    """A number of bytes to read."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def _find(groups: Sequence[Any], number: int) -> dict[str, Any]:
    stack = list(groups)
    while stack:
        item = stack.pop()
        if isinstance(item, int):
            continue
        if item["number"] == number:
            group: dict[str, Any] = item
            return group
        stack += item["items"] if item["kind"] == "call" else item["iterations"][0]
    raise KeyError(number)


# -- DOT -------------------------------------------------------------------------------------------------------------------


def dot(model: Model, title: str) -> str:
    """The folded graph in the DOT language."""
    lines = [
        "digraph tape {",
        f"  label={_quoted(title)}; labelloc=t; fontname=Helvetica;",
        '  node [shape=box, style="rounded,filled", fillcolor="#eef2f8", color="#9fb0c8", fontname=Helvetica, fontsize=11];',
        '  edge [color="#8592a6", arrowsize=0.7];',
    ]
    _dot_items(model, model.tree, "  ", lines)
    for number in range(len(model.nodes)):
        if model.nodes[number]["kind"] in ("variable", "watched"):
            lines.append("  " + _dot_node(model, number))
    for source, sink, _, count, loop in model.data["edges"]:
        more = ['style=dashed, color="#7c3aed", constraint=false'] if loop else []
        if count > 1 and not loop and model.nodes[source]["kind"] not in ("variable", "watched"):
            more.append(f"tooltip={_quoted(f'{count} times')}")
        lines.append(f"  n{source} -> n{sink}" + (f" [{', '.join(more)}]" if more else "") + ";")
    return "\n".join([*lines, "}", ""])


def _dot_items(model: Model, items: Sequence[Item], indent: str, lines: list[str]) -> None:
    for item in items:
        if isinstance(item, int):
            lines.append(indent + _dot_node(model, item))
            continue
        group = _find(model.data["groups"], item.number)
        label = f"×{times(item)}  {group['title']}" if isinstance(item, LoopGroup) else group["title"]
        style = 'style=dashed; color="#7c3aed"' if isinstance(item, LoopGroup) else 'style=rounded; color="#b8c2d0"'
        lines.append(f"{indent}subgraph cluster_{item.number} {{")
        lines.append(f"{indent}  label={_quoted(label)}; {style};")
        _dot_items(model, item.iterations[0] if isinstance(item, LoopGroup) else item.items, indent + "  ", lines)
        lines.append(f"{indent}}}")


def _dot_node(model: Model, number: int) -> str:
    node = model.nodes[number]
    label = f"{node['op']}\n{shape_text(node)}"
    more = ""
    if node["kind"] in ("variable", "watched"):
        more = ', shape=box, style="rounded,filled", fillcolor="#dbe7fd"'
    if node["site"] is not None:
        place = model.sites[node["site"]]
        more += f", tooltip={_quoted(f'{place.short()}  {place.text}')}"
    if node.get("target"):
        more += ", penwidth=2.5"
    return f"n{number} [label={_quoted(label)}{more}];"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

"""What a picture shows, as plain data: nodes, edges and nested groups, read off a tape once.

A short tape is kept whole, one node per record, and the page folds its loops; of a long one only the folded graph is kept, one
node per place in the code, and of a long irregular one a node per source line. Outputs of one operation are one node. Nothing
here refers to the tape afterwards. Invariant: the data is JSON, and its size is bounded whatever the tape's length.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.ad.custom import CUSTOM
from gradtape.core.record import Record, location
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Size
from gradtape.functions.compiled import FUNCTION
from gradtape.functions.numerics import finite
from gradtape.ir.garbage import uncollected
from gradtape.ir.printer import to_text
from gradtape.ir.walk import walk
from gradtape.ops.stop import ASSIGN, GRADIENT
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.nan_report import SOON, nan_report
from gradtape.tools.nan_words import NanReport
from gradtape.tools.operands import program_of
from gradtape.tools.picture_draft import UNNAMED, Draft, drafted
from gradtape.tools.picture_sites import CodeSite, operands, user_frames
from gradtape.tools.picture_tree import CallGroup, Folded, Item, LoopGroup, by_line, carried, folded, grown, leaves_of, numbered
from gradtape.tools.picture_values import number, summary, why_no_values

WHOLE = 2500  # records up to which every one gets a node of its own
CLASSES = 800  # folded nodes up to which loops are shown as loops; beyond, lines stand for all that ran on them
LINES = 400  # boxes for lines; beyond, blocks of lines share one
SERIES = 64  # points of a curve over the iterations of a loop
TEXT = 20_000  # characters of a program's text


@dataclass
class Model:
    """The data of a picture, and the words for its title; `data` is JSON, described in docs/howto/picture_and_run.md."""

    data: dict[str, Any]
    tree: list[Item]
    sites: list[CodeSite]
    title: str

    @property
    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self.data["nodes"]
        return nodes


@uncollected()
def models(tape: GradientTape, targets: Sequence[Any] = ()) -> tuple[Model, Model]:
    """The model for the page and the folded one for text; the same for a long tape."""
    draft = drafted(tape, targets)
    about = _about(tape, draft, targets)
    codes = [draft.owner(record) for record in draft.records]
    spent = [] if tape._spent_at is None else [tape._spent_at[0]]
    modules = [code for code in draft.codes.values() if code is not None and code.co_name == "<module>"]
    tokens: dict[Any, int] = {}
    numbers = [tokens.setdefault((r.op.name, id(r.code), r.lasti), len(tokens)) for r in draft.records]
    # Code that is running now, or asked the tape, is where the tape is: its records are not put into a box for a call.
    tree = grown(numbers, codes, [id(code) for code in (*(frame.f_code for frame in user_frames()), *spent, *modules)])
    flat = folded(tree)
    # too much to look at even with loops folded: lines of the source stand for what ran on them
    if len(flat.members) > CLASSES:
        flat = by_line([draft.sites.line(record) for record in draft.records], codes, LINES)
        about["by"] = "line"
    outline = _Maker(draft, flat).model(about | {"folded": True})
    if len(draft.records) > WHOLE:
        return outline, outline
    whole = Folded(numbered(tree), [[i] for i in range(len(draft.records))])
    return _Maker(draft, whole).model(about), outline


def _about(tape: GradientTape, draft: Draft, targets: Sequence[Any]) -> dict[str, Any]:
    spent = None if tape._spent_at is None else "{}:{}".format(*location(*tape._spent_at))
    nan = tape._nan if isinstance(tape._nan, NanReport) else None
    values = [t._data for t in targets if isinstance(t, Tensor)] if targets else list(draft.values.values())
    known = [value for value in values if isinstance(value, (np.ndarray, np.generic))]
    if not tape._asked and not why_no_values(tape) and len(draft.records) <= SOON and not all(map(finite, known)):
        nan = nan_report(tape)  # nobody asked for a gradient, which would have noticed
    return {
        "records": len(draft.records), "variables": len(tape._variables), "persistent": bool(tape._persistent), "spent": spent,
        "by": "operation", "folded": False,
        "nan": nan and {"op": nan.op, "at": nan.location or "", "phase": nan.phase, "text": nan.message},
    }  # fmt: skip


# -- nodes, edges, groups ------------------------------------------------------------------------------------------------


class _Maker:
    """Makes the data of one way to put records into classes."""

    def __init__(self, draft: Draft, flat: Folded) -> None:
        self.draft = draft
        self.flat = flat
        self.sites: dict[CodeSite, int] = {}
        self.programs: dict[str, int] = {}
        self.class_of = {i: number for number, members in enumerate(flat.members) for i in members}
        self.lines = False

    def model(self, about: dict[str, Any]) -> Model:
        self.lines = about["by"] == "line"
        # The last record of a class stands for all of them: its value is the one the user would see now.
        nodes = [self._node(members) for members in self.flat.members]
        edges = self._edges()
        nodes += self._leaf_nodes(len(nodes), edges)
        tree = self.flat.tree
        data = {
            "format": "gradtape-picture", "version": 1, "tape": about, "measures": self.draft.measures, "nodes": nodes,
            "edges": [[*ends, count, loop] for (*ends, loop), count in edges.items()], "groups": self._groups(tree),
            "sites": [[s.file, s.line, s.function, s.text, s.column, s.end] for s in self.sites],
            "programs": list(self.programs),
        }  # fmt: skip
        return Model(data, tree, list(self.sites), self._title())

    def _site(self, record: Record) -> int | None:
        site = self.draft.sites.of(record)
        return None if site is None else self.sites.setdefault(site, len(self.sites))

    def _node(self, members: list[int]) -> dict[str, Any]:
        draft = self.draft
        records = [draft.records[i] for i in members]
        last = records[-1]
        node: dict[str, Any] = {"kind": _kind(last), "op": _op_name(last), "site": self._site(last)}
        if self.lines:
            node |= self._line(records)
        if len(members) > 1:
            node["count"] = len(members)
        node["shape"], dtype = _shape_of(last)
        if draft.bytes:
            node["bytes"] = sum(draft.bytes[i] for i in members)
        if draft.seconds:
            pairs = [draft.seconds[r] for r in records if r in draft.seconds]
            node["seconds"] = [sum(p[0] for p in pairs), sum(p[1] for p in pairs)]
        self._add_value(node, records, dtype)
        if any(i in draft.targets for i in members):
            node["target"] = True
        if last.op is FUNCTION and (compiled := program_of(last.attrs)) is not None:
            text = to_text(compiled.optimized, "short")
            node["program"] = self.programs.setdefault(
                text if len(text) <= TEXT else text[:TEXT] + "\n… (shortened)", len(self.programs)
            )
            for place in {operation.loc: None for operation in walk(compiled.optimized) if operation.loc is not None}:
                words = linecache.getline(place.file, place.line).strip()
                self.sites.setdefault(CodeSite(place.file, place.line, compiled.name, words, 0, 0, ""), len(self.sites))
        if not self.lines:
            constants = self._constants(last)
            if constants:
                node["constants"] = constants
        return node

    def _line(self, records: list[Record]) -> dict[str, Any]:
        """What a box for a line, or for a block of lines, says: the source, and the operations that ran there."""
        counts: dict[str, int] = {}
        for record in records:
            name = _op_name(record)
            counts[name] = counts.get(name, 0) + 1
        lines = sorted({self.draft.sites.line(record)[1] for record in records})
        first = self.draft.sites.of(min(records, key=lambda r: self.draft.sites.line(r)[1]))
        text = "" if first is None else first.text
        label = f"lines {lines[0]}–{lines[-1]}" if len(lines) > 1 else text or f"line {lines[0]}"
        return {"kind": "line", "op": label, "ops": sorted(counts.items(), key=lambda entry: -entry[1])[:6]}

    def _add_value(self, node: dict[str, Any], records: list[Record], dtype: str | None) -> None:
        draft = self.draft
        value = draft.values.get(records[-1])
        facts = None if value is None else summary(value)
        if facts is not None:
            node["dtype"] = facts.pop("dtype")
            node["value"] = facts
        elif dtype is not None:
            node["dtype"] = dtype
        sizes = [draft.gradients[r] for r in records if r in draft.gradients]
        if sizes:
            norms = [length for length, _ in sizes]
            node["gradient"] = {"norm": number(max(norms)), "max": number(max(largest for _, largest in sizes))}
            if len(sizes) > 1:
                node["gradient"]["last"] = number(norms[-1])
            if len(sizes) > 2 and not self.lines:
                # a curve over the iterations: a gradient that vanishes or explodes is seen at a glance
                node["series"] = [number(length) for length in norms[:: -(-len(norms) // SERIES)]]

    def _constants(self, record: Record) -> list[list[Any]]:
        """[slot, text] of the inputs no tape watches, as the source calls them."""
        site = self.draft.sites.of(record)
        if all(node is not None for node in record.nodes) or site is None or len(record.nodes) > 8:
            return []
        compiled = program_of(record.attrs) if record.op is FUNCTION else None
        names = operands(site.expression, record.op) if compiled is None else [p.name or "" for p in compiled.block.params]
        return [[i, names[i] if i < len(names) else ""] for i, node in enumerate(record.nodes) if node is None]

    def _edges(self) -> dict[tuple[int, int, int, int], int]:
        """(source, sink, slot, loop it is carried by) → how often; sources that are leaves keep their negative place."""
        edges: dict[tuple[int, int, int, int], int] = {}
        places, class_of, rounds = self.draft.places, self.class_of, self.flat.rounds
        count = len(self.draft.records)
        for sink, record in enumerate(self.draft.records):
            end, within = class_of[sink], rounds.get(sink, ())
            for slot, node in enumerate(record.nodes):
                source = -1 if node is None else places.get(node, -1)
                if source < 0:
                    continue
                if source >= count:
                    key = (-1 - (source - count), end, slot, 0)
                else:
                    before = rounds.get(source, ())
                    # (of one iteration the two are the same object: the usual case is asked first)
                    loop = 0 if before is within else carried(before, within)
                    start = class_of[source]
                    if self.lines and start == end:
                        continue
                    key = (start, end, 0 if self.lines else slot, loop)
                edges[key] = edges.get(key, 0) + 1
        return edges

    def _leaf_nodes(self, offset: int, edges: dict[tuple[int, int, int, int], int]) -> list[dict[str, Any]]:
        """Nodes for the leaves, and their numbers put into the edges. Leaves that enter a folded loop at the same place,
        each in its own iteration, are one node."""
        uses: dict[int, list[tuple[int, int]]] = {}
        for source, end, slot, _ in edges:
            if source < 0:
                uses.setdefault(-1 - source, []).append((end, slot))
        groups: dict[Any, list[int]] = {}
        for leaf in range(len(self.draft.leaves)):
            used = frozenset(uses.get(leaf, ()))
            many = used and all(len(self.flat.members[end]) > 1 for end, _ in used)
            groups.setdefault(used if many else leaf, []).append(leaf)
        numbers = {leaf: offset + n for n, members in enumerate(groups.values()) for leaf in members}
        for key, count in list(edges.items()):
            if key[0] < 0:
                del edges[key]
                moved = (numbers[-1 - key[0]], *key[1:])
                edges[moved] = edges.get(moved, 0) + count
        return [self._leaf(members, uses.get(members[0], [])) for members in groups.values()]

    def _leaf(self, members: list[int], uses: list[tuple[int, int]]) -> dict[str, Any]:
        draft = self.draft
        records = [draft.leaves[m] for m in members]
        last = records[-1]
        kind, (rank, label), thing = draft.labels.get(last, ("watched", UNNAMED, None))
        if rank == UNNAMED[0]:  # as an operand the source has some name for it, or another tape knows what made it
            otherwise = label if last.op is None else _op_name(last)
            label = next((name for name in (self._called(end, slot) for end, slot in uses) if name), otherwise)
        node: dict[str, Any] = {"kind": kind, "op": label, "site": None, "shape": _shape_of(last)[0]}
        if kind == "variable":
            node["name"] = thing.name.removesuffix(":0")
        if len(members) > 1:
            node["count"] = len(members)
        current = getattr(thing, "_tensor", thing)
        # a variable that was assigned since has another value by now: only the version that the tape knows counts
        same = current is not None and draft.first.get(current._node) is last and not current.wraps
        if last not in draft.values and same:
            draft.values[last] = current._data
        self._add_value(node, records, None if thing is None else thing.dtype.name)
        return node

    def _called(self, end: int, slot: int) -> str:
        record = self.draft.records[self.flat.members[end][-1]]
        site = self.draft.sites.of(record)
        names = () if site is None else operands(site.expression, record.op)
        return names[slot] if slot < len(names) else ""

    def _groups(self, items: Sequence[Item]) -> list[Any]:
        groups: list[Any] = []
        for item in items:
            if isinstance(item, LoopGroup):
                first, last = self._lines(item.iterations[0])
                groups.append({
                    "kind": "loop", "number": item.number, "counts": sorted({min(item.counts), max(item.counts)}),
                    "title": self._loop_title(item.iterations[0]), "lines": [first, last],
                    "iterations": [self._groups(iteration) for iteration in item.iterations],
                })  # fmt: skip
            elif isinstance(item, CallGroup):
                groups.append({
                    "kind": "call", "number": item.number, "title": self.draft.title(item.function),
                    "where": self._where(item.items), "items": self._groups(item.items),
                })  # fmt: skip
            else:
                groups.append(item)
        return groups

    def _loop_title(self, items: Sequence[Item]) -> str:
        """The lines of a loop, and the function where that is one and not the one around the tape."""
        functions = {site.function for record in self._members(items) if (site := self.draft.sites.of(record)) is not None}
        last = self._last()
        name = functions.pop() if len(functions) == 1 else None
        inside = "" if name is None or last is None or name == last.function else f"{name.replace('<locals>.', '')}  "
        return inside + self._where(items)

    def _last(self) -> CodeSite | None:
        """Where the last operation is: a program's result is usually computed where its tape is."""
        return next((self.draft.sites.of(record) for record in reversed(self.draft.records) if record.code is not None), None)

    def _title(self) -> str:
        last = self._last()
        if last is None:
            return "tape"
        inside = "" if last.function == "<module>" else f" · {last.function.replace('<locals>.', '')}"
        return ("notebook" if "ipykernel_" in last.file else last.short().rpartition(":")[0]) + inside

    def _members(self, items: Sequence[Item]) -> list[Record]:
        return [self.draft.records[self.flat.members[number][0]] for number in leaves_of(items)]

    def _lines(self, items: Sequence[Item]) -> tuple[int, int]:
        lines = [line for _, line in map(self.draft.sites.line, self._members(items)) if line]
        return (min(lines), max(lines)) if lines else (0, 0)

    def _where(self, items: Sequence[Item]) -> str:
        """ "train.py:18–22": the lines of a group in the file most of it is in."""
        by_file: dict[str, list[int]] = {}
        for record in self._members(items):
            site = self.draft.sites.of(record)
            if site is not None:
                by_file.setdefault(site.short().rpartition(":")[0], []).append(site.line)
        if not by_file:
            return ""
        name, lines = max(by_file.items(), key=lambda entry: len(entry[1]))
        first, last = min(lines), max(lines)
        return f"{name}:{first}" if first == last else f"{name}:{first}–{last}"


def _op_name(record: Record) -> str:
    if record.op is CUSTOM:
        attrs = record.attrs or {}
        answers = attrs["rule"].answers if "rule" in attrs else attrs.get("answers")
        return (answers.name.split(".")[-1] if answers is not None else "") or record.op.name
    if record.op is FUNCTION:
        program = program_of(record.attrs)
        return "function" if program is None else str(program.name)
    return str(record.op.name)


def _kind(record: Record) -> str:
    if record.op is FUNCTION:
        return "function"
    if record.op is GRADIENT:
        return "gradient"
    if record.op is ASSIGN:
        return "assign"
    return "stop" if record.op.kind == "nondiff" else "op"


def _shape_of(record: Record) -> tuple[Any, str | None]:
    """Shape and dtype as JSON; of several outputs, a list of shapes."""
    shape = record.shape
    if shape and isinstance(shape[0], tuple):  # several outputs: (shape, dtype) each
        program = program_of(record.attrs) if record.op is FUNCTION else None  # residuals are outputs of its record too
        outputs = shape if program is None else shape[: len(program.block.results)]
        if len(outputs) == 1:
            return _dims(outputs[0][0]), str(outputs[0][1])
        return {"outputs": [_dims(one) for one, _ in outputs]}, None
    return _dims(shape), None


def _dims(shape: Iterable[Size]) -> list[Any]:
    return [d if isinstance(d, int) else str(d) for d in shape]

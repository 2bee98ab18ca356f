"""Backward passes that come again, as straight lines of Python: no walk, no looking up, one function for a sequence of records.

A training step records the same operations each time. When a question was walked as often as `learn_gradients` says, its
walk is written down (`Lesson`): one line for each share of a cotangent, in the order of the walk, with the same rules on the
same values, so answers are the same to the last bit. Later walks run it if their records have the same operations, shapes and
wiring; values and attributes are read anew. Whatever decides for itself while it runs (parts, regions, compiled calls, rows of
a table) is left to the walk (`ad/backward.py`), which stays the meaning.

Lessons hold operations and shapes, neither records nor values, and are bounded in number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from gradtape import config
from gradtape.ad.binding import OWN_PULLS, Binding, RuleWriter
from gradtape.ad.sweep import stop
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, RULES, Record
from gradtape.core.recorded import PART

LONGEST = 4_000  # records of a walk that is written down
LEAVES = 256  # versions without an operation that it may begin at
MOST = 64  # questions that are remembered, and
EACH = 4  # lessons of one of them
SHORT = 400  # records of a walk that is compiled, after
RUNS = 1_000  # runs, which take about as long as compiling; fewer if its arrays have more than
ELEMENTS = 512  # elements, but not fewer than
FEWEST_RUNS = 100
NONE, OUTSIDE = -1, -2  # in a wiring: no version; of what is wanted: a version that the records do not lead to


Wanted = set[Record] | dict[Record, None]  # in an order, where the walk may come again


def needed_records(records: Iterable[Record], wanted: Iterable[Record], pulls: Binding) -> tuple[list[Record], set[Record]]:
    """The records that depend on one of `wanted` through operations that pull, in order; and they and `wanted` as a set."""
    path: list[Record] = []
    needed = set(wanted)
    for record in records:
        for node in record.nodes:
            if node in needed:
                # (of an operation through which nothing is passed on, what depends on it does not depend on the source)
                if pulls[record.op] is not stop:
                    needed.add(record)
                    path.append(record)
                break
    return path, needed


class Unwritable(Exception):  # noqa: N818  (no error: a walk that stays one)
    """A walk that decides something while it runs."""


class Wiring:
    """What must be the same for a lesson to hold: operations, all shapes, and which version each input was. A number not below
    0 is the place of a record, `NONE` no version, and -3, -4, … the leaves in the order in which they are met."""

    __slots__ = ("codes", "leaf_shapes", "ops", "shapes", "targets", "wanted")

    def __init__(self, records: Sequence[Record], targets: Iterable[Record], wanted: Iterable[Record]) -> None:
        places: dict[Record | None, int] = {None: NONE}
        codes: list[int] = []
        leaves: list[Record] = []
        for place, record in enumerate(records):
            for node in record.nodes:
                if node not in places:
                    if node is None or node.op is not None or node.__class__ is not Record:
                        raise Unwritable  # recorded elsewhere: its place here is not known
                    places[node] = OUTSIDE - 1 - len(leaves)
                    leaves.append(node)
                codes.append(places[node])
            codes.append(OUTSIDE)  # the end of its inputs
            places[record] = place
        if len(leaves) > LEAVES:
            raise Unwritable
        self.leaf_shapes = tuple([leaf.shape for leaf in leaves])
        self.ops = tuple([record.op for record in records])
        self.shapes = tuple([record.shape for record in records])
        # as bytes: comparing two wirings of thousands of numbers is one comparison of memory
        self.codes = np.array(codes, np.int32).tobytes()
        self.targets = np.array([places[node] for node in targets], np.int32).tobytes()
        self.wanted = np.array([places.get(node, OUTSIDE) for node in wanted], np.int32).tobytes()

    def matches(self, records: Sequence[Record], targets: Sequence[Record], wanted: Sequence[Record]) -> bool:
        """Whether other records are wired like this."""
        # most walks that differ do so here, and comparing all of them takes as long as a short walk
        if len(records) != len(self.ops) or records[0].op is not self.ops[0]:
            return False
        try:
            other = Wiring(records, targets, wanted)
        except Unwritable:
            return False
        return all([getattr(self, name) == getattr(other, name) for name in self.__slots__])  # noqa: C419  (quicker)


class Lesson:
    """One walk, written down: `run(records, seeds)` gives the cotangents of `reached`, places among what is wanted. After
    `left` more runs it is worth compiling; `program` then answers in the place of `run`, or with None."""

    __slots__ = ("left", "matches", "program", "reached", "run")

    def __init__(self, wiring: Wiring, run: Callable[..., tuple[Any, ...]], reached: Sequence[int]) -> None:
        self.matches = MATCHERS[-1](wiring)
        self.run = run
        self.reached = tuple(reached)
        # What compiling saves is the time between NumPy's calls and the passes over memory: the larger the arrays, the fewer
        # runs pay for it.
        work = (
            len(wiring.ops) + sum([prod(shape) for shape in wiring.shapes if all(n.__class__ is int for n in shape)]) / ELEMENTS
        )
        self.left = max(FEWEST_RUNS, int(RUNS * len(wiring.ops) / work)) if len(wiring.ops) <= SHORT else NEVER
        self.program: Any = None

    def values(self, pupil: Pupil) -> tuple[Any, ...]:
        """The cotangents."""
        seeds = tuple(pupil.seeds.values())
        if self.program is not None:
            answers: tuple[Any, ...] | None = self.program.answer(pupil.records, seeds)
            if answers is not None:
                return answers
            # asked in vain too often: its records differ from those that it was compiled for
            if self.program.useless():
                self.program = None
        self.left -= 1
        if self.left == 0:
            self.program = pupil.compiled()
        return self.run(pupil.records, seeds)


Matcher = Callable[[Wiring], Callable[..., bool]]
MATCHERS: list[Matcher] = [lambda wiring: wiring.matches]  # how wirings are compared: the last one
COMPILERS: list[Callable[..., Any]] = [lambda *walk: None]  # who makes a program of a walk, or None: the last one


def compare_by(matcher: Matcher | None) -> None:
    """Let machine code compare wirings (`tape/native_forms.py`); None: no longer. Begins to learn anew."""
    MATCHERS[1:] = [] if matcher is None else [matcher]
    _RECURRENCES.clear()


class _LineWriter(RuleWriter):
    """Writes the rules of one record: shapes are known, the record stands at its place in `R`."""

    def __init__(self, record: Record, place: int, needed: tuple[bool, ...], pulls: Binding, real: bool) -> None:
        super().__init__(record.op, pulls.boxed, pulls.careful)
        self.rec = f"R[{place}]"
        self.ct = f"c{place}"
        self.real = str(real)
        self.suffix = f"_{record.op.name}"
        self.buffer = ""
        self._record = record
        self._needed = needed

    def argument(self, parameter: str) -> str:
        text = super().argument(parameter)
        if parameter == "needed":
            return repr(self._needed)
        if parameter == "buffer":
            return self.buffer
        # shapes are part of the wiring, so they are written as constants: no attribute is looked up when the lines run
        if text.endswith("].shape"):
            index = int(text.rsplit("[", 1)[1].removesuffix("].shape"))
            return repr(tuple(self._record.nodes[index].shape))  # type: ignore[union-attr]
        return text


class _Walk:
    """The lines of one walk. A cotangent has the name of its version; `owned` are those that the lines allocated."""

    def __init__(
        self, records: Sequence[Record], targets: Iterable[Record], wanted: Mapping[Record, None], path: Sequence[Record],
        needed: set[Record], pulls: Binding, sparse: bool, real: bool,
    ) -> None:  # fmt: skip
        self.names = {record: f"c{place}" for place, record in enumerate(records)}
        self.names |= {node: f"w{i}" for i, node in enumerate(wanted) if node not in self.names}
        self.places = {record: place for place, record in enumerate(records)}
        self.wanted, self.needed, self.pulls, self.sparse, self.real = wanted, needed, pulls, sparse, real
        self.arrived: dict[Record, int] = dict.fromkeys(targets, 1)
        self.owned: set[Record] = set()
        self.space: dict[str, Any] = {"add": np.add, "zeros": np.zeros, "array": np.array, "Unwritable": Unwritable}
        self.lines = [f" {', '.join(self.names[node] for node in targets)}, = seeds"] if self.arrived else []
        for record in reversed(path):
            if record in self.arrived:
                self._pull(record)
                # memory is what the walk itself would hold: a cotangent goes when it has been passed on
                if record not in wanted:
                    self.lines.append(f" del {self.names[record]}")

    def _pull(self, record: Record) -> None:
        op: Op = record.op
        if op in OWN_PULLS or op.outputs != 1 or len(op.args) != len(record.nodes) or op.args[-1].startswith("*"):
            raise Unwritable  # (of a rule for any number of operands the walk knows more)
        needed = tuple([node in self.needed for node in record.nodes])
        writer = _LineWriter(record, self.places[record], needed, self.pulls, self.real)
        if op.vjp is not None:
            self.lines.append(f" g = {writer.call('rule', op.vjp)}")
            for index, node in enumerate(record.nodes):
                if needed[index] and node is not None:
                    self.lines.append(f" h = g[{index}]")
                    self._add(node, "h", certain=False)
        else:
            # (in the walk's own order: sums of floating-point numbers depend on it)
            for index in reversed(range(len(op.args))):
                node = record.nodes[index]
                if needed[index] and node is not None:
                    self._share(writer, record, index, node)
        self.space |= writer.space

    def _share(self, writer: _LineWriter, record: Record, index: int, node: Record) -> None:
        op: Op = record.op
        if index == 0 and not writer.boxed and self._in_memory(writer, record, node):
            return
        text = writer.share(index)
        if text is None:
            return
        if op.kind != "elementwise":
            self.lines.append(f" g = {text}")
            self._add(node, "g", certain=False)
        elif len(op.args) > 1 and record.shape != node.shape:
            self._add(node, f"reduce_to({text}, {tuple(node.shape)!r})")
        else:
            self._add(node, text)

    def _add(self, node: Record, grad: str, certain: bool = True) -> None:
        """What `Sweep.add` does; a rule that gives nothing ends the lesson."""
        name, count = self.names[node], self.arrived.get(node, 0)
        if not certain:
            self.lines.append(f" if {grad} is None: raise Unwritable")
        if not count:
            self.lines.append(f" {name} = {grad}")
        # in place only where these lines made the array: a rule may give its cotangent, or one array to two inputs
        elif node in self.owned and node.shape and not self.pulls.boxed:
            self.lines.append(f" add({name}, {grad}, {name})")
        else:
            self.lines.append(f" {name} = {name} + ({grad})")
            self.owned.add(node)
        self.arrived[node] = count + 1

    def _in_memory(self, writer: _LineWriter, record: Record, node: Record) -> bool:
        """Whether the share of input 0 was written as a change of an array, as `Sweep.add_into` and `Sweep.change` do it."""
        op: Op = record.op
        if op.sparse_rows is not None and self.sparse and node.op is None:
            raise Unwritable
        name = self.names[node]
        if op.add_into is not None and node.shape:
            if node not in self.arrived:
                self.lines.append(f" {name} = zeros({tuple(node.shape)!r}, {writer.ct}.dtype)")
            elif node not in self.owned:
                self.lines.append(f" {name} = array({name})")
            writer.buffer = name
            self.lines.append(f" {writer.call('add_into', op.add_into)}")
        elif op.in_place is not None and record.shape:
            # the rule overwrites the cotangent: a copy, if somebody else still reads it
            shared = record in self.wanted or record not in self.owned
            self.lines.append(f" g = {writer.ct}{'.copy()' if shared else ''}")
            held, writer.ct = writer.ct, "g"
            self.lines.append(f" {writer.call('in_place', op.in_place)}")
            writer.ct = held
            if node in self.arrived:
                self._add(node, "g")
                return True
            self.lines.append(f" {name} = g")
        else:
            return False
        self.owned.add(node)
        self.arrived[node] = self.arrived.get(node, 0) + 1
        return True


def written(
    records: Sequence[Record], targets: Sequence[Record], wanted: Mapping[Record, None], path: Sequence[Record],
    needed: set[Record], pulls: Binding, sparse: bool, real: bool,
) -> Lesson:  # fmt: skip
    """The lesson of a walk; raises Unwritable where there is none."""
    wiring = Wiring(records, targets, wanted)
    walk = _Walk(records, targets, wanted, path, needed, pulls, sparse, real)
    reached = [i for i, node in enumerate(wanted) if node in walk.arrived]
    answers = "".join([f"{walk.names[node]}, " for node in wanted if node in walk.arrived])
    text = "\n".join(["def run(R, seeds):", *walk.lines, f" return ({answers})"])
    filename = "<gradtape backward pass>"
    # What its rules record when somebody differentiates again is nobody's line: the file counts as gradtape's own.
    INTERNAL.add(filename)
    RULES.add(filename)
    exec(compile(text, filename, "exec"), walk.space)  # noqa: S102  (our own template)
    return Lesson(wiring, walk.space["run"], reached)


class _Recurrence:
    """A question that comes again: how often it was walked since something was learned of it, and what was."""

    __slots__ = ("lessons", "walks")

    def __init__(self) -> None:
        self.walks = 0
        self.lessons: list[Lesson] = []


_RECURRENCES: dict[Any, _Recurrence] = {}
NEVER = -(1 << 62)


def learnable(records: Sequence[Record]) -> bool:
    """Whether a walk of these records may be written down."""
    if not 0 < len(records) <= LONGEST or config.settings["walks_to_learn"] is None:
        return False
    # what ends with an output of a compiled call is left to the walk; a tape that notes no lines cannot be told from another
    return records[-1].op is not PART and hasattr(records[-1], "lasti")


def standing(records: Sequence[Record]) -> str:
    """How gradients of such a sequence of records are computed by now, for `explain`."""
    if not records or not learnable(records):
        return ""
    mark = len(records), id(records[-1].code), records[-1].lasti
    lessons = [lesson for key, question in _RECURRENCES.items() if key[3:6] == mark for lesson in question.lessons]
    if any(lesson.program is not None for lesson in lessons):
        return "machine code: the same operations came again and again (`gt.config.native_eager`)"
    return "straight-line code: the same operations came again and again (`gt.config.learn_gradients`)" if lessons else ""


class Pupil:
    """One walk that may have come before: what it `answers`, if it was written down; and whether that is `due` now."""

    __slots__ = ("_kind", "_question", "_targets", "_wanted", "records", "seeds", "wanted")

    def __init__(
        self, records: Sequence[Record], seeds: Mapping[Record, Any], wanted: Mapping[Record, None], pulls: Binding,
        sparse: bool, real: bool,
    ) -> None:  # fmt: skip
        self.records, self.seeds, self.wanted = records, seeds, wanted
        self._targets, self._wanted = tuple(seeds), tuple(wanted)
        self._kind = pulls, sparse, real
        last = records[-1]
        # the instruction that recorded last stands for the place in the user's program: found without looking at the other
        # records
        key = (pulls.key, sparse, real, len(records), id(last.code), last.lasti, len(seeds), len(wanted))
        question = _RECURRENCES.get(key)
        if question is None:
            # (the oldest goes: a program that asks from ever new places must not fill the memory)
            if len(_RECURRENCES) >= MOST:
                _RECURRENCES.pop(next(iter(_RECURRENCES)), None)
            question = _RECURRENCES[key] = _Recurrence()
        self._question = question

    def answers(self) -> dict[Record, Any] | None:
        """What the walk would give, if a lesson holds for it."""
        question = self._question
        for lesson in question.lessons:
            if lesson.matches(self.records, self._targets, self._wanted):
                try:
                    values = lesson.values(self)
                except Unwritable:
                    # a rule answered None where it had not when the lesson was written: it decides by values, so no lesson can
                    # hold
                    question.lessons, question.walks = [], NEVER
                    return None
                return {self._wanted[i]: value for i, value in zip(lesson.reached, values, strict=True)}
        return None

    def compiled(self) -> Any:
        """The walk as a program; None where there is none."""
        pulls = self._kind[0]
        path, _ = needed_records(self.records, self.wanted, pulls)
        return COMPILERS[-1](self.records, self.seeds, self.wanted, path, pulls)

    def due(self) -> bool:
        """The walk has come once more: whether often enough to be written down."""
        question, limit = self._question, config.settings["walks_to_learn"]
        question.walks += 1
        return limit is not None and question.walks >= limit and len(question.lessons) < EACH

    def learn(self, path: Sequence[Record], needed: set[Record]) -> None:
        """Write the walk down, which went along `path`."""
        question = self._question
        question.walks = 0
        try:
            lesson = written(self.records, self._targets, self.wanted, path, needed, *self._kind)
            question.lessons = [*question.lessons, lesson]
        except Unwritable:
            question.walks = NEVER

"""Python loops are staged by trying.

A `for` over Python values or a `while` on Python numbers, of more than a few turns, is traced once, with a counter of the
program in place of Python's. If that works it is one loop of the program, as if it went over a tensor. If the body needs to
know which turn it is (an index into unlike things, a shape, a structure that differs, anything that is refused), everything
is put back, and the loop is traced turn by turn, as Python runs it. That a loop failed is remembered by its place in the
source, so that a loop inside others is not tried again in each of their turns.

What a trial leaves behind is what Python would have: names have Python numbers after the loop (`loop_numbers.py`). A trace that
fails after it staged a loop is made again without trials (`tracer.py`): errors are those of the plain loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np

from gradtape.core.dispatch import apply, convert
from gradtape.errors import InvalidArgumentError
from gradtape.functions.building import Build, Building
from gradtape.functions.foreign_calls import advancing
from gradtape.functions.foreign_code import only_converted
from gradtape.functions.staging.aliasing.aliases import Restart
from gradtape.functions.staging.bodies import State
from gradtape.functions.staging.joins import JoinError
from gradtape.functions.staging.loops import ForLoop, stage_python_while
from gradtape.functions.staging.places import Log
from gradtape.functions.staging.python_iterables import python_items, used_up
from gradtape.ir.graph import Value, simple
from gradtape.ops.lists import LIST_GET
from gradtape.ops.staged import CONSTANT
from gradtape.ops.structured import COUNT
from gradtape.trace.tracing import TracedTensor, traced

OFTEN = 10_000  # turns, between two looks at how much they have become
MEASURED = 64  # turns after which it is asked how much the others will be
MAX_OPERATIONS = 1_000_000  # of a loop that is traced turn by turn: about a gigabyte


class LoopTooLongError(InvalidArgumentError):
    """A Python loop that cannot be one loop of the program, and has too many turns to be traced one by one."""


class Trials:
    """The Python loops of one trace: which were staged, and which could not be."""

    few = 8  # turns that are traced one by one in any case: straight code is quicker than a loop

    def __init__(self, tracer: Any, building: Building) -> None:
        self._tracer = tracer
        self._building = building
        self._plain = building.failed is not None
        self.depth = 0  # loops under trial around what is traced now
        self.staged = 0
        self.iterators: dict[int, tuple[int, Any]] = {}  # made in loops under trial, and at which depth
        self._filled: dict[Value | None, tuple[TracedTensor | None, list[Value | None]]] = {}  # by the first item
        self.unrolled: dict[Any, tuple[int, int | None, Exception]] = {}  # by place: line, turns, cause

    def for_loop(self, iterated: Any, extra_test: Callable[[], Any] | None, body: Callable[[Any], Any], state: State) -> bool:
        """Stage a `for` over Python values; False if it must be Python's."""
        advancing(iterated)
        make = None if self._plain else python_items(iterated, self.few)
        if make is None:
            return False

        def staged(stage: Callable[[ForLoop], None]) -> Callable[[], None]:
            def run() -> None:
                stage(ForLoop(make(), extra_test, body, state, python=True))
                if iterated.__class__ is list and ("list", id(iterated)) in self._tracer.logs[-1].entries:
                    raise JoinError("the list that the loop goes over changes in it")

            return run

        # the second way takes one turn out: names often have another type before their first assignment in the body
        ways = [staged(ForLoop.stage), staged(ForLoop.stage_after_one)]
        if not self.any_of(ways, state, body, _turns(iterated)):
            return False
        used_up(iterated, extra_test is not None, state.line)
        return True

    def while_loop(
        self, test: Callable[[], Any], body: Callable[[], Any], state: State, counted: bool, site: Any = None
    ) -> bool:
        """Stage the rest of a `while` whose test holds now; False if it must be Python's."""
        return self.any_of([lambda: stage_python_while(test, body, state, counted)], state, site or body, None)

    def any_of(self, ways: list[Callable[[], None]], state: State, site: Any, turns: int | None) -> bool:
        """Stage a loop in one of these ways; False, and everything as before, if none works."""
        site = getattr(site, "__code__", site)
        place = (site, state.line, len(self._tracer.trace.blocks))  # in other loops that are staged, it may go otherwise
        if self._plain or place in self.unrolled:
            return False
        causes = []
        for way in ways:
            cause = self._attempt(way, state)
            if cause is None:
                self.staged += 1
                return True
            causes.append(cause)
        self.unrolled[place] = state.line, turns, causes[0]
        return False

    def _attempt(self, stage: Callable[[], None], state: State) -> Exception | None:
        """Why it did not work, everything being as before; None if it did."""
        tracer = self._tracer
        trace = tracer.trace
        log, starts = Log(), state.get()
        before = Snapshot(tracer)
        asked = trace.unknown_asked
        tracer.logs.append(log)
        # references that staging itself has: the escape analysis must not take them for the user's
        tracer.aliases.holding.append(starts)
        self.depth += 1
        tracer.can_unroll += 1
        cause: Exception | None = None
        try:
            with only_converted():
                stage()
            if trace.unknown_asked > asked:  # and the user's code caught the error
                cause = InvalidArgumentError("the body asks for the value of what is known only when the function runs")
        except (Restart, Build):
            raise
        except Exception as error:
            # what the body raises in a turn that stands for all turns says nothing of the turns themselves: traced one by one,
            # they raise it again if it is the user's; `f.explain()` shows it
            cause = error.with_traceback(None)
        finally:
            self.depth -= 1
            if not self.depth:
                self.iterators.clear()
            tracer.can_unroll -= 1
            tracer.aliases.holding.pop()
        if cause is None:  # its writes are writes of whatever is around
            tracer.logs.pop()
            tracer.logs[-1].absorb(log)
            return None
        trace.unknown_asked = asked  # what a loop around asks for is its own
        log.undo()
        state.set(starts)
        before.restore()
        return cause

    def measured(self, items: Iterable[Any], state: State, iterated: Any) -> Iterator[Any]:
        """The items of a loop that is traced turn by turn; one that would fill the memory is refused before it does."""
        block = self._tracer.trace.block
        start = len(block.operations)
        for turns, item in enumerate(items, 1):
            yield item
            if turns == MEASURED or turns % OFTEN == 0:
                self._check_size(len(block.operations) - start, turns, state, _turns(iterated))

    def _check_size(self, operations: int, turns: int, state: State, total: int | None) -> None:
        # as many operations as all turns will be, if they go on like this
        if operations * (1 if total is None else total / turns) <= MAX_OPERATIONS:
            return
        place = next((cause for line, _, cause in self.unrolled.values() if line == state.line), None)
        cause = "" if place is None else f" It is traced turn by turn, because: {_said(place)}."
        many = f"{total} turns" if total is not None else f"more than {turns} turns"
        raise LoopTooLongError(
            f"line {state.line}: this Python loop has {many}, and each is about {max(operations // turns, 1)} operations of the"
            f" program: more than fit into memory.{cause} Keep Python values that change from turn to turn out of the body "
            "(use tensors instead of lists, numbers and shapes), or go over gt.range(n), which says what does not work"
        )

    def filled(self, items: TracedTensor, length: int) -> list[Any]:
        """A list that a Python loop filled is a Python list after it."""
        if items._node is None:  # nobody records: the operations themselves, as a list may be long
            trace = self._tracer.trace
            whole, block, loc = trace.use(items), trace.block, trace.location()
            places = [simple(CONSTANT, [], COUNT, loc, block, {"value": np.int32(place)}) for place in range(length)]
            taken = [traced(simple(LIST_GET, [whole, place], whole.type.item, loc, block)) for place in places]
        else:
            taken = [apply(LIST_GET, items, convert(place)) for place in range(length)]
        if taken:
            self._filled[taken[0]._data] = items, [item._data for item in taken]
        return taken

    def whole(self, values: Any) -> TracedTensor | None:
        """The list of the program that a Python list was taken from, if it still has the same items."""
        datas = [value._data if isinstance(value, TracedTensor) else None for value in values]
        items, taken = self._filled.get(datas[0], (None, datas)) if datas else (None, datas)
        return items if datas == taken else None

    def refuse(self, cause: str) -> None:
        """Something that a body can do only in Python: if a loop around is tried, it is traced turn by turn."""
        if self.depth:
            self._tracer.trace.unknown_asked += 1
            raise JoinError(cause)

    def again(self, error: Exception) -> bool:
        """Whether a trace that failed is to be made again, with all loops as they are: the error that counts is that one's."""
        failed = self._building.failed
        if failed is not None and isinstance(error, LoopTooLongError):
            raise failed from None
        if self.staged:
            self._building.failed = error
        return self.staged > 0

    def report(self) -> list[str]:
        """Lines for `explain`: the loops that were traced turn by turn, and why."""
        lines = []
        for line, turns, cause in dict.fromkeys(self.unrolled.values()):
            count = "" if turns is None else f" of {turns} turns"
            lines.append(f"line {line}: the loop{count} is traced turn by turn: {_said(cause)}")
        return lines


class Snapshot:
    """How far a trace has come: what it met since can be forgotten. Writes are undone by the logs, except those to objects from
    outside that became inputs, which are in the first."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        trace = tracer.trace
        # Grown in order, so that a length is enough to cut them back to what they were.
        self._growing = [
            *(tracer.logs, tracer.captures, tracer.block.params, tracer.lifting.constants, tracer.logs[0].entries),
            *(tracer.stand_ins, tracer.starts, tracer.variables, tracer.arrays.known, tracer.installed),
            *(trace.typing.constraints, tracer.aliases.suspects),
        ]
        self._sizes = [len(growing) for growing in self._growing]
        self._mark, self._links = tracer.checkpoint(), tracer.aliases.mark()

    def restore(self) -> None:
        first = self._tracer.logs[0].entries
        for place, old in reversed(list(first.values())[self._sizes[4] :]):
            place.write(old)
        for growing, size in zip(self._growing, self._sizes, strict=True):
            if isinstance(growing, list):
                del growing[size:]
            else:
                for key in list(growing)[size:]:
                    del growing[key]
        self._tracer.rollback(self._mark)
        self._tracer.aliases.reset(self._links)


def _turns(iterated: Any) -> int | None:
    return len(iterated) if isinstance(iterated, Sized) else None


def _said(cause: Exception) -> str:
    return f"{cause}".partition("\n")[0] or type(cause).__name__

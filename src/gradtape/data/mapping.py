"""Functions of elements: map, filter, scan, and what calls them.

A function is traced for the types of the elements like any `gt.function`, so it is compiled and its branches and loops follow
tensors; a function of datasets (windows) runs in Python. Tapes of the reader do not see what runs here. What it draws at random
depends on the seed and on the number of the element, not on threads.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from gradtape.ad.replaying import replay
from gradtape.core.dispatch import convert
from gradtape.core.opdef import Op
from gradtape.core.tensor import box
from gradtape.core.typing import Array
from gradtape.data.channels import ParallelStream
from gradtape.data.elements import DatasetSpec, ElementStructure, Leaves, bare, flat_values, mapped, rows_spec, spec_of
from gradtape.data.shuffling import Seeds
from gradtape.data.sources import BlocksStream, RowsStream
from gradtape.data.streams import UNKNOWN, Pace, Stage, Step, StepStream, Stream, rows_in
from gradtape.errors import InvalidArgumentError
from gradtape.functions.autograph.calling import conv
from gradtape.functions.function import function
from gradtape.functions.templates import filled
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Operation
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, insert_param, program, rebuild, walk
from gradtape.ops.random_state import ELEMENT, ElementKeys, KeyStream, keys_of_elements, pass_streams
from gradtape.ops.staged import ASSERT, DRAW_KEY
from gradtape.tape.control_flow import map_fn

Wrap = Callable[[Any], Any]  # makes a dataset of a stage
Streams = Callable[[int | None], int] | None  # the words that a pass draws from, by seeds of operations


def described(who: str, user: Callable[..., Any]) -> str:
    """What to call a user's function, with the line where it is written."""
    code = getattr(user, "__code__", None)
    name = getattr(user, "__name__", repr(user))
    return f"{who}({name})" + (f", {code.co_filename}:{code.co_firstlineno}" if code is not None else "")


class ElementFunction:
    """A user's function of the elements of a stage."""

    def __init__(self, user: Callable[..., Any], source: Stage, who: str, wrap: Wrap) -> None:
        if not callable(user):
            raise TypeError(f"{who}: the function must be callable, got {user!r}")
        self.user, self.source, self.who, self.wrap = user, source, who, wrap
        self.seeds = Seeds(None, every_pass=True)
        self.structure = source.structure
        specs = self.structure.specs
        self.traced = not any(isinstance(spec, DatasetSpec) for spec in specs)
        self.call = user
        self.random = self.unseen = False
        self.draws: dict[Operation, Operation] = {}  # draws of keys, and what is computed of the key alone
        self.result: ElementStructure | None = None
        if self.traced:
            self._trace(all(spec.shape.rank is not None for spec in specs))

    def _trace(self, ranks_known: bool) -> None:
        if not ranks_known:
            self.call = function(self.user)
            self.random = True  # unknown before it is traced
            return
        template = self.structure.template
        signature = list(template) if self.structure.is_tuple else [template]  # type: ignore[call-overload]
        try:
            inspect.signature(self.user).bind(*signature)
        except TypeError as error:
            raise TypeError(
                f"{self.where()}: the function gets the parts of an element as its arguments, here {len(signature)}, of "
                f"{template}: {error}"
            ) from None
        except ValueError:
            pass  # a builtin function that does not say what it takes
        try:
            compiled = function(self.user, input_signature=signature)
            concrete = compiled.get_concrete_function()
        except Exception as error:
            error.add_note(f"while tracing {self.where()} for elements of {template}")
            raise
        if any(not isinstance(leaf, TensorSpec) for leaf in flat_values(concrete.structured_outputs)):
            # lists and Python numbers are made tensors in the program
            compiled = function(normalised(self.user), input_signature=signature)
            concrete = compiled.get_concrete_function()
        self.call = compiled
        self.result = ElementStructure(mapped(_result_spec, concrete.structured_outputs))
        self.program = traced = concrete.program
        draws = [operation for operation in program(traced.block) if operation.op is DRAW_KEY]
        # a function that draws nothing is spared a random state for each element
        self.random = bool(draws)
        # those whose keys are known before it runs: of the element, once each
        own = [draw for draw in draws if draw in traced.block.operations and isinstance(draw.attrs["source"], KeyStream)]
        self.draws = {draw: _drawing_alone(draw, traced.block) for draw in own}
        self.unseen = own == draws and runs_unseen(traced, {DRAW_KEY})
        self.guard = traced.guards.check

    def unchanged(self) -> bool:
        """Whether what the function reads of Python is as it was: else results from before are not those of now."""
        self.unseen = self.unseen and (self.guard is None or self.guard())
        return self.unseen

    @functools.cached_property
    def of_blocks(self) -> Callable[..., Any]:
        """The function of many elements at once: a loop of one program, which calls the program of an element; if that draws,
        it is the program with what is drawn given."""
        assert self.result is not None
        signature = [rows_spec(spec, None) for spec in self.structure.specs]
        outputs, traced = self.result.template, self.program
        block = _with_draws(traced.block, self.draws)

        def of_element(leaves: Leaves) -> Any:
            element = self.structure.pack(leaves)
            return self.call(*element) if self.structure.is_tuple else self.call(element)

        def with_draws(leaves: Leaves) -> Any:
            count = len(self.structure.specs)
            inputs = _as_written(self.structure.pack(leaves[:count]))
            return filled(traced.result, replay(block, [*inputs, *leaves[count:]], "new"))

        signature += [rows_spec(draw.result.type, None) for draw in self.draws.values()]
        each = with_draws if self.draws else of_element
        return function(lambda *leaves: map_fn(each, leaves, fn_output_signature=outputs), input_signature=signature)

    def results_of(self, word: Streams, number: int, block: Leaves) -> Leaves | None:
        """The results for a block of elements, the first of which has that number; None if one of them has something to tell:
        each by itself tells it."""
        if word is not None:
            seeds = [draw.attrs["source"].op_seed for draw in self.draws]
            keys = keys_of_elements(word, seeds, number, rows_in(block))
            pairs = zip(self.draws.values(), keys, strict=True)
            block = (*block, *[_drawn(draw, rows) for draw, rows in pairs])

        def run() -> Any:
            with np.errstate(all="raise", under="ignore"):
                return self.of_blocks(*block)

        try:
            return tuple([bare(leaf) for leaf in flat_values(contextvars.Context().run(run))])
        except Exception:  # raised anew, at its element, by the call for that alone
            return None

    def streams(self) -> Streams:
        """Where the random numbers of the next pass come from; None if it draws none."""
        return pass_streams(self.seeds.seed()) if self.random else None

    def where(self) -> str:
        return described(self.who, self.user)

    def runner(self, word: Streams) -> Callable[[int, Leaves], Any]:
        """The function for one pass: of an element's number and leaves; its result as the user gave it."""
        structure, call, wrap = self.structure, self.call, self.wrap
        context = contextvars.Context()  # no tape and no trace of the reader

        def run(number: int, leaves: Leaves) -> Any:
            try:
                if word is not None:
                    # (a copy for each element: a context can be entered by one thread at a time)
                    return context.copy().run(_drawing, ElementKeys(word, number), call, structure.arguments(leaves, wrap))
                return context.copy().run(call, *structure.arguments(leaves, wrap))
            except Exception as error:
                error.add_note(f"while computing element {number} of {self.where()}")
                raise

        return run

    def results(self, word: Streams) -> Callable[[int, Leaves], Leaves]:
        """As `runner`, with results as bare leaves."""
        run = self.runner(word)
        result = self.result
        if result is None:
            return lambda number, leaves: tuple([bare(leaf) for leaf in flat_values(run(number, leaves))])
        # an element that is one tensor, as most are, has no structure to walk through
        if result.specs[0] is result.template:
            return lambda number, leaves: (bare(run(number, leaves)),)
        return lambda number, leaves: tuple([bare(leaf) for leaf in flat_values(run(number, leaves))])


def normalised(user: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a list as its result made a tuple, and lists and numbers inside made tensors, as TensorFlow has it."""

    def called(*args: Any) -> Any:
        result = conv(user)(*args)
        return mapped(convert, tuple(result) if isinstance(result, list) else result)

    return called


def _result_spec(leaf: Any) -> Any:
    return leaf if isinstance(leaf, TensorSpec) else spec_of(bare(leaf))


def runs_unseen(traced: Any, allowed: Collection[Op] = ()) -> bool:
    """Whether nobody notices when a program runs before its time: it reads only what its guards check, and changes nothing."""
    effects = {operation.op for operation in program(traced.block) if operation.op.effect} - {ASSERT, *allowed}
    return not (effects or traced.captures or traced.actions or traced.guards.unguarded)


def _as_written(element: Any) -> Iterator[Any]:
    """The leaves of an element in the order of a function's inputs, which is that of its dicts; ours are sorted by key."""
    if not isinstance(element, (tuple, Mapping)):
        yield element
        return
    for part in element.values() if isinstance(element, Mapping) else element:
        yield from _as_written(part)


def _drawing_alone(draw: Operation, block: Block) -> Operation:
    """What makes numbers of a key and of nothing else; the draw itself, if several things use the key or sizes are unknown."""
    users = [operation for operation in walk(block) if draw.result in operation.operands]
    alone = len(users) == 1 and len(users[0].operands) == 1 and users[0] in block.operations and not users[0].regions
    return users[0] if alone and not symbols_in(users[0].result.type) else draw


def _with_draws(block: Block, draws: Mapping[Operation, Operation]) -> Block:
    """A program that is given what it draws, after its other inputs."""

    def visit(scope: Rebuild, operation: Operation) -> None:
        if operation in draws.values():
            group = "draws" if scope.new.layout else ""
            scope.replace(operation, [insert_param(scope.new, group, operation.result.type)])
        elif operation not in draws:
            scope.copy(operation)

    return rebuild(block, visit)


def _drawn(draw: Operation, keys: Array) -> Array:
    """What a draw gives for each key."""
    if draw.op is DRAW_KEY:
        return keys
    rows = np.empty((len(keys), *draw.result.type.shape), draw.result.type.dtype.dtype)
    for row, key in enumerate(keys):
        rows[row] = draw.op.impl(key, **draw.attrs)
    return rows


def _drawing(keys: ElementKeys, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    ELEMENT.set(keys)
    return call(*arguments)


def first_structure(stage: Stage, results: Callable[[int, Leaves], Any], who: str) -> Any:
    """What the first element of a stage becomes: the type of results that no trace knows."""
    stream = stage.open()
    try:
        for leaves in stream:
            return results(0, leaves)
    finally:
        stream.close()
    raise InvalidArgumentError(f"{who}: the type of the results is not known: there is no element to try the function on")


class FunctionStream(BlocksStream):
    """A function of each element, in the thread of the reader: its results, or with `chooses` the elements it holds for, with
    `until` those before the first that it does not hold for.

    Where nobody can see it, it is computed for blocks of elements. If what the function reads has changed before all results
    of a block are taken, or an element of the block fails, it is computed one by one from there.
    """

    def __init__(self, source: Stream, stage: FunctionStep) -> None:
        super().__init__()
        self.source, self.function, self.chooses, self.until = source, stage.function, stage.chooses, stage.until
        self.ended = False
        self.word = self.function.streams()
        self.run = (self.function.runner if self.chooses else self.function.results)(self.word)
        self.number = 0  # of the element that the source gives next
        self.pace = Pace(stage.in_a_block()) if stage.has_blocks() else None
        self.given = RowsStream((), 0)  # elements of which the current block was computed, up to its place
        self.places = np.zeros(0, np.int64)  # of the rows of the current block in it

    def __next__(self) -> Leaves:
        if self.pace is not None and not self.function.unchanged():
            # what has not been taken yet is not what the function gives now
            self._give_back(int(self.places[self.place - 1]) + 1 if self.place else 0)
            self.place, self.pace = self.count, None
        return self._one() if self.pace is None else super().__next__()

    def _one(self) -> Leaves:
        while not self.ended:
            element = next(self.given if self.given.place < self.given.count else self.source)
            number, self.number = self.number, self.number + 1
            result = self.run(number, element)
            if not self.chooses or result:
                return element if self.chooses else result
            self.ended = self.until
        self.close()
        raise StopIteration

    def _give_back(self, place: int) -> None:
        self.number -= self.given.count - place
        self.given.place, self.ended = place, False

    def block(self, count: int) -> Leaves:
        return Stream.block(self, count) if self.pace is None else super().block(count)

    def refill(self, count: int) -> None:
        self.let(self._computed())
        while not self.count:
            self.let(self._computed())

    def _computed(self) -> Leaves:
        if self.ended or self.pace is None or self.given.place < self.given.count or not self.function.unchanged():
            return tuple([leaf[None] for leaf in self._one()])
        block = self.source.block(self.pace.count)
        # the time of this thread: a function that can run ahead waits for nothing, and a busy machine does not slow the pace
        start, count = time.thread_time(), rows_in(block)
        results = self.function.results_of(self.word, self.number, block)
        self.given, self.number = RowsStream(block, count), self.number + count
        self.pace.took(time.thread_time() - start)
        if results is None:
            self._give_back(0)
            return self._computed()
        self.given.place = count
        if self.until and not results[0].all():
            results, self.ended = (results[0][: results[0].argmin()],), True
        self.places = np.flatnonzero(results[0]) if self.chooses else np.arange(count)
        return tuple([leaf[self.places] for leaf in block]) if self.chooses else results

    def close(self) -> None:
        self.source.close()


class FunctionStep(Step):
    """A function of each element."""

    chooses = until = False

    def __init__(self, source: Stage, function: ElementFunction) -> None:
        super().__init__(source)
        self.function = function

    def unseen(self) -> bool:
        return self.function.unseen and self.source.unseen()

    def has_blocks(self) -> bool:
        """Whether the function is computed for blocks of elements. This follows from the pipeline alone, as a loop over a block
        may round otherwise than a call for each element."""
        return self.in_a_block() > 1 and self.source.in_a_block() > 1 and self.has_many()

    def open(self) -> Stream:
        return FunctionStream(self.source.open(), self)


class MapStage(FunctionStep):
    """The results of a function of each element."""

    def __init__(self, source: Stage, function: ElementFunction, workers: int, in_order: bool) -> None:
        super().__init__(source, function)
        self.workers, self.in_order = workers, in_order

    def element_structure(self) -> ElementStructure:
        if self.function.result is not None:
            return self.function.result
        example = first_structure(self.source, self.function.runner(self.function.streams()), "Dataset.map")
        return ElementStructure(mapped(lambda leaf: spec_of(bare(leaf)), example))

    def open(self) -> Stream:
        if not self.workers:
            return super().open()
        word = self.function.streams()
        of_block = functools.partial(self.function.results_of, word) if self.has_blocks() else None
        most, results = self.in_a_block(), self.function.results(word)
        return ParallelStream(self.source.open(), results, of_block, most, self.workers, self.in_order)


class Filtered(FunctionStep):
    """The elements that a predicate holds for; `until` ends at the first that it does not hold for."""

    chooses = True

    def __init__(self, source: Stage, predicate: ElementFunction, until: bool = False) -> None:
        super().__init__(source, predicate)
        self.until = until
        if predicate.result is not None:
            spec = predicate.result.specs[0]
            if len(predicate.result.specs) != 1 or spec.dtype.name != "bool" or spec.shape.rank:
                raise ValueError(f"{predicate.where()}: the predicate must give one bool, it gives {predicate.result.template}")

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN


class ScannedStream(StepStream):
    """The outputs of a function that carries state from element to element."""

    def __init__(self, source: Stream, stage: Scanned) -> None:
        super().__init__(source)
        self.stage, self.state, self.number = stage, stage.initial, 0
        self.context = contextvars.Context()

    def __next__(self) -> Leaves:
        element = next(self.source)
        stage = self.stage
        arguments = stage.source.structure.boxed(element, stage.wrap)
        state = stage.state.pack(tuple(box(leaf) for leaf in self.state))
        try:
            new_state, output = self.context.copy().run(stage.called, state, arguments)
        except Exception as error:
            error.add_note(f"while computing element {self.number} of {described('Dataset.scan', stage.user)}")
            raise
        self.number += 1
        self.state = stage.state.flat(new_state, "Dataset.scan: the new state")
        return tuple([bare(leaf) for leaf in flat_values(output)])


class Scanned(Step):
    """`scan`."""

    def __init__(self, source: Stage, initial: Any, user: Callable[..., Any], wrap: Wrap) -> None:
        super().__init__(source)
        leaves = [convert(leaf)._data for leaf in flat_values(initial)]
        feed = iter(leaves)
        self.state = ElementStructure(mapped(lambda leaf: spec_of(next(feed)), initial))
        self.initial, self.user, self.wrap = tuple(leaves), user, wrap
        self.call = function(user)

    def element_structure(self) -> ElementStructure:
        state = self.state.pack(tuple(box(leaf) for leaf in self.initial))
        output = first_structure(
            self.source, lambda _, leaves: self.called(state, self.source.structure.boxed(leaves, self.wrap))[1], "Dataset.scan"
        )
        return ElementStructure(mapped(lambda leaf: spec_of(bare(leaf)), output))

    def called(self, state: Any, element: Any) -> Any:
        """(new state, output) for an element."""
        result = self.call(state, element)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{described('Dataset.scan', self.user)}: the function must give (new_state, output), got {result!r}"
            )
        return result

    def open(self) -> Stream:
        return ScannedStream(self.source.open(), self)


def folded(source: Stage, initial: Any, user: Callable[..., Any], wrap: Wrap) -> Any:
    """`reduce`: the state after all elements."""
    leaves = [convert(leaf) for leaf in flat_values(initial)]
    feed = iter(leaves)
    state: Any = mapped(lambda leaf: next(feed), initial)
    call = function(user)
    context = contextvars.Context()
    stream = source.open()
    structure = source.structure
    try:
        for number, element in enumerate(stream):
            try:
                state = context.copy().run(call, state, structure.boxed(element, wrap))
            except Exception as error:
                error.add_note(f"while computing element {number} of {described('Dataset.reduce', user)}")
                raise
    finally:
        stream.close()
    return state

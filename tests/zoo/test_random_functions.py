"""Random functions: eager, compiled and finite differences agree, in values, state and derivatives of order 1 and 2.

Of some, every program made on the way (halves, halves of halves) is well formed after each pass, and its text can be read back.
"""

from __future__ import annotations

import importlib.util
import itertools
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings

import gradtape as gt
from gradtape import config
from gradtape.errors import StaticDimensionNeeded
from gradtape.ir.printer import text_and_objects, to_text
from gradtape.ops.registry import op_by_name
from gradtape.passes.inplace import _PURE, COPY_OF
from gradtape.passes.pipeline import prepared
from tests.harness.numeric import derivative, inner_all, size_all
from tests.harness.program_parser import parse
from tests.harness.seeds import counted, seed_of
from tests.harness.tolerances import FINITE_DIFFERENCE, IDENTITY, ROUNDING, same_array, same_number
from tests.zoo.checks import values, weighted
from tests.zoo.programs import HEAD, Program, programs
from tests.zoo.sized_programs import sized_programs

pytestmark = pytest.mark.usefixtures("reference_backend")

TWINS = {op.name: op for op in (*_PURE, *COPY_OF.values())}  # in prepared programs only
PARTS = 10
SIZED = 3  # further parts, of programs with sizes known at run time only
SAMPLE = 4  # one program in so many is differentiated twice
GRADIENT = 1e-9
INPUTS = [(np.array([0.31, -0.52, 0.77]), 2), (np.array([-0.43, 0.91, 0.15]), 3)]
START = np.array([0.45, -0.35, 0.85])
VARIABLE = gt.Variable(START)
ALONG = (np.array([1.0, -0.7, 0.4]), np.array([0.3, 0.8, -0.5]))
WEIGHTS = (np.array([0.6, 1.1, -0.9]), np.array([-0.2, 0.5, 0.7]))
COUNTER = itertools.count()


def load(folder, program: Program, shift: int):
    """The plain and the watched function, from a module in a file; and the list the watched one writes to."""
    name = f"program_{next(COUNTER)}"
    path = folder / f"{name}.py"
    text = HEAD + program.text("plain", shift) + "\n\n" + program.text("watched", shift, watched=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    log: list[bool] = []

    def seen(test):
        log.append(bool(test))
        return log[-1]

    module.seen = seen
    spec.loader.exec_module(module)
    return module.plain, module.watched, log


def arguments(place: int, move: float = 0.0):
    """Fresh tensors and the one variable (a program belongs to its variables), set to its start."""
    x, n = INPUTS[place]
    VARIABLE.assign(START + move * ALONG[1])
    return gt.constant(x + move * ALONG[0]), gt.constant(n), VARIABLE


def loss(function, place: int, move: float = 0.0) -> float:
    x, n, v = arguments(place, move)
    return float(total(function(x, n, v), v))


def total(result, v):
    return weighted(result) + gt.reduce_sum(gt.sin(v) * WEIGHTS[1])


def first_order(function, place: int, move: float = 0.0):
    x, n, v = arguments(place, move)
    with gt.GradientTape(through_assignments=True) as tape:
        tape.watch(x)
        y = total(function(x, n, v), v)
    return float(y), [g.numpy() for g in tape.gradient(y, [x, v], unconnected_gradients="zero")]


def first_order_inside(function, place: int):
    """The same, with the tape inside a compiled function."""

    @gt.function
    def step(x, n, v):
        with gt.GradientTape(through_assignments=True) as tape:
            tape.watch(x)
            y = total(function(x, n, v), v)
        return y, tape.gradient(y, [x, v], unconnected_gradients="zero")

    y, gradients = step(*arguments(place))
    return float(y), [g.numpy() for g in gradients]


def second_order(function, place: int):
    x, n, v = arguments(place)
    with gt.GradientTape(through_assignments=True) as outer:
        outer.watch(x)
        with gt.GradientTape(through_assignments=True) as inner:
            inner.watch(x)
            y = total(function(x, n, v), v)
        first = inner.gradient(y, [x, v], unconnected_gradients="zero")
        s = gt.reduce_sum(first[0] * WEIGHTS[0]) + gt.reduce_sum(first[1] * WEIGHTS[1])
    return [g.numpy() for g in outer.gradient(s, [x, v], unconnected_gradients="zero")]


def decisions(function, log: list[bool], place: int, move: float) -> list[bool]:
    log.clear()
    loss(function, place, move)
    return list(log)


def smooth(function, log: list[bool], place: int) -> bool:
    """No decision changes where finite differences look."""
    here = decisions(function, log, place, 0.0)
    return all(decisions(function, log, place, 1e-3 * k) == here for k in (-3, -2, -1, 1, 2, 3))


def settled(folder, program: Program):
    """The program with constants that keep all decisions away from ties."""
    for shift in range(12):
        plain, watched, log = load(folder, program, shift)
        if all(smooth(watched, log, place) for place in range(len(INPUTS))):
            return plain
    raise AssertionError(f"no constants keep the decisions of this program steady:{program!r}")


def check_eager(function, place: int) -> None:
    y, found = first_order(function, place)
    slope = derivative(lambda s: loss(function, place, s))
    scale = size_all(found, ALONG) + (1.0 + abs(y)) * ROUNDING / FINITE_DIFFERENCE
    same_number(inner_all(found, ALONG), slope, FINITE_DIFFERENCE, scale, "eager gradient against finite differences")


def check_second(function, second, place: int) -> None:
    slope = derivative(lambda s: inner_all(WEIGHTS, first_order(function, place, s)[1]))
    scale = size_all(second, ALONG) + (1.0 + abs(slope)) * ROUNDING / FINITE_DIFFERENCE
    same_number(inner_all(second, ALONG), slope, FINITE_DIFFERENCE, scale, "second derivative against finite differences")


def programs_of(compiled) -> list:
    """The program of a compiled block, its halves, and theirs."""
    halves = [half for _, *pair in compiled._halves.values() for half in pair]
    return [compiled, *(inner for half in halves for inner in programs_of(half))]


def check_programs(compiled) -> None:
    """The passes keep all programs well formed, and their text can be read back."""
    config.debug_passes(True)
    try:
        for program in programs_of(compiled):
            for block in (program.block, prepared(program.block)):
                text = to_text(block)
                assert (
                    to_text(parse(text, lambda name: TWINS.get(name) or op_by_name(name), text_and_objects(block)[1])) == text
                )
    finally:
        config.debug_passes(False)


def check_inside(function) -> None:
    """What a region is given keeps its identity for the tapes around it: they are in the program here."""
    try:
        _, found = first_order_inside(function, 0)
    except gt.errors.UnimplementedError as error:
        if "only a run can tell" not in str(error):  # which versions of the variable are leaves
            raise
        return
    for a, b in zip(found, first_order(function, 0)[1], strict=True):
        same_array(a, b, GRADIENT, "gradient inside a compiled function against the eager one")


def check_compiled(function, deep: bool) -> None:
    compiled = gt.function(function)
    for place in range(len(INPUTS)):
        x, n, v = arguments(place)
        expected = (values(function(x, n, v)), v.numpy(), x.numpy())
        x, n, v = arguments(place)
        actual = (values(compiled(x, n, v)), v.numpy(), x.numpy())
        for a, b in zip(gt.nest.flatten(actual), gt.nest.flatten(expected), strict=True):
            same_array(a, b, IDENTITY, "compiled against eager values")
        _, found = first_order(compiled, place)
        for a, b in zip(found, first_order(function, place)[1], strict=True):
            same_array(a, b, GRADIENT, "compiled against eager gradient")
    assert compiled.experimental_get_tracing_count() == 1, compiled.explain()
    if deep:
        for a, b in zip(second_order(compiled, 0), second_order(function, 0), strict=True):
            same_array(a, b, GRADIENT, "compiled against eager second derivative")
        check_programs(compiled.get_concrete_function(*arguments(0)).program.compiled)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_functions(part, tmp_path, request):
    @seed(seed_of(request, part))
    @settings(
        max_examples=(number := max(1, request.config.getoption("--programs") // PARTS)), deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(programs())
    def check(program):
        function = settled(tmp_path, program)
        deep = is_sample(program)
        for place in range(len(INPUTS)):
            check_eager(function, place)
        if deep:
            check_second(function, second_order(function, 0), 0)
        check_compiled(function, deep)
        if deep:
            check_inside(function)

    check()
    counted(request, number)


def is_sample(program: Program) -> bool:
    """By the program, so that a replay does the same."""
    return zlib.crc32(repr(program).encode()) % SAMPLE == 0


def is_refusal(error: Exception) -> bool:
    """Sizes that Python asks for, or that would be broadcast."""
    return isinstance(error, StaticDimensionNeeded) or "count as equal, and are not broadcast" in str(error)


@pytest.mark.parametrize("part", range(SIZED))
def test_sizes_known_at_run_time_only(part, tmp_path, request):
    @seed(seed_of(request, part))
    @settings(
        max_examples=(number := max(1, request.config.getoption("--programs") // PARTS // 3)), deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(sized_programs())
    def check(program):
        try:
            function = settled(tmp_path, program)
        except gt.errors.InvalidArgumentError as error:  # eager code finds sizes that do not fit: no program
            assume("could not be broadcast" not in str(error))
            raise
        try:
            check_compiled(function, is_sample(program))
            check_inside(function)
        except Exception as error:
            if not is_refusal(error):
                raise
            assume(False)

    check()
    counted(request, number)

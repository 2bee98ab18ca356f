"""What converted code tells the tracer: every read of outside state, every write before it happens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from gradtape.functions.autograph import control_calls as control, convert
from gradtape.functions.autograph.convert import converted_function
from gradtape.functions.building import Building
from gradtape.functions.guards import Guards
from gradtape.functions.outside_arrays import OutsideArrays
from gradtape.functions.outside_containers import ContainerUses
from gradtape.functions.special_methods import MetClasses
from gradtape.functions.staging.places import MISSING, Cell
from gradtape.functions.staging.trials import Trials
from gradtape.ir.graph import Block
from gradtape.trace.effects import KEYS, LENGTH, TRACER

WEIGHT = 3
SETTINGS = {"rate": 2}


class Recorder:
    """A tracer that only writes down what it is told."""

    def __init__(self) -> None:
        self.uses = ContainerUses()
        self.log: list[Any] = []
        self.guards = Guards()
        self.external: dict[int, Any] = {}
        self.trace = SimpleNamespace(block=Block())
        self.trials = Trials(self, Building())
        self.arrays, self.classes, self.told = OutsideArrays([]), MetClasses(), set()
        self.special = converted_function

    def outer(self, scope: Any, name: str, value: Any) -> Any:
        self.log.append(("outer", name, "cell" if name in scope.cells else "global"))
        return value

    def attr(self, target: Any, name: str, value: Any) -> Any:
        self.log.append(("attr", type(target).__name__, name))
        return value

    def item(self, container: Any, key: Any, value: Any) -> Any:
        self.log.append(("item", type(container).__name__, key))
        return value

    follows_changes = True

    def opened(self, container: Any) -> None:
        self.log.append(("opened", type(container).__name__))

    def changed(self, target: Any) -> None:
        self.log.append(("changed", type(target)(target)))

    def same(self, a: Any, b: Any) -> bool:
        return a is b

    def before(self, target: Any) -> None:
        self.log.append((type(target).__name__, type(target)(target)))

    def note(self, place: Any) -> None:
        name = place.label.strip("`") if isinstance(place, Cell) else place.name
        self.log.append((f"write {type(place).__name__.lower()}", name, "missing" if place.read() is MISSING else place.read()))


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    token = TRACER.set(made)
    yield made
    TRACER.reset(token)


class Box:
    def __init__(self, v: int) -> None:
        self.v = v

    @property
    def double(self) -> int:
        return self.v * 2 if self.v else 0


def test_outside_names(recorder: Recorder) -> None:
    bias = 1

    def f(x: int) -> int:
        local = 5
        return x * WEIGHT + bias + local + abs(-1)

    assert convert(f)(2) == 13
    assert recorder.log == [("outer", "WEIGHT", "global"), ("outer", "bias", "cell")]


def test_writes_of_outside_names(recorder: Recorder) -> None:
    count = 1

    def f() -> None:
        nonlocal count
        global WEIGHT
        count += 1
        WEIGHT, count = 4, 5

    convert(f)()
    globals()["WEIGHT"] = 3
    assert count == 5
    writes = [entry for entry in recorder.log if entry[0] != "outer"]
    assert writes == [("write cell", "count", 1), ("write global", "WEIGHT", 3), ("write cell", "count", 2)]


def test_attributes_and_items(recorder: Recorder) -> None:
    def f(box: Any, d: dict[str, Any]) -> Any:
        box.v += 1
        d["a"] = box.v
        d["a"] *= 2
        del d["b"]
        return d["a"] + box.double

    assert convert(f)(Box(1), {"b": 0}) == 8
    assert recorder.log == [
        ("attr", "Box", "v"), ("write attribute", "v", 1), ("attr", "Box", "v"),
        ("dict", {"b": 0}), ("changed", {"b": 0, "a": 2}), ("item", "dict", "a"),
        ("dict", {"b": 0, "a": 2}), ("changed", {"b": 0, "a": 4}),
        ("dict", {"b": 0, "a": 4}), ("changed", {"a": 4}),
        ("item", "dict", "a"), ("attr", "Box", "v"), ("attr", "Box", "v"),
    ]  # fmt: skip


def test_container_methods(recorder: Recorder) -> None:
    def f(xs: list[int], d: dict[str, int], s: set[int]) -> None:
        xs.append(4)
        xs += [5]
        xs.sort(key=lambda v: -v)
        d.update(a=1)
        s.add(7)
        s |= {8}

    xs, d, s = [1], {"z": 0}, {0}
    convert(f)(xs, d, s)
    assert (xs, d, s) == ([5, 4, 1], {"z": 0, "a": 1}, {0, 7, 8})
    assert recorder.log == [
        ("list", [1]), ("changed", [1, 4]), ("list", [1, 4]), ("changed", [1, 4, 5]),
        ("opened", "list"), ("list", [1, 4, 5]), ("changed", [5, 4, 1]),
        ("dict", {"z": 0}), ("changed", {"z": 0, "a": 1}), ("set", {0}), ("changed", {0, 7}), ("set", {0, 7}),
        ("changed", {0, 7, 8}),
    ]  # fmt: skip


def test_whole_containers(recorder: Recorder) -> None:
    def f(xs: list[int], d: dict[str, int]) -> Any:
        total = len(xs)
        for x in xs:
            total += x
        for k in d:
            total += len(k)
        a, b = xs
        return total, "q" in d, a, d.get("k"), b

    assert convert(f)([5, 6], {"k": 1}) == (14, False, 5, 1, 6)
    assert recorder.log == [
        ("item", "list", LENGTH), ("item", "list", 0), ("item", "list", 1), ("item", "list", LENGTH), ("item", "dict", KEYS),
        ("item", "list", 0), ("item", "list", 1), ("item", "list", LENGTH), ("item", "dict", KEYS), ("item", "dict", "k"),
    ]  # fmt: skip


def test_called_functions_are_converted(recorder: Recorder) -> None:
    class Model:
        def __init__(self) -> None:
            self.k = WEIGHT if WEIGHT else 0

        def __call__(self, x: int) -> int:
            return x + self.k

    def f(x: int) -> Any:
        mapped = map(lambda v: v + WEIGHT, [x])  # noqa: C417  (map is what is tested)
        return Model()(x), list(mapped), max([1, 2], key=lambda v: -v + WEIGHT)

    assert convert(f)(1) == (4, [4], 1)
    assert [entry for entry in recorder.log if entry[:2] == ("outer", "WEIGHT")] == [("outer", "WEIGHT", "global")] * 5
    assert ("write attribute", "k", "missing") in recorder.log


def test_the_tracer_chooses_the_value(recorder: Recorder) -> None:
    recorder.outer = lambda scope, name, value: 100 if name == "WEIGHT" else value  # type: ignore[method-assign]
    recorder.item = lambda container, key, value: -value  # type: ignore[method-assign]

    def f() -> int:
        return WEIGHT + SETTINGS["rate"]

    assert convert(f)() == 98


class Staged:
    """Stands for a value known only when the program runs."""


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch, recorder: Recorder) -> list[Any]:
    calls: list[Any] = []

    def stage(name: str, answer: Any = None) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append((name, args, kwargs))
            return answer

        return called

    monkeypatch.setattr(control, "is_staged", lambda value: isinstance(value, Staged))
    for name in ("stage_if", "stage_while", "stage_for"):
        monkeypatch.setattr(control, name, stage(name))
    return calls


def test_a_loop_is_staged_from_the_first_staged_test_on(staged: list[Any]) -> None:
    def f() -> int:
        n = 0
        while True:
            n += 1
            if n == 3:
                break
            if n == 2:
                stop = Staged()
                break_flag = stop  # noqa: F841
        return n

    assert convert(f)() == 3

    def g(tests: Any) -> int:
        n = 0
        while tests[n]:
            n += 1
        return n

    later = Staged()
    assert convert(g)([True, True, later, False]) == 2
    [(name, (test, body, state), rest)] = staged
    assert (name, rest, state.names, state.get()) == ("stage_while", {"first": later}, ("n",), (2,))
    body()
    assert state.get() == (3,)
    assert test() is False


def test_branches_get_state(staged: list[Any]) -> None:
    def f(flag: Any, x: int) -> Any:
        y = 1
        if flag:
            t = x + 1
            y = t
        else:
            z = 5
        return y, z

    with pytest.raises(UnboundLocalError, match="cannot access local variable 'z' where it is not associated with a value"):
        convert(f)(Staged(), 3)
    [(_, (_, body, orelse, state), _)] = staged
    assert state.names == ("y", "z")
    start = state.get()
    body()
    assert state.get()[0] == 4
    state.set(start)
    orelse()
    assert state.get() == (1, 5)
    assert state.line == f.__code__.co_firstlineno + 2


def test_python_loop_ended_by_a_tensor_is_unrolled_with_guards() -> None:
    def f(xs: Any, limit: Any) -> Any:
        total = gt.constant(0.0)
        count = 0
        for x in xs:
            total += x
            count += 1
            if total > limit:
                break
        else:
            count = -1
        return total, count

    compiled = gt.function(lambda limit: f([1.0, 2.0, 3.0, 4.0], limit))
    for limit in (0.5, 2.5, 5.5, 100.0):
        want, got = f([1.0, 2.0, 3.0, 4.0], gt.constant(limit)), compiled(gt.constant(limit))
        assert [float(v) for v in got] == [float(v) for v in want]


def test_endless_loop_ended_by_a_tensor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(limit: Any) -> Any:
        total = gt.constant(0.0)
        for x in itertools.count():
            total += x
            if total > limit:
                break
        return total

    monkeypatch.setattr(control, "MAX_GUARDED", 20)
    with pytest.raises(InvalidArgumentError, match=r"line \d+: this loop over a count ends when a tensor says so.*an end"):
        gt.function(f)(gt.constant(5.0))


def test_raise_in_a_staged_branch_happens_when_it_is_reached() -> None:
    class CustomError(Exception):
        def __init__(self, code: int, text: str) -> None:
            super().__init__(text)
            self.code = code

    @gt.function
    def f(x: Any) -> Any:
        if x < 0.0:
            raise ValueError(f"negative: {x}")
        if x > 100.0:
            raise CustomError(7, "large")
        if x > 50.0:
            return x
        else:
            if x == 13.0:
                raise KeyError("unlucky")
            y = x * 2.0
        assert y != 4.0, f"four: {y}"
        return y

    assert float(f(gt.constant(1.0))) == 2.0
    assert float(f(gt.constant(60.0))) == 60.0
    with pytest.raises(ValueError, match=r"negative: -1\.0"):
        f(gt.constant(-1.0))
    with pytest.raises(CustomError, match="large") as caught:
        f(gt.constant(101.0))
    assert caught.value.code == 7
    with pytest.raises(KeyError, match="unlucky"):
        f(gt.constant(13.0))
    with pytest.raises(AssertionError, match=r"four: 4\.0"):
        f(gt.constant(2.0))
    assert f.experimental_get_tracing_count() == 1


def test_try_in_traced_code() -> None:
    table = {"a": 1.0}

    @gt.function
    def python_errors(x: Any, key: str) -> Any:
        try:
            y = x * table[key]
        except KeyError:
            y = -x
        return y

    assert float(python_errors(gt.constant(2.0), "a")) == 2.0
    assert float(python_errors(gt.constant(2.0), "b")) == -2.0

    @gt.function
    def caught_in_the_branch(x: Any) -> Any:
        if x > 0.0:
            try:
                raise ValueError("local")
            except ValueError:
                x = x * 3.0
        return x

    assert float(caught_in_the_branch(gt.constant(2.0))) == 6.0
    assert float(caught_in_the_branch(gt.constant(-2.0))) == -2.0

    @gt.function
    def caught_outside(x: Any) -> Any:
        try:
            if x < 0.0:
                raise ValueError("negative")
        except ValueError:
            x = -x
        return x

    with pytest.raises(InvalidArgumentError, match=r"line \d+: this `try` would have to catch the ValueError raised in it"):
        caught_outside(gt.constant(1.0))

    @gt.function
    def value_errors(x: Any) -> Any:
        try:
            return gt.linalg.cholesky(x)
        except Exception:
            return x

    with pytest.raises(InvalidArgumentError, match="would have to catch what `cholesky` raises"):
        value_errors(gt.eye(2))

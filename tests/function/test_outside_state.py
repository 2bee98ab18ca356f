"""Functions that read and change Python objects from outside: lists, dicts, sets, deques, attributes and globals, which the
caller changes too. Whatever these hold at a call, result, derivative and effects are those of the undecorated function.

Random programs: each runs beside its undecorated form, on objects of its own, with changes by the caller between the calls.
"""

from __future__ import annotations

import functools
import random
import warnings
from collections import UserList, deque
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import counted, seed_of
from tests.homes.cases import loaded

PARTS, PROGRAMS = 10, 3  # of `--programs 100`: 30 programs in `make test`, 300 in `make test-all`

STATE = """
import gradtape as gt
import contextlib
import numpy as np
import random
from collections import Counter, UserList, deque


class Box:
    def __init__(self):
        self.n, self.mode, self.t, self.h = 1, "a", gt.constant(0.5), []

    def push(self, value):
        self.h.append(value)

    def __len__(self):
        return len(self.h)


class Meter:
    def __init__(self):
        self.n, self.k = 0, 2.0

    def _tick(self):
        self.n += 1
        return self.n

    def __mul__(self, other): return other * self._tick() * self.k
    def __rsub__(self, other): return other - self._tick()
    def __neg__(self): return -self._tick()
    def __lt__(self, other): return self._tick() % 2 == 0
    def __eq__(self, other): return self._tick() % 3 == 0
    def __hash__(self): return self._tick()
    def __bool__(self): return self._tick() % 2 == 0
    def __float__(self): return self._tick() * 0.5
    def __index__(self): return self._tick() % 3
    def __abs__(self): return self._tick() * self.k
    def __str__(self): return "mm" if self._tick() else ""
    def __iter__(self): return iter([1.0, self._tick() * 1.0, self.k])
    def __getattr__(self, name):
        if name != "level":
            raise AttributeError(name)
        return self._tick() * self.k


class Pages:
    def __init__(self):
        self.page, self.left = 0, 0

    def __iter__(self):
        self.left = 2
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        self.page += 1
        return self.page * 0.5


@contextlib.contextmanager
def scoped(amount):
    global depth
    depth += amount
    try:
        yield depth
    finally:
        depth -= 1


def counting(limit):
    for i in range(limit):
        box.n += 1
        yield i + box.n


def default_counter(value, *, seen=[0]):
    seen[0] += 1
    return value * seen[0]


def push(items, value):
    items.append(value)


numbers, tensors, table, names = [1, 2.5, 3], [gt.constant(0.25), gt.constant(1.5)], {"k": 2, "mode": "a"}, {"a"}
queue, box, counts, total, word, inner = deque([1, 2], maxlen=4), Box(), Counter(), 1, "a", {"rows": [[1.0], [2.0, 3.0]]}
meter, pages, depth, lines = Meter(), Pages(), 0, UserList([1.0])
array, grid = np.array([3.0, 1.0, 2.0]), np.ones((2, 3), np.float32)
"""

READS = [
    "y = y + x * len(numbers)", "y = y + numbers[0]", "y = y + numbers[-1] * x", "y = y + sum(numbers)", "y = y + max(numbers)",
    "for v in numbers: y = y + v * x", "y = y * (1.5 if 2.5 in numbers else 0.5)", "first, *rest = numbers; y = y + first",
    "y = y + (1.0 if not numbers[3:] else 2.0)", "y = y + (1.0 if numbers == [1, 2.5, 3] else 2.0)",
    "alias = numbers; y = y + alias[0] * len(alias)", "y = y + len(f'{numbers}')", "y = y + len(numbers + [1])",
    "y = y + tensors[0] * x", "y = y + tensors[-1]", "y = y + len(tensors)", "for v in tensors: y = y + v",
    "y = y + sum(tensors)", "y = y + gt.reduce_sum(gt.stack(tensors))", "y = y + table['k']", "y = y + len(table)",
    "y = y + table.get('new', 5.0)",
    "y = y * (1.5 if table['mode'] == 'a' else 0.5)", "for key in table: y = y + len(key)",
    "y = y * (1.5 if 'b' in names else 0.5)", "y = y + len(names)", "y = y + sum(queue)",
    "if queue: y = y + queue[0] * len(queue)",
    "y = y + box.n", "y = y + box.t * x", "y = y * (1.5 if box.mode == 'a' else 0.5)", "y = y + len(box)", "y = y + len(box.h)",
    "y = y + counts['c']", "y = y + total * x", "y = y * (1.5 if word == 'a' else 0.5)", "y = y + sum(inner['rows'][0])",
    "y = y + sum([*tensors])", "for v, w in zip(tensors, numbers): y = y + v * w",
    "for v in table.values(): y = y + (len(v) if isinstance(v, str) else 1.0)",
    "for i, v in enumerate(tensors): y = y + gt.sin(v) * i", "y = y + sum(map(gt.sin, tensors + [x]))",
    "y = y + gt.reduce_sum(x * array)", "y = y + x * array[0]", "y = y + x * float(array.sum())", "for v in array: y = y + v",
    "y = y * (1.5 if array[0] > 2 else 0.5)", "y = y + gt.reduce_sum(grid @ gt.stack([x, x, y]))",
    "y = y + np.linalg.norm(grid)",
    "part = grid[1:]; y = y + gt.reduce_sum(x * part)", "y = y + gt.reduce_sum(grid.T * x)", "y = y + x * sorted(array)[0]",
    "y = y + gt.reduce_sum(np.sort(array) * x)", "view = array; y = y + x * (view - 1.0)[0] + gt.reduce_sum(view * x)",
    "y = y + meter * x",
    "y = y + (2.0 - meter) * x", "y = y + x * -meter", "y = y * (1.5 if meter < 2 else 0.5)", "y = y + x * float(meter)",
    "y = y * (1.5 if meter == 2 else 0.5)",
    "y = y * (1.5 if meter else 0.5)", "if meter and x > 0: y = y + meter.n",
    "if x > 0 and meter: y = y * 1.25", "y = y * (0.5 if not meter else 1.5)", "y = y + x * [1.0, 2.0, 3.0][meter]",
    "y = y + abs(meter)", "y = y + len(str(meter)) + len(f'{meter}')", "for v in meter: y = y + v * x", "y = y + sum(meter)",
    "y = y + x * sum([*meter])", "a, b, c = meter; y = y + b * x", "y = y + max(v * w for v, w in zip(meter, meter))",
    "y = y + x * meter.level", "while meter: y = y * 1.25", "y = y + {meter: 1.0}[meter] if False else y",
    "for v in pages: y = y + v * x", "y = y + sum(list(pages))", "for i, v in enumerate(pages): y = y + i * v",
    "with scoped(2) as level: y = y + level * x", "y = y + sum(counting(2))", "for v in counting(3): y = y + v * x",
    "y = default_counter(y)", "y = y + x * lines[-1] * len(lines)", "y = y + x * depth", "y = y + meter.k",
    "y = y + (box.h[-1] if box.h else 1.0)", "y = y + (tensors[0] if tensors[0] is tensors[-1] else x)",
]  # fmt: skip
WRITES = [
    "numbers.append(4)", "numbers += [2]", "numbers.insert(0, 2)", "numbers.reverse()", "numbers[0] = 7", "numbers[0] += 1",
    "if len(numbers) > 1: numbers.pop()", "if len(numbers) > 1: del numbers[0]", "numbers.sort()", "numbers.extend([1, 2])",
    "push(numbers, 5)", "alias = numbers; alias.append(6)", "numbers[:] = [1, 2.5, 3]",
    "tensors.append(x * 2.0)", "tensors[0] = tensors[0] * x", "tensors.reverse()", "if len(tensors) > 1: tensors.pop(0)",
    "tensors[0], tensors[-1] = tensors[-1], tensors[0]", "tensors.insert(0, tensors[-1])", "push(tensors, y)",
    "table['k'] += 1", "table['new'] = x * 3.0", "table['mode'] = 'b' if table['mode'] == 'a' else 'a'",
    "table.pop('new', None)", "table.setdefault('more', 1)", "table.update(more=2)", "table['mode'] = 'b'",
    "names.add('b')", "names.discard('a')", "names ^= {'a', 'b'}",
    "queue.append(3)", "queue.rotate(1)", "queue.appendleft(4)", "if queue: queue.popleft()",
    "box.n += 1", "box.mode = 'b' if box.mode == 'a' else 'a'", "box.t = box.t * x", "box.push(y)", "box.h.append(1.0)",
    "counts['c'] += 1", "total += 1", "word = 'b' if word == 'a' else 'a'", "inner['rows'][0].append(1.0)",
    "inner['rows'] = inner['rows'][::-1]",
    "meter.k += 0.5", "meter.n = 0", "lines.append(y * 0.0 + 2.0)", "lines[0] = 3.0", "pages.page = 0", "depth += 1",
    "array[0] += 1", "array *= 2", "array[:] = array[::-1]", "part = array[1:]; part += 1", "np.add(array, 1, out=array)",
    "array.sort()", "array = array + 1", "grid[1, 1] = 5", "grid.fill(grid[0, 0] + 1)", "np.add.at(array, [0, 0], 1.0)",
    "np.copyto(grid, grid[:, ::-1].copy())", "random.Random(0).shuffle(array)",
]  # fmt: skip
OUTSIDE = [  # what the caller does between two calls; y and x are tensors there too
    "numbers = [1, 2.5, 3]", "numbers = list(numbers)", "tensors = [gt.constant(2.0), gt.constant(3.0)]",
    "tensors[1:] = [tensors[0]]",
    "tensors[-1] = gt.constant(4.0)", "box.t = tensors[0]", "box.t = gt.constant(0.75)", "table = {'k': 5, 'mode': 'b'}",
    "table['mode'] = 'a'", "box = Box()", "queue = deque([5], maxlen=2)", "names = {'b', 'c'}", "word = 'b'", "total = 2.5",
    "tensors[0][...] = 0.125", "box.t[...] = 0.625",
    "meter = Meter()", "meter.k = 3.0", "meter.n += 1", "lines = UserList([2.0])", "pages.page += 1", "depth = 5",
    "array = np.array([5.0, 4.0, 6.0])", "array[1] = 9", "grid[0] -= 1", "grid = np.ones((2, 3), np.float32)", "array -= 1",
    "counts.clear()", "inner = {'rows': [[1.0]]}", "numbers[0] = 1", "del box.h[:]",
]  # fmt: skip


def _program(rng: random.Random) -> str:
    chosen = rng.sample(range(len(READS) + len(WRITES)), rng.randrange(2, 7))
    lines = [(READS + WRITES)[i] for i in chosen]
    lines += [rng.choice(READS)]
    changes = [[rng.choice(OUTSIDE + WRITES) for _ in range(rng.choice([0, 0, 1, 2]))] for _ in range(5)]
    text = STATE + _function("program", [*lines, "return y"])
    return text + "".join(_function(f"change_{i}", [*actions, "return y"]) for i, actions in enumerate(changes))


def _function(name: str, lines: list[str]) -> str:
    names = (
        "global numbers, tensors, table, names, queue, box, counts, total, word, inner, array, grid, meter, lines, pages, depth"
    )
    return f"\n\ndef {name}(x):\n    " + "\n    ".join([names, "y = x * 1.0", *lines]) + "\n"


def _shown(value: Any) -> Any:
    if isinstance(value, (list, tuple, deque)):
        return [_shown(v) for v in value]
    if isinstance(value, dict):
        return [(k, _shown(v)) for k, v in value.items()]
    if isinstance(value, UserList):
        return _shown(value.data)
    if type(value).__name__ in ("Box", "Meter", "Pages"):
        return _shown(vars(value))
    if isinstance(value, (gt.Tensor, np.ndarray, float, int)):
        return np.round(np.asarray(value, np.float64), 4).tolist()
    return sorted(value) if isinstance(value, set) else value


def _history(module: dict[str, Any], run: Any, calls: int) -> list[Any]:
    """Result, derivative and the state after each of some calls."""
    seen = []
    for i in range(calls):
        x = gt.constant(1.0 + 0.25 * i)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = run(x)
        slope = tape.gradient(y, x)
        state = {name: _shown(module[name]) for name in STATE_NAMES}
        seen.append((_shown(y), None if slope is None else _shown(slope), state))
        module[f"change_{i}"](gt.constant(0.5))
    return seen


STATE_NAMES = (
    "numbers",
    "tensors",
    "table",
    "names",
    "queue",
    "box",
    "counts",
    "total",
    "word",
    "inner",
    "array",
    "grid",
    "meter",
    "lines",
    "pages",
    "depth",
)


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_on_objects_from_outside(part, request):
    programs = max(1, request.config.getoption("--programs") * PROGRAMS // 100)
    counted(request, programs)
    first = seed_of(request, part * 10_000)
    for seed in range(first, first + programs):
        text = _program(random.Random(seed))
        for options in ({}, {"jit_compile": False}):
            plain, module = loaded(text), loaded(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = _history(plain, plain["program"], 5)
                got = _history(module, gt.function(module["program"], **options), 5)
            for call, (want, have) in enumerate(zip(expected, got, strict=True)):
                assert have == want, f"seed {seed}, call {call}, {options}:\n{text[len(STATE) :]}"


def test_state_that_is_added_to_and_carried_is_traced_once():
    class Model:
        def __init__(self):
            self.history, self.steps, self.cache, self.mode = [], 0, {}, "train"
            self.state = {"mean": gt.zeros(2), "n": 0, "mode": "a"}

        @gt.function
        def step(self, x):
            self.steps += 1
            self.history.append(x)
            self.cache["last"] = x
            self.state["mean"] = self.state["mean"] * 0.5 + x
            self.state["n"] += 1
            return x * self.state["n"] if self.state["mode"] == "a" and self.mode == "train" else x

    model = Model()
    for n in range(1, 5):
        np.testing.assert_array_equal(model.step(gt.constant([1.0, 2.0])), [n, 2.0 * n])
    assert model.step.experimental_get_tracing_count() == 1
    assert (model.steps, len(model.history), model.state["n"]) == (4, 4, 4)
    np.testing.assert_array_equal(model.state["mean"], [1.875, 3.75])
    model.state["mode"] = "b"
    np.testing.assert_array_equal(model.step(gt.constant([1.0, 2.0])), [1.0, 2.0])
    assert model.step.experimental_get_tracing_count() == 2


def test_a_callable_object_is_followed():
    class Model:
        def __init__(self):
            self.scale = 1.0

        def __call__(self, x):
            return x * self.scale

    model = Model()
    run, part = gt.function(model), gt.function(functools.partial(Model.__call__, model))
    assert [float(f(gt.constant(2.0))) for f in (run, part)] == [2.0, 2.0]
    model.scale = 3.0
    assert [float(f(gt.constant(2.0))) for f in (run, part)] == [6.0, 6.0]


def test_texts_of_numbers_that_change():
    kept, count = {}, [8]

    @gt.function
    def f(x):
        count[0] += 1
        kept[f"step {count[0]}"] = x
        return x * len(str(count))

    assert [float(f(gt.constant(1.0))) for _ in range(2)] == [3.0, 4.0]
    assert list(kept) == ["step 9", "step 10"]


def test_the_same_tensor_by_two_names():
    space = {"a": gt.constant(1.0)}
    space["b"] = space["a"]
    f = gt.function(lambda x: x * space["a"] + 10.0 * x * space["b"])
    assert float(f(gt.constant(1.0))) == 11.0
    space["b"] = gt.constant(5.0)
    assert float(f(gt.constant(1.0))) == 51.0


@pytest.mark.parametrize("method", ["upper", "split", "encode", "strip"])
def test_methods_of_texts_of_unknown_sizes(method):
    """The function is traced again for the size, as where such a text is measured, compared or taken apart."""

    @gt.function(input_signature=[gt.TensorSpec([None])])
    def f(x):
        return x * len(getattr(f"{len(x)} rows", method)())

    for count in (1, 100):
        x = gt.ones([count])
        assert float(f(x)[0]) == len(getattr(f"{count} rows", method)())

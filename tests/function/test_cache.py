"""The cache: bounded, freed with what it serves, reasons for retraces, the warning, threads."""

import gc
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import RetracingWarning
from gradtape.functions.cache import MAXSIZE


def square(x, n=2):
    return x * x * n


def traced(python_function=square, **options):
    return gt.function(python_function, **options)


def vector(n, dtype=gt.float32):
    return gt.ones(n, dtype)


def reason(f):
    """Why the latest trace was made, as `explain` says it."""
    return f._state.cache.all()[-1].reasons[0].text


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetracingWarning)
        yield


# -- counts -----------------------------------------------------------------------------------------------------------


def test_one_trace_per_signature():
    f = traced()
    for _ in range(3):
        f(vector(3))
    f(x=vector(3))
    f(vector(3), 2)
    f(vector(3), n=2)
    f(np.ones(3, np.float32))
    assert f.experimental_get_tracing_count() == 1
    f(vector(4))
    f(vector(3), 3)
    f(vector(3), 3.0)
    f(vector(3, gt.float64))
    assert f.experimental_get_tracing_count() == 5
    info = f.cache_info()
    assert (info.misses, info.currsize, info.maxsize) == (5, 5, MAXSIZE)
    assert info.hits == 6


def test_clear_cache():
    f = traced()
    f(vector(3))
    f.clear_cache()
    assert f.cache_info() == (0, 0, MAXSIZE, 0)
    assert f(vector(3)).numpy().tolist() == [2.0, 2.0, 2.0]
    assert f.experimental_get_tracing_count() == 1


def test_a_thousand_shapes_keep_the_cache_small(quiet):
    f = traced(jit_compile=False)  # whose programs are counted, not run
    for n in range(1, 201):
        f(vector(n))
    info = f.cache_info()
    assert info.currsize == MAXSIZE
    assert info.misses == 200
    f(vector(200))
    assert f.cache_info().misses == 200
    f(vector(1))  # dropped long ago
    assert f.cache_info().misses == 201


def test_the_least_recently_used_program_goes(quiet):
    f = traced()
    f(vector(1))
    for n in range(2, MAXSIZE + 20):
        f(vector(n))
        f(vector(1))
    count = f.experimental_get_tracing_count()
    f(vector(1))
    assert f.experimental_get_tracing_count() == count


# -- reasons ----------------------------------------------------------------------------------------------------------


def test_the_first_call():
    f = traced()
    f(vector(3))
    assert reason(f) == "first call"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((vector(3),), (vector(4),), "argument `x`: shape (3,) → (4,)"),
        ((vector(3),), (gt.ones((3, 1)),), "argument `x`: shape (3,) → (3, 1)"),
        ((vector(3),), (vector(3, gt.float64),), "argument `x`: dtype float32 → float64"),
        ((vector(3),), (vector(2, gt.float64),), "argument `x`: dtype float32 → float64, shape (3,) → (2,)"),
        (
            (vector(3), 3), (vector(3), 4),
            "argument `n`: 3 → 4 (a Python value; pass gt.constant(n) to avoid a trace per value)",
        ),
        (
            (vector(3), 1), (vector(3), 1.0),
            "argument `n`: 1 → 1.0, int → float (a Python value; pass gt.constant(n) to avoid a trace per value)",
        ),
        (
            (vector(3), 3), (vector(3), gt.constant(3.0)),
            "argument `n`: 3 → a tensor of shape (), dtype float32",
        ),
    ],
)  # fmt: skip
def test_the_argument_that_changed_is_named(first, second, text):
    f = traced()
    f(*first)
    f(*second)
    assert reason(f) == text


def test_the_nearest_call_is_compared():
    f = traced()
    f(vector(3), 1)
    f(vector(5), 2)
    f(vector(3), 2)
    assert reason(f) == "argument `x`: shape (5,) → (3,)"


def test_structures_in_reasons():
    f = traced(lambda p: p["w"] if isinstance(p, dict) else p[0])
    f({"w": vector(2)})
    f({"w": vector(3)})
    assert reason(f) == "argument `p['w']`: shape (2,) → (3,)"
    f({"w": vector(3), "b": vector(1)})
    assert reason(f) == "argument `p`: a dict with keys ['w'] → a dict with keys ['w', 'b']"
    f([vector(3)])
    assert reason(f) == "argument `p`: a dict with keys ['w', 'b'] → a list of 1"


def test_aliases_in_reasons():
    f = traced(lambda x, y: x * y)
    x = vector(2)
    f(x, vector(2))
    f(x, x)
    assert reason(f) == "argument `y`: a tensor of shape (2,), dtype float32 → the same object as `x`"


def test_variables_in_reasons():
    f = traced(lambda x, v: x * v)
    v, w = gt.Variable(2.0, name="v"), gt.Variable(3.0, name="w")
    assert f(vector(1), v).numpy() == [2.0]
    assert f(vector(1), w).numpy() == [3.0]
    assert reason(f) == "argument `v`: Variable 'v:0' → Variable 'w:0' (each object has its own trace)"
    assert f(vector(1), v).numpy() == [2.0]
    assert f.experimental_get_tracing_count() == 2


SCALE = 2


def scaled(x):
    return x * SCALE


def test_guards_in_reasons(monkeypatch):
    f = traced(scaled)
    assert f(vector(1)).numpy() == [2.0]
    monkeypatch.setattr(f"{__name__}.SCALE", 3)
    assert f(vector(1)).numpy() == [3.0]
    assert reason(f).startswith("global `SCALE` was 2, now 3 (read at ")
    assert "test_cache.py" in reason(f)
    monkeypatch.undo()
    assert f(vector(1)).numpy() == [2.0]
    assert f.experimental_get_tracing_count() == 2  # both programs are kept


def test_a_dropped_program_is_a_reason(quiet):
    f = traced()
    for n in range(1, MAXSIZE + 2):
        f(vector(n))
    f(vector(MAXSIZE + 1))
    f._state.cache.maxsize = 1
    f(vector(1))
    f(vector(2))
    f(vector(2))
    assert f.cache_info().currsize == 1


# -- the warning ------------------------------------------------------------------------------------------------------


def test_retracing_for_python_values_warns_once_with_the_cure():
    f = traced()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(12):
            f(vector(3), n)
    found = [w for w in caught if issubclass(w.category, RetracingWarning)]
    assert len(found) == 1
    text = str(found[0].message)
    assert text.startswith("`square` was traced 6 times, the last time because of argument `n`: 4 → 5")
    assert "pass numbers that vary as tensors (gt.constant(n))" in text
    assert "square.explain()" in text
    assert found[0].filename == __file__


def test_retracing_for_shapes_warns_with_the_cure():
    f = traced()
    for n in range(1, 6):
        f(vector(n))
    with pytest.warns(RetracingWarning, match="reduce_retracing=True"):
        f(vector(6))


def test_a_few_traces_do_not_warn():
    f = traced()
    for n in range(5):
        f(vector(3), n)


# -- memory -----------------------------------------------------------------------------------------------------------


class Model:
    def __init__(self):
        self.w = gt.Variable(2.0)
        self.k = 3
        self.layers = [Layer(self)]

    @gt.function
    def call(self, x):
        y = x * self.w * self.k
        for layer in self.layers:
            y = layer(y)
        return y


class Layer:
    def __init__(self, parent):
        self.parent = weakref.ref(parent)
        self.b = gt.Variable(1.0)

    def __call__(self, x):
        return x + self.b


def test_an_object_takes_its_programs_with_it_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        model = Model()
        assert model.call(gt.constant(1.0)).numpy() == 7.0
        ref, w = weakref.ref(model), weakref.ref(model.w)
        program = weakref.ref(model.call._state.cache.all()[0].program)
        assert len(Model.call._methods.states()) >= 1
        del model
        assert ref() is None
        assert program() is None
        assert w() is None
    finally:
        gc.enable()


def test_a_function_takes_its_programs_with_it_without_the_collector():
    gc.collect()
    gc.disable()
    try:

        def local(x):
            return x * 2.0

        f = traced(local)
        f(vector(3))
        program = weakref.ref(f._state.cache.all()[0].program)
        function = weakref.ref(local)
        del f, local
        assert program() is None
        assert function() is None
    finally:
        gc.enable()


def test_programs_go_with_the_objects_in_their_key():
    class Config:
        def __init__(self, k):
            self.k = k

    f = traced(lambda x, c: x * c.k)
    first, second = Config(2.0), Config(3.0)
    assert f(vector(1), first).numpy() == [2.0]
    assert f(vector(1), second).numpy() == [3.0]
    assert f.cache_info().currsize == 2
    del first
    assert f.cache_info().currsize == 1
    second.k = 5.0
    assert f(vector(1), second).numpy() == [5.0]


def test_fresh_closures_leave_nothing_behind():
    def make(k):
        return traced(lambda x: x * k)

    gc.collect()
    refs = []
    for k in range(20):
        f = make(float(k))
        assert f(vector(1)).numpy() == [float(k)]
        refs.append(weakref.ref(f))
        del f
    gc.collect()
    assert not any(ref() for ref in refs)


def test_results_and_arguments_are_not_kept():
    f = traced()
    x = vector(1000)
    y = f(x)
    refs = [weakref.ref(x), weakref.ref(y)]
    del x, y
    assert not any(ref() for ref in refs)


# -- threads ----------------------------------------------------------------------------------------------------------


def test_threads_trace_once():
    count = []

    def slow(x):
        count.append(1)
        time.sleep(0.05)
        return x * 2.0

    f = gt.function(slow, autograph=False)
    results = []
    start = threading.Barrier(6)

    def work():
        start.wait()
        results.append(f(vector(2)).numpy().tolist())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[2.0, 2.0]] * 6
    assert f.experimental_get_tracing_count() == 1


def test_threads_with_different_signatures(quiet):
    f = traced()
    errors = []

    def work(seed):
        try:
            for n in range(1, 30):
                size = 1 + (n * seed) % 7
                assert f(vector(size), seed).numpy().tolist() == [float(seed)] * size
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []

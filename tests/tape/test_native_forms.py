"""Machine code in the place of the short forms: the same results, records, pasts and errors as Python's, to the last bit."""

import contextlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.record import Record, RecordList
from gradtape.core.save_plan import Like
from gradtape.core.tensor import Tensor
from gradtape.tape import native_forms
from gradtape.tape.native_forms import Heat

pytest.importorskip("llvmlite")


@contextlib.contextmanager
def forms(native):
    """Eager code in machine code, or all of it in Python."""
    gt.config.native_eager(native, after=-1)
    try:
        if native:
            native_forms.noticed(0)
            assert Heat.placed is not None
        yield
    finally:
        gt.config.native_eager(True)


# -- random programs, run both ways ----------------------------------------------------------------------------------

UNARY = [gt.sin, gt.tanh, gt.exp, gt.sqrt, gt.negative, gt.square, gt.sigmoid, gt.abs]
BINARY = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x @ y, gt.maximum, gt.matmul,
    lambda x, y: gt.where(x > y, x, y), gt.add, gt.multiply,
]  # fmt: skip
KEYS = [
    0,
    -1,
    5,
    slice(None),
    slice(1, None, 2),
    (0, 1),
    (Ellipsis, 0),
    (None, 0),
    np.int64(0),
    np.array([1, 0]),
    (slice(0, 1),),
]


def values(rng):
    """Tensors of all kinds, variables, arrays and numbers."""
    floats = [rng.standard_normal(shape).astype(kind) for shape in ((), (3,), (3, 3), (2, 3, 3)) for kind in "fd"]
    others = [np.arange(3), np.array([True, False, True]), rng.standard_normal(3) + 1j, np.ones((3, 3), np.float16)]
    tensors = [gt.constant(x) for x in (*floats, *others)]
    variables = [gt.Variable(rng.standard_normal((3, 3)).astype(np.float32)), gt.Variable(1.5), gt.Variable(2, trainable=False)]
    return [
        *tensors,
        *variables,
        2.0,
        3,
        True,
        np.float32(0.5),
        np.float64(0.5),
        np.ones(3, np.float32),
        [1.0, 2.0, 3.0],
        None,
        "x",
    ]


def step(rng, pool):
    """One operation on what the pool has."""
    kind = rng.integers(6)
    x, y = (pool[rng.integers(len(pool))] for _ in range(2))
    if kind == 0:
        return UNARY[rng.integers(len(UNARY))](x)
    if kind == 1:
        return x[KEYS[rng.integers(len(KEYS))]]
    if kind == 2:
        axis = [None, 0, 1, -1, -3, 7, (0, 1), [0], True][rng.integers(9)]
        return gt.reduce_sum(x, axis, [False, True, 0][rng.integers(3)])
    if kind == 3:
        return [
            lambda: gt.reshape(x, (-1,)),
            lambda: gt.transpose(x),
            lambda: gt.cast(x, gt.float64),
            lambda: gt.reduce_mean(x),
        ][rng.integers(4)]()
    return BINARY[rng.integers(len(BINARY))](x, y)


class Account:
    """What a run left behind, in words that do not depend on the run: objects are numbered in the order they are met."""

    def __init__(self):
        self.numbers = {}
        self.lines = []

    def name(self, thing):
        return f"{type(thing).__name__}{self.numbers.setdefault(id(thing), len(self.numbers))}"

    def word(self, value):
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{type(value).__name__} {value.dtype} {np.shape(value)} {np.asarray(value).tobytes().hex()}"
        if isinstance(value, Like):
            return f"like {value.dtype} {value.shape}"
        if isinstance(value, Record):
            return self.name(value)
        if isinstance(value, (tuple, list)):
            return f"{type(value).__name__}({', '.join(map(self.word, value))})"
        return f"{self.word(value._data)} at {self.word(value._node)}" if isinstance(value, Tensor) else repr(value)

    def record(self, entry, start):
        when = entry.when if isinstance(entry.when, tuple) else (entry.when, ())
        self.lines.append(
            f"{self.name(entry)} = {entry.op}{self.word(entry.nodes)} saves {self.word(entry.saved)} with {entry.attrs} shape "
            f"{entry.shape} {type(entry.shape)} at {entry.location} in {[self.name(key) for key in entry.keys]} "
            f"when {when[0] - start} {self.word(when[1])}"
        )


def account(seed):
    rng = np.random.default_rng(seed)
    told = Account()
    pool = values(rng)
    start = gt.core.record.CLOCK.now
    tapes = [gt.GradientTape(persistent=bool(rng.integers(2))) for _ in range(1 + rng.integers(2))]
    with np.errstate(all="ignore"), contextlib.ExitStack() as stack:
        made = []
        for position in range(60):
            if position in (5, 20) and tapes[position > 5 :]:
                tape = stack.enter_context(tapes[position > 5])
                tape.watch([v for v in pool if isinstance(v, Tensor) and v.dtype.is_floating and rng.integers(2)])
            if position == 50:
                stack.close()
            try:
                out = step(rng, pool)
            except (ValueError, TypeError, IndexError, gt.errors.OpError, AttributeError) as error:
                told.lines.append(f"{type(error).__name__}: {error}")
                continue
            if isinstance(out, Tensor):
                pool.append(out)
                made.append(out)
                told.lines.append(told.word(out))
        for tape in tapes:
            for entry in tape.records:
                told.record(entry, start)
        for tape in tapes:
            targets = [t for t in made if t.dtype.is_floating][-3:]
            told.lines.append(told.word([g for g in tape.gradient(targets, pool[:8]) if g is not None]))
            tape.close()
    return told.lines


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_leave_the_same_records(seed):
    with forms(False):
        expected = account(seed)
    with forms(True):
        assert account(seed) == expected


def test_the_code_is_asked():
    x = gt.constant([1.0, 2.0])
    with forms(True), gt.GradientTape() as tape:
        tape.watch(x)
        calls = []
        sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None)
        try:
            y = x * 2.0 + x
        finally:
            sys.setprofile(None)
    assert [name for name in calls if "gradtape" in name] == []  # no Python of ours
    assert [r.op.name for r in tape.records] == ["multiply", "add"]
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]


def test_it_begins_when_tapes_have_recorded_enough():
    gt.config.native_eager(True, after=10)
    try:
        x = gt.Variable(1.0)
        for seen in (False, False, True):
            with gt.GradientTape():
                for _ in range(5):
                    y = x * x
            assert (Heat.placed is not None) is seen
        assert "method" in repr(Tensor.__dict__["__mul__"])
        gt.config.native_eager(False)
        assert Heat.placed is None
        assert "__mul__" not in Tensor.__dict__
        assert float((y * 2.0).numpy()) == 2.0
    finally:
        gt.config.native_eager(True)


def test_records_are_swept(monkeypatch):
    monkeypatch.setattr(RecordList, "FLOOR", 2_000)
    x = gt.constant(np.ones(8, np.float32))
    with forms(True), gt.GradientTape() as outer, gt.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        kept = gt.sin(x)
        for _ in range(500):
            _ = gt.sin(x) * x
    assert len(outer.records) < 50
    assert len(inner.records) < 50
    assert inner.gradient(kept, x).numpy() == pytest.approx(np.cos(np.ones(8)))


def test_an_interrupt_is_not_swallowed():
    def stop(*_):
        raise KeyboardInterrupt

    from gradtape.backends.llvm.entry import form_code as code
    from gradtape.backends.llvm.entry.record_code import state_of
    from gradtape.ops.elementwise import SIN

    with forms(True):
        state = (SIN, stop, *state_of(SIN)[2:])
        builtin = code.builtin_form("sin", state, code.ROUTINES["unary"])
        with pytest.raises(KeyboardInterrupt):
            builtin(gt.constant(1.0))


def test_references_do_not_leak():
    x, m = gt.constant(np.ones(4, np.float32)), gt.Variable(np.ones((4, 4), np.float32))

    def run():
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.tanh(x * 2.0 + x)[1:3])
            y = y + gt.reduce_sum(m @ m, 0)[0] / 2.0
            with contextlib.suppress(ValueError):
                _ = x + gt.constant([1.0, 2.0])
        tape.gradient(y, [x, m])

    with forms(True):
        for _ in range(50):
            run()
        things = [None, x._data, m, 0, 1, Record, Tensor, gt.core.record.SCOPE, run.__code__]
        before = [sys.getrefcount(thing) for thing in things]
        for _ in range(200):
            run()
        after = [sys.getrefcount(thing) for thing in things]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 20


def test_threads_record_on_tapes_of_their_own():
    failures = []

    def work(number):
        v = gt.Variable(np.full((4,), number, np.float32))
        for _ in range(200):
            with gt.GradientTape() as tape:
                y = gt.reduce_sum(gt.sin(v * v) + v[0])
            got = tape.gradient(y, v).numpy()
            want = np.float32(2 * number) * np.cos(np.full(4, number * number, np.float32)) + np.array([4, 0, 0, 0], np.float32)
            if not np.allclose(got, want, rtol=1e-5):
                failures.append((number, got, want))

    with forms(True):
        threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_without_llvm_python_does_it_all():
    text = """
import sys
sys.modules["llvmlite"] = None
import gradtape as gt
gt.config.native_eager(True, after=0)
x = gt.Variable(3.0)
for _ in range(3):
    with gt.GradientTape() as tape:
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0
assert "__mul__" not in gt.Tensor.__dict__
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

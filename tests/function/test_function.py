"""`gt.function` as users meet it: decorating, methods, signatures declared, concrete functions, check, explain, errors."""

import copy
import functools
import inspect
import itertools
import pickle

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import FunctionMismatchError, RetracingWarning

X = gt.constant([1.0, 2.0, 3.0])


@gt.function
def square(x):
    """Multiplies x by itself."""
    return x * x


def gradient(f, *xs):
    with gt.GradientTape() as tape:
        for x in xs:
            tape.watch(x)
        y = f(*xs)
    return tape.gradient(y, xs)


# -- decorating -------------------------------------------------------------------------------------------------------


def test_it_looks_like_the_function():
    assert square.__name__ == "square"
    assert square.__doc__ == "Multiplies x by itself."
    assert square.__module__ == __name__
    assert str(inspect.signature(square)) == "(x)"
    assert repr(square) == "<gt.function square>"
    assert square.python_function(2.0) == 4.0
    assert callable(square)


def test_decorator_with_arguments():
    @gt.function(autograph=False, jit_compile=True, experimental_relax_shapes=True, experimental_follow_type_hints=True)
    def f(x):
        return x + 1.0

    assert f(X).numpy().tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (3, "function: the decorated object must be callable, got 3 of type int"),
        ("f", "function: the decorated object must be callable, got 'f' of type str"),
    ],
)
def test_what_is_not_callable_is_refused(wrong, text):
    with pytest.raises(TypeError) as caught:
        gt.function(wrong)
    assert str(caught.value) == text


def test_generators_and_coroutines_are_refused():
    def steps(x):
        yield x

    async def later(x):
        return x

    with pytest.raises(TypeError, match=r"`.*steps` is a generator function \(it uses `yield`\); a program gives one result"):
        gt.function(steps)
    with pytest.raises(TypeError, match=r"`.*later` is a coroutine function"):
        gt.function(later)


def test_wrong_options():
    with pytest.raises(ValueError, match="there is no backend 'cuda'"):
        gt.function(lambda x: x, backend="cuda")
    with pytest.raises(ValueError, match="memory_limit is a number of bytes, got -1"):
        gt.function(lambda x: x, memory_limit=-1)


def test_wrong_arguments_are_python_s_errors():
    with pytest.raises(TypeError, match=r"square\(\) missing 1 required positional argument: 'x'"):
        square()
    with pytest.raises(TypeError, match=r"square\(\) takes 1 positional argument but 2 were given"):
        square(X, X)
    with pytest.raises(TypeError, match=r"square\(\) got an unexpected keyword argument 'z'"):
        square(X, z=1)


def test_lambdas_partials_and_callable_objects():
    class Adder:
        def __call__(self, x, k=1.0):
            return x + k

    assert gt.function(lambda x: 2.0 * x)(X).numpy().tolist() == [2.0, 4.0, 6.0]
    assert gt.function(functools.partial(lambda x, k: x * k, k=3.0))(X).numpy().tolist() == [3.0, 6.0, 9.0]
    assert gt.function(Adder())(X, k=2.0).numpy().tolist() == [3.0, 4.0, 5.0]


def test_decorated_twice():
    f = gt.function(gt.function(lambda x: x * 2.0), reduce_retracing=True)
    assert f(X).numpy().tolist() == [2.0, 4.0, 6.0]


def test_pickle_and_copies_are_by_reference():
    assert pickle.loads(pickle.dumps(square)) is square
    assert copy.copy(square) is square
    assert copy.deepcopy(square) is square


def test_a_function_of_a_bound_method_is_copied_with_its_object():
    class Trainer:
        def __init__(self, k):
            self.k = k
            self.step = gt.function(self._step)

        def _step(self, x):
            return x * self.k

    first = Trainer(2.0)
    second = copy.deepcopy(first)
    second.k = 5.0
    assert first.step(X).numpy().tolist() == [2.0, 4.0, 6.0]
    assert second.step(X).numpy().tolist() == [5.0, 10.0, 15.0]


def test_run_functions_eagerly():
    runs = []

    @gt.function
    def f(x):
        runs.append(type(x))
        return x * 2.0

    gt.config.run_functions_eagerly(True)
    try:
        f(X)
        f(X)
    finally:
        gt.config.run_functions_eagerly(False)
    assert runs == [gt.Tensor, gt.Tensor]
    assert f.experimental_get_tracing_count() == 0


# -- calls ------------------------------------------------------------------------------------------------------------


def test_static_values_are_kept_apart():
    @gt.function
    def f(x, n):
        return x * (2.0 if n is True else 3.0 if type(n) is int else 5.0)

    one = gt.constant(1.0)
    assert [f(one, n).numpy().item() for n in (True, 1, 1.0, True, 1, 1.0)] == [2.0, 3.0, 5.0, 2.0, 3.0, 5.0]
    assert f.experimental_get_tracing_count() == 3


def test_structures_in_and_out():
    @gt.function
    def f(params, *rest, scale=1.0, **more):
        return {"sum": params["w"] + rest[0], "more": [more["z"] * scale, None]}

    out = f({"w": X}, X, z=gt.constant(2.0), scale=3.0)
    assert out["sum"].numpy().tolist() == [2.0, 4.0, 6.0]
    assert out["more"][0].numpy() == 6.0
    assert out["more"][1] is None


def test_aliased_arguments_are_one_object():
    @gt.function
    def f(x, y):
        return x * 2.0 if x is y else x * 3.0

    assert f(X, X).numpy().tolist() == [2.0, 4.0, 6.0]
    assert f(X, gt.constant([1.0, 2.0, 3.0])).numpy().tolist() == [3.0, 6.0, 9.0]
    (g,) = gradient(lambda x: f(x, x), X)
    assert g.numpy().tolist() == [2.0, 2.0, 2.0]


def test_gradients_of_two_variables_in_turn():
    @gt.function
    def f(v, x):
        return v * v * x

    v, w = gt.Variable(2.0), gt.Variable(3.0)
    for variable, expected in ((v, 4.0), (w, 6.0), (v, 4.0)):
        with gt.GradientTape() as tape:
            y = f(variable, gt.constant(1.0))
        assert tape.gradient(y, variable).numpy() == expected
    assert f.experimental_get_tracing_count() == 2


def test_numpy_arguments_are_inputs():
    a = np.array([1.0, 2.0])
    f = gt.function(lambda x: x * 2.0)
    assert f(a).numpy().tolist() == [2.0, 4.0]
    a[0] = 5.0
    assert f(a).numpy().tolist() == [10.0, 4.0]
    assert f.experimental_get_tracing_count() == 1


def test_a_list_argument_that_the_function_fills():
    @gt.function
    def f(items, x):
        items.append(x * 2.0)
        return x

    mine = []
    f(mine, gt.constant(1.0))
    f.python_function(eager := [], gt.constant(1.0))
    assert [t.numpy() for t in mine] == [t.numpy() for t in eager] == [2.0]
    other = []
    f(other, gt.constant(4.0))
    assert [t.numpy() for t in other] == [8.0]
    assert len(mine) == 1


def test_inside_vectorized_map():
    f = gt.function(lambda x: x * x)
    assert gt.vectorized_map(f, X).numpy().tolist() == [1.0, 4.0, 9.0]


def test_functions_call_functions():
    @gt.function
    def inner(x, k):
        return x * k

    @gt.function
    def outer(x):
        return inner(x, 2.0) + inner(x, 3.0)

    assert outer(X).numpy().tolist() == [5.0, 10.0, 15.0]
    (g,) = gradient(outer, X)
    assert g.numpy().tolist() == [5.0, 5.0, 5.0]


FACTOR = 2.0


@gt.function
def with_factor(x):
    return x * FACTOR


def test_what_an_inner_function_read_counts_for_the_outer_one(monkeypatch):
    @gt.function
    def outer(x):
        return with_factor(x) + 1.0

    assert outer(X).numpy().tolist() == [3.0, 5.0, 7.0]
    monkeypatch.setattr(f"{__name__}.FACTOR", 10.0)
    assert outer(X).numpy().tolist() == [11.0, 21.0, 31.0]


def test_what_an_inner_function_captures_is_read_at_each_call():
    class Holder:
        t = gt.constant(2.0)

    holder = Holder()
    inner = gt.function(lambda x: x * holder.t)
    outer = gt.function(lambda x: inner(x) + 1.0)
    assert outer(gt.constant(1.0)).numpy() == 3.0
    holder.t = gt.constant(5.0)
    assert outer(gt.constant(1.0)).numpy() == 6.0


def test_recursion_of_static_depth():
    @gt.function
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert power(X, 3).numpy().tolist() == [1.0, 8.0, 27.0]


def test_recursion_that_depends_on_data_is_refused():
    @gt.function
    def down(x):
        if gt.reduce_sum(x) > 1.0:
            return down(x - 1.0)
        return x

    with pytest.raises(gt.errors.UnimplementedError, match="`down` calls itself with arguments of the same types"):
        down(X)


# -- methods ----------------------------------------------------------------------------------------------------------


class Model:
    traces = 0

    def __init__(self, k):
        self.k = k
        self.w = gt.Variable(1.0)

    @gt.function
    def call(self, x, scale=1.0):
        """Scales."""
        return x * self.k * self.w * scale

    @classmethod
    @gt.function
    def of_class(cls, x):
        return x + cls.traces

    @staticmethod
    @gt.function
    def static(x):
        return x + 1.0

    @gt.function
    @staticmethod
    def static_inside(x):
        return x + 2.0

    @gt.function
    @classmethod
    def class_inside(cls, x):
        return x + cls.traces + 1.0

    @property
    @gt.function
    def value(self):
        return self.w * 2.0

    __call__ = gt.function(lambda self, x: x - self.k)


def test_methods_are_per_object():
    a, b = Model(2.0), Model(3.0)
    for _ in range(2):
        assert a.call(X).numpy().tolist() == [2.0, 4.0, 6.0]
        assert b.call(X).numpy().tolist() == [3.0, 6.0, 9.0]
    assert a.call.experimental_get_tracing_count() == 1
    assert b.call.experimental_get_tracing_count() == 1
    assert a.call == a.call != b.call
    assert a.call.__name__ == "call"
    assert a.call.__doc__ == "Scales."
    a.call.clear_cache()
    assert (a.call.cache_info().currsize, b.call.cache_info().currsize) == (0, 1)
    Model.call.clear_cache()
    assert b.call.cache_info().currsize == 0


def test_a_bound_method_keeps_its_object():
    call = Model(2.0).call
    assert call(X, scale=2.0).numpy().tolist() == [4.0, 8.0, 12.0]


def test_a_method_called_through_the_class():
    assert Model.call(Model(2.0), X).numpy().tolist() == [2.0, 4.0, 6.0]


def test_attributes_that_change_retrace():
    model = Model(2.0)
    assert model.call(X).numpy().tolist() == [2.0, 4.0, 6.0]
    model.k = 4.0
    assert model.call(X).numpy().tolist() == [4.0, 8.0, 12.0]
    assert "`self.k` was 2.0, now 4.0" in model.call.explain()
    model.w.assign(0.5)
    assert model.call(X).numpy().tolist() == [2.0, 4.0, 6.0]
    assert model.call.experimental_get_tracing_count() == 2
    model.w = gt.Variable(10.0)
    assert model.call(X).numpy().tolist() == [40.0, 80.0, 120.0]


def test_class_static_and_special_methods(monkeypatch):
    model = Model(1.0)
    assert model.of_class(X).numpy().tolist() == Model.of_class(X).numpy().tolist() == [1.0, 2.0, 3.0]
    assert model.static(X).numpy().tolist() == Model.static(X).numpy().tolist() == [2.0, 3.0, 4.0]
    assert model.static_inside(X).numpy().tolist() == [3.0, 4.0, 5.0]
    assert model.class_inside(X).numpy().tolist() == [2.0, 3.0, 4.0]
    assert model.value.numpy() == 2.0
    assert model(X).numpy().tolist() == [0.0, 1.0, 2.0]
    monkeypatch.setattr(Model, "traces", 5)
    assert model.of_class(X).numpy().tolist() == [6.0, 7.0, 8.0]


def test_objects_without_weak_references():
    class Slotted:
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

        @gt.function
        def call(self, x):
            return x * self.k

    objects = [Slotted(float(k)) for k in range(100)]
    for k, o in enumerate(objects):
        assert o.call(gt.constant(1.0)).numpy() == k
    assert len(Slotted.call._methods.states()) <= 64


def test_methods_as_arguments_do_not_retrace():
    class Loss:
        def mean(self, x):
            return gt.reduce_mean(x)

        @gt.function
        def total(self, x):
            return gt.reduce_sum(x)

    loss = Loss()
    f = gt.function(lambda x, g: g(x))
    for _ in range(3):
        assert f(X, loss.mean).numpy() == 2.0
        assert f(X, loss.total).numpy() == 6.0
    assert f.experimental_get_tracing_count() == 2


# -- input_signature and reduce_retracing -----------------------------------------------------------------------------


def test_open_dimensions_are_one_trace_for_all_sizes():
    @gt.function(input_signature=[gt.TensorSpec([None, 2]), gt.TensorSpec([2])])
    def f(x, w):
        return gt.reduce_sum(x * w, axis=1)

    for n in (1, 2, 5, 17, 100):
        x = gt.constant(np.arange(2.0 * n).reshape(n, 2), gt.float32)
        w = gt.constant([1.0, -1.0])
        assert f(x, w).numpy().tolist() == [-1.0] * n
        (g, _) = gradient(f, x, w)
        assert g.numpy().tolist() == [[1.0, -1.0]] * n
    assert f.experimental_get_tracing_count() == 1
    assert f.cache_info().currsize == 1


def test_sizes_that_meet_in_one_operation():
    @gt.function(input_signature=[gt.TensorSpec([None]), gt.TensorSpec([None])])
    def f(x, y):
        return x + y

    assert f(gt.ones(3), gt.ones(3)).numpy().tolist() == [2.0] * 3
    assert f(gt.ones(5), gt.ones(5)).numpy().tolist() == [2.0] * 5
    count = f.experimental_get_tracing_count()
    assert f(gt.ones(1), gt.ones(4)).numpy().tolist() == [2.0] * 4  # broadcasting: a program of its own
    assert f.experimental_get_tracing_count() <= count + 1
    with pytest.raises(ValueError, match="3"):
        f(gt.ones(3), gt.ones(4))


def test_python_numbers_take_the_declared_dtype():
    f = gt.function(lambda x, n: x * n, input_signature=[gt.TensorSpec([], gt.float64), gt.TensorSpec([], gt.float64)])
    assert f(2, 3).numpy() == 6.0
    assert f(2.5, True if False else 4).dtype == gt.float64
    assert f([1.0][0], gt.constant(2.0, gt.float64)).numpy() == 2.0
    assert f.experimental_get_tracing_count() == 1


def declared(x, n=3):
    return x * n


@pytest.mark.parametrize(
    ("args", "kwargs", "kind", "text"),
    [
        ((gt.ones((2, 2)),), {}, TypeError, "declared: argument `x` must have shape (None,), got (2, 2)"),
        (
            (gt.ones(2, gt.float64),), {}, TypeError,
            "declared: argument `x` must have dtype float32, got float64; use gt.cast(x, gt.float32)",
        ),
        ((gt.ones(2), 5), {}, TypeError, "declared takes 1 argument by its input_signature; argument `n` has no entry there"),
        (("a",), {}, TypeError, "declared: argument `x` must have dtype float32, got string; use gt.cast(x, gt.float32)"),
        ((None,), {}, TypeError, "declared: argument `x` must be a tensor of shape (None,), dtype float32, got None"),
        ((), {}, TypeError, "declared() missing 1 required positional argument: 'x'"),
    ],
)  # fmt: skip
def test_calls_that_contradict_the_signature(args, kwargs, kind, text):
    f = gt.function(declared, input_signature=[gt.TensorSpec([None])])
    with pytest.raises(kind) as caught:
        f(*args, **kwargs)
    assert str(caught.value) == text
    assert f.experimental_get_tracing_count() == 0


def test_nested_signatures():
    spec = {"w": gt.TensorSpec([None, 2]), "b": [gt.TensorSpec([])]}
    f = gt.function(lambda p: p["w"] + p["b"][0], input_signature=[spec])
    assert f({"w": gt.ones((3, 2)), "b": [1.0]}).numpy().tolist() == [[2.0, 2.0]] * 3
    assert f({"b": [1.0], "w": gt.ones((1, 2))}).shape == (1, 2)
    assert f.experimental_get_tracing_count() <= 2
    with pytest.raises(TypeError, match=r"argument `p` must have the keys \['w', 'b'\], got \['w'\]"):
        f({"w": gt.ones((3, 2))})
    with pytest.raises(TypeError, match=r"argument `p\['w'\]` must have shape \(None, 2\), got \(3, 3\)"):
        f({"w": gt.ones((3, 3)), "b": [1.0]})
    with pytest.raises(TypeError, match=r"argument `p\['b'\]` must have 1 items, got 2"):
        f({"w": gt.ones((3, 2)), "b": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"argument `p` must be a dict with keys \['w', 'b'\], got 3"):
        f(3)


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (gt.TensorSpec([1]), "input_signature must be a list or tuple with one gt.TensorSpec"),
        ([3], "input_signature must consist of gt.TensorSpec, got 3"),
    ],
)
def test_wrong_signatures_are_refused_at_once(signature, text):
    with pytest.raises(TypeError, match=text.replace("(", "\\(")):
        gt.function(lambda x: x, input_signature=signature)


def test_signatures_of_the_wrong_length():
    spec = gt.TensorSpec([1])
    with pytest.raises(TypeError, match="input_signature has 2 entries, but the function takes 1 positional argument"):
        gt.function(lambda x: x, input_signature=[spec, spec])(gt.ones(1))
    with pytest.raises(TypeError, match="input_signature has no entry for argument `y`, which has no default"):
        gt.function(lambda x, y: x, input_signature=[spec])(gt.ones(1), gt.ones(1))


def test_a_function_that_needs_the_size_is_traced_per_shape():
    @gt.function(input_signature=[gt.TensorSpec([None])], autograph=False)
    def f(x):
        return sum(x[i] for i in range(int(x.shape[0])))

    assert f(gt.ones(3)).numpy() == 3.0
    assert f(gt.ones(4)).numpy() == 4.0
    assert f.experimental_get_tracing_count() == 2
    assert "note: traced per shape, because with unknown sizes: " in f.explain()


def test_reduce_retracing_opens_what_varies():
    @gt.function(reduce_retracing=True)
    def f(x):
        return gt.reduce_sum(x, axis=0)

    for n in range(1, 12):
        assert f(gt.ones((n, 2))).numpy().tolist() == [n, n]
    assert f.experimental_get_tracing_count() == 2
    assert f(gt.ones((3, 5))).shape == (5,)
    assert f(gt.ones((4, 6))).shape == (6,)
    assert f.experimental_get_tracing_count() <= 4


# -- concrete functions -----------------------------------------------------------------------------------------------


def test_concrete_functions_from_specs_and_values():
    f = gt.function(lambda x, n: {"y": x * n})
    concrete = f.get_concrete_function(gt.TensorSpec([None, 2]), 3)
    assert concrete.structured_input_signature == ((gt.TensorSpec([None, 2], name="x"), 3), {})
    assert concrete.structured_outputs == {"y": gt.TensorSpec([None, 2])}
    assert concrete.inputs == [gt.TensorSpec([None, 2], name="x")]
    assert concrete.outputs == [gt.TensorSpec([None, 2])]
    assert concrete.output_shapes == {"y": (None, 2)}
    assert concrete.output_dtypes == {"y": gt.float32}
    assert concrete(gt.ones((4, 2)))["y"].numpy().tolist() == [[3.0, 3.0]] * 4
    assert concrete(x=gt.ones((1, 2)))["y"].numpy().tolist() == [[3.0, 3.0]]
    assert concrete(gt.ones((1, 2)), 3)["y"].numpy().tolist() == [[3.0, 3.0]]
    assert "multiply" in concrete.to_text()
    f(gt.ones((7, 2)), 3)
    assert f.experimental_get_tracing_count() == 1
    again = f.get_concrete_function(gt.ones((7, 2)), 4)
    assert again(gt.ones((7, 2)))["y"].numpy()[0, 0] == 4.0


def test_concrete_functions_take_only_their_types():
    concrete = gt.function(declared).get_concrete_function(gt.TensorSpec([3]), 2)
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"declared: argument `x` must have shape \(3,\), got \(4,\)"):
        concrete(gt.ones(4))
    with pytest.raises(gt.errors.InvalidArgumentError, match="declared: argument `x` must have dtype float32, got float64"):
        concrete(gt.ones(3, gt.float64))
    with pytest.raises(ValueError, match="declared: argument `n` of this trace is 2, got 5"):
        concrete(gt.ones(3), 5)
    with pytest.raises(TypeError, match="declared: argument `x` is missing"):
        concrete()
    with pytest.raises(TypeError, match="declared: this trace has no argument `z`"):
        concrete(gt.ones(3), z=1)


def test_concrete_functions_are_never_stale(monkeypatch):
    concrete = with_factor.get_concrete_function(gt.TensorSpec([3]))
    assert concrete(X).numpy().tolist() == [2.0, 4.0, 6.0]
    monkeypatch.setattr(f"{__name__}.FACTOR", 3.0)
    assert concrete(X).numpy().tolist() == [3.0, 6.0, 9.0]


def test_concrete_function_of_a_declared_signature_needs_no_arguments():
    f = gt.function(declared, input_signature=[gt.TensorSpec([None])])
    concrete = f.get_concrete_function()
    assert concrete(gt.ones(2)).numpy().tolist() == [3.0, 3.0]
    f(gt.ones(5))
    assert f.experimental_get_tracing_count() == 1


def test_concrete_functions_have_gradients():
    concrete = square.get_concrete_function(gt.TensorSpec([None]))
    (g,) = gradient(concrete, X)
    assert g.numpy().tolist() == [2.0, 4.0, 6.0]


# -- text -------------------------------------------------------------------------------------------------------------


def test_to_text():
    f = gt.function(lambda x: gt.sin(x) * x)
    with pytest.raises(ValueError, match="was not traced yet"):
        f.to_text()
    text = f.to_text(gt.TensorSpec([2]))
    assert "sin" in text
    assert "float32[2]" in text
    assert f.to_text() == text
    f(gt.ones(3))
    assert f.to_text().count("sin") == 2


def test_explain_names_everything():
    limits = [1.0, 2.0]

    @gt.function
    def f(x, n):
        return x * n * FACTOR + limits[0] + with_factor(x)

    f(X, 2)
    f(X, 3)
    f(X, 3)
    text = f.explain()
    for part in (
        "function `f`",
        "stages: Python converted by AutoGraph → trace → passes → machine code (LLVM)",
        "calls: 1 served by a program, 2 traced",
        "trace 1: first call",
        "trace 2: argument `n`: 2 → 3 (a Python value; pass gt.constant(n) to avoid a trace per value)",
        "program of trace 2(x: float32[3])",
        "reads global `FACTOR` = 2.0",
        "closure variable `limits` = [1.0, 2.0]",
    ):
        assert part in text, part


def test_explain_before_any_call():
    assert "0 programs" in gt.function(lambda x: x).explain()


# -- check ------------------------------------------------------------------------------------------------------------


def test_check_passes_what_is_right():
    v = gt.Variable(1.0)
    log = []

    @gt.function(check=True)
    def f(x, n):
        v.assign_add(gt.reduce_sum(x))
        for _ in range(n):
            x = gt.sin(x) + v
        return x, gt.cast(x, gt.int32)

    y, _ = f(X, 3)
    assert v.numpy() == 7.0  # once, not three times
    with gt.GradientTape() as tape:
        tape.watch(X)
        z, _ = f(X, 3)
    assert v.numpy() == 13.0
    assert tape.gradient(z, X) is not None
    assert y.shape == (3,)
    assert log == []


def test_check_restores_random_state():
    @gt.function(check=True)
    def f(x):
        return x + gt.random.normal([3])

    gt.random.set_seed(1)
    first = f(X).numpy()
    gt.random.set_seed(1)
    assert f(X).numpy().tolist() == first.tolist()


def test_check_finds_a_result_that_depends_on_unseen_state():
    """State inside an iterator: neither a guard nor the snapshot can know it."""
    numbers = itertools.count(1)

    @gt.function(check=True, autograph=False)
    def f(x):
        return x * float(next(numbers))

    expected = r"`f`: output differs at index \(0,\): 2.0 in Python, 1.0 in the traced program"
    with pytest.raises(FunctionMismatchError, match=expected):
        f(X)


def test_check_finds_a_wrong_gradient():
    @gt.custom_gradient
    def odd(x):
        eager = isinstance(x.numpy() if x.__class__ is gt.Tensor else None, np.ndarray)
        return x * 2.0, lambda ct: ct * (2.0 if eager else 3.0)

    @gt.function(check=True, autograph=False)
    def f(x):
        return odd(x)

    with pytest.raises(FunctionMismatchError, match="`f`: the gradient with respect to `x` differs"):
        f(X)


def test_check_finds_another_structure():
    @gt.function(check=True, autograph=False)
    def f(x):
        return (x, x) if x.__class__ is gt.Tensor else x

    with pytest.raises(FunctionMismatchError, match="return different structures"):
        f(X)


# -- errors while tracing ---------------------------------------------------------------------------------------------


def test_a_failed_trace_leaves_nothing_behind():
    fail = [True]
    v = gt.Variable(1.0)

    @gt.function
    def f(x):
        v.assign_add(1.0)
        if fail[0]:
            raise KeyError("boom")
        return x * v

    for _ in range(2):
        with pytest.raises(KeyError, match="boom"):
            f(X)
    assert f.cache_info().currsize == 0
    fail[0] = False
    v.assign(1.0)
    assert f(X).numpy().tolist() == [2.0, 4.0, 6.0]


def test_variables_as_arguments_are_not_kept():
    f = gt.function(lambda v, x: v.assign_add(x) * 2.0)
    for k in range(4):
        v = gt.Variable(float(k))
        assert f(v, gt.constant(1.0)).numpy() == 2.0 * (k + 1)
    assert f.cache_info().currsize == 1
    del v
    assert f.cache_info().currsize == 0


# -- warnings are the user's ------------------------------------------------------------------------------------------


def test_a_retracing_warning_counts_per_object():
    models = [Model(float(k)) for k in range(10)]
    for k, model in enumerate(models):
        assert model.call(gt.constant(1.0)).numpy() == k
    assert issubclass(RetracingWarning, UserWarning)


def test_check_leaves_lists_and_attributes_alone():
    class Log:
        def __init__(self):
            self.count = 0
            self.items = []

        @gt.function(check=True)
        def add(self, given, x):
            self.count += 1
            self.items.append(x * 2.0)
            given.append(x)
            return x

    log, mine = Log(), []
    log.add(mine, gt.constant(1.0))
    assert (log.count, len(log.items), len(mine)) == (1, 1, 1)
    log.add(mine, gt.constant(2.0))
    assert (log.count, len(log.items), len(mine)) == (2, 2, 2)
    assert [t.numpy() for t in log.items] == [2.0, 4.0]

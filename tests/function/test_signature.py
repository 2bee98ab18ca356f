"""Calls taken apart: binding, leaves, keys, aliasing, rebuilding; and tokens of Python values."""

import functools
import gc
import math
import weakref
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import gradtape as gt
from gradtape.functions.signature import Binder, BoundCall
from gradtape.functions.tokens import ObjectIdentity, frozen, identities, shown, token

Point = namedtuple("Point", "x y")


class Thing:
    def method(self, x):
        return x


def call(*args, **kwargs):
    return BoundCall(args, kwargs)


def key(*args, **kwargs):
    return call(*args, **kwargs).key


X = gt.constant([1.0, 2.0])
Y = gt.constant([3.0, 4.0])


# -- binding ----------------------------------------------------------------------------------------------------------


def simple(a, b=2):
    pass


def everything(a, b=2, /, c=3, *rest, d, e=5, **more):
    pass


def test_defaults_are_applied_and_keywords_find_their_place():
    assert Binder(simple)(1) == ((1, 2), {})
    assert Binder(simple)(b=5, a=1) == ((1, 5), {})
    assert Binder(everything)(1, d=4) == ((1, 2, 3), {"d": 4, "e": 5})
    assert Binder(everything)(1, 2, 3, 4, 5, d=6, z=7) == ((1, 2, 3, 4, 5), {"d": 6, "e": 5, "z": 7})


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "simple() missing 1 required positional argument: 'a'"),
        ((1, 2, 3), {}, "simple() takes from 1 to 2 positional arguments but 3 were given"),
        ((1,), {"z": 1}, "simple() got an unexpected keyword argument 'z'"),
        ((1,), {"a": 1}, "simple() got multiple values for argument 'a'"),
    ],
)
def test_errors_are_python_s_own(args, kwargs, text):
    with pytest.raises(TypeError) as bound:
        Binder(simple)(*args, **kwargs)
    with pytest.raises(TypeError) as real:
        simple(*args, **kwargs)
    assert str(bound.value) == str(real.value) == text


def test_keyword_only_and_positional_only_are_kept():
    def f(a, /, *, b):
        pass

    assert Binder(f)(1, b=2) == ((1,), {"b": 2})
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'b'"):
        Binder(f)(1)
    with pytest.raises(TypeError, match="positional-only arguments passed as keyword arguments: 'a'"):
        Binder(f)(a=1, b=2)


def test_methods_partials_lambdas_and_builtins_bind():
    assert Binder(Thing().method)(1) == ((1,), {})
    assert Binder(functools.partial(simple, b=7))(1) == ((1,), {"b": 7})
    assert Binder(lambda x, y=1: x)(3) == ((3, 1), {})
    assert Binder(np.add)(1, 2) in [((1, 2), {}), ((1, 2), {"out": None})] or Binder(np.add)(1, 2)[0][:2] == (1, 2)


def test_names_of_places():
    binder = Binder(everything)
    assert [binder.name(i) for i in range(5)] == ["a", "b", "c", "rest[0]", "rest[1]"]


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0), (1, True), (1.0, True), (0, False), (0.0, -0.0), (1, "1"), (None, 0), (b"a", "a"), (1 + 0j, 1.0),
        (complex(0.0, -0.0), complex(0.0, 0.0)), (gt.float32, gt.float64), ([1], (1,)), ((1,), (1, 1)), ({"a": 1}, {"b": 1}),
        (Point(1, 2), (1, 2)), (range(3), range(4)), (slice(1), slice(2)), (math.sin, math.cos), (int, float),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([[1], 2], [[1, 2]]), ({1, 2}, {1, 3}), ({1: 0}, {True: 0}),
        (np.dtype("f4"), np.dtype("f8")), (gt.TensorShape([1]), gt.TensorShape([2])),
    ],
)  # fmt: skip
def test_static_values_that_differ(a, b):
    assert key(a) != key(b)
    assert key(a) == key(a)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 10**30, "text", (1, (2.5, None)), {"a": [1]}, slice(0, 3)])
def test_equal_values_have_equal_keys(value):
    import copy

    assert key(value) == key(copy.deepcopy(value))
    assert hash(key(value)) == hash(key(copy.deepcopy(value)))


def test_tensors_count_by_shape_and_dtype():
    assert key(X) == key(Y) == key(np.zeros(2, np.float32))
    assert key(X) != key(gt.constant([1.0])) != key(gt.constant(1.0))
    assert key(X) != key(gt.constant([1, 2]))
    assert key(np.float32(1)) == key(gt.constant(1.0))
    assert key(np.array([1.0])) != key(np.array([1.0], np.float32))


def test_numpy_data_becomes_tensors_by_copy():
    a = np.ones(3)
    made = call(a).tensors[0]
    a[0] = 7.0
    assert isinstance(made, gt.Tensor)
    assert made.numpy().tolist() == [1.0, 1.0, 1.0]


def test_arrays_of_objects_are_static():
    a = np.array([Thing()], dtype=object)
    assert call(a).tensors == []


def test_variables_are_static_by_identity():
    v, w = gt.Variable(1.0), gt.Variable(1.0)
    assert key(v) == key(v) != key(w)
    assert call(v).tensors == []


def test_objects_are_held_weakly():
    thing = Thing()
    ref = weakref.ref(thing)
    stored = key(thing)
    assert key(thing) == stored
    del thing
    assert ref() is None
    assert stored != key(Thing())
    assert stored != (*stored[:1], ObjectIdentity(Thing()))


def test_an_address_used_again_is_no_match():
    things = Thing()
    stored = ObjectIdentity(things)
    stored_hash = hash(stored)
    del things
    for _ in range(100):
        other = Thing()
        if id(other) == stored_hash:
            break
    assert ObjectIdentity(other) != stored


def test_bound_methods_are_their_object_and_function():
    thing, other = Thing(), Thing()
    assert key(thing.method) == key(thing.method) != key(other.method)
    assert [found.target for found in identities(key(thing.method))] == [thing, Thing.method]


def test_partials_are_opened():
    made = call(functools.partial(simple, X, b=3))
    assert len(made.tensors) == 1
    assert made.key == key(functools.partial(simple, Y, b=3)) != key(functools.partial(simple, Y, b=4))


def test_one_tensor_twice_is_one_input_and_part_of_the_key():
    assert len(call(X, X).tensors) == 1
    assert key(X, X) == key(Y, Y) != key(X, Y)
    assert key(X, Y, X) != key(X, Y, Y)
    a = np.ones(2, np.float32)
    assert key(a, a) == key(X, X)


def test_one_list_twice_is_part_of_the_key():
    items = [X]
    assert key(items, items) != key([X], [Y])
    assert call(items, items).containers == [items]


def test_a_list_that_contains_itself():
    items = [1]
    items.append(items)
    made = BoundCall((items,), {})
    args, _ = made.rebuild(Binder(lambda x: x))([])
    assert args[0][1] is args[0]
    assert args[0] is not items


# -- rebuilding -------------------------------------------------------------------------------------------------------


def rebuilt(*args, **kwargs):
    made = BoundCall(args, kwargs)
    rebuild = made.rebuild(Binder(lambda *args, **kwargs: None))
    stand_ins = [f"t{i}" for i in range(len(made.tensors))]
    return rebuild(stand_ins)


def test_rebuild_puts_stand_ins_in_place():
    thing = Thing()
    args, kwargs = rebuilt(X, [Y, 3, thing], {"b": X, "a": (Y, None)}, z=gt.constant(1))
    assert args[0] == "t0"
    assert args[1] == ["t1", 3, thing]
    assert args[2] == {"b": "t0", "a": ("t1", None)}
    assert list(args[2]) == ["b", "a"]  # in the order the user wrote
    assert kwargs == {"z": "t2"}


def test_rebuild_keeps_the_kinds_of_containers():
    ordered = OrderedDict(b=X, a=1)
    default = defaultdict(list, k=Y)
    (args, _) = rebuilt(ordered, default, Point(X, 2), slice(X, None))
    assert type(args[0]) is OrderedDict
    assert list(args[0].items()) == [("b", "t0"), ("a", 1)]
    assert type(args[1]) is defaultdict
    assert args[1].default_factory is list
    assert args[2] == Point("t0", 2)
    assert args[3] == slice("t0", None)


def test_rebuild_never_gives_the_caller_s_containers():
    items, table = [X], {"a": X}
    args, _ = rebuilt(items, table)
    assert args[0] is not items
    assert args[1] is not table
    assert items[0] is X


def test_aliases_stay_aliases():
    items = [X]
    args, _ = rebuilt(X, items, items, [X])
    assert args[1] is args[2]
    assert args[3] is not args[1]
    stand_in = object()
    made = BoundCall((X, [X]), {})
    args, _ = made.rebuild(Binder(lambda *a: None))([stand_in])
    assert args[0] is args[1][0] is stand_in


def test_indexed_slices_are_structure():
    slices = gt.IndexedSlices(gt.ones((2, 3)), gt.constant([0, 2]), [4, 3])
    made = BoundCall((slices,), {})
    assert len(made.tensors) == 2
    (args, _) = made.rebuild(Binder(lambda *a: None))(made.tensors)
    assert isinstance(args[0], gt.IndexedSlices)
    np.testing.assert_array_equal(args[0].numpy(), slices.numpy())


def test_names_of_tensor_leaves():
    made = BoundCall((X, {"w": [gt.constant(1.0), Point(gt.constant(2.0), 0)]}, gt.constant(3.0)), {"k": gt.constant(4.0)})

    def f(x, params, *rest, k):
        pass

    assert made.rebuild(Binder(f)).names == ["x", "params['w'][0]", "params['w'][1].x", "rest[0]", "k"]


def test_rebuild_can_be_released():
    thing = Thing()
    ref = weakref.ref(thing)
    rebuild = BoundCall((thing, X), {}).rebuild(Binder(lambda *a: None))
    del thing
    assert ref() is not None
    rebuild.release()
    assert ref() is None
    with pytest.raises(RuntimeError, match="released"):
        rebuild([])


def test_keys_keep_no_tensor_alive():
    t = gt.constant([1.0])
    ref = weakref.ref(t)
    stored = key(t, [t])
    del t
    gc.collect()
    assert ref() is None
    other = gt.constant([5.0])
    assert stored == key(other, [other])


def test_family_forgets_sizes_only():
    a, b = call(gt.zeros((2, 3)), 4), call(gt.zeros((5, 3)), 4)
    assert a.family() == b.family()
    assert a.key != b.key
    assert a.family() != call(gt.zeros((2, 3)), 5).family()
    assert a.family() != call(gt.zeros(2), 4).family()


def test_specs_have_symbols_where_the_pattern_is_open():
    made = call(gt.zeros((2, 3)), gt.zeros(3))
    first, second = made.specs([(None, 3), (None,)], ["x", "y"])
    assert first.shape[1] == 3
    assert str(first.shape[0]) != str(second.shape[0])
    assert first.name == "x"


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_frozen_is_deep_and_bounded():
    assert frozen([1, {"a": (2, 3.0)}]) == frozen([1, {"a": (2, 3.0)}])
    assert frozen([1, {"a": (2, 3.0)}]) != frozen([1, {"a": (2, 3)}])
    assert frozen(list(range(65))) is None
    assert frozen(list(range(64))) is not None


def test_shown_says_what_a_value_is_without_addresses():
    assert shown(3) == "3"
    assert len(shown("a" * 100)) < 40
    assert shown(Thing()) == "a Thing object"
    assert shown(simple) == "simple"
    assert shown(gt.Variable(1.0, name="v")) == "Variable 'v:0'"
    assert "0x" not in shown([Thing()])


def test_tokens_of_numpy_scalars():
    assert token(np.float64(1.0)) != token(np.float32(1.0))
    assert token(np.float64("nan")) == token(np.float64("nan"))

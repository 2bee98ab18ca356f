"""gt.nest: structures of Python containers."""

import collections

import pytest

import gradtape as gt
from gradtape import tree

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("structure", "flat"),
    [
        (1, [1]),
        (None, [None]),
        ([], []),
        ([1, (2, [3])], [1, 2, 3]),
        ({"b": 1, "a": 2}, [2, 1]),
        (Point(1, {"k": 2}), [1, 2]),
        (collections.OrderedDict([("z", 1), ("y", 2)]), [2, 1]),
        ({2: "a", 1: "b"}, ["b", "a"]),
        ("text", ["text"]),
    ],
)
def test_flatten_and_pack(structure, flat):
    assert gt.nest.flatten(structure) == flat
    rebuilt = gt.nest.pack_sequence_as(structure, flat)
    assert rebuilt == structure
    assert type(rebuilt) is type(structure)


def test_tensors_shapes_and_variables_are_leaves():
    t, v = gt.constant([1.0, 2.0]), gt.Variable(1.0)
    flat = gt.nest.flatten([t, (v, t.shape)])
    assert flat[0] is t
    assert flat[1] is v
    assert flat[2] == (2,)
    assert not gt.nest.is_nested(t)
    assert not gt.nest.is_nested(t.shape)
    assert gt.nest.is_nested(())


def test_pack_keeps_key_order_of_the_dict_and_types():
    packed = gt.nest.pack_sequence_as({"b": 0, "a": 0}, [1, 2])
    assert list(packed.items()) == [("b", 2), ("a", 1)]
    ordered = gt.nest.pack_sequence_as(collections.OrderedDict(b=0, a=0), [1, 2])
    assert isinstance(ordered, collections.OrderedDict)
    assert list(ordered) == ["b", "a"]
    default = collections.defaultdict(list, a=0)
    assert gt.nest.pack_sequence_as(default, [5]) == {"a": 5}
    with pytest.raises(ValueError, match="2 leaves but 1 values"):
        gt.nest.pack_sequence_as([1, 2], [1])


def test_map_structure():
    assert gt.nest.map_structure(lambda a, b: a + b, {"x": (1, 2)}, {"x": (10, 20)}) == {"x": (11, 22)}
    assert gt.nest.map_structure(lambda p: p * 2, Point(1, 2)) == Point(2, 4)
    assert gt.nest.map_structure(lambda a, b: a + b, [1], (2,), check_types=False) == [3]
    with pytest.raises(TypeError, match="list against tuple"):
        gt.nest.map_structure(lambda a, b: a, [1], (1,))
    with pytest.raises(ValueError, match="at least one"):
        gt.nest.map_structure(lambda: 0)


def test_assert_same_structure():
    gt.nest.assert_same_structure([1, {"a": (2,)}], [3, {"a": (4,)}])
    with pytest.raises(ValueError, match=r"\[\., \.\] against \[\.\]"):
        gt.nest.assert_same_structure([1, 2], [1])
    with pytest.raises(ValueError, match="keys differ"):
        gt.nest.assert_same_structure({"a": 1}, {"b": 1})
    with pytest.raises(ValueError, match="differ"):
        gt.nest.assert_same_structure(1, [1])
    with pytest.raises(TypeError, match="Point against tuple"):
        gt.nest.assert_same_structure(Point(1, 2), (1, 2))
    gt.nest.assert_same_structure(Point(1, 2), (1, 2), check_types=False)
    with pytest.raises(ValueError, match="differ"):
        gt.nest.assert_same_structure({"a": 1}, [1], check_types=False)


def test_containers_are_copied():
    source = [1, [2]]
    twin = gt.nest.map_structure(lambda x: x, source)
    source[1].append(3)
    assert twin == [1, [2]]


def test_gradient_keeps_the_structure_of_the_sources():
    x, y = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        z = x * y
    grads = tape.gradient(z, {"p": Point(x, [y]), "q": (x,)})
    assert isinstance(grads["p"], Point)
    assert grads["p"].x.numpy() == 3.0
    assert grads["p"].y[0].numpy() == 2.0
    assert grads["q"][0].numpy() == 3.0


class Row(list):
    """A list that carries more than its items."""

    unit = ""


class Table(dict):
    """A dict that carries more than its items."""

    unit = ""


class Pair(tuple):
    """A tuple without fields."""

    __slots__ = ()


@pytest.mark.parametrize("kind", [list, tuple, Row, Pair, Point, dict, collections.OrderedDict, Table])
def test_other_children_in_a_container_of_the_same_class(kind):
    container = kind({"b": 1, "a": 2}) if issubclass(kind, dict) else kind(1, 2) if kind is Point else kind([1, 2])
    if hasattr(kind, "unit"):
        container.unit = "m"
    twin = tree.like(container, [3, 4])
    assert type(twin) is kind
    assert list(twin.values() if isinstance(twin, dict) else twin) == [3, 4]
    assert list(container.values() if isinstance(container, dict) else container) == [1, 2]
    assert getattr(twin, "unit", None) == getattr(container, "unit", None)
    assert not isinstance(twin, dict) or list(twin) == ["b", "a"]

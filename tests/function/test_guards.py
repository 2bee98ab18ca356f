"""Guards: every kind of read, what counts as changed, the words for it, and that nothing is kept alive."""

import copy
import gc
import types
import weakref

import numpy as np
import pytest

import gradtape as gt
from gradtape.functions.guards import Guards


class Thing:
    def __init__(self, **values):
        self.__dict__.update(values)

    def method(self):
        return 1

    @property
    def fresh(self):
        return Thing()


class Slotted:
    __slots__ = ("k",)


def cell_of(value):
    return (lambda: value).__closure__[0]


def sealed(note):
    guards = Guards()
    note(guards)
    guards.seal()
    assert guards.check is None or guards.check()
    assert guards.changed() is None
    return guards


def agrees(guards, holds):
    """The compiled check and the explanation say the same."""
    assert guards.check() is holds
    assert (guards.changed() is None) is holds


SCALARS = [
    (2, 3), (2, 2.0), (1, True), (True, False), ("a", "b"), (b"a", b"b"), (None, 0), (0.0, -0.0), (-0.0, 0.0), (1.5, 1.25),
    (float("nan"), 1.0), (float("inf"), float("-inf")), (1j, 2j), (complex(0.0, -0.0), 0j), (gt.float32, gt.float64),
    ((1, 2), (1, 3)), ((1, 2), (1, 2.0)), ((1, 2), [1, 2]), (np.float32(1), np.float64(1)), (range(3), range(4)),
    ([1, 2], [1, 2, 3]), ([1, 2], [1, 5]), ({"a": 1}, {"a": 2}), ({"a": 1}, {"b": 1}), ({1, 2}, {1}), (len, max), (int, float),
    (np, gt), (10**40, 10**40 + 1), ("", None),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), SCALARS)
def test_a_global_that_changed(old, new):
    space = {"K": old}
    guards = sealed(lambda g: g.name(space, "K", old))
    agrees(guards, True)
    space["K"] = new
    agrees(guards, False)
    assert guards.changed().startswith("global `K` was ")
    space["K"] = old
    agrees(guards, True)


@pytest.mark.parametrize(("old", "new"), SCALARS)
def test_an_attribute_that_changed(old, new):
    thing = Thing(k=old)
    guards = sealed(lambda g: g.attribute(thing, "k", old))
    thing.k = new
    agrees(guards, False)
    thing.k = old
    agrees(guards, True)


def test_equal_values_hold():
    space = {"K": "text", "T": (1, (2.5, "a")), "L": [1, [2]], "N": float("nan")}

    def note(guards):
        for name, value in space.items():
            guards.name(space, name, value)

    guards = sealed(note)
    space.update(K="te" + "xt", T=(1, (2.5, "a")), L=[1, [2]], N=float("nan"))
    agrees(guards, True)


def test_closure_variables():
    cell = cell_of(2)
    guards = sealed(lambda g: g.name(cell, "k", 2))
    cell.cell_contents = 3
    agrees(guards, False)
    assert guards.changed().startswith("closure variable `k` was 2, now 3 (read at ")
    del cell.cell_contents
    agrees(guards, False)
    assert "now it is gone" in guards.changed()


def test_deleted_names_and_attributes():
    thing = Thing(k=1)
    space = {"K": 1}

    def note(guards):
        guards.name(space, "K", 1)
        guards.attribute(thing, "k", 1)

    guards = sealed(note)
    del space["K"]
    assert guards.changed().startswith("global `K` was 1, now it is gone")
    space["K"] = 1
    del thing.k
    agrees(guards, False)


def test_builtins_are_guarded_against_being_hidden():
    space = {}
    guards = sealed(lambda g: g.name(space, "len", len))
    space["len"] = lambda x: 0
    agrees(guards, False)
    assert guards.changed().startswith("the builtin `len` is now hidden by a global of that name")


def test_the_line_of_the_read_is_named():
    space = {"K": 1}
    guards = sealed(lambda g: g.name(space, "K", 1))
    space["K"] = 2
    assert "test_guards.py:" in guards.changed()


def test_objects_count_by_identity():
    first = Thing()
    space = {"o": first}
    guards = sealed(lambda g: g.name(space, "o", first))
    space["o"] = Thing()
    agrees(guards, False)
    assert guards.changed().startswith("global `o` is now another object (a Thing object)")
    space["o"] = first
    agrees(guards, True)


def test_a_path_is_followed_from_its_root():
    inner = Thing(k=1)
    outer = Thing(layers=[inner])

    def note(guards):
        guards.label(outer, "self")
        guards.attribute(outer, "layers", outer.layers)
        guards.item(outer.layers, 0, inner)
        guards.attribute(inner, "k", 1)

    guards = sealed(note)
    inner.k = 2
    assert guards.changed().startswith("`self.layers[0].k` was 1, now 2")
    inner.k = 1
    outer.layers.append(Thing())
    agrees(guards, False)  # a short list counts as a whole


def test_long_containers_count_by_length_and_items_read():
    items = [Thing(i=i) for i in range(100)]
    space = {"L": items}

    def note(guards):
        guards.name(space, "L", items)
        guards.item(items, 3, items[3])

    guards = sealed(note)
    items[5] = Thing()
    agrees(guards, True)
    items[3] = Thing()
    agrees(guards, False)
    assert list(guards.unguarded) == ["the items of `L` that were not read one by one (a large list of 100)"]


def test_lengths():
    items = list(range(1000))
    space = {"L": items}

    def note(guards):
        guards.name(space, "L", items)
        guards.length(items)

    guards = sealed(note)
    items.append(1)
    agrees(guards, False)


def test_items_of_dicts_with_odd_keys():
    key = (1, "a")
    table = {key: 1, "k": 2, **{i: i for i in range(100)}}

    def note(guards):
        guards.item(table, key, 1)
        guards.item(table, "k", 2)

    guards = sealed(note)
    table[key] = 5
    agrees(guards, False)
    table[key] = 1
    del table["k"]
    agrees(guards, False)


def test_arrays_count_by_content():
    array = np.arange(3.0)
    guards = sealed(lambda g: g.array(array, array))
    array[1] = 9.0
    agrees(guards, False)
    assert "was [0., 1., 2.], now [0., 9., 2.]" in guards.changed()
    array[1] = 1.0
    agrees(guards, True)


def test_arrays_by_a_way_to_read_them():
    thing = Thing(a=np.array([np.nan, 1.0]))
    guards = sealed(lambda g: g.array(lambda: thing.a, thing.a, "self.a"))
    thing.a = np.array([np.nan, 1.0])
    agrees(guards, True)
    thing.a = np.array([np.nan, 1.0], np.float32)
    agrees(guards, False)


def test_bound_methods_are_their_object_and_function():
    thing = Thing()
    space = {"m": thing.method}
    guards = sealed(lambda g: g.name(space, "m", space["m"]))
    space["m"] = thing.method
    agrees(guards, True)
    space["m"] = Thing().method
    agrees(guards, False)


def test_properties_that_make_new_objects_are_not_guarded_but_listed():
    thing = Thing()

    def note(guards):
        guards.label(thing, "self")
        guards.attribute(thing, "fresh", thing.fresh)

    guards = sealed(note)
    assert list(guards.unguarded) == ["`self.fresh` (computed anew at each read)"]
    assert guards.check is None


def test_a_property_that_raises_is_a_change():
    class Moody:
        ok = True

        @property
        def k(self):
            if not self.ok:
                raise RuntimeError("no")
            return 1

    moody = Moody()
    guards = sealed(lambda g: g.attribute(moody, "k", 1))
    moody.ok = False
    agrees(guards, False)


def test_module_attributes():
    module = types.ModuleType("mod")
    module.k = 1
    space = {"mod": module}

    def note(guards):
        guards.name(space, "mod", module)
        guards.attribute(module, "k", 1)

    guards = sealed(note)
    module.k = 2
    assert guards.changed().startswith("`mod.k` was 1, now 2")


def test_objects_made_by_the_trace_are_not_guarded():
    own = [1, 2]

    def note(guards):
        guards.created(own)
        guards.item(own, 0, 1)
        guards.length(own)

    assert sealed(note).check is None


def test_a_container_that_is_changed_counts_by_what_it_is_and_held():
    thing = Thing(items=[1, "a"])
    space = {"thing": thing}

    def note(guards):
        guards.name(space, "thing", thing)
        guards.attribute(thing, "items", thing.items)
        guards.changes(thing.items)
        guards.content(thing.items, [1, "a"], tuple)

    guards = sealed(note)
    agrees(guards, True)
    thing.items.append(3)
    agrees(guards, False)
    thing.items.pop()
    agrees(guards, True)
    thing.items = [1, "a"]  # another list, to which nothing would be written back
    agrees(guards, False)


def test_two_places_of_one_tensor_must_hold_the_same():
    space = {"a": gt.constant(1.0)}
    space["b"] = space["a"]
    guards = sealed(lambda g: g.same(lambda: space["a"], lambda: space["b"], "b"))
    agrees(guards, True)
    space["b"] = gt.constant(1.0)
    agrees(guards, False)


def test_included_guards_count():
    space = {"K": 1}
    inner = sealed(lambda g: g.name(space, "K", 1))
    outer = sealed(lambda g: g.include(inner))
    space["K"] = 2
    agrees(outer, False)
    assert "global `K` was 1, now 2" in outer.changed()
    assert len(outer) == 1


def test_nothing_is_kept_alive():
    thing = Thing(k=1, layers=[Thing(k=2)], table={"a": Thing()})
    thing.layers[0].parent = thing  # a cycle through a list, which cannot be referred to weakly

    def note(guards):
        guards.attribute(thing, "k", 1)
        guards.attribute(thing, "layers", thing.layers)
        guards.item(thing.layers, 0, thing.layers[0])
        guards.attribute(thing.layers[0], "k", 2)
        guards.attribute(thing, "table", thing.table)

    guards = sealed(note)
    ref = weakref.ref(thing)
    note = thing = None
    gc.collect()
    assert ref() is None
    agrees(guards, False)
    assert guards.expired()
    assert "is gone" in guards.changed()


def test_objects_without_weak_references():
    slotted = Slotted()
    slotted.k = 1
    space = {"s": slotted}

    def note(guards):
        guards.name(space, "s", slotted)
        guards.attribute(slotted, "k", 1)

    guards = sealed(note)
    slotted.k = 2
    agrees(guards, False)


def test_lines_for_explain():
    space = {"K": 2}
    thing = Thing(k="a")

    def note(guards):
        guards.label(thing, "self")
        guards.name(space, "K", 2)
        guards.attribute(thing, "k", "a")
        guards.name(space, "len", len)

    guards = sealed(note)
    assert guards.lines() == ["global `K` = 2", "`self.k` = 'a'"]


def test_no_guards_no_check():
    guards = Guards().seal()
    assert guards.check is None
    assert guards.changed() is None
    assert not guards.expired()


def test_keys_count_apart_from_values():
    table = {i: i for i in range(100)}

    def note(guards):
        guards.keys(table)

    guards = sealed(note)
    table[3] = "another value"
    agrees(guards, True)
    table[1000] = table.pop(5)
    agrees(guards, False)


def test_members_of_sets():
    members = {1, 2}
    guards = sealed(lambda g: g.keys(members))
    members.discard(1)
    members.add(3)
    agrees(guards, False)


def test_attributes_that_do_not_exist():
    thing = Thing()

    def note(guards):
        guards.label(thing, "self")
        guards.missing(thing, "k")

    guards = sealed(note)
    assert guards.lines() == ["`self.k` does not exist"]
    thing.k = 1
    agrees(guards, False)
    assert guards.changed().startswith("`self.k` did not exist, now it does (read at ")
    del thing.k
    agrees(guards, True)


def test_slices_as_keys():
    items = list(range(100))
    guards = sealed(lambda g: g.item(items, slice(0, 3), items[0:3]))
    items[50] = -1
    agrees(guards, True)
    items[2] = -1
    agrees(guards, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, 2], [1, True]), ([1, 2], [1, 2.0]), ([1, 2], [1, 2, 3]), ([], [0]), ([0.0], [-0.0]), ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"a": 1}, {"a": True}), ({}, {"a": 1}), ({"a": 1}, {"b": 1}),
        ({"a": 0.0}, {"a": -0.0}),
        ((1, 2), (1, True)), ((1, 2.0), (1, 2)), ((0.0,), (-0.0,)), (("a",), ["a"]),
    ],
    ids=str,
)  # fmt: skip
def test_containers_of_numbers_and_text_count_by_their_items(before, after):
    held = before

    @gt.function
    def f(x):
        return x + len(repr(held))

    x = gt.constant(1.0)
    f(x), f(x)
    held = copy.deepcopy(before)  # another object with the same items
    f(x)
    assert f.experimental_get_tracing_count() == 1
    held = after
    f(x)
    assert f.experimental_get_tracing_count() == 2
    held = before
    f(x)
    assert f.experimental_get_tracing_count() == 2


def test_a_list_that_changes_in_place_is_noticed():
    held = [1, "a"]

    @gt.function
    def f(x):
        return x * held[0]

    assert [f(gt.constant(1.0)).numpy() for _ in range(3)] == [1.0] * 3
    held[0] = 5
    assert f(gt.constant(1.0)).numpy() == 5.0
    held.append(3)
    held[0] = 1
    assert f(gt.constant(1.0)).numpy() == 1.0


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_objects_is_compared_by_identity(kind):
    things = [Thing(k=1), Thing(k=1), Thing(k=1)]
    space = {"held": kind(things)}
    guards = Guards()
    guards.name(space, "held", space["held"])
    check = guards.seal().check
    other = list if kind is tuple else tuple
    assert check()
    for held, same in (
        (kind(things), True), (kind(things[::-1]), False), (kind(things[:2]), False), (kind([*things, None]), False),
        (kind([*things[:2], Thing(k=1)]), False), (other(things), False), (None, False),
    ):  # fmt: skip
        space["held"] = held
        assert check() is same, held
    space["held"] = kind([None, *things[1:]])
    del things, held
    gc.collect()
    assert not check()  # None is no object that is gone

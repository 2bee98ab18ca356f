"""What converted code read of the Python world, and whether it is still so.

While a function is traced, each read of a global, closure variable, attribute or item goes into `Guards` with what was
found. Afterwards the list is one compiled function, asked before each run of the program: scalars, text and tuples of
them are compared by type and value, functions, classes, modules and other objects by identity (weakly), containers by
their items. An object is read again the way it was reached (`self.layers[0].k` from `self`), never held.
Invariant: guards keep no weakly referable object alive, and a guard that holds proves the read would give the same again.
"""

from __future__ import annotations

import keyword
import math
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import CellType, ModuleType
from typing import Any

import numpy as np

from gradtape.core.hooks import HOOKS
from gradtape.core.record import user_location
from gradtape.dtypes import DType
from gradtape.functions.tokens import BOUND, SCALARS, ObjectIdentity, frozen, identities, shown

_GONE: Any = type("Gone", (), {"__repr__": lambda self: "gone"})()
_CONTAINERS = (list, dict, tuple, set, frozenset, deque)
_DERIVED = ("content", "keys", "length", "missing", "unshadowed")  # reads that lead to no object


class _Read:
    """One read: where it starts, how to do it again, what it gave."""

    __slots__ = ("expected", "key", "kind", "label", "origin", "parent", "value_id", "where")

    def __init__(self, kind: str, parent: _Read | None, origin: Any, key: Any, label: str) -> None:
        self.kind = kind  # "object" (a root), "global", "unshadowed", "cell", "attribute", "missing", "item", "keys", ...
        self.parent = parent
        self.origin = origin  # of reads without a parent: a dict, a cell, an ObjectIdentity, a function
        self.key = key
        self.label = label
        self.expected: _Expected | None = None
        self.value_id = 0
        self.where = ""

    def again(self) -> Any:
        """What the same read gives now; `_GONE` where it fails."""
        try:
            return self._again()
        except Exception:  # a deleted name, an item that is no longer there, a property that raises
            return _GONE

    def _again(self) -> Any:
        # along the way the trace took: `a.b.c` is read anew from `a`, since any of them may be another object now
        above = None if self.parent is None else self.parent.again()
        # the very expressions of which the compiled check consists: a message can never disagree with it
        value = eval(_READ_CODE[self.kind], {"o": self.start, "k": self.key, "above": above})  # noqa: S307
        return _GONE if self.kind == "object" and value is None else value

    @property
    def start(self) -> Any:
        """The origin as an expression of `_READS` takes it: an object is asked for, not held."""
        return self.origin._ref if self.kind == "object" else self.origin


# How each kind of read is done again: `o` is where it starts, or `above` what the read before it gives, `k` its key.
_READS = {
    "object": "{o}()", "array": "{o}()", "global": "{o}[{k}]", "unshadowed": "{k} in {o}", "cell": "{o}.cell_contents",
    "attribute": "getattr({above}, {k})", "missing": "hasattr({above}, {k})", "item": "{above}[{k}]", "length": "len({above})",
    "keys": "tuple({above}) if isinstance({above}, dict) else frozenset({above})", "content": "{above}",
}  # fmt: skip
_READ_CODE = {kind: compile(text.format(o="o", k="k", above="above"), "<gradtape>", "eval") for kind, text in _READS.items()}


class _Expected:
    """What a read must give, and how messages call it."""

    __slots__ = ("holds", "plain", "text", "value")

    def __init__(self, holds: Callable[[Any], bool], text: str, value: Any, plain: Any = None) -> None:
        self.holds = holds
        self.text = text
        self.value = value  # for the compiled check: an exact scalar, a token, or `_GONE` for none of them
        self.plain = plain  # of a container of numbers and text: that, to be compared with quickly


class Guards:
    """The reads of one trace."""

    def __init__(self) -> None:
        self._reads: dict[tuple[Any, ...], _Read] = {}
        self._reached: dict[int, _Read] = {}  # the objects found, by identity: how to reach them again
        self._alive: list[Any] = []  # keeps their identities valid while tracing
        self._names: dict[int, str] = {}
        self._own: set[int] = set()
        self._plain: set[tuple[int, tuple[str, ...]]] = set()
        self._inner: list[Guards] = []
        self.unguarded: dict[str, None] = {}  # reads that are not checked, in words
        self._check: Callable[[], bool] | None = None

    # -- while tracing -------------------------------------------------------------------------------------------------

    def label(self, target: Any, label: str) -> None:
        """What messages call an object the call was given."""
        self._names.setdefault(id(target), label)
        self._alive.append(target)

    def name(self, scope: dict[str, Any] | CellType, name: str, value: Any) -> None:
        """A global (`scope` is the module's namespace) or a closure variable (`scope` is its cell) was read."""
        if isinstance(scope, CellType):
            self._note("cell", None, scope, name, name, value)
        elif name in scope:
            self._note("global", None, scope, name, name, value)
        else:  # a builtin: it stays what it is until somebody defines a global of that name
            self._note("unshadowed", None, scope, name, name, False)

    def builtins(self, space: dict[str, Any], names: tuple[str, ...]) -> None:
        """Code of this module uses these names for builtins, or for what hides them."""
        if (id(space), names) not in self._plain:
            self._plain.add((id(space), names))
            for name in names:
                if not name.startswith("__"):
                    self.name(space, name, space.get(name))

    def attribute(self, target: Any, name: str, value: Any) -> None:
        """`target.name` was read."""
        if id(target) in self._own:
            return
        parent = self._parent(target)
        # a property that makes an object at each read would fail its guard at every call
        if _is_object(value) and not _stable(target, name, value):
            self.unguarded[f"`{parent.label}.{name}` (computed anew at each read)"] = None
            return
        self._note("attribute", parent, target, name, f"{parent.label}.{name}", value)

    def item(self, container: Any, key: Any, value: Any) -> None:
        """`container[key]` was read."""
        self._inside("item", container, key, f"[{key!r}]", value)

    def length(self, container: Any) -> None:
        """The length of a container was used: by `len`, or by a loop over it."""
        self._inside("length", container, None, "", len(container))

    def keys(self, container: Any) -> None:
        """The keys of a dict, or the members of a set, were used: by a loop, or by `in`."""
        keys = tuple(container) if isinstance(container, dict) else frozenset(container)
        # all of them, however many: a loop over a dict of parameters depends on each
        self._inside("keys", container, None, "", keys, _by_token(keys, limit=10**6))

    def content(self, container: Any, old: Any, token: Callable[[Any], Any]) -> None:
        """A container that the function changes held `old` when the call began: what it holds must have the same token."""
        stand_in = token(old)
        self._inside("content", container, None, "", None, _Expected(lambda now: token(now) == stand_in, shown(old), _GONE))

    def same(self, first: Callable[[], Any], second: Callable[[], Any], label: str) -> None:
        """Two places held the same tensor or array, which is one input of the program."""
        entry = _Read("array", None, lambda: first() is second(), None, label)
        entry.expected = _Expected(lambda now: now is True, "the same object as another name's", True)
        entry.where = user_location()
        self._reads["same", len(self._reads)] = entry

    def rank_kind(self, read: Callable[[], Any], kind: Any, label: str) -> Any:
        """What a captured tensor or variable is among several ranks counted."""
        entry = _Read("array", None, lambda: HOOKS.rank_kind(read()), None, f"the kind of {label}")
        entry.expected = _Expected(lambda now: now is kind, str(kind), _GONE)
        entry.where = user_location()
        self._reads.setdefault(("kind", id(read)), entry)
        self._alive.append(read)
        return kind

    def missing(self, target: Any, name: str) -> None:
        """`target` was found to have no attribute `name`."""
        self._inside("missing", target, name, f".{name}", False)

    def _inside(self, kind: str, target: Any, key: Any, suffix: str, value: Any, condition: _Expected | None = None) -> None:
        if id(target) not in self._own:
            parent = self._parent(target)
            self._note(kind, parent, target, key, parent.label + suffix, value, condition)

    def array(self, read: Callable[[], Any] | np.ndarray[Any, Any], value: Any, label: str = "an array") -> None:
        """The content of a NumPy array was used by Python code: `read()` (or the array itself) must still have it."""
        if isinstance(read, np.ndarray):
            known = self._reached.get(id(read))
            if known is not None:
                label, again = known.label, known.again
            else:
                held = weakref.ref(read)
                again = held
        else:
            again = read
        # a copy: the array may be changed in place, and that is what has to be noticed
        kept = np.array(value)
        entry = _Read("array", None, again, None, label)
        entry.expected = _Expected(lambda now: same_bits(now, kept), _array_text(kept), _GONE)
        entry.where = user_location()
        self._reads.setdefault(("array", id(read)), entry)
        self._alive.append(read)

    def created(self, target: Any) -> None:
        """An object made by the trace itself (or rebuilt from arguments): reads of it are not guarded."""
        self._own.add(id(target))
        self._alive.append(target)

    def changes(self, container: Any) -> None:
        """A container is changed by the function: who led to it must lead to the very same, whatever it holds. (What of its
        content counts has guards of its own.)"""
        held, text = ObjectIdentity(container), shown(container)  # (a `__repr__` of the user's may read what is guarded then)
        for read in self._reads.values():
            if read.kind not in _DERIVED and read.kind != "object" and read.value_id == id(container):
                read.expected = _Expected(lambda now: now is container, text, held)

    def include(self, inner: Guards) -> None:
        """Another program is part of this one: what it read counts here too."""
        if inner is not self and inner not in self._inner:
            self._inner.append(inner)
            self.unguarded.update(inner.unguarded)

    def _parent(self, target: Any) -> _Read:
        known = self._reached.get(id(target))
        if known is not None:
            return known
        label = self._names.get(id(target)) or _root_label(target)
        # An argument or another root: held weakly, since a program must not keep alive what it was traced for.
        root = _Read("object", None, ObjectIdentity(target), None, label)
        root.value_id = id(target)
        self._reads["object", id(target)] = self._reached[id(target)] = root
        self._alive.append(target)
        return root

    def _note(
        self, kind: str, parent: _Read | None, origin: Any, key: Any, label: str, value: Any, condition: _Expected | None = None
    ) -> None:
        # by value of the key, not by `==`: d[1] and d[True] are one entry, but 1 and True are two constants
        place = (kind, id(origin), frozen(key, limit=10**6))
        if place in self._reads:
            return
        read = _Read(kind, parent, origin if parent is None else None, key, label)
        read.expected = condition or expected(value)
        read.value_id = id(value)
        read.where = user_location()
        self._reads[place] = read
        self._alive += (origin, value)
        if kind not in _DERIVED and value.__class__ not in SCALARS:
            # the first way that led to an object is as good as any other
            self._reached.setdefault(id(value), read)
            if read.expected.text.startswith("a large "):
                self.unguarded[f"the items of `{label}` that were not read one by one ({read.expected.text})"] = None

    def seal(self) -> Guards:
        """End of tracing: let go of the objects, and compile the check."""
        self._reached = {}
        # a program that held what it has read would keep models and data alive for as long as the function
        self._alive = []
        self._names = {}
        self._own = set()
        self._check = _compiled(list(self._reads.values()), self._inner)
        return self

    # -- afterwards ----------------------------------------------------------------------------------------------------

    @property
    def check(self) -> Callable[[], bool] | None:
        """The compiled check (True: all reads still hold); None when there is nothing to check."""
        if self._check is None and (self._reads or self._inner):
            self.seal()
        return self._check

    def changed(self) -> str | None:
        """What is no longer as it was when the function was traced, in words; None if all is."""
        for read in self._reads.values():
            text = _difference(read)
            if text is not None:
                return text
        for inner in self._inner:
            text = inner.changed()
            if text is not None:
                return text
        return None

    def expired(self) -> bool:
        """Whether an object that was read is gone, so that the guards can never hold again."""
        return any(r.kind == "object" and r.origin.dead for r in self._reads.values()) or any(
            inner.expired() for inner in self._inner
        )

    def lines(self) -> list[str]:
        """For `explain`: one line per guard."""
        lines = []
        for read in self._reads.values():
            if read.kind not in ("object", "unshadowed") and read.expected is not None:
                missing = read.kind == "missing"
                lines.append(f"`{read.label}` does not exist" if missing else f"{_called(read)} = {read.expected.text}")
        return lines + [line for inner in self._inner for line in inner.lines()]

    def __len__(self) -> int:
        return sum(r.kind != "object" and r.expected is not None for r in self._reads.values()) + sum(map(len, self._inner))


# -- what a value must be ---------------------------------------------------------------------------------------------


def expected(value: Any) -> _Expected:
    """The condition under which a value counts as unchanged."""
    kind = value.__class__
    if kind in SCALARS or kind is DType or kind in BOUND or isinstance(value, (np.dtype, np.generic, range)):
        return _by_token(value)
    if isinstance(value, _CONTAINERS):
        stand_in = frozen(value)
        if stand_in is None:
            count = len(value)
            large = f"a large {kind.__name__} of {count}"
            return _Expected(lambda now: now.__class__ is kind and len(now) == count, large, _GONE)
        return _by_token(value)
    # any other object counts as unchanged if it is the same one: what of it was read has guards of its own
    held = ObjectIdentity(value)
    return _Expected(lambda now: held == ObjectIdentity(now), shown(value), held)


def _by_token(value: Any, limit: int = 64) -> _Expected:
    stand_in = frozen(value, limit)
    kept = value if value.__class__ in SCALARS else stand_in if limit <= 64 else _GONE
    return _Expected(lambda now: frozen(now, limit) == stand_in, shown(value), kept, _plain(value))


def _plain(value: Any) -> Any:
    """A copy of a list or dict, or a tuple itself, if it is equal only to what counts as unchanged, classes aside."""
    kind = value.__class__
    if kind is tuple:
        return value if value and all(item.__class__ in SCALARS for item in value) else None
    if kind is list:
        return list(value) if all(map(_is_exact, value)) else None
    if kind is dict:
        return dict(value) if all(k.__class__ is str and _is_exact(v) for k, v in value.items()) else None
    return None


def _is_exact(value: Any) -> bool:
    """Whether a value of the same class that is equal is the same: not so for zeros and NaN."""
    kind = value.__class__
    return kind is int or kind is str or kind is bool or value is None or (kind is float and value == value and value != 0)


def same_bits(now: object, other: Any) -> bool:
    """Whether something is an array of the same type and content; zeros of either sign differ, NaN is itself."""
    array: Any = now
    if not isinstance(now, np.ndarray) or array.shape != other.shape or array.dtype != other.dtype:
        return False
    if array.flags.c_contiguous and other.flags.c_contiguous and array.dtype.kind in "biufc" and array.size:
        return memoryview(array).cast("B") == memoryview(other).cast("B")  # where they are: no copies at each call
    return bool(array.tobytes() == other.tobytes())


def same_objects(now: Sequence[Any], held: Sequence[Callable[[], Any]]) -> bool:
    """Whether a list has the objects that are (weakly) held, and none of them is gone."""
    return len(now) == len(held) and all([item is ref() and item is not None for item, ref in zip(now, held, strict=True)])  # noqa: C419


def _array_text(array: np.ndarray[Any, Any]) -> str:
    return f"an array of shape {array.shape}" if array.size > 6 else np.array2string(array, separator=", ").replace("\n", "")


def _is_object(value: Any) -> bool:
    kind = value.__class__
    return kind not in SCALARS and kind not in BOUND and not isinstance(value, (*_CONTAINERS, DType, np.generic))


def _stable(target: Any, name: str, value: Any) -> bool:
    """Whether reading the attribute again gives the same object; a property may make a new one each time."""
    if isinstance(target, (type, ModuleType)) or name in getattr(target, "__dict__", ()):
        return True
    try:
        return getattr(target, name) is value
    except Exception:  # a user's property, which may raise anything
        return False


def _root_label(target: Any) -> str:
    return getattr(target, "__name__", None) or f"<{type(target).__name__}>"


# -- what changed, in words -------------------------------------------------------------------------------------------


def _called(read: _Read) -> str:
    if read.kind == "length":
        return f"len(`{read.label}`)"
    kind = {"global": "global ", "cell": "closure variable ", "keys": "the keys of "}.get(read.kind, "")
    return f"{kind}`{read.label}`"


def _difference(read: _Read) -> str | None:
    if read.kind == "object":
        return f"`{read.label}` is gone" if read.origin.dead else None
    if read.expected is None:
        return None
    now = read.again()
    if now is not _GONE and read.expected.holds(now):
        return None
    where = f" (read at {read.where})" if read.where else ""
    if read.kind == "unshadowed":
        return f"the builtin `{read.label}` is now hidden by a global of that name{where}"
    if now is _GONE:
        return f"{_called(read)} was {read.expected.text}, now it is gone{where}"
    if read.kind == "missing":
        return f"`{read.label}` did not exist, now it does{where}"
    text = _array_text(now) if read.kind == "array" and isinstance(now, np.ndarray) else shown(now)
    if text == read.expected.text:
        if read.kind == "array" or isinstance(now, _CONTAINERS):
            return f"the content of {_called(read)} changed ({text}){where}"
        return f"{_called(read)} is now another object ({text}){where}"
    return f"{_called(read)} was {read.expected.text}, now {text}{where}"


# -- the compiled check -----------------------------------------------------------------------------------------------


def _compiled(reads: list[_Read], inner: list[Guards]) -> Callable[[], bool] | None:
    """One function without loops: `True` when every read gives what it gave."""
    checks = [guards.check for guards in inner]
    if not any(r.expected is not None for r in reads) and not any(checks):
        return None
    space: dict[str, Any] = {"_copysign": math.copysign, "_frozen": frozen, "_same_objects": same_objects}
    lines: list[str] = []
    known: dict[int, str] = {}
    # (a root that nothing was read of needs no line)
    used = {id(r.parent) for r in reads if r.parent is not None}
    for n, read in enumerate(reads):
        if read.expected is None and id(read) not in used:
            continue
        name, text = f"v{n}", _expression(read, n, known.get(id(read.parent), ""), space)
        known[id(read)] = name
        if read.kind == "object":
            lines += [f"{name} = {text}", f"if {name} is None: return False"]
        elif read.kind in ("unshadowed", "missing"):
            lines.append(f"if {text}: return False")
        elif read.kind == "length":
            lines.append(f"if {text} != {read.expected.value if read.expected else -1}: return False")
        else:
            lines.append(f"{name} = {text}")
            if read.expected is not None:
                lines.append(f"if {_failing(name, read.expected, n, space)}: return False")
    for n, check in enumerate(checks):
        if check is not None:
            space[f"inner{n}"] = check
            lines.append(f"if not inner{n}(): return False")
    body = "\n        ".join([*lines, "return True"])
    # whatever a read raises now (a deleted name, a shorter list, a property's own error) it did not raise then
    source = f"def check():\n    try:\n        {body}\n    except Exception:\n        return False\n"
    exec(compile(source, "<gradtape guards>", "exec"), space)  # noqa: S102  (built from names and numbers above)
    compiled: Callable[[], bool] = space["check"]
    return compiled


def _expression(read: _Read, n: int, above: str, space: dict[str, Any]) -> str:
    """The read as an expression; `space` gets what it names."""
    key = read.key
    if read.kind == "attribute" and key.isidentifier() and not keyword.iskeyword(key):
        return f"{above}.{key}"  # the commonest, and quicker than getattr
    space[f"o{n}"], space[f"k{n}"] = read.start, key
    return _READS[read.kind].format(o=f"o{n}", k=repr(key) if key.__class__ in (int, str) else f"k{n}", above=above)


def _failing(name: str, condition: _Expected, n: int, space: dict[str, Any]) -> str:
    """An expression that is true when the value `name` is not what it was."""
    value = condition.value
    kind = value.__class__
    if kind is ObjectIdentity:
        space[f"r{n}"] = value._ref
        return f"{name} is None or {name} is not r{n}()" if value.weak else f"{name} is not r{n}()"
    if kind is bool or value is None:
        return f"{name} is not {value}"
    if kind is int or kind is str or kind is bytes:
        space[f"c{n}"] = value
        return f"{name}.__class__ is not {kind.__name__} or {name} != c{n}"
    if kind is float and value == value and value:
        space[f"c{n}"] = value
        return f"{name}.__class__ is not float or {name} != c{n}"
    # 0.0 and -0.0 are equal, but 1 / x tells them apart
    if kind is float and value == 0:
        return f"{name}.__class__ is not float or {name} or _copysign(1.0, {name}) != {math.copysign(1.0, value)}"
    if kind is tuple and value and value[0] in BOUND:
        space[f"s{n}"], space[f"f{n}"], space[f"m{n}"] = value[1]._ref, value[2]._ref, value[0]
        return f"{name}.__class__ is not m{n} or {name}.__self__ is not s{n}() or {name}.__func__ is not f{n}()"
    plain = condition.plain
    # Lists and dicts may have been changed in place: compared by what they hold, first the types (1 == True == 1.0), then all
    # at once in C.
    if plain is not None and plain.__class__ is not tuple:
        which = plain.__class__.__name__
        if not plain:
            return f"{name}.__class__ is not {which} or {name}"
        items = plain.values() if which == "dict" else plain
        space[f"p{n}"], space[f"t{n}"], space[f"k{n}s"] = plain, [item.__class__ for item in items], list(plain)
        now, keys = (f"{name}.values()", f" or [*{name}] != k{n}s") if which == "dict" else (name, "")
        return f"{name}.__class__ is not {which} or [*map(type, {now})] != t{n} or {name} != p{n}{keys}"
    if kind is tuple and value and value[0] in (list, tuple) and all(part.__class__ is ObjectIdentity for part in value[1:]):
        space[f"i{n}"], space[f"r{n}s"] = value[0], [part._ref for part in value[1:]]
        return f"{name}.__class__ is not i{n} or not _same_objects({name}, r{n}s)"
    if kind is tuple and not identities(value) and value:
        space[f"c{n}"] = value
        if plain is not None:  # the same tuple is the same numbers and text
            space[f"p{n}"] = plain
            return f"{name} is not p{n} and _frozen({name}) != c{n}"
        return f"_frozen({name}) != c{n}"
    space[f"h{n}"] = condition.holds
    return f"not h{n}({name})"

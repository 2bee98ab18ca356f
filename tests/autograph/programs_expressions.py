"""Expressions: short circuits, comparisons, comprehensions, f-strings, stores of every kind."""
# ruff: noqa  (these are programs as users write them, good style or not)

import operator

from tests.autograph.compare import note

GLOBAL = 10
TABLE = {"a": 1}


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f"Box({self.__dict__})"


class Loud:
    """Says what is done to it."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return note(f"get {self._name}.{name}")

    def __getitem__(self, key):
        return note(f"item {key!r}")

    def __setitem__(self, key, value):
        note(f"set {key!r} {value!r}")

    def __delitem__(self, key):
        note(f"del {key!r}")

    def __contains__(self, key):
        return note(key == 1)

    def __format__(self, spec):
        return note(f"<{spec}>")


def short_and(x):
    return note(x) and note("b") and note(0) and note("never")


def short_or(x):
    return note(x) or note("") or note("c") or note("never")


def mixed(x):
    return (note(x) or note(1)) and not (note(0) or note(x))


def not_value(x):
    return not note(x), not not x


def ternary(x):
    return note("yes") if note(x) else note("no")


def nested_ternary(x):
    return "neg" if x < 0 else "zero" if x == 0 else "pos"


def chained(x):
    return note(0) < note(x) <= note(10) != note(7)


def chained_mixed(x):
    t = (2, 3)
    return 1 < x in t is not None


def comparisons(x):
    return x == 1, x != 1, x is None, x is not None, x in [1, 2], x not in [1, 2], x < 3


def short_circuit_guards_none(x):
    return x is None or x.value > 3


def undefined_in_lambda(x):
    return x and late
    late = 1


def walrus_in_if(x):
    if (n := x * 2) > 5 and (m := n + 1) > 8:
        return n, m
    return n


def walrus_maybe(x):
    if x > 0 and (n := x) > 1:
        pass
    return n


def walrus_in_or(x):
    y = (a := x) or (a := 5) or (b := 3)
    return y, a


def walrus_comprehension(xs):
    out = [last := x * 2 for x in xs if x]
    return out, last


def walrus_while_loop(x):
    out = []
    while (x := x - 1) > 0 and (y := x % 3) != 9:
        if y == 2:
            continue
        out.append((x, y))
    return out, x


def walrus_in_ternary(x):
    return (n := 1) if x else (n := 2), n


def list_comp(xs):
    return [note(x) * 2 for x in xs if note(x) % 2 == 0]


def nested_comp(n):
    return [(i, j) for i in range(n) if i for j in range(i) if j != 1]


def comp_of_comp(n):
    return [[i * j for j in range(i)] for i in range(n)]


def set_comp(xs):
    return sorted({x % 3 for x in xs})


def dict_comp(xs):
    return {note(k): note(v) for k, v in xs if k != v}


def comp_unpack(xs):
    return [a + sum(rest) for a, *rest in xs]


def comp_shadow(xs):
    x = "outer"
    ys = [x for x in xs]
    return x, ys


def comp_captures(xs):
    y = 3
    f = [lambda: (x, y) for x in xs]
    y = 4
    return [g() for g in f]


def gen_lazy(xs):
    g = (note(x) for x in xs)
    note("made")
    return next(g), next(g, None)


def gen_not_iterable(x):
    g = (i for i in x)
    note("never")
    return g


def gen_any(xs):
    return any(note(x) > 1 for x in xs), all(note(x) > 1 for x in xs)


def gen_sum(xs):
    y = 2
    return sum(x * y for x in xs if x), max((x for x in xs), default=None), sorted((x, -x) for x in xs)


def gen_late_binding(n):
    out = []
    for i in range(n):
        k = i * 10
        g = (k for _ in range(1))
        out.append(g)
    return [list(g) for g in out]


def lambdas(n):
    fs = []
    for i in range(n):
        k = i * i
        fs.append(lambda a, i=i, *, b=k: (a, i, b, k))
    return [f(1) for f in fs]


def lambda_default_order(x):
    f = lambda a=note(1), *b, c=note(2), **d: (a, b, c, d)
    return f(), f(5, 6, c=7, e=8)


def lambda_with_comp(x):
    f = lambda xs: [a if a > x else -a for a in xs]
    return f(range(4))


def lambda_in_while(n):
    while (lambda k: k > 0)(n):
        n -= 1
    return n


def fstrings(x):
    w = 8
    return f"{x}|{x!r}|{x!s:>5}|{x:{w}}|{x:>{w}.{3}}|{{}}|{note(x)}{note('b')} more {x=}"


def fstring_order(x):
    a, b = Loud("a"), Loud("b")
    return f"{a:{note('x')}}{note(1)}{b:y}"


def fstring_error(x):
    return f"{note(x)}{x:d}{note('never')}"


def attributes(x):
    b = Box(v=x)
    b.w = b.v + 1
    b.v += 5
    b.v *= b.w
    del b.w
    return b


def attribute_error(x):
    return x.missing


def items(x):
    d = {"a": [1, 2, 3]}
    d["b"] = d["a"][1:]
    d["a"][0] += 10
    d["a"][-1:] = [7, 8]
    del d["a"][1]
    d["c"] = d["a"][::2]
    return d


def item_error(x):
    d = {}
    return d[x]


def subscripts(x):
    a = Loud("a")
    a[1] = a[1:2, ..., None]
    a[note("k")] = note("v")
    del a[1], a[2:3]
    return a[x, *[1, 2]], 1 in a, 2 not in a


def store_order(x):
    a = Box(inner=Box(v=0))

    def target():
        note("target")
        return a

    def key():
        note("key")
        return "k"

    target().inner.v = note("value")
    d = {}
    d[key()] = note("value")
    (target().x, d[key()]), *rest = note([(1, 2), 3, 4])
    target().inner.v += note("!")
    return a, d, rest


def augmented_order(x):
    d = {"k": [1]}

    def get():
        note("container")
        return d

    def key():
        note("key")
        return "k"

    get()[key()] += note([2])
    get()[key()] *= 2
    return d


def augmented_all(x):
    a = x
    a += 3
    a -= 1
    a *= 4
    b = a
    b //= 3
    b %= 5
    b **= 2
    b <<= 2
    b >>= 1
    b |= 1
    b &= 7
    b ^= 2
    c = a
    c /= 8
    return a, b, c


def augmented_list_alias(x):
    a = [1]
    b = a
    a += [2]
    a *= 2
    s = {1}
    t = s
    s |= {2}
    s -= {1}
    return a, b, a is b, s is t, s


def augmented_error(x):
    x += "s"
    return x


def tuple_in_tuple(x):
    t = ([1],)
    try:
        t[0] += [2]
    except TypeError as e:
        note(str(e))
    return t


def unpacking(xs):
    a, b = xs
    [c, d] = b, a
    e, *f = xs
    (g, h), i = (a, b), c
    a = b = c
    return a, b, c, d, e, f, g, h, i


def unpack_error(xs):
    a, b, *c, d = xs
    return a, b, c, d


def unpack_not_iterable(x):
    a, b = x
    return a


def swap(x):
    a, b = 1, x
    a, b = b, a
    return a, b


def multiple_targets(x):
    a = b = [note(x)]
    c = d, e = 1, 2
    b.append(3)
    return a, b, c, d, e


def annotated(x):
    a: int = x
    b: undefined_type
    c: list[int] = [a]
    return a, c


def annotated_unbound(x):
    b: int
    if x:
        b = 1
    return b


def delete_name(x):
    a = x
    del a
    if x:
        a = 2
    return a


def delete_in_loop(n):
    y = 0
    for i in range(n):
        if i:
            del y
        else:
            y = 5
    return "end"


def delete_unbound(x):
    if x:
        y = 1
    del y
    return "deleted"


def starred_calls(x):
    def f(*args, **kwargs):
        return args, sorted(kwargs.items())

    return f(*[1, 2], note(3), *(4,), k=note(5), **{"a": 6}, **TABLE) if not x else f(**TABLE, **{"a": 2})


def not_callable(x):
    return x(note(1))


def wrong_arguments(x):
    def f(a, b):
        return a

    return f(1)


def builtin_calls(xs):
    return (
        len(xs), list(range(3)), list(map(lambda v: v + 1, xs)), list(filter(None, xs)), any(xs), all(xs), sorted(xs, key=lambda v: -v),
        sum(xs), min(xs), max(xs, key=lambda v: v % 3), abs(-3), int("7"), float(2), bool(xs), round(2.567, 1), list(reversed(xs)),
        tuple(xs), dict(a=1), isinstance(xs, list), getattr(xs, "nope", "default"), operator.add(1, 2), divmod(7, 2), pow(2, 5),
        list(enumerate(xs, 1)), list(zip(xs, xs)), str(3), repr("x"), type(xs).__name__, print(end=""), iter(xs) is not None,
    )  # fmt: skip


def builtin_errors(x):
    try:
        len(3)
    except TypeError as e:
        note(str(e))
    try:
        int("x")
    except ValueError as e:
        note(str(e))
    try:
        range("a")
    except TypeError as e:
        note(str(e))
    return max([])


def list_methods(xs):
    l = list(xs)
    l.append(1)
    l.extend([2, 3])
    l.insert(0, 9)
    p = l.pop()
    q = l.pop(0)
    l.remove(1)
    l.sort(key=lambda v: -v)
    l.reverse()
    return l, p, q, l.index(2), l.count(1), l.copy()


def dict_methods(x):
    d = {"a": 1}
    d.update(b=2)
    d.setdefault("c", []).append(x)
    return d.pop("a"), d.get("z", 5), list(d.items()), list(d.keys()), list(d.values()), "b" in d


def string_methods(x):
    return "{} {k}".format(x, k=1), "-".join(str(i) for i in range(3)), "%s" % x, "abc".upper()[::-1]


def locals_call(x):
    y = 1
    if x:
        z = 2
    d = dict(locals())
    d.pop("d", None)
    return sorted(d.items())


def eval_exec(x):
    y = 2
    return eval("x + y + GLOBAL"), sorted(vars())


def globals_call(x):
    return globals()["GLOBAL"], sorted(dir())[:2]


def large_expression(x):
    return -x + ~x * (x - 1) ** 2 % 7 // 2, [*range(x), *"ab"], {**TABLE, "z": 1}, {1, *[2]}, (x,), x if x else (), ...


def bytes_and_constants(x):
    return b"x", 1j, 1e3, None, True, "ab", 0x10, {}, [], ()


def conditional_import(x):
    if x:
        import math as m
    else:
        from operator import itemgetter as m
    return m.__name__


def comparison_not_bool(x):
    class V:
        def __init__(self, v):
            self.v = v

        def __lt__(self, other):
            return note([self.v])

        def __eq__(self, other):
            return note([])

    return V(1) < V(2) < V(3), V(1) == V(2) == V(3)


def gen_reads_maybe_unbound(x):
    if x:
        y = 1
    return sum(y + i for i in range(2))


def comp_reads_maybe_unbound(x):
    for i in range(x):
        y = i
    return [y for _ in range(2)], list(map(lambda v: v + y, [1]))


CASES = [
    (short_and, 1), (short_and, 0), (short_or, 0), (short_or, 3), (mixed, 0), (mixed, 1), (not_value, 0), (ternary, 0), (ternary, 1),
    *[(nested_ternary, x) for x in (-1, 0, 1)], *[(chained, x) for x in (-1, 5, 11, 7)], (chained_mixed, 2), (chained_mixed, 0),
    (comparisons, 1), (comparisons, 2.5), (short_circuit_guards_none, None), (short_circuit_guards_none, Box(value=4)),
    (undefined_in_lambda, 1), (undefined_in_lambda, 0), *[(walrus_in_if, x) for x in (1, 3, 9)], *[(walrus_maybe, x) for x in (0, 1, 2)],
    (walrus_in_or, 0), (walrus_in_or, 2), (walrus_comprehension, [1, 0, 3]), (walrus_comprehension, []), (walrus_while_loop, 9),
    (walrus_in_ternary, 0), (walrus_in_ternary, 1), (list_comp, [1, 2, 4]), (nested_comp, 4), (comp_of_comp, 4), (set_comp, range(9)),
    (dict_comp, [(1, 2), (3, 3), (4, 5)]), (comp_unpack, [(1, 2, 3), (4,)]), (comp_unpack, [()]), (comp_shadow, [1, 2]),
    (comp_captures, [1, 2]), (gen_lazy, [1, 2, 3]), (gen_not_iterable, 3), (gen_any, [1, 2, 3]), (gen_sum, [1, 2, 0]),
    (gen_late_binding, 3), (lambdas, 3), (lambda_default_order, 0), (lambda_with_comp, 1), (lambda_in_while, 3), (fstrings, "abcd"),
    (fstring_order, 0), (fstring_error, "s"), (attributes, 2), (attribute_error, 3), (items, 0), (item_error, "k"), (subscripts, 5),
    (store_order, 0), (augmented_order, 0), (augmented_all, 5), (augmented_list_alias, 0), (augmented_error, 1), (tuple_in_tuple, 0),
    (unpacking, (1, 2)), (unpacking, [1, 2, 3]), (unpack_error, [1, 2]), (unpack_error, [1, 2, 3, 4]), (unpack_not_iterable, 4),
    (swap, 2), (multiple_targets, 1), (annotated, 1), (annotated_unbound, 0), (annotated_unbound, 1), (delete_name, 0), (delete_name, 1),
    (delete_in_loop, 1), (delete_in_loop, 3), (delete_unbound, 0), (delete_unbound, 1), (starred_calls, 0), (starred_calls, 1),
    (not_callable, 3), (wrong_arguments, 0), (builtin_calls, [3, 1, 2]), (builtin_errors, 0), (list_methods, [5, 6]), (dict_methods, 1),
    (string_methods, 1), (locals_call, 0), (locals_call, 1), (eval_exec, 1), (globals_call, 1), (large_expression, 3),
    (bytes_and_constants, 0), (conditional_import, 0), (conditional_import, 1), (comparison_not_bool, 0), (gen_reads_maybe_unbound, 0),
    (gen_reads_maybe_unbound, 1), (comp_reads_maybe_unbound, 0), (comp_reads_maybe_unbound, 2),
]  # fmt: skip

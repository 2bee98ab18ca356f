"""Closures, globals, nested functions, classes, exceptions."""
# ruff: noqa  (these are programs as users write them, good style or not)

import contextlib
import functools

from tests.autograph.compare import note

COUNT = 0
LATER: int


def nested_function(x):
    def g(a):
        if a > 0:
            return a * x
        return -a

    return g(2), g(-3)


def nonlocal_counter(n):
    count = 0

    def bump(by=1):
        nonlocal count
        if by > 2:
            return count
        count += by
        return count

    for i in range(n):
        bump(i)
    return count


def nonlocal_two_levels(n):
    total = 0

    def outer():
        def inner(k):
            nonlocal total
            while k:
                total += k
                k -= 1

        for i in range(n):
            inner(i)

    if n:
        outer()
    return total


def nonlocal_set_in_branch(x):
    def g():
        nonlocal y
        y = 5

    if x:
        y = 1
        g()
    return y


def closure_late_binding(n):
    fs = []
    for i in range(n):
        j = i * 2

        def f():
            return i, j

        fs.append(f)
    return [f() for f in fs]


def nested_recursion(n):
    def fact(k):
        return 1 if k <= 1 else k * fact(k - 1)

    return fact(n)


def mutual_recursion(n):
    def even(k):
        if k == 0:
            return True
        return odd(k - 1)

    def odd(k):
        if k == 0:
            return False
        return even(k - 1)

    return even(n)


def free_before_assignment(x):
    def g():
        return y

    if x:
        y = 1
    return g()


def free_in_plain_function(x):
    def g():
        return late

    z = g()
    late = 1
    return z


def unbound_local(x):
    if x:
        note(y)
    y = 1
    return y


def unbound_message_in_loop(n):
    for i in range(n):
        total += i
    return total


def decorated_inner(x):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*a, **k):
            return f(f(*a, **k))

        return wrapper

    @twice
    @note
    def g(v=note(1)):
        """A doc."""
        if v > 10:
            return v
        return v + x

    return g(1), g.__name__, g.__doc__


def local_class(x):
    class Base:
        factor = x

        def __init__(self, v):
            self.v = v

        def get(self):
            if self.v > 0:
                return self.v * self.factor
            return 0

    class Derived(Base):
        def get(self):
            return super().get() + 1

    d = Derived(3)
    return d.get(), Base(-1).get(), Derived.__qualname__, Derived.get.__qualname__


def class_in_branch(x):
    if x:

        class A:
            value = 1
    else:

        class A:
            value = 2

    return A.value, A.__qualname__


def global_write(x):
    global COUNT
    before = COUNT
    COUNT += x
    for COUNT in range(COUNT, COUNT + 2):
        if x:
            COUNT = COUNT * 2
    after, COUNT = COUNT, before
    return after


def global_define_delete(x):
    global LATER
    LATER = x
    y = LATER
    del LATER
    try:
        del LATER
    except NameError as e:
        return y, str(e)


def global_missing(x):
    if x:
        return never_defined_anywhere
    return 0


def global_function(x):
    global made

    def made(a):
        return a + x

    return made(1)


def try_except(x):
    try:
        note("try")
        if x == 1:
            raise ValueError("one")
        if x == 2:
            raise KeyError("two")
        y = 10 // x
    except ValueError as e:
        note(repr(e))
        y = -1
    except (KeyError, ZeroDivisionError) as e:
        y = type(e).__name__
    else:
        note("else")
    finally:
        note("finally")
    return y


def try_name_unbound_after(x):
    try:
        if x:
            raise ValueError
    except ValueError as e:
        note(repr(e))
    return e


def try_name_shadows(x):
    e = "before"
    for i in range(2):
        try:
            if i == x:
                raise ValueError(i)
        except ValueError as e:
            note(repr(e))
    return e


def try_return_finally(x):
    for i in range(3):
        try:
            if i == x:
                return i
            note(i)
            continue
        finally:
            note("finally")
    return "end"


def try_else_return(x):
    try:
        if x == 0:
            return "try"
        if x == 1:
            raise ValueError
    except ValueError:
        if x == 1:
            return "except"
    else:
        if x == 2:
            return "else"
    return "after"


def try_break_continue(n):
    out = []
    for i in range(n):
        try:
            if i == 1:
                continue
            if i == 4:
                break
            if i == 2:
                raise RuntimeError
            out.append(i)
        except RuntimeError:
            out.append("error")
            continue
        else:
            out.append("else")
        out.append("after")
    return out


def finally_swallows(x):
    for i in range(3):
        try:
            if i == x:
                raise ValueError(i)
            note(i)
        finally:
            if i == 1:
                break
    return "end"


def finally_returns(x):
    try:
        if x:
            raise ValueError
        return "try"
    finally:
        return "finally"


def nested_try(x):
    try:
        try:
            if x == 1:
                raise KeyError("inner")
            return "plain"
        except KeyError as e:
            raise ValueError("outer") from e
        finally:
            note("inner finally")
    except ValueError as e:
        return repr(e.__cause__)
    finally:
        note("outer finally")


def reraise(x):
    try:
        if x:
            raise ValueError("again")
    except ValueError:
        note("seen")
        raise
    return 0


def raise_from(x):
    if x:
        raise RuntimeError("r") from KeyError("k")


def pending_return_cancelled(x):
    class Fails:
        def __enter__(self):
            return self

        def __exit__(self, *e):
            raise KeyError("exit")

    try:
        with Fails():
            if x:
                return "lost"
    except KeyError:
        note("caught")
    return "kept"


def suppressed_return(x):
    with contextlib.suppress(ValueError):
        if x:
            return int(x)
        raise ValueError
    return "fell through"


def with_targets(x):
    @contextlib.contextmanager
    def give(v):
        note(f"enter {v}")
        try:
            yield v
        finally:
            note(f"exit {v}")

    d = {}
    with give((1, 2)) as (a, b), give(d) as d["k"], give(3):
        if x:
            d["inside"] = a + b
    return sorted(d)


def exception_group(x):
    try:
        if x:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        note(len(group.exceptions))
    except* KeyError:
        note("key")
    return "end"


def assertion(x):
    assert x > 0
    assert x > 1, note(f"too small: {x}")
    return x


def generator_inside(n):
    total = 0

    def gen():
        nonlocal total
        for i in range(n):
            if i == 2:
                continue
            total += i
            yield i

    return list(gen()), total


def yield_from_inside(n):
    def a():
        got = yield n
        return got

    def b():
        r = yield from a()
        yield r

    g = b()
    first = next(g)
    return first, g.send("sent")


def keyword_only(x):
    def f(a, /, b, *c, d, e=5, **g):
        if a:
            return a, b, c, d, e, g
        return None

    return f(1, 2, 3, d=4, z=9), f(0, 1, d=2)


def default_mutable(x):
    def f(acc=[]):
        if x:
            acc.append(len(acc))
        return acc

    f()
    return f()


def shadowed_builtin(x):
    len = lambda v: "shadow"
    if x:
        print = note
        print(len([]))
    return len([1])


def partials(x):
    def f(a, b, c=0):
        return [a, b, c] if a else None

    g = functools.partial(f, 1, c=x)
    h = functools.partial(g, 2)
    return g(5), h()


def higher_order(x):
    def compose(*fs):
        def run(v):
            for f in fs:
                v = f(v)
            return v

        return run

    return compose(lambda v: v + 1, str, lambda s: s * 2 if len(s) < 3 else s)(x)


def callable_object(x):
    class Add:
        def __init__(self, k):
            self.k = k
            if k < 0:
                self.k = 0

        def __call__(self, v):
            if v > 0:
                return v + self.k
            return None

    return Add(x)(3), Add(-x)(3), Add(1)(-1)


def property_and_static(x):
    class C:
        def __init__(self):
            self._v = x

        @property
        def v(self):
            return self._v if self._v > 0 else "none"

        @v.setter
        def v(self, new):
            note("set")
            self._v = new

        @staticmethod
        def s(a):
            return a * 2

        @classmethod
        def c(cls, a):
            return cls.__name__, a

    c = C()
    c.v += 1
    return c.v, C.s(2), c.s(3), C.c(4), c.c(5)


def private_name(x):
    class C:
        __hidden = 4

        def get(self):
            __local = self.__hidden
            return __local if x else self._C__hidden

    return C().get()


def init_returns(x):
    class C:
        def __init__(self):
            if x:
                return 3

    return C() is not None


def shared_name_where_control_flow_is_left_alone(x):
    if x == 3:
        d = 0

    def bump(v):
        nonlocal d
        d = v

    while True:
        try:
            if x == 1:
                bump(5)
            note([i for i in range(3) if i != x])
            if x == 4:
                raise KeyError(x)
            if x == 5:
                d = 1
                del d
        except KeyError as d:
            note(repr(d))
        finally:
            break
    return d


def shared_parameter_deleted_where_control_flow_is_left_alone(a):
    def bump(v):
        nonlocal a
        a = v

    try:
        if a == 1:
            raise KeyError
        if a:
            del a
            for a in range(0):
                bump(1)
    except KeyError as a:
        try:
            note(repr(a))
        finally:
            return 0
    return a


CASES = [
    (nested_function, 3), (nonlocal_counter, 5), (nonlocal_two_levels, 4), (nonlocal_two_levels, 0), (nonlocal_set_in_branch, 1),
    (nonlocal_set_in_branch, 0), (closure_late_binding, 3), (nested_recursion, 5), (mutual_recursion, 7), (free_before_assignment, 0),
    (free_before_assignment, 1), (free_in_plain_function, 0), (unbound_local, 0), (unbound_local, 1), (unbound_message_in_loop, 2),
    (unbound_message_in_loop, 0), (decorated_inner, 4), (local_class, 2), (class_in_branch, 0), (class_in_branch, 1), (global_write, 0),
    (global_write, 3), (global_define_delete, 1), (global_missing, 0), (global_missing, 1), (global_function, 2),
    *[(try_except, x) for x in (0, 1, 2, 5)], (try_name_unbound_after, 0), (try_name_unbound_after, 1), (try_name_shadows, 0),
    (try_name_shadows, 9), *[(try_return_finally, x) for x in (0, 1, 5)], *[(try_else_return, x) for x in range(4)],
    (try_break_continue, 6), (try_break_continue, 3), *[(finally_swallows, x) for x in range(4)], (finally_returns, 0), (finally_returns, 1),
    (nested_try, 0), (nested_try, 1), (reraise, 0), (reraise, 1), (raise_from, 1), (pending_return_cancelled, 0), (pending_return_cancelled, 1),
    (suppressed_return, "12"), (suppressed_return, "x"), (suppressed_return, ""), (with_targets, 0), (with_targets, 1), (exception_group, 0),
    (exception_group, 1), *[(assertion, x) for x in (0, 1, 2)], (generator_inside, 5), (yield_from_inside, 1), (keyword_only, 0),
    (default_mutable, 1), (shadowed_builtin, 1), (partials, 3), (higher_order, 5), (higher_order, 999), (callable_object, 4),
    (property_and_static, 2), (property_and_static, -5), (private_name, 0), (private_name, 1), (init_returns, 0), (init_returns, 1),
    *[(shared_parameter_deleted_where_control_flow_is_left_alone, x) for x in range(3)],
    *[(shared_name_where_control_flow_is_left_alone, x) for x in range(6)],
]  # fmt: skip

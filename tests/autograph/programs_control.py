"""Loops, branches and jumps, on plain Python values."""
# ruff: noqa  (these are programs as users write them, good style or not)

from tests.autograph.compare import note


def if_only(x):
    y = 0
    if x > 0:
        y = note(1)
    return y


def if_else(x):
    if x > 0:
        y = 1
    else:
        y = -1
    return y


def elif_chain(x):
    if note(x) < 0:
        s = "neg"
    elif note(x) == 0:
        s = "zero"
    elif note(x) < 10:
        s = "small"
    else:
        s = "big"
    return s


def one_sided(x):
    if x > 0:
        y = 1
    return y


def used_only_when_set(x):
    if x > 0:
        y = 1
    if x > 0:
        return y
    return None


def early_return(x):
    if x > 0:
        return "positive"
    note("after")
    return "other"


def implicit_none(x):
    if x > 0:
        return 1


def implicit_none_nested(x):
    if x > 0:
        if x > 10:
            return "big"
        note(x)
    note("end")


def return_nothing(x):
    for i in range(x):
        if i == 2:
            return
    return 3


def guards(x):
    if x is None:
        return "none"
    if x < 0:
        return "neg"
    if x == 0:
        return "zero"
    y = x * 2
    if y > 10:
        return y
    return -y


def returns_in_both(x):
    if x:
        return note(1)
    else:
        return note(2)


def dead_code(x):
    if x:
        return 1
    else:
        return 2
    note("never")
    y = 1
    return y


def raise_in_branch(x):
    if x < 0:
        raise ValueError(f"bad {x}")
    return x


def raise_then_dead(x):
    if x:
        raise KeyError(x)
        z = 1
    else:
        z = 2
    return z


def while_simple(n):
    total = 0
    while n > 0:
        total += n
        n -= 1
    return total


def while_else(n):
    while n > 0:
        n -= 2
        if n == 3:
            break
    else:
        return "else", n
    return "broken", n


def while_true_break(n):
    i = 0
    while True:
        i += 1
        if i * i > n:
            break
        note(i)
    return i


def while_true_return(n):
    i = 0
    while True:
        if i * i > n:
            return i
        i += 1


def while_continue(n):
    i, out = 0, []
    while i < n:
        i += 1
        if i % 2:
            continue
        if i % 3 == 0:
            continue
        out.append(i)
    return out


def while_test_effects(n):
    count = 0
    while note(count) < n and note("second"):
        count += 1
    return count


def while_walrus(n):
    values = iter(range(n))
    total = 0
    while (v := next(values, None)) is not None:
        total += v
    return total, v


def for_simple(xs):
    s = 0
    for x in xs:
        s += x
    return s, x


def for_empty(xs):
    for x in xs:
        pass
    return x


def for_else(xs):
    for x in xs:
        if x > 3:
            found = x
            break
    else:
        found = None
    return found


def for_else_no_break(xs):
    for x in xs:
        note(x)
    else:
        note("else")
    return "done"


def for_return(xs):
    for i, x in enumerate(xs):
        if x < 0:
            return i
    return -1


def for_return_else(xs):
    for x in xs:
        if x == 2:
            return "two"
        if x == 3:
            break
    else:
        return "else"
    return "three"


def for_continue(xs):
    out = []
    for x in xs:
        if x == 1:
            continue
        elif x == 2:
            note("two")
        else:
            if x == 5:
                continue
            note("other")
        out.append(x)
    return out


def nested_loops(n):
    out = []
    for i in range(n):
        for j in range(n):
            if j == i:
                continue
            if j > 2:
                break
            out.append((i, j))
        else:
            out.append("full")
        if i == 3:
            break
    return out


def nested_return(n):
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return i, j
        note(i)
    return None


def nested_break_flag(n):
    for i in range(n):
        while True:
            i += 1
            if i > 4:
                break
            if i == 3:
                return "three"
        if i > 6:
            break
    else:
        return "else", i
    return "end", i


def break_in_else(n):
    for i in range(n):
        for j in range(i):
            if j == 1:
                break
        else:
            if i == 1:
                continue
            note(i)
            break
        note("after")
    return i


def loop_variable_rebound(xs):
    for x in xs:
        x = x * 2
        note(x)
    return x


def loop_over_changed_list(n):
    xs = [1, 2, 3]
    for x in xs:
        if len(xs) < n:
            xs.append(x + 10)
    return xs


def loop_iter_once(n):
    def source():
        note("made")
        return range(n)

    for i in source():
        note(i)
    return i


def loop_unpack(pairs):
    out = {}
    for a, (b, *c) in pairs:
        out[a] = (b, c)
    return out


def loop_target_attribute(xs):
    class Box:
        pass

    box = Box()
    for box.value in xs:
        note(box.value)
    return box.value


def loop_target_item(xs):
    d = {}
    for d["k"] in xs:
        pass
    return d


def generator_consumed_lazily(n):
    def gen():
        for i in range(100):
            note(i)
            yield i

    for v in gen():
        if v == n:
            break
    return v


def stop_iteration_not_swallowed(n):
    it = iter(range(n))
    out = []
    for x in it:
        out.append((x, next(it, "end")))
    return out


def zip_enumerate(xs):
    out = []
    for i, (a, b) in enumerate(zip(xs, xs[1:], strict=False)):
        if a == b:
            continue
        out.append(i * (a - b))
    return out


def swap_state(n):
    a, b = 0, 1
    while n:
        a, b = b, a + b
        n -= 1
    return a


def temp_in_loop(n):
    s = 0
    for i in range(n):
        t = i * i
        if t % 2:
            u = t + 1
            s += u
    return s, t


def defined_in_loop_used_next_time(n):
    for i in range(n):
        if i > 0:
            note(previous)
        previous = i
    return previous


def undefined_in_loop(n):
    for i in range(n):
        if i == 1:
            note(late)
        if i == 5:
            late = 1
    return n


def while_zero(n):
    while n:
        z = n
        n = 0
    return z


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 1000:
            return None
    return steps


def primes(n):
    found = []
    for p in range(2, n):
        for q in found:
            if q * q > p:
                found.append(p)
                break
            if p % q == 0:
                break
        else:
            found.append(p)
    return found


def binary_search(xs):
    lo, hi, target = 0, len(xs), 7
    while lo < hi:
        mid = (lo + hi) // 2
        if xs[mid] == target:
            return mid
        elif xs[mid] < target:
            lo = mid + 1
        else:
            hi = mid
    return -lo - 1


def partial_jumps(x):
    if x > 0:
        if x > 5:
            return "big"
        note("small")
    else:
        note("negative")
        if x < -5:
            raise ValueError(x)
    note("rest")
    if x == 1:
        return "one"
    return "end"


def deep_partial(x):
    for i in range(x):
        if i > 2:
            if i % 2:
                if i == 5:
                    return "five"
                if i == 7:
                    break
                note(("odd", i))
            else:
                if i == 4:
                    continue
                note(("even", i))
            note(("after", i))
        note(("end", i))
    else:
        return "else"
    return "broken"


def bool_object_test(x):
    class Truth:
        def __bool__(self):
            note("asked")
            return x > 0

    t = Truth()
    if t:
        return "yes"
    while not t:
        return "no"


def bad_truth(x):
    class Bad:
        def __bool__(self):
            raise TypeError("no truth")

    b = Bad()
    if b:
        return 1
    return 2


def not_iterable(x):
    for i in x:
        note(i)


def with_jumps(x):
    class Context:
        def __enter__(self):
            note("enter")
            return self

        def __exit__(self, *e):
            note("exit")
            return x == 3

    for i in range(x):
        with Context():
            if i == 2:
                return "returned"
            if i == 1:
                continue
            note(i)
            if x == 3:
                raise ValueError
            if x == 1:
                break
        note("after")
    return "end"


def match_statement(x):
    for item in x:
        match item:
            case 0:
                continue
            case int(n) if n > 10:
                return "big", n
            case [a, *rest]:
                note((a, rest))
            case {"k": v, **others}:
                note((v, others))
            case "stop" | "halt":
                break
            case _:
                note("other")
        note("next")
    return "end"


def pass_everywhere(x):
    if x:
        pass
    else:
        pass
    for _ in range(2):
        pass
    while False:
        pass
    return x


def constant_tests(x):
    if True:
        y = x
    if 0:
        y = None
    while 1:
        y += 1
        if y > 5:
            break
    return y


CASES = [
    (if_only, 1), (if_only, -1), (if_else, 1), (if_else, 0), *[(elif_chain, x) for x in (-1, 0, 5, 50)],
    (one_sided, 1), (one_sided, 0), (used_only_when_set, 1), (used_only_when_set, 0), (early_return, 1), (early_return, 0),
    (implicit_none, 1), (implicit_none, 0), *[(implicit_none_nested, x) for x in (0, 5, 20)], (return_nothing, 1),
    (return_nothing, 9), *[(guards, x) for x in (None, -1, 0, 3, 30)], (returns_in_both, 0), (returns_in_both, 1), (dead_code, 0),
    (dead_code, 1), (raise_in_branch, -1), (raise_in_branch, 1), (raise_then_dead, 0), (raise_then_dead, 1),
    (while_simple, 4), (while_simple, 0), (while_else, 6), (while_else, 7), (while_true_break, 20), (while_true_return, 20),
    (while_continue, 12), (while_test_effects, 3), (while_walrus, 4), (while_walrus, 0), (for_simple, [1, 2]), (for_simple, []),
    (for_empty, []), (for_empty, [1]), (for_else, [1, 5]), (for_else, [1]), (for_else_no_break, [1]), (for_return, [1, -1]),
    (for_return, [1]), *[(for_return_else, xs) for xs in ([2], [3], [4], [])], (for_continue, [1, 2, 3, 5]), (nested_loops, 5),
    (nested_return, 4), (nested_return, 2), *[(nested_break_flag, n) for n in range(9)], *[(break_in_else, n) for n in range(1, 5)],
    (loop_variable_rebound, [1, 2]), (loop_over_changed_list, 7), (loop_iter_once, 3), (loop_unpack, [(1, (2, 3, 4)), (5, (6,))]),
    (loop_unpack, [(1, ())]), (loop_unpack, [1]), (loop_target_attribute, [1, 2]), (loop_target_item, [1, 2]),
    (generator_consumed_lazily, 3), (stop_iteration_not_swallowed, 5), (zip_enumerate, [1, 1, 4, 2]), (swap_state, 10),
    (temp_in_loop, 5), (temp_in_loop, 0), (defined_in_loop_used_next_time, 3), (defined_in_loop_used_next_time, 0),
    (undefined_in_loop, 3), (undefined_in_loop, 1), (while_zero, 2), (while_zero, 0), (collatz, 27), (primes, 40),
    (binary_search, [1, 3, 7, 9]), (binary_search, [1, 9]), *[(partial_jumps, x) for x in (-9, -1, 0, 1, 3, 9)],
    *[(deep_partial, x) for x in (2, 5, 6, 8, 12)], (bool_object_test, 1), (bool_object_test, 0), (bad_truth, 1), (not_iterable, 3),
    *[(with_jumps, x) for x in range(5)], (match_statement, [0, 3, [1, 2], {"k": 1, "z": 2}, 5, "stop", 7]), (match_statement, [99]),
    (pass_everywhere, 1), (constant_tests, 2),
]  # fmt: skip

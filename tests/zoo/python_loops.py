"""Python loops of many turns, which are staged by trying: the counter and the numbers made of it are used in every way that
Python allows. Some can be one loop of the program, others only turn by turn; they mean the same.
"""

from __future__ import annotations

import math

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

N = 20
POINT = [(0.4,)]
DATA = np.linspace(0, 1, N)
DATA32 = DATA.astype("f")
IDATA = np.arange(N)
LST = [0.5 * k for k in range(N)]
ILST = list(range(N))
MIX = [1, 2.0] * 10


class Holder:
    n = 0


@zoo(POINT)
def python_loop_counter_after(x):
    for i in range(N):
        x = x + 1.0
    return x * i, gt.zeros((i,)), isinstance(i, int), [1] * i


@zoo(POINT)
def python_loop_factorial(x):
    f = 1
    for i in range(1, 30):
        f = f * i
    return x * float(f % 1000007)


@zoo(POINT)
def python_loop_one_over(x):
    for i in range(1, N):
        x = x + 1 / i
    return x


@zoo(POINT)
def python_loop_fib(x):
    a, b = 0, 1
    for i in range(N):
        x = x + a * 1e-3
        a, b = b, a + b
    return x, a


@zoo(POINT)
def python_loop_floats(x):
    t = 0.0
    for i in range(N):
        x = x + t
        t += 0.1
    return x, t


@zoo(POINT)
def python_loop_msqrt(x):
    for i in range(N):
        x = x + math.sqrt(i)
    return x


@zoo(POINT)
def python_loop_strkeys(x):
    d = {f"w{i}": float(i) for i in range(N)}
    for i in range(N):
        x = x + d[f"w{i}"]
    return x


@zoo(POINT)
def python_loop_strs(x):
    s = ""
    for i in range(N):
        s = s + str(i)
    return x * len(s)


@zoo(POINT)
def python_loop_unlike(x):
    parts = [gt.ones((k + 1,)) for k in range(N)]
    for i in range(N):
        x = x + gt.reduce_sum(parts[i])
    return x


@zoo(POINT)
def python_loop_lst(x):
    for i in range(N):
        x = x + LST[i] * x
    return x


@zoo(POINT)
def python_loop_ilst(x):
    for i in range(N):
        x = x + ILST[i]
    return x


@zoo(POINT)
def python_loop_mix(x):
    for i in range(N):
        x = x * MIX[i]
    return x


@zoo(POINT)
def python_loop_brk(x):
    for i in range(N):
        if i == 13:
            break
        x = x + i
    return x * 1.0, i


@zoo(POINT)
def python_loop_brk_tensor(x):
    for i in range(N):
        x = x + 1.0
        if gt.reduce_sum(x) > 9.5:
            break
    return x, x * i


@zoo(POINT)
def python_loop_cont(x):
    for i in range(N):
        if i % 3 == 0:
            continue
        x = x + i
    else:
        x = x * 2.0
    return x


@zoo(POINT)
def python_loop_tryexc(x):
    for i in range(N):
        try:
            k = int(gt.constant(2)) * int(i)
            x = x + math.floor(k)
        except Exception:
            x = x * 100.0
    return x


@zoo(POINT)
def python_loop_append_t(x):
    parts = []
    for i in range(N):
        parts.append(x * i)
    return len(parts), parts[3], gt.stack(parts), parts[-1], sum(parts), gt.stack(parts[2:4]), parts


@zoo(POINT)
def python_loop_dct(x):
    d = {}
    for i in range(N):
        d[i] = x * i
    return d[3], len(d)


@zoo(POINT)
def python_loop_npidx(x):
    for i in range(N):
        x = x + DATA[i] * x
    return x


@zoo(POINT)
def python_loop_npidx32(x):
    for i in range(N):
        x = x + DATA32[i] * x
    return x


@zoo(POINT)
def python_loop_npidxi(x):
    for i in range(N):
        x = x + IDATA[i] * x
    return x


@zoo(POINT)
def python_loop_gtsin(x):
    for i in range(N):
        x = x + gt.sin(0.1 * i)
    return x


@zoo(POINT)
def python_loop_gtconst(x):
    for i in range(N):
        x = x + gt.constant(i) * 2 + gt.cast(i, gt.float32)
    return x


@zoo(POINT)
def python_loop_onehot(x):
    v = gt.zeros((N,))
    for i in range(N):
        v = v + gt.one_hot(i, N) * x
    return v


@zoo(POINT)
def python_loop_where(x):
    for i in range(N):
        x = gt.where(x > 5.0, x + i, gt.maximum(x, 0.3 * i))
    return x


@zoo(POINT, order=0)
def python_loop_where2(x):
    o = gt.zeros((), gt.int32)
    for i in range(N):
        o = o + gt.where(x > 5.0, i, 2 * i)
    return o


@zoo(POINT)
def python_loop_division(x):
    for i in range(N):
        x = x * (i / 7) + i // 3 + i % 4 + (i - 10) ** 2 + 2**i % 7 - -i
    return x


@zoo(POINT)
def python_loop_power(x):
    for i in range(N):
        x = x + 0.9**i
    return x


@zoo(POINT)
def python_loop_negpow(x):
    for i in range(1, N):
        x = x + i**-1
    return x


@zoo(POINT)
def python_loop_rounds(x):
    for i in range(N):
        x = x + round(i / 3) + int(i * 0.7) + abs(i - 5) + min(i, 4) + max(2.5, i) + float(i)
    return x


@zoo(POINT)
def python_loop_booladd(x):
    for i in range(N):
        x = x + ((i > 3) + (i > 5))
    return x


@zoo(POINT)
def python_loop_isinst(x):
    for i in range(N):
        if isinstance(i, int):
            x = x + 1.0
        else:
            x = x + 100.0
        if type(i) is int:
            x = x + 1.0
        else:
            x = x + 50.0
    return x


@zoo(POINT)
def python_loop_comp(x):
    for i in range(N):
        x = x + sum([x * 0.01 * j for j in range(i)])
    return x


@zoo(POINT)
def python_loop_neg(x):
    v = gt.range(0, N, dtype=gt.float32)
    for i in range(N):
        x = x + v[i - 1] * i
    return x


@zoo(POINT)
def python_loop_negstep(x):
    for i in range(40, 0, -3):
        x = x * 0.5 + i
    return x, i


@zoo(POINT)
def python_loop_reassigned(x):
    for i in range(N):
        i = i + 1
        x = x + i
    return x, i


@zoo(POINT)
def python_loop_flags(x):
    ok = True
    seen = False
    c = 0
    for i in range(N):
        ok = ok and (i < 15)
        seen = seen or i == 4
        c += i > 3
        x = x + 1.0
    return x, ok, seen, c


@zoo(POINT)
def python_loop_rnd2(x):
    for i in range(N):
        x = x + gt.random.stateless_normal((), seed=[i, 7])
    return x


@zoo(POINT, order=0)
def python_loop_prints(x):
    for i in range(12):
        print(i, i / 2, f"{i:03d}", x)
        x = x + 1.0
    return x


@zoo(POINT)
def python_loop_tapein(x):
    for i in range(N):
        with gt.GradientTape() as t:
            t.watch(x)
            y = x * x * (i + 1)
        x = x - 0.01 * t.gradient(y, x)
    return x


@zoo(POINT)
def python_loop_tapearound(x):
    with gt.GradientTape() as t:
        t.watch(x)
        y = x
        for i in range(N):
            y = y * 1.1 + gt.sin(y) * i * 0.01
    return t.gradient(y, x)


@zoo(POINT)
def python_loop_attrs(x):
    o = Holder()
    o.n = 0
    o.h = x
    for i in range(N):
        o.n += i
        o.h = o.h * 0.9 + o.n
    return o.h, o.n


@zoo(POINT, order=0)
def python_loop_intx(x):
    k = gt.cast(x, gt.int32)
    for i in range(N):
        k = k * 2 % 1001 + i
    return k


@zoo(POINT, order=0)
def python_loop_divint(x):
    k = gt.cast(x, gt.int32)
    s = gt.zeros((), gt.float64)
    for i in range(1, N):
        s = s + k / i
    return s


@zoo(POINT)
def python_loop_f64(x):
    s = gt.cast(x, gt.float64)
    for i in range(N):
        s = s + 0.1 * i
    return s


@zoo(POINT)
def python_loop_f64lib(x):
    s = gt.cast(x, gt.float64)
    for i in range(N):
        s = gt.add(s, 0.1 * i) + gt.multiply(0.3 * i, s) + gt.sqrt(0.1 * i)
    return s


@zoo(POINT)
def python_loop_enum(x):
    for i, v in enumerate(LST):
        x = x + i * v
    return x, i, v


@zoo(POINT)
def python_loop_zips(x):
    for i, v, w in zip(range(N), LST, DATA):
        x = x + i * v * w
    return x


@zoo(POINT)
def python_loop_ziptensor(x):
    t = gt.range(0, N, dtype=gt.float32)
    for i, v in zip(range(N), t):
        x = x + i * v
    return x


@zoo(POINT)
def python_loop_tuples(x):
    for a, b in [(k, k * 0.5) for k in range(N)]:
        x = x + a * b
    return x


@zoo(POINT)
def python_loop_rev(x):
    for i in reversed(range(N)):
        x = x * 0.5 + i
    return x, i


@zoo(POINT)
def python_loop_like(x):
    ws = [x * k for k in range(N)]
    for w in ws:
        x = x * 0.5 + w
    return x


@zoo(POINT)
def python_loop_like_mut(x):
    ws = [x * k * gt.ones((2,)) for k in range(N)]
    for w in ws:
        w[0] = 7.0
    return gt.stack(ws)


@zoo(POINT)
def python_loop_listmut(x):
    ws = [1.0] * 12
    for w in ws:
        if len(ws) < 15:
            ws.append(2.0)
        x = x + w
    return x


@zoo(POINT)
def python_loop_nprows(x):
    for r in DATA.reshape(10, 2):
        x = x + gt.reduce_sum(r)
    return x


@zoo(POINT)
def python_loop_wh(x):
    i = 0
    k = 1
    while i < 30:
        x = x + k
        k = k * 3 % 17
        i += 2
    return x, i, k


@zoo(POINT)
def python_loop_whtrue(x):
    n = 0
    while True:
        n += 1
        if n > 25:
            break
        if n % 2:
            continue
        x = x + n
    return x, n


@zoo(POINT)
def python_loop_whbig(x):
    k = 1
    while k < 10**30:
        k *= 7
        x = x + 1.0
    return x, k % 1000


@zoo(POINT)
def python_loop_whlist(x):
    st = list(range(15))
    while st:
        x = x + st.pop()
    return x


@zoo(POINT)
def python_loop_whfloat(x):
    e = 1.0
    while e > 1e-9:
        e /= 2
        x = x + e
    return x, e


@zoo(POINT)
def python_loop_nestedtri(x):
    for i in range(N):
        for j in range(i):
            x = x + 0.001 * i * j
    return x, i


@zoo(POINT)
def python_loop_nested3(x):
    c = 0
    for i in range(10):
        for j in range(10):
            if j > i:
                break
            c += 1
            x = x + 0.01 * c
    return x, c


@zoo(POINT)
def python_loop_grows(x):
    y = gt.reshape(x, (1,))
    for i in range(N):
        y = gt.concat([y, y[-1:] * 0.5], 0)
    return y, y.shape[0]


@zoo(POINT)
def python_loop_shapes(x):
    s = 0
    for i in range(1, N):
        s += gt.ones((i,)).shape[0]
    return x * s


@zoo(POINT)
def python_loop_setrow(x):
    a = gt.zeros((N, N), gt.float64)
    for i in range(N):
        a[i, :i] = x
        a[i, i] = i
    return a


@zoo(POINT)
def python_loop_ta(x):
    t = gt.TensorArray(gt.float64, N)
    for i in range(N):
        t = t.write(i, x * i)
    return t.stack()


@zoo(POINT)
def python_loop_sets(x):
    s = set()
    for i in range(N):
        s.add(i % 5)
    return x * len(s)


@zoo(POINT)
def python_loop_inset(x):
    for i in range(N):
        if i in (1, 2, 3):
            x = x + 1.0
        if i in {5, 6}:
            x = x + 2.0
    return x


@zoo(POINT)
def python_loop_mode(x):
    m = "a"
    for i in range(N):
        x = x + (1.0 if m == "a" else 2.0)
        m = "b"
    return x, m


@zoo(POINT)
def python_loop_firstnone(x):
    prev = None
    for i in range(N):
        if prev is not None:
            x = x + prev
        prev = i * 0.5
    return x, prev


@zoo(POINT)
def python_loop_swaps(x):
    a, b = x, x * 2.0
    for i in range(N):
        a, b = b, a + 0.1
    return a, b


@zoo(POINT)
def python_loop_intstart(x):
    s = 0
    for i in range(N):
        s = s + x * i
    return s


@zoo(POINT)
def python_loop_npfun(x):
    for i in range(N):
        x = x + np.sqrt(i)
    return x


@zoo(POINT)
def python_loop_npzeros(x):
    for i in range(1, N):
        x = x + np.zeros(i).sum() + np.float32(i)
    return x


@zoo(POINT)
def python_loop_lenlist(x):
    parts = []
    for i in range(N):
        parts.append(x)
        x = x + len(parts)
    return x


@zoo(POINT)
def python_loop_nameslices(L):
    v = gt.range(0, N, dtype=gt.float32) * L
    t = v
    for i in range(2, N):
        head = v[:i]
        tail = head[1:]
        t = t + gt.reduce_sum(tail) * 0.001
    return t, tail.shape[0]

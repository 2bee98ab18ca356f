"""Ways from outside into a function: by whatever route Python code gets at a value, a change of it is seen at the next call.

Each expression runs in a module of its own, undecorated and as a function, before and after the caller has changed everything
in sight. (Without machine code: what is asked is what a trace reads, not what computes it.)
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

import gradtape as gt

WORLD = """
import array, bisect, collections, contextlib, copy, dataclasses, decimal, enum, fractions, functools, heapq, itertools, math
import operator, re, statistics, types, typing, weakref
import numpy as np, gradtape as gt

class St:

    def __init__(s):
        s.k = 2.0
        s.n = 0
        s.hist = [1.0, 2.0]

    def scaled(s, v):
        return v * s.k
st = St()
st.inner = St()

def lim():
    st.n += 1
    return st.k

@dataclasses.dataclass(order=True)
class DC:
    k: float = 2.0
    j: float = 1.0

@dataclasses.dataclass(frozen=True)
class FZ:
    k: int = 2

def fac():
    return list(range(int(st.k)))

@dataclasses.dataclass
class DF:
    l: list = dataclasses.field(default_factory=fac)
dc = DC()
fz = FZ(2)
d = {'k': 2.0, 's': 'a'}
nums = [1.0, 2.0, 3.0]
names = ['a', 'b']
tree = {'a': {'b': [2.0]}}

class SM:
    v = 2.0

    @staticmethod
    def s():
        return st.k

    @classmethod
    def c(cls):
        return cls.v
sm = SM()

class En(enum.Enum):
    A = 2.0
    B = 3.0
cfg = En.A

class NT(typing.NamedTuple):
    k: float
    j: float
nt = NT(2.0, 1.0)
ns = types.SimpleNamespace(k=2.0)
md = {'k': 2.0}
mp = types.MappingProxyType(md)
part = functools.partial(st.scaled)

@functools.lru_cache
def cached(k):
    return k * 2

class CP:

    @functools.cached_property
    def v(s):
        return st.k
cp = CP()

class PR:

    @property
    def v(s):
        return st.k
    _w = 1.0

    @property
    def w(s):
        return s._w
pr = PR()

class SL:
    __slots__ = ('k',)
sl = SL()
sl.k = 2.0
wr = weakref.ref(st)
bm = st.scaled

def mkc():
    z = [2.0]

    def g():
        return z[0]

    def setz(v):
        z[0] = v
    return (g, setz)
clo, setz = mkc()

def clo2():
    return lambda: st.k
lam = lambda v=nums: v[1]

def genf():
    for v in nums:
        yield (v * st.k)

def GF():
    return g0 * 2
g0 = 2.0

def mt(x):
    match d:
        case {'k': k, 's': 'a'}:
            return x * k
        case _:
            return x

def tk(x):
    try:
        return x * d['zz']
    except KeyError:
        return x * d['k']

def wk(x):
    with contextlib.nullcontext(st.k) as k:
        return x * k

def rec(n):
    return 1 if n <= 0 else 2 * rec(n - 1)
bs = b'abc'
ba_ = bytearray(b'abc')
mv_ = memoryview(ba_)
ar_ = array.array('d', [2.0])
dec_ = decimal.Decimal('2.5')
fr_ = fractions.Fraction(1, 2)
st.call = st.scaled
st.calls = [st.scaled]
objects = [St(), St()]
holder = St()
holder.t = gt.constant([1.0, 2.0])
tensors = [gt.constant([1.0, 2.0])]
table = {'f': st.scaled, 'g': clo, 'o': st}
nested_part = functools.partial(functools.partial(st.scaled), 2.0) if False else functools.partial(st.scaled)

class Base:

    def get(s):
        return st.k

class Sub(Base):

    def get(s):
        return super().get() * 2
sub = Sub()

@dataclasses.dataclass
class Post:
    k: float = 2.0

    def __post_init__(s):
        s.doubled = s.k * 2
post = Post()
other = St()
other.k = 7.0

def change():
    global g0, cfg, nt, fz, dec_, fr_, bs, wr
    st.call = other.scaled
    st.calls[0] = other.scaled
    objects[0].k = 9.0
    objects[1].k = 4.0
    holder.t[...] = 5.0
    tensors[0][...] = 6.0
    table['f'] = other.scaled
    post.doubled = 9.0
    st.k = 3.0
    st.inner.k = 3.0
    st.hist.append(5.0)
    dc.k = 3.0
    fz = FZ(3)
    d['k'] = 3.0
    nums.append(4.0)
    nums[1] = 7.0
    names[0] = 'abc'
    names.append('z')
    tree['a']['b'][0] = 3.0
    SM.v = 3.0
    cfg = En.B
    nt = NT(3.0, 2.0)
    ns.k = 3.0
    md['k'] = 3.0
    pr._w = 3.0
    sl.k = 3.0
    setz(3.0)
    g0 = 3.0
    ba_[0] = 100
    ar_[0] = 3.0
    dec_ = decimal.Decimal('3.5')
    fr_ = fractions.Fraction(3, 2)
    bs = b'zbc'
"""

ROUTES = [
    "x * sum(itertools.takewhile(lambda v: v < lim(), [1.0, 2.0, 3.0, 4.0]))",
    "x * sum(itertools.dropwhile(lambda v: v < lim(), [1.0, 2.0, 3.0, 4.0]))",
    "x * sum(itertools.filterfalse(lambda v: v < lim(), [1.0, 2.0, 3.0, 4.0]))",
    "x * sum(itertools.starmap(lambda a, b: a * b * lim(), [(1, 2), (3, 4)]))",
    "x * list(itertools.accumulate([1, 2, 3], lambda a, b: a + b * lim()))[-1]",
    "x * len(list(itertools.groupby([1, 2, 3, 4], key=lambda v: v < lim())))",
    "x * functools.reduce(lambda a, b: a + b * lim(), [1, 2, 3])",
    "x * heapq.nsmallest(1, [1, 2, 3], key=lambda v: -v * lim())[0] + st.n",
    "x * bisect.bisect([1, 2, 3, 4], 2.5, key=lambda v: v * lim())",
    "x * len(re.sub('a', lambda m: 'b' * int(lim()), 'aaa'))", "x * collections.defaultdict(lambda: lim())['q']",
    "x * min([1, 2, 3], key=lambda v: -v * lim()) + st.n", "x * sorted([1, 2, 3], key=lambda v: -v * lim())[0] + st.n",
    "x * sum(map(lambda v: v * lim(), [1, 2]))", "x * sum(map(st.scaled, [1, 2]))",
    "x * sum(filter(lambda v: v < lim(), [1, 2, 3, 4]))", "x * operator.attrgetter('k')(st)",
    "x * operator.attrgetter('inner.k')(st)", "x * operator.itemgetter('k')(d)",
    "x * operator.methodcaller('scaled', 2.0)(st)",
    "gt.reduce_sum(x * np.vectorize(lambda v: v * lim())(np.array([1.0, 2.0])))",
    "gt.reduce_sum(x * np.fromfunction(lambda i: i * lim(), (3,)))",
    "gt.reduce_sum(x * np.apply_along_axis(lambda v: v * lim(), 0, np.ones((2, 2))))", "x * dataclasses.asdict(dc)['k']",
    "x * dataclasses.astuple(dc)[0]", "x * dataclasses.replace(dc, j=3).k",
    "x * sum((getattr(dc, f.name) for f in dataclasses.fields(dc)))", "x * (2 if dc == DC(2.0, 1.0) else 3)",
    "x * len(repr(dc))", "x * (2 if dc < DC(2.5, 1.0) else 3)", "x * (hash(fz) % 7)", "x * len(DF().l)",
    "x * copy.deepcopy(st).k", "x * copy.copy(st).k", "x * copy.deepcopy(d)['k']", "x * vars(st)['k']",
    "x * st.__dict__['k']", "x * st.__dict__.get('k')", "x * sum((v for k, v in vars(st).items() if k in ('k', 'n')))",
    "x * getattr(st, 'zz', lim())", "x * len(f'{st.k:.3f}')", "x * len('{k}'.format_map(d))", "x * len('{0.k}'.format(st))",
    "x * len('{d[k]}'.format(d=d))", "x * len('%(k)s' % d)", "x * len(','.join(names))",
    "x * sum(itertools.chain(nums, [1]))", "x * sum(itertools.chain.from_iterable([nums, nums]))",
    "x * sum(itertools.islice(nums, 2))", "x * sum((a * b for a, b in itertools.product(nums, nums)))",
    "x * sum((a * b for a, b in itertools.combinations(nums, 2)))",
    "x * sum((a * b for a, b in itertools.zip_longest(nums, [1.0], fillvalue=2.0)))", "x * sum(itertools.tee(nums)[0])",
    "x * next(itertools.cycle(nums))", "x * sum(itertools.repeat(lim(), 2))", "x * next(itertools.count(lim()))",
    "x * sum((a * b for a, b in itertools.pairwise(nums)))", "x * sum(itertools.compress(nums, [1, 0, 1]))",
    "x * statistics.mean(nums)", "x * statistics.median(nums)", "x * math.fsum(nums)", "x * math.prod(nums)",
    "x * math.dist(nums, [0.0] * len(nums))", "x * math.hypot(*nums)", "x * np.sum(nums)",
    "gt.reduce_sum(x * np.array(nums))", "x * np.mean(nums)", "x * max(np.asarray(nums))", "x * np.dot(nums, nums)",
    "x * np.linalg.norm(nums)", "gt.reduce_sum(x * np.concatenate([nums, nums]))",
    "gt.reduce_sum(x * np.stack([nums, nums]))", "gt.reduce_sum(x * np.where(np.array(nums) > 1, 1.0, 0.0))",
    "x * np.interp(1.5, [0.0, 1.0, 2.0], nums[:3])", "x * np.polyval(nums, 2.0)", "gt.reduce_sum(x * np.full(2, st.k))",
    "gt.reduce_sum(x * np.arange(int(st.k)))", "gt.reduce_sum(x * np.eye(int(st.k)))", "x * len(frozenset(nums))",
    "x * len(set(nums) | {99})", "x * sum({k: v for k, v in d.items() if isinstance(v, float)}.values())", "x * {**d}['k']",
    "x * (d | {})['k']", "x * len(dict.fromkeys(names))", "x * sum((i * v for i, v in enumerate(nums, 1)))",
    "x * list(reversed(nums))[0]", "x * sum(nums[::2])", "x * nums[slice(0, 2)][1]", "x * (lambda *a: a[1])(*nums)",
    "x * (lambda **k: k['k'])(**d)", "x * nums.index(max(nums))", "x * nums.count(2.0)",
    "x * (1 if tuple(nums) < (1.0, 2.5) else 2)", "x * (1 if nums < [1.0, 2.5] else 2)",
    "x * (1 if all((v < 3.5 for v in nums)) else 2)", "x * tree['a']['b'][0]", "x * st.inner.k", "x * st.hist[-1]",
    "x * len(st.hist)", "x * GF()", "x * SM.s()", "x * SM.c()", "x * SM.v", "x * sm.v", "x * type(sm).v", "x * cfg.value",
    "x * (1 if cfg is En.A else 2)", "x * nt.k", "x * nt._replace(j=2).k", "x * nt[0]", "(lambda k, j: x * k)(*nt)",
    "x * ns.k", "x * mp['k']", "x * part(2.0)", "x * functools.partial(lambda a, b: a * b * st.k, 2.0)(1.0)",
    "x * cached(st.k)", "x * cp.v", "x * pr.v", "x * pr.w", "x * sl.k", "x * wr().k", "x * bm(1.0)", "x * clo()",
    "x * clo2()()", "x * lam()", "x * sum(genf())", "x * sum((v * st.k for v in [1, 2]))",
    "x * (st.k if st.k > 2.2 else 1.0)", "x * (1 if 1 < st.k < 2.5 else 2)", "x * ((q := st.k) * q)", "mt(x)", "tk(x)",
    "wk(x)", "x * rec(int(st.k))", "x * len(names[0].encode())", "x * bs[0]", "x * ba_[0]", "x * mv_[0]", "x * ar_[0]",
    "x * len(range(int(st.k)))", "x * abs(complex(st.k, 0))", "x * float(dec_)", "x * float(fr_)", "x * st.call(2.0)",
    "x * st.calls[0](2.0)", "x * table['f'](2.0)", "x * table['g']()", "x * getattr(st, 'scaled')(2.0)",
    "x * nested_part(1.0)", "x * Sub().get()", "x * sub.get()", "x * operator.itemgetter(0)(objects).k",
    "x * objects[-1].k", "x * (lambda o=st: o.k)()", "x * max(objects, key=lambda o: o.k).k",
    "x * sum((o.k for o in objects))", "x * sum(map(operator.attrgetter('k'), objects))", "x * post.doubled",
    "x * next(iter(objects)).k", "x * [*objects][0].k", "x * {**table}['o'].k", "x * dict(table)['o'].k",
    "x * list(objects)[0].k", "x * copy.copy(objects)[0].k", "x * copy.deepcopy(objects)[0].k",
    "x * gt.reduce_sum(copy.copy(holder).t)", "x * gt.reduce_sum(copy.deepcopy(holder).t)",
    "x * gt.reduce_sum(copy.copy(tensors)[0])", "x * gt.reduce_sum(copy.deepcopy(tensors)[0])",
    "x * dataclasses.asdict(dc)['j']",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::gradtape.errors.AutographWarning")
@pytest.mark.parametrize("route", ROUTES)
def test_a_change_is_seen(route, tmp_path):
    text = WORLD + f"\n\ndef program(x):\n    return {route}\n"
    histories = []
    for name, wrap in (("routes_plain", lambda f: f), ("routes_traced", lambda f: gt.function(f, jit_compile=False))):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        module = ModuleType(name)
        sys.modules[name] = module  # dataclasses look for the module of a class
        exec(compile(text, str(path), "exec"), module.__dict__)
        run, seen = wrap(module.program), []
        for value in (2.0, 3.0, None, 2.0, 1.0):
            if value is None:
                module.change()
            else:
                seen.append((float(run(gt.constant(value))), module.st.n))
        histories.append(seen)
        del sys.modules[name]
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-6)

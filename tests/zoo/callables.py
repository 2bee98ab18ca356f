"""Callables: nested functions, closures, lambdas, methods, properties, partial, decorators, recursion, generators, *args."""

from __future__ import annotations

import functools
import operator
from collections import namedtuple
from dataclasses import dataclass

import numpy as np

import gradtape as gt
from tests.zoo.registry import Instance, stateful, zoo

SCALARS = [(0.7,), (-1.3,)]
GAIN = 1.5
Point = namedtuple("Point", ["x", "y"])


def clipped(x, low, high):
    if x < low:
        return low + 0.1 * (x - low)
    if x > high:
        return high + 0.1 * (x - high)
    return x


def twice(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(function(*args, **kwargs))

    return wrapped


@twice
def softened(x):
    if x > 0:
        return gt.log1p(x)
    return -gt.log1p(-x)


@zoo([(0.7,), (2.7,), (-1.3,)])
def calls_a_module_function_with_branches(x):
    return clipped(x, -1.0, 1.0) * x


@zoo(SCALARS)
def calls_a_decorated_function(x):
    return softened(x) * x


@zoo(SCALARS)
def nested_function_with_closure(x):
    scale = gt.exp(x)

    def step(y):
        if y > 0:
            return y * scale
        return y - scale

    return step(step(x))


@zoo(SCALARS)
def nested_function_defined_in_a_loop(x):
    total = 0.0
    for k in range(3):

        def term(t, k=k):
            return gt.sin(t * (k + 1))

        total += term(x)
    return total


@zoo(SCALARS)
def lambda_with_ternary(x):
    leaky = lambda t: t if t > 0 else 0.1 * t * t  # noqa: E731
    return leaky(x) + leaky(-x)


@zoo(SCALARS)
def partial_application(x):
    squeeze = functools.partial(clipped, low=-0.5, high=0.5)
    return squeeze(x) * x


@zoo(SCALARS)
def reduce_with_a_lambda(x):
    return functools.reduce(lambda a, b: gt.sin(a) * b + a, [x, x * x, gt.exp(x)])


@zoo([([0.4, -0.9, 1.7],)])
def reduce_over_a_tensor(v):
    return functools.reduce(operator.mul, v) + functools.reduce(lambda a, b: a * 0.5 + b, list(v))


@zoo([(0.7, 4), (-1.3, 1), (0.2, 0)])
def recursion_of_static_depth(x, n):
    if n == 0:
        return x
    return gt.sin(recursion_of_static_depth(x, n - 1)) + 0.1 * n


@zoo([(0.7, 5)])
def mutual_recursion(x, n):
    def even(t, k):
        return t if k == 0 else odd(gt.sin(t), k - 1)

    def odd(t, k):
        return t * t if k == 0 else even(t + 0.3, k - 1)

    return even(x, n)


@zoo([([0.4, -0.9, 1.7, 0.2, 0.8],)])
def recursive_tree_sum(v):
    n = len(v)
    if n == 1:
        return gt.sin(v[0])
    return recursive_tree_sum(v[: n // 2]) * 0.9 + recursive_tree_sum(v[n // 2 :])


@zoo(SCALARS)
def generator_of_terms(x):
    def terms(count):
        t = x
        for k in range(1, count):
            yield t
            t = t * x / k

    return sum(terms(5))


@zoo(SCALARS)
def generator_expression(x):
    return sum(gt.sin(x * k) for k in range(1, 4) if k != 2)


@zoo([(0.7, 0.3)])
def varargs_and_kwargs(x, y):
    def combine(first, *rest, scale=1.0, **named):
        total = first * scale
        for r in rest:
            total = total * r + 0.1
        for key in sorted(named):
            total = total + named[key] * len(key)
        return total

    return combine(x, y, x * y, scale=2.0, alpha=gt.sin(x), be=y)


@zoo([((0.7, 0.3),), ((-0.2, 0.9),)])
def structured_argument(pair):
    x, y = pair
    if x > 0:
        return (y * x, x)
    return (y, gt.sin(x))


@zoo([({"w": [0.3, 0.5], "b": 0.2}, [1.0, -2.0])])
def dict_argument(params, x):
    out = dict(params)
    out["y"] = gt.tanh(gt.reduce_sum(params["w"] * x) + params["b"])
    return out


@zoo([(0.7, 0.3), (-0.7, 0.3)])
def named_tuple_state(x, y):
    p = Point(x, y)
    for _ in gt.range(3):
        if p.x > 0:
            p = Point(p.x - 0.3, p.y * 1.2)
        else:
            p = p._replace(y=gt.sin(p.y))
    return p.x * p.y


@zoo([(0.7,), (0.2,)])
def global_constant(x):
    return gt.sin(x) * GAIN


@zoo([(0.7,), (0.2,)])
def closure_over_numpy(x):
    table = np.linspace(0.1, 0.9, 5)
    total = 0.0
    for w in table:
        total = total + w * gt.sin(x * w)
    return total


@zoo([(0.7, 0.2)])
def function_passed_as_argument(x, y):
    def integrate(f, a, b, n=4):
        h = (b - a) / n
        total = 0.5 * (f(a) + f(b))
        for i in range(1, n):
            total += f(a + i * h)
        return total * h

    return integrate(lambda t: gt.exp(-t * t), x, y)


@zoo([(0.7,), (-0.7,)])
def function_returning_functions(x):
    def power(n):
        def apply(t):
            y = 1.0
            for _ in range(n):
                y = y * t
            return y

        return apply

    square, cube = power(2), power(3)
    return square(x) - cube(x)


class Polynomial:
    """Coefficients and a call."""

    count = 3

    def __init__(self, coefficients):
        self.coefficients = coefficients

    @property
    def degree(self):
        return len(self.coefficients) - 1

    @staticmethod
    def step(acc, c, x):
        return acc * x + c

    @classmethod
    def geometric(cls, ratio):
        return cls([ratio**k for k in range(cls.count)])

    def __call__(self, x):
        acc = 0.0
        for c in reversed(self.coefficients):
            acc = self.step(acc, c, x)
        return acc

    def __getitem__(self, k):
        return self.coefficients[k]


@zoo(SCALARS)
def callable_object(x):
    p = Polynomial([0.5, -1.0, 2.0, 0.3])
    return p(x) * p.degree + p[1] * x


@zoo(SCALARS)
def class_method_and_property(x):
    p = Polynomial.geometric(x)
    return p(gt.sin(x)) + p.degree


class Base:
    def act(self, x):
        if x > 0:
            return x * x
        return gt.sin(x)


class Derived(Base):
    def act(self, x):
        return super().act(x) + 0.5 * x


@zoo(SCALARS)
def method_calling_super(x):
    return Derived().act(x)


@dataclass
class Ball:
    height: object
    speed: object

    def energy(self):
        return 9.81 * self.height + 0.5 * self.speed * self.speed


@zoo([(1.0, 0.5), (0.02, -3.0)])
def dataclass_state(h, v):
    ball = Ball(h, v)
    for _ in range(5):
        ball.speed = ball.speed - 0.981
        ball.height = ball.height + 0.1 * ball.speed
        if ball.height < 0:
            ball.height, ball.speed = -ball.height, -0.7 * ball.speed
    return ball.energy()


@stateful(SCALARS)
def bound_method_with_parameters():
    class Model:
        def __init__(self):
            self.w = gt.Variable(np.array([0.5, -0.3]))
            self.b = gt.Variable(np.array(0.2))

        def predict(self, x):
            y = gt.reduce_sum(self.w * x) + self.b
            if y > 0:
                return gt.tanh(y)
            return y * 0.1

    model = Model()
    return Instance(model.predict, lambda: [model.w, model.b], (model.w, model.b))


@stateful(SCALARS)
def module_call():
    class Layer(gt.Module):
        def __init__(self):
            super().__init__()
            self.scale = gt.Variable(np.array(1.5), name="scale")

        def __call__(self, x):
            y = x * self.scale
            while y * y > 0.5:
                y = y * 0.5
            return y

    layer = Layer()
    return Instance(layer.__call__, lambda: layer.scale, (layer.scale,))


@stateful(SCALARS)
def partial_of_a_method():
    class Scaler:
        def __init__(self):
            self.k = 2.0

        def apply(self, factor, x):
            return gt.sin(x * self.k) * factor

    scaler = Scaler()
    return Instance(functools.partial(scaler.apply, 0.5))


@zoo([(0.5, [0.2, 0.4])])
def context_manager_around_staged_code(x, v):
    with gt.name_scope("inner"):
        for t in v:
            if t > 0.3:
                x = x * t
            else:
                x = x + t
    return x


@zoo([(0.5,), (-0.5,)])
def try_finally_without_error(x):
    try:
        y = gt.sin(x)
        if y > 0:
            y = y * 2.0
    finally:
        z = x * x
    return y + z


@zoo([(0.5,)])
def try_except_on_python_errors(x):
    table = {"a": x}
    try:
        y = table["b"]
    except KeyError:
        y = table["a"] * 3.0
    return y * x


@zoo([(0.5, [0.2, 0.4, 0.9])])
def format_and_string_work(x, v):
    label = f"{len(v)}-{v.dtype.name}"
    return x * len(label) + gt.reduce_sum(v)

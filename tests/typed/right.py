"""A typed program of a user: mypy and pyright accept it, and `assert_type` says what they know. Read by them, and run."""

from collections.abc import Callable
from typing import NamedTuple, assert_type

import numpy as np

import gradtape as gt
from gradtape.types import DTypeLike, Shape, TensorLike

x = gt.constant([1.0, 2.0])
v = gt.Variable([3.0, 4.0])

# operations give tensors, whatever reads as a tensor is taken
assert_type(gt.sin(x), gt.Tensor)
assert_type(gt.reduce_sum(v, axis=0), gt.Tensor)
assert_type(gt.add(x, np.ones(2)), gt.Tensor)
assert_type(gt.nn.softmax([1.0, 2.0]), gt.Tensor)
assert_type(x * 2 + 1, gt.Tensor)
assert_type(2 / x - v, gt.Tensor)
assert_type(x[0], gt.Tensor)
assert_type(v @ x[:, gt.newaxis], gt.Tensor)
assert_type(x.numpy(), np.ndarray)
total: float = float(gt.reduce_sum(x * v))

# the answers of a tape are arranged like its sources
with gt.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = gt.reduce_sum(x * v * v)
assert_type(tape.gradient(y, x), gt.Tensor)
assert_type(tape.gradient(y, [x, v]), list[gt.Tensor])
assert_type(tape.gradient(y, (x, v)), tuple[gt.Tensor, ...])
assert_type(tape.gradient(y, {"x": x, "v": v}), dict[str, gt.Tensor])
assert_type(tape.gradient(y, v, unconnected_gradients="zero"), gt.Tensor)


# decorators keep signatures
@gt.function
def scaled(a: gt.Tensor, n: int = 3) -> gt.Tensor:
    return a * n


@gt.function(jit_compile=False)
def pair(a: gt.Tensor) -> tuple[gt.Tensor, gt.Tensor]:
    return a, a + 1.0


@gt.custom_gradient
def clipped(a: gt.Tensor) -> tuple[gt.Tensor, Callable[[gt.Tensor], gt.Tensor]]:
    return a * a, lambda upstream: gt.clip_by_value(upstream * 2.0 * a, -1.0, 1.0)


def loss(w: gt.Tensor, scale: float = 1.0) -> gt.Tensor:
    return gt.reduce_sum(w * w) * scale


assert_type(scaled(x, n=2), gt.Tensor)
assert_type(scaled.python_function(x), gt.Tensor)
assert_type(pair(x), tuple[gt.Tensor, gt.Tensor])
assert_type(clipped(x), gt.Tensor)
assert_type(gt.recompute_grad(loss)(x, scale=2.0), gt.Tensor)
value, slope = gt.value_and_grad(loss)(x, scale=2.0)
assert_type(value, gt.Tensor)
gt.grad(loss)(x, 2.0)


class Model(gt.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = gt.Variable(gt.ones((2,)))

    @gt.function
    def __call__(self, inputs: gt.Tensor) -> gt.Tensor:
        return inputs * self.w

    @gt.function
    def step(self, inputs: gt.Tensor, rate: float) -> gt.Tensor:
        with gt.GradientTape() as tape:
            value = gt.reduce_sum(self(inputs) ** 2)
        self.w.assign_sub(rate * tape.gradient(value, self.w))
        return value


model = Model()
assert_type(model(x), gt.Tensor)
assert_type(model.step(x, rate=0.1), gt.Tensor)
optimizer = gt.optimizers.Adam(0.1)
optimizer.apply_gradients(zip([gt.ones((2,))], [model.w], strict=True))


def filled(shape: Shape, number: TensorLike, dtype: DTypeLike = gt.float32) -> gt.Tensor:
    return gt.cast(gt.fill(shape, number), dtype)


assert_type(filled((2, 3), 1.0), gt.Tensor)

with gt.GradientTape(persistent=True, profile=True, debug=True) as asked:
    asked.watch(x)
    energy = gt.reduce_sum(x * x)
assert_type(asked.jacobian(energy, x), gt.Tensor)
assert_type(asked.jacobian(energy, [x, v])[0], gt.Tensor)
assert_type(asked.jacobian(energy, {"x": x}, unconnected_gradients="zero"), dict[str, gt.Tensor])
assert_type(asked.explain(energy, x).cause, str)
assert_type(asked.picture(target=energy).text(), str)
assert_type(asked.check(energy, x).ok, bool)
report = asked.nan_report()
if report is not None:
    assert_type(report.location, str | None)
asked.gradient(energy, x)
assert_type(asked.profile().forward, float)


# a training loop: optimizers, clipping, data, structures of the user's own
class Batch(NamedTuple):
    x: gt.Tensor
    y: gt.Tensor


@gt.function
def train_step(net: Model, batch: Batch, opt: gt.optimizers.Optimizer, *, weight: float = 1.0) -> dict[str, gt.Tensor]:
    with gt.GradientTape() as step:
        cost = weight * gt.reduce_mean(gt.square(net(batch.x) - batch.y))
    clipped, norm = gt.clip_by_global_norm(step.gradient(cost, net.trainable_variables), 1.0)
    opt.apply_gradients(zip(clipped, net.trainable_variables, strict=True))
    return {"cost": cost, "norm": norm}


schedule = gt.optimizers.schedules.CosineDecay(0.1, 100)
rows = gt.data.Dataset.from_tensor_slices((np.ones((4, 2), np.float32), np.zeros((4, 2), np.float32)))
for some in (gt.optimizers.SGD(0.1, momentum=0.9, nesterov=True), gt.optimizers.AdamW(schedule, weight_decay=0.01)):
    for inputs, targets in rows.shuffle(4, seed=1).batch(2, drop_remainder=True).prefetch(gt.data.AUTOTUNE):
        assert_type(train_step(model, Batch(inputs, targets), some, weight=0.5), dict[str, gt.Tensor])


@gt.custom_gradient
def product(a: gt.Tensor, b: gt.Tensor) -> tuple[gt.Tensor, Callable[[gt.Tensor], tuple[gt.Tensor, gt.Tensor]]]:
    return a * b, lambda upstream: (upstream * b, upstream * a)


assert_type(product(x, x), gt.Tensor)
array = gt.TensorArray(gt.float32, size=2).write(0, 1.0)
assert_type(array.stack(), gt.Tensor)

"""Mistakes that mypy and pyright must see: each line that ends with `# wrong`, and no other. Read by them, never run."""

from collections.abc import Callable

import gradtape as gt

x = gt.constant([1.0, 2.0])


@gt.function
def scaled(a: gt.Tensor, n: int = 3) -> gt.Tensor:
    return a * n


def loss(w: gt.Tensor) -> gt.Tensor:
    return gt.reduce_sum(w * w)


class Model(gt.Module):
    @gt.function
    def step(self, inputs: gt.Tensor, rate: float) -> gt.Tensor:
        return inputs * rate


@gt.custom_gradient
def kept(a: gt.Tensor) -> tuple[gt.Tensor, Callable[[gt.Tensor], gt.Tensor]]:
    return a, lambda upstream: upstream


@gt.custom_gradient  # wrong
def ruleless(a: gt.Tensor) -> gt.Tensor:
    return a


with gt.GradientTape() as tape:
    y = loss(x)

gt.nn.conv2d(x)  # wrong
gt.sin(x, x, x)  # wrong
gt.sin()  # wrong
gt.reduce_sum(x, dim=1)  # wrong
gt.reduce_sum(x, keepdim=True)  # wrong
gt.sum(x)  # wrong
gt.optimizers.Adam(lr=0.1)  # wrong
gt.GradientTape(persist=True)  # wrong
tape.gradient(y)  # wrong
tape.gradients(y, x)  # wrong
text: str = gt.sin(x)  # wrong
number: float = tape.gradient(y, x)  # wrong
first: gt.Tensor = tape.gradient(y, [x])  # wrong
scaled("a")  # wrong
scaled(x, 3, 4)  # wrong
scaled(x, m=2)  # wrong
result: int = scaled(x)  # wrong
Model().step(x)  # wrong
Model().step(x, rate="fast")  # wrong
gt.grad(loss)(x, 2)  # wrong
gt.value_and_grad(loss)()  # wrong
gt.function(3)  # wrong
gt.constant([1.0], dtyp=gt.float32)  # wrong
tape.explain(y, x).reason  # wrong
tape.nan_report().op  # wrong
gt.maximum(x, x, x)  # wrong
gt.reshape(x, 3, 1)  # wrong
tape.gradient(y, x, unconnected_gradients="zeros")  # wrong
tape.jacobian(y, [x]).shape  # wrong
kept(x, x)  # wrong
both: tuple[gt.Tensor, gt.Tensor] = kept(x)  # wrong
gt.optimizers.SGD(0.1).apply_gradient([])  # wrong
gt.optimizers.SGD(0.1).apply_gradients(x)  # wrong
gt.optimizers.SGD(0.1).minimize(x)  # wrong
gt.Variable([1.0], requires_grad=True)  # wrong
Model().trainable_variables[0].assgn(x)  # wrong
gt.data.Dataset.range(3).batch("a")  # wrong
gt.data.Dataset.range(3).shufle(3)  # wrong
gt.data.Dataset.range(3).map(3)  # wrong
gt.zeros("a")  # wrong
gt.cast(x, 3.5)  # wrong
gt.reduce_sum(x, "a")  # wrong
gt.where(x > 0, x, x, x, x)  # wrong
gt.vectorized_map(3, x)  # wrong
gt.train.Checkpoint(model=Model()).store("x")  # wrong
gt.GradientTape(memory_limit="10")  # wrong

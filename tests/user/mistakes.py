"""More than a hundred typical mistakes, one line each; `mistakes.txt` has what a user reads after each of them, word by word.

`python -m tests.user.mistakes` writes that file anew, for a reader of the difference: no message may get worse.
"""

from __future__ import annotations

import linecache
import math
import re
import statistics
import warnings
from pathlib import Path

import numpy as np
import scipy.integrate
import scipy.sparse
import scipy.special
import scipy.stats
import tqdm

import gradtape as gt
from gradtape.core.float_events import listen
from gradtape.surface.uncaught import shown

TEXT = Path(__file__).with_suffix(".txt")
SOURCES = """
gt.sum(x)
gt.tensor([1.0])
gt.relu(x)
gt.reduce_sm(x)
gt.full((2,), 1.0)
gt.no_grad()
gt.nn.Linear(2, 3)
gt.nn.Module
gt.nn.CrossEntropyLoss()
gt.math.sum(x)
gt.math.sofplus(x)
gt.linalg.inverse(m)
gt.random.randn(3)
gt.random.randint(0, 10, (3,))
gt.optimizers.Adm(0.1)
gt.optimizers.Adam(0.1).step()
gt.optimizers.Adam(0.1).zero_grad()
gt.Module().parameters()
gt.Module().state_dict()
gt.Module().fit(x, x)
gt.jit(square)
gt.vmap(square)
gt.from_numpy(np.ones(3))
gt.Session()
gt.ragged.constant([[1]])
gt.nn.conv2(x)
x.backward()
x.grad
x.detach()
x.view(3, 1)
x.permute(0)
x.unsqueeze(0)
x.clone()
x.to("cuda")
x.cpu()
x.requires_grad_()
x.assign(1.0)
x.dtyp
w.backward()
w.grad
w.detach()
w.assing(3.0)
gt.reduce_sum(x, dim=0)
gt.reduce_sum(x, axis=0, keepdim=True)
gt.concat([x, x], dim=0)
gt.stack([x, x], dim=0)
gt.nn.softmax(x, dim=-1)
gt.squeeze(x, dim=0)
gt.expand_dims(x, dim=0)
gt.transpose(x, axes=[0])
gt.clip_by_value(x, min=0, max=1)
gt.random.uniform((2,), low=0, high=1)
gt.random.normal((2,), std=2.0)
gt.linspace(0, 1, steps=3)
gt.norm(x, p=2)
gt.sort(x, descending=True)
gt.nn.dropout(x, p=0.5)
gt.reduce_mean(input=x)
gt.matmul(m, m, transpose_x=True)
gt.tile(x, reps=2)
gt.one_hot([0, 1], num_classes=3)
gt.Variable([1.0], requires_grad=True)
gt.GradientTape(persistant=True)
gt.function(square, jit_compil=True)
gt.optimizers.Adam(lr=0.1)
gt.optimizers.Adam(betas=(0.9, 0.99))
gt.optimizers.SGD(learning_rat=0.1)
gt.optimizers.Adam(w)
gt.optimizers.SGD("fast")
gt.optimizers.SGD(0.1).apply_gradients([w])
gt.optimizers.SGD(0.1).minimize(lambda: gt.reduce_sum(w), w)
gt.optimizers.SGD(0.1).apply_gradients([(w, x)])
gt.optimizers.SGD(0.1).apply_gradients([(None, w)])
gt.optimizers.SGD(0.1).apply_gradients([(gt.ones(2), w)])
x + gt.ones(2)
m @ m
gt.matmul(x, x)
gt.reshape(x, (2, 2))
gt.reduce_sum(x, axis=3)
gt.concat(x, x)
gt.concat([x, m], axis=0)
gt.stack([x, m])
gt.split(x, 2)
gt.where(x > 0, x)
gt.einsum("ij,jk", x, x)
gt.nn.conv2d(gt.ones((1, 4, 4, 1)), gt.ones((3, 3, 2, 1)), 1, "SAME")
gt.nn.conv2d(gt.ones((1, 4, 4, 1)), gt.ones((3, 3, 1, 1)), 1, "same padding")
gt.linalg.inv(x)
gt.linalg.inv(gt.zeros((2, 2)))
gt.linalg.cholesky(-gt.eye(2))
x[5]
x["a"]
x[1.5]
gt.gather(x, [5])
gt.gather(x, [0.5])
gt.cast(x, "flot32")
gt.constant([[1, 2], [3]])
gt.constant(None)
x + None
x + "a"
gt.constant([1]) ** -1
w.assign([1.0])
w.assign("abc")
float(x)
bool(x)
if x > 0: pass
math.sin(x)
with gt.GradientTape() as tape: y = math.sin(one)
with gt.GradientTape() as tape: y = x * x ;; tape.gradient(y, x)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(w, y)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y * 3.0, w)
with gt.GradientTape() as tape: y = gt.constant(w.numpy()) ;; tape.gradient(y, w)
tape = gt.GradientTape() ;; tape.gradient(w * w, w)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, w) ;; tape.gradient(y, w)
with gt.GradientTape() as tape: y = w.numpy() ** 2 ;; tape.gradient(y, w)
with gt.GradientTape() as tape: y = n * n ;; tape.gradient(y, n)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, None)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, w, unconnected_gradients="foo")
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, w, output_gradients=[1.0])
w = w - 0.1 ;; w.assign(x)
gt.log(x - 2.0)
x / 0
gt.sqrt(-w)
gt.exp(x * 1000.0)
m[0][1] = 2.0
gt.maximum(x, x, x)
gt.reshape(x, 3, 1)
gt.zeros(2, 3)
gt.pad(x, 1)
gt.linspace(0, 1, 2.5)
gt.eye(2.5)
gt.sin("a")
gt.einsum(x, x, "i,i->")
gt.map_fn(x, square)
gt.vectorized_map(x, square)
gt.grad(w * w)
gt.jvp(square, x, x)
gt.save(w, "weights")
gt.random.set_seed("a")
gt.random.seed(0)
gt.Variable("w", [1.0])
gt.nn.cross_entropy(m, [0, 1])
gt.nn.mse_loss(x, x)
gt.cuda.is_available()
gt.np.sin(x)
gt.float
gt.train.AdamOptimizer(0.1)
gt.data.DataLoader(x)
gt.data.Dataset.from_tensor_slices(x).head()
gt.data.Dataset.range(3).ragged_batch(2)
gt.data.TextLineDataset("lines.txt")
gt.data.Dataset.from_tensor_slices(x).batch(2).map(lambda a, b: a)
with gt.GradientTape() as tape: y = w * w ;; tape.backward(y)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, w, retain_graph=True)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, w, gt.UnconnectedGradients.ZERO)
with gt.GradientTape() as tape: y = x * w ;; tape.watch(x) ;; tape.gradient(y, x)
with gt.GradientTape() as tape: y = gt.constant([float(v) for v in w]) ;; tape.gradient(y, w)
v = gt.Variable(1.0, trainable=False, name="v") ;; with gt.GradientTape() as tape: y = v * v ;; tape.gradient(y, v)
square(x, b=1)
gt.function(square)(a=x, b=1)
gt.function(lambda a: a.foo)(x)
gt.function(square)(x, x)
gt.function(lambda a: a + gt.ones(2))(x)
gt.function(lambda a: math.sin(a))(x[0])
def f(): ;;     with gt.GradientTape() as tape: y = w * x ;;     return tape.gradient(y, x) ;; gt.function(f)()
m @ gt.ones(2)
gt.ones(2) @ gt.ones(3)
gt.matmul(x, m)
gt.ones((2, 3)) @ gt.ones((4, 3))
with gt.GradientTape() as tape: y = w * w ;; gt.optimizers.SGD(0.1).apply_gradients(zip([w], [tape.gradient(y, w)]))
with gt.GradientTape() as tape: y = (w[0] * w[1]).item() ;; tape.gradient(y, w)
with gt.GradientTape() as tape: scipy.stats.norm.cdf(w)
with gt.GradientTape() as tape: scipy.special.softmax(w)
with gt.GradientTape() as tape: scipy.integrate.solve_ivp(lambda t, y: -w * y, (0, 1), [1.0, 1.0, 1.0])
with gt.GradientTape() as tape: np.full_like(np.ones(3), w[0])
with gt.GradientTape() as tape: statistics.fmean([w[0], w[1]])
scipy.sparse.eye(3, format="csr") * x
v = gt.ones(5) ;; v[v > 0] = gt.ones(3)
v = gt.ones(5) ;; v[1:3] = [1.0, 2.0, 3.0]
x.at[0].set(1.0)
gt.random.PRNGKey(0)
gt.constant([1.0], requires_grad=True)
gt.function(square, static_argnums=0)
class Net(gt.Module): forward = square ;; Net()(x)
def f(a): ;;     bar = tqdm.tqdm(range(9), disable=True) ;;     for _ in bar: a = a + bar.n ;;     return a ;; gt.function(f)(x)
gt.Tensor([1.0])
x.append(1.0)
x.item()
x.sum(1)
gt.sort(x, direction=1)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, w, create_graph=True)
with gt.GradientTape() as tape: y = w * w ;; tape(y, w)
with gt.GradientTape() as tape: y = gt.argmax(w) ;; tape.gradient(y, w)
with gt.GradientTape() as tape: y = gt.constant("a") ;; tape.gradient(y, w)
with gt.GradientTape() as tape: y = gt.cast(w > 1, gt.float32) ;; tape.gradient(y, w)
with gt.GradientTape() as tape: tape.watch(np.ones(3))
with gt.GradientTape() as tape: y = gt.reduce_sum(np.array([a for a in w])) ;; tape.gradient(y, w)
y = w * w ;; with gt.GradientTape() as tape: pass ;; tape.gradient(y, w)
gt.function(square, jit=True)
gt.exp(x, out=x)
gt.nn.relu(x, inplace=True)
np.exp(x, out=np.zeros(3))
np.frompyfunc(square, 1, 1)(w)
np.insert(x, 1, 1.0)
np.vstack([x, gt.ones(2)])
gt.random.shuffle([1, 2, 3], seed="a")
gt.one_hot([0.5], 3)
gt.grad(square)(w)
gt.grad(square)(1)
gt.grad(square, argnums=3)(1.0)
gt.value_and_grad(lambda a: "text")(x)
gt.value_and_grad(lambda a: None)(x)
@gt.custom_gradient ;; def f(a): return a, lambda d: (d, d) ;; with gt.GradientTape() as tape: y = f(w) ;; tape.gradient(y, w)
gt.cond(x > 0, lambda: x, lambda: x)
gt.nn.sparse_softmax_cross_entropy_with_logits([0, 5], m)
gt.nn.sparse_softmax_cross_entropy_with_logits(m, [0, 1])
gt.data.Dataset.range(3)[0]
next(gt.data.Dataset.range(3))
gt.data.Dataset.range(3).batch(batch=2)
gt.data.Dataset.range(3).batch(0)
gt.data.Dataset.from_tensor_slices((gt.ones(3), gt.ones(4)))
gt.constant(1.0).mean(dim=0)
gt.optimizers.get("adam")
gt.optimizers.SGD([w], 0.1)
gt.optimizers.SGD(0.1).state_dict()
gt.optimizers.SGD(0.1).minimize(w * w, [w])
gt.Module().summary()
@gt.function ;; def f(a): ;;     return a.numpy() ;; f(x)
@gt.function ;; def f(a): ;;     if a[0] > 0: c = a ;;     return c ;; f(-x)
@gt.function(input_signature=[gt.TensorSpec((2,), gt.float32)]) ;; def f(a): return a ;; f(x)
gt.load("nothing.safetensors")
gt.diff(x)
gt.median(x)
gt.pi
gt.isnan(x)
gt.kron(x, x)
gt.full_like(x, 1.0)
gt.optim.Adam([w], lr=0.1)
gt.autograd.grad(x, x)
gt.inference_mode()
gt.tree_map(square, [x])
gt.nn.Sequential([])
gt.pmap(square)
gt.device_put(x)
gt.empty((3,))
gt.zeros(3, device="cpu")
x.exp()
x.matmul(x)
x.mul(2)
x.add_(1)
w.zero_()
x.numel()
x.double()
x.masked_fill(x > 1, 0.0)
x.block_until_ready()
x.grad_fn
x.size()
x.shape()
x.max(dim=0)
x[0, 0]
x.shape = (3, 1)
[1, 2, 3][x]
range(gt.constant(3.0))
with gt.GradientTape as tape: y = w * w
with gt.GradientTape() as tape: y = w * w ;; tape.picture(y)
with gt.GradientTape() as tape: y = w * w ;; tape.explain(w)
with gt.GradientTape() as tape: y = w * w ;; tape.gradient(y, "w")
with gt.GradientTape() as tape: tape.watch(x) ;; y = x * x ;; tape.gradient(y, x)
tape = gt.GradientTape() ;; tape.watch(x) ;; tape.gradient(x * x, x)
gt.optimizers.Adam(0.1).minimize(lambda: None, [w])
gt.optimizers.SGD(0.1).minimize(lambda: gt.reduce_sum(x), [w])
gt.optimizers.Adam(0.1).apply_gradients([])
gt.random.Generator(3)
gt.pad(x, [[1]])
gt.unique(m)
gt.clip_by_global_norm(x, 1.0)
gt.constant(1.5, dtype=gt.int32)
gt.Variable([1.0], gt.float64)
a = np.ones(3) ;; a += w
np.polyfit(x, x, 1)
@gt.custom_gradient ;; def f(a): return a * 2 ;; f(x)
@gt.function ;; def f(a): ;;     return gt.Variable(a) ;; f(x) ;; f(x)
@gt.function ;; def f(a): yield a ;; f(x)
gt.vectorized_map(lambda a: a.numpy(), x)
gt.hessian(square)(x)
len(gt.data.Dataset.range(3).repeat())
gt.data.Dataset.range(3).map(lambda a: a + "b")
""".strip().splitlines()


def square(a: gt.Tensor) -> gt.Tensor:
    return a * a


def outcome(source: str) -> str:
    """What Python shows after these lines: warnings, then the last line of the traceback and its notes."""
    w = gt.Variable([1.0, 2.0, 3.0], name="w")
    space = {
        "gt": gt, "np": np, "math": math, "x": gt.constant([1.0, 2.0, 3.0]), "w": w, "n": gt.Variable(2, name="n"),
        "one": gt.Variable(1.0, name="one"), "m": gt.ones((2, 3)), "square": square, "__name__": "mistake",
        "scipy": scipy, "statistics": statistics, "tqdm": tqdm,
    }  # fmt: skip
    code = source.replace(" ;; ", "\n")
    linecache.cache["mistake.py"] = (len(code), None, code.splitlines(keepends=True), "mistake.py")
    said = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        listen()
        try:
            exec(compile(code, "mistake.py", "exec"), space)
        except Exception as error:
            shown(error, error.__traceback__)
            words = re.sub(r"(keyword argument '\w+')\. Did you mean '\w+'\?", r"\1", str(error))  # Python's own, from 3.13 on
            said = [f"{type(error).__name__}: {words.rstrip()}", *getattr(error, "__notes__", ())]
    lines = [f"line {w.lineno}: {w.category.__name__}: {w.message}" for w in caught] + said
    return "\n".join(f"    {line}" for line in lines)


def document() -> str:
    return "".join(f"{source}\n{outcome(source)}\n" for source in SOURCES)


if __name__ == "__main__":
    TEXT.write_text(document())

"""A script in which rank 1 is late and makes infinities; `gradtape run` and the tape's tools look at it."""

import time

import numpy as np

import gradtape as gt

ranks = gt.distribute
w, unused = gt.Variable([1.0, 2.0]), gt.Variable(1.0)


@gt.function
def program(x):  # type: ignore[no-untyped-def]
    for _ in gt.range(5):
        x = ranks.halo_exchange(x)[1:-1] * 0.9
    return ranks.all_reduce(gt.reduce_sum(x))


with gt.GradientTape(profile=True) as tape:
    time.sleep(0.5 * ranks.rank())
    loss = ranks.all_reduce(gt.reduce_sum(w * w)) + program(w * 1.0)
tape.gradient(loss, w)
print(tape.profile())

with gt.GradientTape(debug=True) as tape, np.errstate(all="ignore"):
    parts = ranks.all_reduce(gt.reduce_sum(gt.math.log(w - float(ranks.rank()))))  # log(0) on rank 1
    loss = parts * 2.0
slope = tape.gradient(loss, w)  # finite on rank 0 only: both walk once
print("slope of", ranks.rank(), slope.numpy().tolist())
print(tape.explain(loss, unused))
print(tape.nan_report())

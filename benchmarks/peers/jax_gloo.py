"""A gradient step of JAX on two processes that sum gradients with gloo; prints microseconds of the quickest.

`python jax_gloo.py` starts the two; each runs one compiled step under `shard_map`, as PyTorch's DistributedDataParallel does.
"""

import os
import socket
import subprocess
import sys
import time

RANKS = 2


def step(rank: int, address: str) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, RANKS, rank)
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    random = np.random.default_rng(0)

    def everywhere(value: np.ndarray) -> jax.Array:
        return jax.make_array_from_process_local_data(NamedSharding(mesh, P()), value)

    sizes = ((784, 256), (256, 10))
    weights = [
        (everywhere(random.normal(size=s).astype(np.float32) * 0.05), everywhere(np.zeros(s[1], np.float32))) for s in sizes
    ]

    def loss(weights, x, y):  # type: ignore[no-untyped-def]
        hidden = jax.nn.relu(x @ weights[0][0] + weights[0][1])
        logits = jax.nn.log_softmax(hidden @ weights[1][0] + weights[1][1])
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], 1))

    def update(weights, x, y):  # type: ignore[no-untyped-def]
        # of this rank's rows; the weights are the same everywhere, so their gradient is summed over the ranks
        value, slopes = jax.value_and_grad(lambda w: jax.lax.pmean(loss(w, x, y), "ranks"))(weights)
        return jax.tree.map(lambda w, g: w - 0.01 * g, weights, slopes), value

    train = jax.jit(jax.shard_map(update, mesh=mesh, in_specs=(P(), P("ranks"), P("ranks")), out_specs=(P(), P())))
    rows = NamedSharding(mesh, P("ranks"))
    x = jax.make_array_from_process_local_data(rows, random.normal(size=(64, 784)).astype(np.float32))
    y = jax.make_array_from_process_local_data(rows, random.integers(0, 10, 64))
    best = float("inf")
    for _ in range(120):
        start = time.perf_counter()
        weights, value = train(weights, x, y)
        jax.block_until_ready((weights, value))
        best = min(best, time.perf_counter() - start)
    if rank == 0:
        print(best * 1e6, flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        step(int(sys.argv[1]), sys.argv[2])
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
        ranks = [
            subprocess.Popen([sys.executable, "-P", __file__, str(rank), f"127.0.0.1:{port}"], env=settings)
            for rank in range(RANKS)
        ]
        raise SystemExit(max(process.wait() for process in ranks))

"""What users call between ranks: `all_reduce`, `all_gather`, `halo_exchange` and their like, written in the primitives of
`ops/collective.py`. Axes and roots are checked here; that shapes are the same on all ranks, debug mode checks."""

from __future__ import annotations

from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axis, DTypeLike, Shape, TensorLike
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ops.collective import (
    all_extreme,
    all_stack,
    all_sum,
    all_swap,
    from_root,
    recv_from,
    rows_of_root,
    send_to,
    stack_on_root,
    sum_scatter,
    sum_to_root,
    swap_edges,
    swap_with,
)
from gradtape.ops.create import static_shape
from gradtape.ops.reduce import reduce_prod
from gradtape.ops.sampling import normal
from gradtape.ops.shape import concat, normal_axis, reshape, stack, transpose


def rank() -> int:
    """The number of this process among those that run the program: 0 for one that runs alone.

    >>> gt.distribute.rank()
    0
    """
    return HOOKS.world.rank


def size() -> int:
    """How many processes run the program together.

    >>> gt.distribute.size()
    1
    """
    return HOOKS.world.size


def _checked_root(root: int, caller: str) -> int:
    if not 0 <= root < HOOKS.world.size:
        raise InvalidArgumentError(f"{caller}: root must be one of the {HOOKS.world.size} ranks, got {root}")
    return int(root)


def _in_front(x: Tensor, axis: Axis, caller: str) -> Tensor:
    """`x` with `axis` cut into one block per rank: an axis of ranks, then the axes as they were."""
    place = normal_axis(axis, x.ndim, caller)
    dims, ranks = tuple(x.shape), HOOKS.world.size
    if dims[place] % ranks:
        raise InvalidArgumentError(
            f"{caller}: axis {place} has {dims[place]} entries, which are not {ranks} equal blocks, one per rank; pad it"
        )
    blocks = reshape(x, (*dims[:place], ranks, dims[place] // ranks, *dims[place + 1 :]))
    return transpose(blocks, (place, *range(place), *range(place + 1, x.ndim + 1)))


def _joined(blocks: Tensor, axis: Axis, caller: str) -> Tensor:
    """The blocks of all ranks (axis 0), one behind the other along `axis` of each; numbers as a vector."""
    if blocks.ndim == 1:
        return blocks
    place = normal_axis(axis, blocks.ndim - 1, caller)
    moved = transpose(blocks, (*range(1, place + 1), 0, *range(place + 1, blocks.ndim)))
    dims = tuple(moved.shape)
    return reshape(moved, (*dims[:place], dims[place] * dims[place + 1], *dims[place + 2 :]))


@composite(samples=lambda: [Sample(normal(2, 3)), *(Sample(normal(3), op) for op in ("mean", "max", "min", "prod")),
                            Sample(normal(2), "median", raises=(ValueError, "sum, mean, max, min or prod")),
                            Sample(normal(2) * 1j, "max", raises=(ValueError, "complex numbers have no max"))])  # fmt: skip
def all_reduce(x: TensorLike, op: str = "sum") -> Tensor:
    """The sum (mean, max, min, prod) of the ranks' arrays, element by element, on all ranks.

    >>> gt.distribute.all_reduce([1.0, 2.0]).numpy()  # of one rank
    array([1., 2.], dtype=float32)
    """
    x = convert(x)
    if op == "sum":
        return all_sum(x)
    if op == "mean":
        return all_sum(x) / HOOKS.world.size
    if op in ("max", "min"):
        if x.dtype.is_complex:
            raise InvalidArgumentError(f"all_reduce: complex numbers have no {op}; take it of their magnitudes, gt.abs(x)")
        return all_extreme(x, kind=op)
    if op == "prod":
        return reduce_prod(all_stack(x, ranks=HOOKS.world.size), axis=0)
    raise InvalidArgumentError(f"all_reduce: op is sum, mean, max, min or prod, got {op!r}")


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal(2, 3), 1), Sample(normal())])
def all_gather(x: TensorLike, axis: Axis = 0) -> Tensor:
    """The ranks' arrays, one behind the other along `axis`, on all ranks; numbers become a vector. All have one shape.

    >>> gt.distribute.all_gather(3.0).numpy()
    array([3.], dtype=float32)
    """
    return _joined(all_stack(convert(x), ranks=HOOKS.world.size), axis, "all_gather")


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal(2, 4), 1, 0)])
def all_to_all(x: TensorLike, split_axis: Axis = 0, concat_axis: Axis = 0) -> Tensor:
    """Block r of `x` along `split_axis` goes to rank r; the blocks that arrive stand behind one another along `concat_axis`.

    >>> gt.distribute.all_to_all([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return _joined(all_swap(_in_front(convert(x), split_axis, "all_to_all")), concat_axis, "all_to_all")


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal(2, 3), 1)])
def reduce_scatter(x: TensorLike, axis: Axis = 0) -> Tensor:
    """Of the sum of the ranks' arrays, the block along `axis` that is this rank's.

    >>> gt.distribute.reduce_scatter([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return sum_scatter(_in_front(convert(x), axis, "reduce_scatter"))


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal(), 5, raises=(ValueError, "one of the 1 ranks"))])
def broadcast(x: TensorLike, root: int = 0) -> Tensor:
    """The array of rank `root`, on all ranks; the others' must have its shape and dtype.

    >>> gt.distribute.broadcast([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return from_root(convert(x), root=_checked_root(root, "broadcast"))


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal())])
def replicated(x: TensorLike) -> Tensor:
    """`x` of rank 0, as a value that all ranks share: a derivative with respect to it counts what all ranks do with it.

    >>> gt.distribute.replicated([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return from_root(convert(x), root=0)


@composite(
    samples=lambda: [
        Sample(normal(2, 3)),
        Sample(normal(2), "mean"),
        Sample(normal(2), "max", raises=(ValueError, "all_reduce")),
    ]
)
def reduce(x: TensorLike, op: str = "sum", root: int = 0) -> Tensor:
    """The sum (mean) of the ranks' arrays on rank `root`; zeros on the others.

    >>> gt.distribute.reduce([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    if op not in ("sum", "mean"):
        raise InvalidArgumentError(f"reduce: op is sum or mean, got {op!r}; all_reduce has max, min and prod")
    total = sum_to_root(convert(x), root=_checked_root(root, "reduce"))
    return total if op == "sum" else total / HOOKS.world.size


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal(2, 3), 0, 1)])
def gather_to(x: TensorLike, root: int = 0, axis: Axis = 0) -> Tensor:
    """The ranks' arrays, one behind the other along `axis`, on rank `root`; zeros on the others.

    >>> gt.distribute.gather([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    blocks = stack_on_root(convert(x), root=_checked_root(root, "gather"), ranks=HOOKS.world.size)
    return _joined(blocks, axis, "gather")


@composite(samples=lambda: [Sample(normal(2, 3)), Sample(normal(2, 3), 0, 1)])
def scatter_from(x: TensorLike, root: int = 0, axis: Axis = 0) -> Tensor:
    """Of the array of rank `root`, the block along `axis` that is this rank's; the others' `x` is like it and not read.

    >>> gt.distribute.scatter([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    return rows_of_root(_in_front(convert(x), axis, "scatter"), root=_checked_root(root, "scatter"))


def _peer(number: int | None, caller: str, name: str) -> int:
    if number is None:
        return -1
    if not 0 <= number < HOOKS.world.size:
        raise InvalidArgumentError(f"{caller}: {name} must be one of the {HOOKS.world.size} ranks, or None, got {number}")
    return int(number)


def _tag(tag: int, caller: str) -> int:
    if not 0 <= tag < 32765:  # MPI promises 15 bits; the last ones are for `halo_exchange`
        raise InvalidArgumentError(f"{caller}: tag must be a number from 0 to 32764, got {tag}")
    return int(tag)


@composite(samples=lambda: [Sample(normal(2, 3), 0, 0), Sample(normal(2), 3, 0, raises=(ValueError, "dest must be"))])
def sendrecv(x: TensorLike, dest: int | None, source: int | None, tag: int = 0) -> Tensor:
    """Send `x` to rank `dest` and give what rank `source` sends, of the same shape; zeros where `source` is None.

    >>> gt.distribute.sendrecv([1.0, 2.0], dest=0, source=0).numpy()
    array([1., 2.], dtype=float32)
    """
    peers = {"dest": _peer(dest, "sendrecv", "dest"), "source": _peer(source, "sendrecv", "source")}
    return swap_with(convert(x), **peers, tag=_tag(tag, "sendrecv"))


def send(x: TensorLike, dest: int, tag: int = 0) -> None:
    """Send `x` to rank `dest`, which calls `recv`. It may wait for that.

    >>> if gt.distribute.size() > 1 and gt.distribute.rank() == 0:
    ...     gt.distribute.send([1.0, 2.0], dest=1)
    """
    send_to(convert(x), dest=_peer(dest, "send", "dest"), tag=_tag(tag, "send"))


def recv(shape: Shape, source: int, dtype: DTypeLike = "float32", tag: int = 0) -> Tensor:
    """What rank `source` sends, of this shape and dtype.

    >>> if gt.distribute.rank() == 1:
    ...     x = gt.distribute.recv((2,), source=0)
    """
    dims = static_shape(shape)
    return recv_from(shape=dims, dtype=as_dtype(dtype), source=_peer(source, "recv", "source"), tag=_tag(tag, "recv"))


@composite(
    samples=lambda: [
        Sample(normal(3, 2)),
        Sample(normal(3, 4), 2, 1, True),
        Sample(normal(2), 3, raises=(ValueError, "width")),
    ]
)
def halo_exchange(x: TensorLike, width: int = 1, axis: Axis = 0, periodic: bool = False) -> Tensor:
    """The block of this rank with the edges of its neighbours around it: `width` entries of the rank below in front along
    `axis`, as many of the rank above behind; zeros beyond the ends, unless the ranks form a ring.

    >>> gt.distribute.halo_exchange([1.0, 2.0, 3.0]).numpy()
    array([0., 1., 2., 3., 0.], dtype=float32)
    """
    x = convert(x)
    place = normal_axis(axis, x.ndim, "halo_exchange")
    length = x.shape[place]
    if width < 1 or (isinstance(length, int) and width > length):
        raise InvalidArgumentError(
            f"halo_exchange: width must be at least 1 and at most the {length} entries that this rank's block has along axis "
            f"{place}, got {width}; use fewer ranks, or blocks that are large enough on all of them"
        )
    before = (slice(None),) * place
    edges = swap_edges(stack([x[(*before, slice(0, width))], x[(*before, slice(-width, None))]]), periodic=bool(periodic))
    return concat([edges[0], x, edges[1]], place)


def barrier() -> None:
    """Wait until all ranks have come here.

    >>> gt.distribute.barrier()
    """
    all_sum(convert(0.0))

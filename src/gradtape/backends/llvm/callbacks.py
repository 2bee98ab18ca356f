"""Operations that native code leaves to NumPy: it calls back, and the op's `impl` runs on views of native memory.

The call passes an array of words: for each operand its address and dims (a list: address, length, dims of an item), then for
each result the address to write to and its dims, which must be what the program says. `Callbacks` is the Python side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.backends.llvm import lists
from gradtape.backends.llvm.scope import Note, Scope
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import MEMORY, REGISTER, name_of
from gradtape.backends.llvm.values import Array, Lazy, Lowered, NativeList, Scalar, UnsupportedError
from gradtape.ir.dims import substitute, symbols_in
from gradtape.ir.graph import Operation
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import TensorList

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64))


def write_callback(scope: Scope, operation: Operation) -> list[Lowered]:
    """The code of a call back into Python."""
    w, program = scope.writer, scope.program
    if operation.regions or operation.op.kind == "region":
        raise UnsupportedError(f"the structured op {operation.op.name}", operation)
    words: list[tuple[str, Index | str]] = []
    for value in operation.operands:
        found = scope.values[value]
        if isinstance(found, NativeList):
            words += [("ptr", lists.address(scope, found)), ("i64", lists.length(scope, found))]
            words += [("i64", size) for size in found.dims]
        else:
            array = scope.memory(value)
            words += [("ptr", array.address), *[("i64", size) for size in array.dims]]
    results: list[Lowered] = []
    for value in operation.results:
        if isinstance(value.type, ListSpec):
            raise UnsupportedError(f"the result of {operation.op.name} is a list", operation)
        if any(name not in program.sizes for name in symbols_in(value.type)):
            raise UnsupportedError(f"the size of what {operation.op.name} gives is known only afterwards", operation)
        if len(value.type.shape) or name_of(value.type.dtype) not in REGISTER:
            home = scope.room(value)
        else:
            home = Array(w.cell(MEMORY[name_of(value.type.dtype)]), (), value.type.dtype)
        results.append(home)
        words += [("ptr", home.address), *[("i64", size) for size in home.dims]]
    names = sorted(symbols_in(operation.attrs))
    words += [("i64", program.index_of_symbol(name)) for name in names]
    packed = w.cell("i64", max(len(words), 1))
    for k, (kind, word) in enumerate(words):
        w.store(kind, word, w.at("i64", packed, k))
    program.calls.append(operation)
    program.notes.append(Note("numpy", (operation.op.name,), operation.loc))
    program.module.declare("gt_callback", "i32 (ptr, i32, ptr)")
    status = w.let(f"call i32 @gt_callback(ptr %context, i32 {len(program.calls) - 1}, ptr {packed})")
    bad, good = w.label("bad"), w.label("good")
    w.branch(w.let(f"icmp ne i32 {status}, 0"), bad, good, f", !prof {program.unlikely()}")
    w.start(bad)
    w.store("i32", -1, "%status")
    w.go("leave")
    w.start(good)
    return [
        Scalar(scope.load(home, ()), value.type.dtype)
        if not len(value.type.shape) and name_of(value.type.dtype) in REGISTER and isinstance(home, Array) else home
        for value, home in zip(operation.results, results, strict=True)
    ]  # fmt: skip


def view(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array on native memory."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def run_callback(operation: Operation, words: Any) -> None:
    """Run an op's `impl` on native memory."""
    k = 0
    inputs: list[Any] = []
    for value in operation.operands:
        address = words[k]
        k += 1
        if isinstance(value.type, ListSpec):
            item = value.type.item
            count = words[k]
            dims = [words[k + 1 + i] for i in range(len(item.shape))]
            k += 1 + len(dims)
            rows = view(address, (count, *dims), item.dtype.dtype)
            inputs.append(TensorList([row.copy() if dims else row for row in rows], TensorSpec(dims, item.dtype)))
        else:
            dims = [words[k + i] for i in range(len(value.type.shape))]
            k += len(dims)
            array = view(address, dims, value.type.dtype.dtype)
            inputs.append(array if dims else array[()])
    homes = []
    for value in operation.results:
        dims = [words[k + 1 + i] for i in range(len(value.type.shape))]
        homes.append(view(words[k], dims, value.type.dtype.dtype))
        k += 1 + len(dims)
    attrs = operation.attrs
    names = sorted(symbols_in(attrs))
    if names:
        attrs = {key: substitute(attr, {name: words[k + i] for i, name in enumerate(names)}) for key, attr in attrs.items()}
    with np.errstate(all="ignore"):
        found = operation.op.impl(*inputs, **attrs)
    if not homes:
        return
    for home, result in zip(homes, (found,) if operation.op.outputs == 1 else found, strict=True):
        if home.shape != np.shape(result):
            raise AssertionError(f"{operation.op.name} gave the shape {np.shape(result)}, the program says {home.shape}")
        home[...] = result


__all__ = ["SIGNATURE", "Lazy", "run_callback", "view", "write_callback"]

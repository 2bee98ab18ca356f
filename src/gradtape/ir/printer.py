"""Programs as text, one operation per line; `tests/harness/program_parser.py` reads it back.

    func f(%x: float32[3], %n: int32[]) {
      %0: float32[3] = multiply(%x, %x)  @ prog.py:4
      carried(%1: float32[3]) ys() count(%2: int32[]) = while carried(%0) consts(%n) {  @ prog.py:5
        test carried(%3: float32[3]) consts(%4: int32[]) {
          ...
          give flag(%5)
        }
        ...
      }
      give outputs(%1)
    }

A value is called as the user calls it (`%x`, a second one `%x.1`), or by a number. Groups are written `name(...)`, the one
unnamed group `(...)`. Attributes follow the operands like keyword arguments (`reduce_sum(%x, axis=(0,))`), or in brackets
after named groups. A called block is printed once, after the program, and referred to as `@name`. Text and program
determine each other, except for opaque Python objects: they are `<object 0: repr>`, and `text_and_objects` gives their table.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import math
import re
import struct
from typing import Any

import numpy as np

from gradtape.dtypes import ALL, DType
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block, Layout, Operation, Value
from gradtape.ir.slots import Field, Slot
from gradtape.ir.types import ListSpec, TensorShape, TensorSpec
from gradtape.ir.walk import callees, groups_of

SHORT = 16  # arrays with more elements are written as their bytes
BUILTINS: dict[str, type] = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)}
DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in ALL}


def to_text(block: Block, locations: bool | str = True) -> str:
    """The program's text. `locations`: True writes them in full, "short" without folders, False leaves them out."""
    return _Printer(locations).program(block)


def text_and_objects(block: Block, digests: bool = False) -> tuple[str, list[Any]]:
    """The text without locations (`digests`: nor long arrays), and the opaque objects in the order of their numbers in it."""
    printer = _Printer(False, digests)
    return printer.program(block), printer.objects


class _Names:
    """Distinct words for things: their own name, with a number where it is taken."""

    def __init__(self) -> None:
        self.words: dict[Any, str] = {}
        self.taken: dict[str, int] = {}

    def word(self, thing: Any, name: str) -> str:
        if thing not in self.words:
            count = self.taken.get(name, 0)
            self.taken[name] = count + 1
            self.words[thing] = word(name) + (f".{count}" if count else "")
        return self.words[thing]


def word(name: str) -> str:
    """A name as it stands in text: bare if it is an identifier, else quoted."""
    return name if name.isidentifier() and name.isascii() else _quoted(name)


def _quoted(text: str) -> str:
    """As Python would quote it, but always in double quotes."""
    shown = repr(text)
    body = shown[1:-1]
    return shown if shown[0] == '"' else '"' + body.replace("\\'", "'").replace('"', '\\"') + '"'


class _Printer:
    def __init__(self, locations: bool | str, digests: bool = False) -> None:
        self.locations, self.digests = locations, digests
        self.lines: list[str] = []
        self.objects: list[Any] = []
        self.functions = _Names()
        self.values = _Names()
        self.unnamed: dict[Value, str] = {}

    def program(self, block: Block) -> str:
        functions = [block, *callees(block)]
        for function in functions:
            self.functions.word(function, function.name)
        for function in functions:
            self.values, self.unnamed = _Names(), {}
            self.block(f"func {self.functions.words[function]}", function, "")
        return "\n".join(self.lines) + "\n"

    def block(self, head: str, block: Block, indent: str) -> None:
        groups = self.groups(block.params, block.layout, typed=True)
        self.lines.append(f"{indent}{head}{'' if groups.startswith('(') else ' '}{groups} {{")
        for operation in block.operations:
            self.operation(operation, indent + "  ")
        self.lines.append(f"{indent}  give {self.groups(block.results, block.result_layout)}")
        self.lines.append(f"{indent}}}")

    def operation(self, operation: Operation, indent: str) -> None:
        attrs = [f"{word(key)}={self.attribute(value)}" for key, value in operation.attrs.items()]
        if operation.layout:
            call = f" {self.groups(operation.operands, operation.layout)}" + (f" [{', '.join(attrs)}]" if attrs else "")
        else:
            call = f"({', '.join([*map(self.value, operation.operands), *attrs])})"
        results = self.groups(operation.results, operation.result_layout, typed=True)
        left = "" if results == "()" else f"{results if operation.result_layout else results[1:-1]} = "
        where = f"  @ {self.location(operation.loc)}" if self.locations and operation.loc is not None else ""
        self.lines.append(f"{indent}{left}{word(operation.op.name)}{call}{' {' if operation.regions else ''}{where}")
        for name, region in operation.regions.items():
            self.block(word(name) + (f":{word(region.name)}" if region.name else ""), region, indent + "  ")
        if operation.regions:
            self.lines.append(f"{indent}}}")

    def location(self, loc: Any) -> str:
        file = re.split(r"[/\\]", loc.file)[-1] if self.locations == "short" else loc.file
        return f"{file}:{loc.line}"

    def groups(self, values: list[Value], layout: Layout, typed: bool = False) -> str:
        show = self.typed if typed else self.value
        if not layout:
            return f"({', '.join(map(show, values))})"
        parts = [f"{word(name)}({', '.join(map(show, group))})" for name, group in groups_of(values, layout).items()]
        if rest := values[sum(layout.values()) :]:
            parts.append(f"?({', '.join(map(show, rest))})")  # a broken program; the verifier says so
        return " ".join(parts)

    def value(self, value: Value) -> str:
        if value.name is not None:
            return "%" + self.values.word(value, value.name)
        return "%" + self.unnamed.setdefault(value, str(len(self.unnamed)))

    def typed(self, value: Value) -> str:
        return f"{self.value(value)}: {type_text(value.type)}"

    # attributes

    def attribute(self, value: Any) -> str:
        kind = value.__class__
        if kind in _PLAIN:
            return _PLAIN[kind](value)
        if kind is tuple:
            return f"({', '.join(map(self.attribute, value))}{',' if len(value) == 1 else ''})"
        if kind is list:
            return f"[{', '.join(map(self.attribute, value))}]"
        if kind is dict:
            return f"{{{', '.join(f'{self.attribute(k)}: {self.attribute(v)}' for k, v in value.items())}}}"
        if kind is slice:
            return f"slice({', '.join(map(self.attribute, (value.start, value.stop, value.step)))})"
        if kind is Block:
            return "@" + self.functions.words[value]
        if isinstance(value, (np.ndarray, np.generic)):
            text = array_text(value, self.digests)
            if text is not None:
                return text
        if isinstance(value, type) and BUILTINS.get(value.__name__) is value:
            return f"type({value.__name__})"
        if isinstance(value, type) and issubclass(value, np.generic) and value.__name__ in DTYPES:
            return f"np.{value.__name__}"
        return self.object(value)

    def object(self, value: Any) -> str:
        number = next((i for i, known in enumerate(self.objects) if known is value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        shown = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
        return f"<object {number}: {_quoted(shown[:60])}>"


def type_text(type: Any) -> str:
    """`float32[n,3]`, `list<float32[3]>`; `?` is a dimension nobody knows, `float32[*]` a shape nobody knows."""
    if isinstance(type, ListSpec):
        return f"list<{type_text(type.item)}>"
    if not isinstance(type, TensorSpec):
        return f"<no type: {type!r}>"
    name = "" if type.name is None else _quoted(type.name)
    return f"{type.dtype.name}[{_shape_text(type.shape)}]{name}"


def _shape_text(shape: TensorShape) -> str:
    return "*" if shape.rank is None else ",".join("?" if size is None else str(size) for size in shape)


def _dim_text(dim: Dim) -> str:
    return f"${dim}" if dim.name is not None else f"$({dim})"


def _float_text(value: float) -> str:
    bits = struct.pack(">d", value).hex()
    return f"nan({bits})" if math.isnan(value) and bits != "7ff8000000000000" else repr(value)


_PLAIN: dict[type, Any] = {
    type(None): repr,
    bool: repr,
    int: repr,
    float: _float_text,
    complex: lambda value: f"complex({_float_text(value.real)}, {_float_text(value.imag)})",
    str: _quoted,
    bytes: repr,
    type(...): lambda value: "...",
    DType: lambda value: value.name,
    np.dtype: lambda value: f"np.dtype({_quoted(value.str)})",
    Dim: _dim_text,
    TensorShape: lambda value: f"shape({_shape_text(value)})",
    TensorSpec: lambda value: f"type({type_text(value)})",
    ListSpec: lambda value: f"type({type_text(value)})",
    Slot: lambda value: f"slot({value.index})",
    Field: lambda value: f"field({value.slot.index}, {_quoted(value.conversion)}, {_quoted(value.spec)})",
}


def array_text(value: Any, digest: bool = False) -> str | None:
    """An array or NumPy scalar: `float32[2]{1.0, 2.0}`, `int32{5}`; long ones by their bytes. None if it has no text."""
    name = "string" if value.dtype == object else value.dtype.name
    if name not in DTYPES or not value.dtype.isnative:
        return None
    head = name if isinstance(value, np.generic) else f"{name}[{','.join(map(str, value.shape))}]"
    if value.size > SHORT and name != "string":
        raw = value.tobytes()
        return (
            f"{head}{{{f'digest {hashlib.sha256(raw).hexdigest()}' if digest else f'bytes {base64.b64encode(raw).decode()}'}}}"
        )
    items = value.reshape(-1).tolist()
    if name == "string":
        plain = all(item.__class__ in (str, bytes) for item in items)
        return f"{head}{{{', '.join(_PLAIN[item.__class__](item) for item in items)}}}" if plain else None
    if any(_special(item) for item in items):
        return f"{head}{{bytes {base64.b64encode(value.tobytes()).decode()}}}"
    return f"{head}{{{', '.join(_item_text(item) for item in items)}}}"


def _special(item: Any) -> bool:
    """NaNs carry a sign and a payload: their bytes are written, so that they come back exactly."""
    return bool(item != item)


def _item_text(item: Any) -> str:
    return _PLAIN[item.__class__](item) if item.__class__ in _PLAIN else repr(float(item))

"""Text back to programs: the inverse of `ir/printer.py`, whose docstring shows the form.

`parse(to_text(block), ops)` is the same program: names, types, symbols, attributes, groups, regions, callees, locations.
The parser checks the form only; whether the program makes sense is `ir/verify.py`'s question. A mistake in the text is an
InvalidArgumentError that names the line.
"""

from __future__ import annotations

import ast
import base64
import operator
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import DType
from gradtape.errors import InvalidArgumentError
from gradtape.ir.graph import Block, Location, Operation, Value
from gradtape.ir.polynomial import Dim, Size, maximum, minimum, quotient, remainder, symbol
from gradtape.ir.printer import BUILTINS, DTYPES
from gradtape.ir.slots import Field, Slot
from gradtape.ir.types import ListSpec, TensorShape, TensorSpec
from gradtape.ir.walk import walk

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r'[A-Za-z_]\w*|"(?:[^"\\]|\\.)*"')
_STRING = re.compile(r'b?"(?:[^"\\]|\\.)*"|b\'(?:[^\'\\]|\\.)*\'')
_SUFFIX = re.compile(r"\.\d+")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"nan(?:\([0-9a-f]{16}\))?|-?(?:inf|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)")
_LOCATION = re.compile(r"[ ]*@ ([^\n]*):(-?\d+)(?=\n|$)")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]*")
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False}


def parse(text: str, ops: Callable[[str], Any], objects: Sequence[Any] = ()) -> Block:
    """The program of a text. `ops` finds an op by name; `objects` are the opaque attributes, by number."""
    return _Parser(text, ops, objects).program()


class _Callee:
    """A called block that may come later in the text."""

    def __init__(self, word: str) -> None:
        self.word = word


class _Parser:
    def __init__(self, text: str, ops: Callable[[str], Any], objects: Sequence[Any]) -> None:
        self.text = text
        self.ops = ops
        self.objects = objects
        self.at = 0
        self.values: dict[str, Value] = {}
        self.constructors: dict[str, Callable[[], Any]] = {
            "slice": lambda: slice(*self.listed(self.attribute, ")")),
            "complex": lambda: complex(*self.listed(self.attribute, ")")),
            "shape": lambda: self.shape(")"),
            "type": self.type_attribute,
            "slot": lambda: Slot(*self.listed(self.attribute, ")")),
            "field": lambda: self.field(*self.listed(self.attribute, ")")),
        }

    # the smallest parts

    def wrong(self, expected: str) -> InvalidArgumentError:
        line = self.text.count("\n", 0, self.at) + 1
        found = self.text[self.at : self.at + 30].split("\n")[0]
        return InvalidArgumentError(f"line {line} of the program text: expected {expected}, found {found!r}")

    def skip(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]

    def sees(self, mark: str) -> bool:
        self.skip()
        return self.text.startswith(mark, self.at)

    def accept(self, mark: str) -> bool:
        found = self.sees(mark)
        self.at += len(mark) if found else 0
        return found

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise self.wrong(repr(mark))

    def token(self, pattern: re.Pattern[str], what: str) -> str:
        self.skip()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.wrong(what)
        self.at = found.end()
        return found[0]

    def maybe(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else None

    def word(self) -> str:
        found = self.token(_WORD, "a name")
        return ast.literal_eval(found) if found[0] == '"' else found

    def reference(self) -> tuple[str, str]:
        """A name that may have a number to tell it apart: (all of it, the name)."""
        start = self.at
        name = self.word()
        self.maybe(_SUFFIX)
        return self.text[start : self.at].strip(), name

    def listed(self, read: Callable[[], Any], end: str) -> list[Any]:
        """Items separated by commas, up to and with the end mark."""
        items = []
        while not self.accept(end):
            items.append(read())
            if not self.accept(","):
                self.expect(end)
                break
        return items

    # programs

    def program(self) -> Block:
        functions: dict[str, Block] = {}
        self.skip()
        while self.at < len(self.text):
            self.expect("func")
            reference, name = self.reference()
            self.values = {}
            if reference in functions:
                raise self.wrong(f"a function that is not called {reference} like another one")
            functions[reference] = self.block(name)
            self.skip()
        if not functions:
            raise self.wrong("'func'")
        for function in functions.values():
            for operation in walk(function):
                for key, value in operation.attrs.items():
                    if isinstance(value, _Callee):
                        if value.word not in functions:
                            raise self.wrong(f"a function {value.word}, which is called")
                        operation.attrs[key] = functions[value.word]
        return next(iter(functions.values()))

    def block(self, name: str) -> Block:
        block = Block(name=name)
        params, block.layout = self.groups(self.typed)
        for word, own, type in params:
            self.define(word, own, block.add_param(type))
        self.expect("{")
        while not self.sees("give"):
            block.operations.append(self.operation())
        self.expect("give")
        block.results, block.result_layout = self.groups(self.value)
        self.expect("}")
        return block

    def groups(self, read: Callable[[], Any]) -> tuple[list[Any], dict[str, int]]:
        if self.accept("("):
            return self.listed(read, ")"), {}
        found: list[Any] = []
        layout: dict[str, int] = {}
        while not layout or self.starts_group():
            name = self.word()
            self.expect("(")
            items = self.listed(read, ")")
            found += items
            layout[name] = len(items)
        return found, layout

    def starts_group(self) -> bool:
        self.skip()
        found = _WORD.match(self.text, self.at)
        return found is not None and self.text.startswith("(", found.end())

    def operation(self) -> Operation:
        results, result_layout = self.results()
        op = self.ops(self.word())
        attrs: dict[str, Any] = {}
        layout: dict[str, int] = {}
        operands: list[Value]
        if self.text.startswith("(", self.at):
            self.at += 1
            items = self.listed(lambda: self.value() if self.sees("%") else self.keyword(), ")")
            operands = [item for item in items if isinstance(item, Value)]
            attrs = dict(item for item in items if not isinstance(item, Value))
        else:
            operands, layout = self.groups(self.value)
            if self.accept("["):
                attrs = dict(self.listed(self.keyword, "]"))
        has_regions = self.accept("{")
        loc = self.location()
        regions = dict(self.regions()) if has_regions else {}
        operation = Operation(op, operands, [t for _, _, t in results], attrs, regions, loc, layout, result_layout)
        for (word, own, _), value in zip(results, operation.results, strict=True):
            self.define(word, own, value)
        return operation

    def results(self) -> tuple[list[Any], dict[str, int]]:
        """What stands before `=`; nothing for an operation without results."""
        if self.sees("%"):
            found = [self.typed()]
            while self.accept(","):
                found.append(self.typed())
            self.expect("=")
            return found, {}
        start = self.at
        try:
            groups = self.groups(self.typed)
            self.expect("=")
        except InvalidArgumentError:
            groups = [], {}
        if not groups[1] or "\n" in self.text[start : self.at]:  # it was the operation itself
            self.at = start
            return [], {}
        return groups

    def regions(self) -> Iterable[tuple[str, Block]]:
        while not self.accept("}"):
            key = self.word()
            own = self.word() if self.accept(":") else ""
            yield key, self.block(own)

    def location(self) -> Location | None:
        found = _LOCATION.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return Location(found[1], int(found[2]))

    # values and types

    def define(self, word: str, name: str | None, value: Value) -> None:
        if word in self.values:
            raise self.wrong(f"a value that is not called %{word} like another one")
        value.name = name
        self.values[word] = value

    def name(self) -> tuple[str, str | None]:
        self.expect("%")
        number = self.maybe(_DIGITS)
        return (number, None) if number is not None else self.reference()

    def value(self) -> Value:
        word, _ = self.name()
        if word not in self.values:
            raise self.wrong(f"a value defined before: there is no %{word}")
        return self.values[word]

    def typed(self) -> tuple[str, str | None, Any]:
        word, name = self.name()
        self.expect(":")
        return word, name, self.type()

    def type(self) -> Any:
        name = self.word()
        if name == "list" and self.accept("<"):
            item = self.type()
            self.expect(">")
            return ListSpec(item)
        if name not in DTYPES:
            raise self.wrong(f"a type ({name} is none)")
        self.expect("[")
        shape = self.shape("]")
        own = self.word() if self.text.startswith('"', self.at) else None
        return TensorSpec(shape, DTYPES[name], own)

    def shape(self, end: str) -> TensorShape:
        if self.accept("*"):
            self.expect(end)
            return TensorShape(None)
        sizes = [text.strip() for text in _split(self.enclosed(end))]
        return TensorShape([None if size == "?" else self.dim(size) for size in sizes])

    def enclosed(self, end: str) -> str:
        """The text up to the end mark that belongs to the bracket just opened."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if not depth and char == end:
                self.at += 1
                return self.text[start : self.at - 1]
            depth += (char in "([") - (char in ")]")
            self.at += 1
        raise self.wrong(repr(end))

    def dim(self, text: str) -> Any:
        try:
            return parse_dim(text)
        except (SyntaxError, ValueError):
            raise self.wrong(f"a dimension ({text!r} is none)") from None

    # attributes

    def keyword(self) -> tuple[str, Any]:
        key = self.word()
        self.expect("=")
        return key, self.attribute()

    def attribute(self) -> Any:
        self.skip()
        char = self.text[self.at : self.at + 1]
        if char in _READERS:
            return _READERS[char](self)
        if (text := self.maybe(_STRING)) is not None:
            return ast.literal_eval(text)
        if (number := self.maybe(_NUMBER)) is not None:
            return _number(number)
        return self.named(self.word())

    def tuple_or_group(self) -> tuple[Any, ...]:
        self.expect("(")
        return tuple(self.listed(self.attribute, ")"))

    def dictionary(self) -> dict[Any, Any]:
        def item() -> tuple[Any, Any]:
            key = self.attribute()
            self.expect(":")
            return key, self.attribute()

        self.expect("{")
        return dict(self.listed(item, "}"))

    def items(self) -> list[Any]:
        self.expect("[")
        return self.listed(self.attribute, "]")

    def symbolic(self) -> Dim:
        self.expect("$")
        return self.dim(self.enclosed(")") if self.accept("(") else self.word())

    def called(self) -> _Callee:
        self.expect("@")
        return _Callee(self.reference()[0])

    def opaque(self) -> Any:
        self.expect("<object")
        number = int(self.token(_DIGITS, "a number"))
        self.expect(":")
        self.word()
        self.expect(">")
        if number >= len(self.objects):
            raise self.wrong(f"at least {number + 1} objects= for the opaque attributes; {len(self.objects)} were given")
        return self.objects[number]

    def dots(self) -> Any:
        self.expect("...")
        return ...

    def named(self, name: str) -> Any:
        if name in _WORDS:
            return _WORDS[name]
        if name == "np":
            return self.numpy_type()
        if name in DTYPES:
            return self.dtype_or_array(DTYPES[name])
        if name in self.constructors and self.accept("("):
            return self.constructors[name]()
        raise self.wrong(f"an attribute ({name} is none)")

    def type_attribute(self) -> Any:
        start = self.at
        name = self.word()
        if name in BUILTINS and self.accept(")"):
            return BUILTINS[name]
        self.at = start
        found = self.type()
        self.expect(")")
        return found

    def field(self, index: int, conversion: str, spec: str) -> Field:
        return Field(Slot(index), conversion, spec)

    def numpy_type(self) -> Any:
        self.expect(".")
        name = self.word()
        if name != "dtype":
            return DTYPES[name].as_numpy_dtype
        self.expect("(")
        code = self.word()
        self.expect(")")
        return np.dtype(code)

    def dtype_or_array(self, dtype: DType) -> Any:
        """`float32` is a dtype, `float32{1.5}` a scalar, `float32[2]{1.0, 2.0}` an array."""
        shape: tuple[int, ...] | None = None
        if self.text.startswith("[", self.at):
            self.at += 1
            shape = tuple(self.shape("]"))
        elif not self.text.startswith("{", self.at):
            return dtype
        self.expect("{")
        if self.accept("bytes"):
            data = base64.b64decode(self.token(_BASE64, "base64"))
            self.expect("}")
            flat = np.frombuffer(data, dtype.dtype).copy()
        else:
            items = self.listed(self.attribute, "}")
            flat = np.empty(len(items), dtype.dtype)
            for i, item in enumerate(items):
                flat[i] = item
        return flat[0] if shape is None else flat.reshape(shape)


_READERS: dict[str, Callable[[_Parser], Any]] = {
    "(": _Parser.tuple_or_group,
    "{": _Parser.dictionary,
    "[": _Parser.items,
    "$": _Parser.symbolic,
    "@": _Parser.called,
    "<": _Parser.opaque,
    ".": _Parser.dots,
}


def _number(text: str) -> int | float:
    if text.startswith("nan("):  # a sign or payload of its own
        return float(struct.unpack(">d", bytes.fromhex(text[4:-1]))[0])
    return float(text) if any(c in text for c in ".enf") else int(text)


def _split(text: str) -> list[str]:
    """At the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    last = text[start:]
    return [*parts, last] if last.strip() or parts else []


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: quotient,
    ast.Mod: remainder,
}


def parse_dim(text: str) -> Size:
    """The dimension with this text: `parse_dim(str(d)) == d`."""
    return _parsed(ast.parse(text, mode="eval").body, text)


def _parsed(node: ast.expr, text: str) -> Size:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parsed(operand, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_parsed(left, text), _parsed(right, text))
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[left, right]):
            return {"max": maximum, "min": minimum}[name](_parsed(left, text), _parsed(right, text))
    raise ValueError(f"{text!r} is not a dimension")

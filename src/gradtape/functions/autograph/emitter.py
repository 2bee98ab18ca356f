"""The last pass: statements and expressions become calls of `ag__` (`operators.py`).

`FunctionEmitter` walks a function forwards and knows at each point which names are certainly bound. Loops and branches become
functions (`FunctionFrame`s) inside the user's function; `branch_statements.py`, `loop_statements.py`, `expressions.py`,
`stores.py`, `calls.py` and `statements.py` hold one notion each. A name that may be unbound where a generated function could
see it starts as `Undefined` and is read through `ag__.ld`; every other read stays a plain Python read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.bindings import GLOBAL, VARIABLE
from gradtape.functions.autograph.names import in_words, info, own, written
from gradtape.functions.autograph.scopes import NameScope

Definite = set[str] | None  # None: the point cannot be reached
Emit = Callable[[Any, Any], Any]
Table = dict[type, Emit]  # how a node type is emitted: (emitter, node) → statements, or expression


class FunctionFrame:
    """One function of the output: the user's, or one generated inside it for a loop or branch."""

    def __init__(self, scope: NameScope, parent: FunctionFrame | None, variables: set[str], outside: set[str] | None) -> None:
        self.scope = scope
        self.parent = parent
        self.variables = variables
        self.function: FunctionFrame = self if outside is not None or parent is None else parent.function
        self.outside = outside or set()  # names of functions around it that are bound before it is made
        self.undefined: set[str] = set()
        self.needed: set[str] = set()  # variables that functions inside declare nonlocal
        self.bound: set[str] = set(scope.parameters) if self.function is self else set()
        self.declared_global: set[str] = set()
        self.declared_nonlocal: set[str] = set()
        self.changing: set[str] = set()  # variables of functions around it that it may write

    def owner(self, name: str) -> FunctionFrame | None:
        """The frame whose variable the name is."""
        frame: FunctionFrame | None = self
        while frame is not None and name not in frame.variables:
            frame = frame.parent
        return frame

    def prologue(self) -> list[ast.stmt]:
        """Declarations, and the variables that may be read before they are bound."""
        statements: list[ast.stmt] = []
        if self.declared_global:
            statements.append(ast.Global(sorted(self.declared_global)))
        if self.declared_nonlocal:
            statements.append(ast.Nonlocal(sorted(self.declared_nonlocal)))
        parameters = self.scope.parameters if self.function is self else ()
        start = (self.undefined | (self.needed - self.bound)).difference(parameters)
        return [*statements, *(build.assign(name, undefined(name)) for name in sorted(start))]


def undefined(name: str) -> ast.expr:
    """`ag__.Undefined('name')`."""
    return build.call("Undefined", build.constant(in_words(name)))


def join(a: Definite, b: Definite) -> Definite:
    """What is bound whichever way control came."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


class FunctionEmitter:
    """Emits one converted function, with those nested in it."""

    def __init__(self, scope: NameScope, plain_names: frozenset[str], statements: Table, expressions: Table) -> None:
        self.plain_names = plain_names  # builtins, which nobody guards
        self.statements = statements
        self.expressions = expressions
        self.frame = FunctionFrame(scope, None, set(), None)
        self._definite: Definite = set()
        self._definite_is_ours = False  # nobody else has that set, so a name may be added to it
        self.hoisted: list[ast.stmt] = []
        self.plain = False
        self.count = 0

    def number(self) -> int:
        self.count += 1
        return self.count

    @property
    def scope(self) -> NameScope:
        return self.frame.scope

    # -- names ---------------------------------------------------------------------------------------------------

    def read(self, node: ast.Name) -> ast.expr:
        """The value of a name."""
        name, plain = node.id, ast.Name(node.id, ast.Load())
        owner = self.frame.owner(name) if self.scope.kind(name) == VARIABLE else None
        if owner is None:
            # builtins are guarded once for the function (`Conversion.builtins`), not at each of their reads
            if name.startswith(build.RUNTIME) or (name in self.plain_names and self.scope.kind(name) == GLOBAL):
                return build.located(plain, node)
            return build.located(build.call("outer", build.load(build.SCOPE), build.constant(name), plain), node)
        inside = owner.function is self.frame.function
        # A function inside another may run at any time later: of the outer one's variables only those count that were bound
        # when it was made.
        if not inside:
            certain = name in self.frame.function.outside
        elif self._definite is None:
            certain = not self.exposed(name) or owner.scope.always_bound(name)
        else:
            certain = name in self._definite
        if certain:
            return build.located(plain, node)
        # It gets a value from the start that says "not bound": `ld` raises Python's own error for it, and a branch can carry
        # it.
        owner.undefined.add(name)
        operator = "ld" if self.scope.is_local(owner.scope) else "ld_free"
        return build.located(build.call(operator, plain, build.constant(in_words(name))), node)

    def exposed(self, name: str) -> bool:
        """Whether generated functions see this variable, even where control flow itself is left alone."""
        owner = self.scope.owner(name)
        return not self.plain or (owner is not None and name in owner.shared)

    @property
    def definite(self) -> Definite:
        """The names that are bound for sure; who asks may keep the set, so it does not change any more."""
        self._definite_is_ours = False
        return self._definite

    @definite.setter
    def definite(self, names: Definite) -> None:
        self._definite, self._definite_is_ours = names, False

    def bind(self, names: Iterable[str]) -> None:
        """These names are bound now."""
        for name in names:
            self.frame.bound.add(name)
            if self._definite is not None:
                if not self._definite_is_ours:  # one copy for a run of assignments, not one for each
                    self._definite, self._definite_is_ours = set(self._definite), True
                self._definite.add(name)

    def unbind(self, names: Iterable[str]) -> None:
        if self.definite is not None:
            self.definite = self.definite.difference(names)

    def is_variable(self, name: str) -> bool:
        return self.scope.kind(name) == VARIABLE

    def declare(self, names: Iterable[str]) -> list[ast.stmt]:
        """Prepare this frame for a statement that binds names itself; the calls that announce the writes."""
        hooks: list[ast.stmt] = []
        for name in sorted(names):
            kind = self.scope.kind(name)
            if kind == VARIABLE:
                continue
            (self.frame.declared_global if kind == GLOBAL else self.frame.declared_nonlocal).add(name)
            hooks.append(ast.Expr(build.outer("before", kind, name)))
        return hooks

    # -- blocks and frames ---------------------------------------------------------------------------------------

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Statements, emitted in the current frame."""
        result: list[ast.stmt] = []
        outer = self.hoisted
        for statement in statements:
            self.hoisted = []
            emitted = self.statements[type(statement)](self, statement)
            # (functions that an expression needs are defined before the statement it stands in)
            for part in (*self.hoisted, *emitted):
                result.append(part if "lineno" in part.__dict__ else build.located(part, statement))
        self.hoisted = outer
        return result

    def expr(self, node: ast.expr) -> Any:
        """An expression, emitted."""
        emit: Emit = self.expressions.get(type(node), each_child)
        return emit(self, node)

    @contextmanager
    def inside(self, frame: FunctionFrame, definite: Definite) -> Iterator[None]:
        """Emit in another frame; what is bound at its end stays in `definite`."""
        outer, self.frame, self.definite = self.frame, frame, definite
        yield
        self.frame = outer

    def enter_state(self, state: list[str]) -> None:
        """A generated function reads and writes these names: they must exist before."""
        for name in state:
            owner = self.frame.owner(name)
            assert owner is not None
            owner.needed.add(name)
            inside = owner.function is self.frame.function
            if not inside:
                self.frame.function.changing.add(name)
            if self.definite is not None and name not in (self.definite if inside else self.frame.function.outside):
                owner.undefined.add(name)

    def generated(
        self, name: str, parameters: list[str], first: list[ast.stmt], body: list[ast.stmt], state: list[str], where: ast.AST
    ) -> ast.FunctionDef:
        """A function around `body`, in which the state names are the outer ones; `first` are user statements too."""
        statements = [*first, *body]
        changed = {n for n in written(statements) if self.is_variable(n)}
        # names that the body writes and nobody reads afterwards stay its own: a variable of the generated function, no state
        frame = FunctionFrame(self.scope, self.frame, changed.difference(state), None)
        frame.declared_nonlocal |= changed.intersection(state)
        outside = self.definite or set()
        with self.inside(frame, None if self.definite is None else outside - frame.variables):  # its own have no value yet
            emitted = self.block(statements)
        if self.definite is not None:
            self.definite = self.definite | (outside & frame.variables)
        return build.located(build.define(name, parameters, [*frame.prologue(), *emitted]), where)

    def state_functions(self, state: list[str], number: int, where: ast.AST) -> tuple[list[ast.stmt], list[ast.expr]]:
        """Definitions of get_state and set_state, and the arguments (get_state, set_state, names) of an operator."""
        if not state:
            return [], [build.operator("get_nothing"), build.operator("set_nothing"), build.strings(())]
        getter, setter = f"ag__get_{number}", f"ag__set_{number}"
        get: ast.stmt = build.define(getter, [], [ast.Return(build.names_tuple(state, ast.Load()))])
        unpack = ast.Assign([build.names_tuple(state, ast.Store())], build.load("ag__values"))
        put: ast.stmt = build.define(setter, ["ag__values"], [ast.Nonlocal(state), unpack])
        accessors = [build.located(get, where), build.located(put, where)]
        return accessors, [build.load(getter), build.load(setter), build.strings(in_words(name) for name in state)]

    def thunk(self, node: ast.expr) -> ast.expr:
        """A function of no arguments that evaluates an expression; names it binds are bound in the frame around it."""
        before = self.definite
        # `(x := f())` in a lambda would bind a name of the lambda: such an expression becomes a function that declares it
        # nonlocal
        walrus = {n.target.id for n in own([node]) if isinstance(n, ast.NamedExpr) and self.is_variable(n.target.id)}
        value = self.expr(node)
        if walrus:
            self.enter_state_of_walrus(walrus, before)
            number, names = self.number(), sorted(walrus)
            thunk = build.define(f"ag__value_{number}", [], [ast.Nonlocal(names), ast.Return(value)])
            functions, arguments = self.state_functions(names, number, node)
            self.hoisted += [build.located(thunk, node), *functions]
            self.definite = before
            return build.located(build.call("binding", build.load(thunk.name), *arguments), node)
        self.definite = before
        return build.located(build.thunk(value), node)

    def enter_state_of_walrus(self, names: set[str], before: Definite) -> None:
        now, self.definite = self.definite, before
        self.enter_state(sorted(names))
        self.definite = now

    # -- functions -----------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef, scope: NameScope) -> None:
        """Emit the body of a user's function in place."""
        notes = info(node)
        known = self.definite
        if known is None:
            known = {n for n in scope.outer_reads() if not self.exposed(n) or self.scope.always_bound(n)}
        # (what is deleted anywhere may be gone by the time the function runs)
        outside = {n for n in known | self.frame.function.outside if not self._deleted(n)}
        outside.add(node.name)
        frame = FunctionFrame(scope, self.frame, scope.variables, outside)
        frame.declared_global |= {name for name in scope.globals if name not in scope.parameters}
        frame.declared_nonlocal |= {name for name in scope.nonlocals if scope.kind(name) == VARIABLE}
        frame.changing |= frame.declared_nonlocal
        for name in frame.declared_nonlocal:
            owner = self.frame.owner(name)
            assert owner is not None
            owner.needed.add(name)
        before, was_plain, self.plain = self.definite, self.plain, notes.plain
        with self.inside(frame, None if notes.plain else set(scope.parameters)):
            body = self.block(node.body)
        self.definite, self.plain = before, was_plain
        head = body[:1] if ast.get_docstring(node, clean=False) is not None else []
        noted: list[ast.stmt] = []
        if frame.changing and notes.kind == "def":  # it may be called where these variables are not in sight
            cells = build.thunk(build.names_tuple(sorted(frame.changing), ast.Load()))
            noted = [build.located(ast.Expr(build.call("before_cells", cells)), node)]
        node.body = [*head, *frame.prologue(), *noted, *body[len(head) :]]

    def _deleted(self, name: str) -> bool:
        owner = self.scope.owner(name)
        return owner is not None and name in owner.deleted


def each_child(emitter: FunctionEmitter, node: Any) -> Any:
    """The same expression with its parts emitted, from left to right."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(node, field, [emitter.expr(v) if isinstance(v, ast.expr) else v for v in value])
        elif isinstance(value, ast.expr):
            setattr(node, field, emitter.expr(value))
    return node

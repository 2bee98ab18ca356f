"""`match` statements as chains of `if`: a pattern is a test that binds its captures, so that it may depend on a tensor.

    match p:               ag__subject_1 = p
        case (x, None): A  if (ag__parts_2 := ag__.sequence(…, 2, None)) is not None and …: A
        case 3: B          elif ag__subject_1 == 3: B

Runs first; the passes after it meet no `match` but in code that is left alone. What a sequence, a mapping or an object has
for a pattern is found when converted code runs: `pattern_parts.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.trees import children, copied

Subject = Callable[[], ast.expr]  # a fresh node at each call: the passes change trees in place
SUBJECT, PARTS = "ag__subject", "ag__parts"


def lower_matches(function: ast.AST) -> None:
    """Rewrite the `match` statements of a function and of those inside it, in place."""
    patterns = _Patterns()
    # no recursion: the tree is as deep as the user wrote it
    pending = [function]
    while pending:
        node = pending.pop()
        for field in ("body", "orelse", "finalbody"):
            statements = node.__dict__.get(field)
            if statements.__class__ is list and any(isinstance(s, ast.Match) for s in statements):
                lowered = ([s] if not isinstance(s, ast.Match) else patterns.lowered(s) for s in statements)
                setattr(node, field, [s for some in lowered for s in some])
        # methods of a class are converted when they are called
        pending += [child for child in children(node) if not isinstance(child, ast.ClassDef)]


class _Patterns:
    def __init__(self) -> None:
        self.count = 0

    def lowered(self, node: ast.Match) -> list[ast.stmt]:
        subject = partial(build.load, self.fresh(SUBJECT))
        first: list[ast.stmt] = [build.located(build.assign(subject().id, node.subject), node)]
        end = first
        for case in node.cases:
            if case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                # it takes whatever comes: no test, so that nothing seems to be reached after it
                name = case.pattern.name
                end += [] if name is None else [build.located(build.assign(name, subject()), case.pattern)]
                end += case.body
                break
            tests = [*self.tests(case.pattern, subject), *([] if case.guard is None else [case.guard])]
            branch = build.located(ast.If(_all(tests), case.body, []), case.pattern)
            end.append(branch)
            end = branch.orelse
        return first

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}_{self.count}"

    def tests(self, pattern: ast.pattern, subject: Subject) -> list[ast.expr]:
        """What must hold, in order; a capture always does."""
        located = [build.located(test, pattern) for test in self._tests(pattern, subject)]
        return [ast.fix_missing_locations(test) for test in located]

    def _tests(self, pattern: Any, subject: Subject) -> list[ast.expr]:
        match pattern:
            case ast.MatchValue(value=value):
                return [ast.Compare(subject(), [ast.Eq()], [value])]
            case ast.MatchSingleton(value=value):
                return [ast.Compare(subject(), [ast.Is()], [build.constant(value)])]
            case ast.MatchOr(patterns=patterns):
                return [ast.BoolOp(ast.Or(), [_all(self.tests(part, subject)) for part in patterns])]
            case ast.MatchAs(pattern=inner, name=name):
                bound = [] if name is None else [_capture(name, subject())]
                return [*([] if inner is None else self.tests(inner, subject)), *bound]
            case ast.MatchStar(name=name):
                return [] if name is None else [_capture(name, subject())]
            case ast.MatchSequence(patterns=patterns):
                star = next((i for i, part in enumerate(patterns) if isinstance(part, ast.MatchStar)), None)
                return self.parts(patterns, "sequence", subject(), build.constant(len(patterns)), build.constant(star))
            case ast.MatchMapping(keys=keys, patterns=patterns, rest=rest):
                others = [] if rest is None else [ast.MatchAs(None, rest)]
                wanted = ast.Tuple(keys, ast.Load())
                return self.parts([*patterns, *others], "mapping", subject(), wanted, build.constant(rest is not None))
            case ast.MatchClass(cls=kind, patterns=patterns, kwd_attrs=names, kwd_patterns=named):
                test: ast.expr = build.call("is_of", subject(), kind)
                if not patterns and not named:
                    return [test]
                given = (build.constant(len(patterns)), build.strings(names))
                return [test, *self.parts([*patterns, *named], "attributes", subject(), copied(kind), *given)]
        raise TypeError(f"a pattern of an unknown kind: {type(pattern).__name__}")

    def parts(self, patterns: Sequence[Any], finder: str, *args: ast.expr) -> list[ast.expr]:
        """The tests of parts of the subject, which `finder` gives as a list, or None if the subject has another form."""
        name = self.fresh(PARTS)
        taken = ast.NamedExpr(build.store(name), build.call(finder, *args))
        tests: list[ast.expr] = [ast.Compare(taken, [ast.IsNot()], [build.constant(None)])]
        for place, pattern in enumerate(patterns):
            tests += self.tests(pattern, partial(_part, name, place))
        return tests


def _part(name: str, place: int) -> ast.expr:
    return ast.Subscript(build.load(name), build.constant(place), ast.Load())


def _capture(name: str, value: ast.expr) -> ast.expr:
    return build.call("captured", ast.NamedExpr(build.store(name), value))


def _all(tests: list[ast.expr]) -> ast.expr:
    if len(tests) > 1:
        return build.located(ast.BoolOp(ast.And(), tests), tests[0])
    return tests[0] if tests else build.constant(True)

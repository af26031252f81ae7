"""CEL expressions instead of an author's functions, so that rules without Python can compute. Needs restow[cel].

    pair("spec.port", "spec.address", up="'localhost:' + string(self)", down="int(self.split(':')[1])")

Wherever a rule takes a function, it also takes a text with a CEL expression. ``self`` is the function's first argument:
the value, a map by path for a group of paths, or the list item. ``reads`` is the list of the values of the rule's
reads. ``merge`` has names of its own (``Variables``). A missing field is ``null`` in reads. The result ``absent`` means
that the field does not exist: ``has(self.port) ? string(self.port) : absent``.

The language is that of cel.dev with checked types, optional values (``self.?port.orValue(80)``), the functions of
Kubernetes' string library, ``sort``, ``lists.range`` and ``cel.bind``. It has no clock and no randomness. CEL leaves
the order of a map's entries open, so a list that comes from a map needs ``sort``; objects in results have sorted
fields.

The cost is bounded. The evaluator stops after 10,000 iterations. This bounds neither its memory nor the time of a
regular expression, so values are refused (``ValueBeyondLimits``) for which ``cellimits`` expects too much of an
expression, and no text function returns over 1 MiB. Values that CEL does not have are refused in the same way: integers
of more than 64 bits, and texts with U+0000, at which the library cuts them.

Library: cel-expr-python, Google's own evaluator. Measured against common-expression-language 0.10: an evaluation takes
the same time (11 µs), and only cel-expr-python has checked types, positions in errors, RE2, a bound on iterations, and
optional values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite
from typing import Any, Final, NoReturn

from restow.conversion.model.errors import ObjectError, ValueBeyondLimits
from restow.conversion.model.values import ABSENT
from restow.conversion.rules.cellimits import MOST_ITERATIONS, ExpressionLimits, Measure, has_nul

#: A function as a rule takes it: a Python function, or the text of a CEL expression.
FunctionOrExpression = Callable[..., Any] | str

#: The names of the arguments in an expression; further arguments form the list ``reads``.
Variables = tuple[str, ...]

_READS: Final = "reads"
_ABSENT_NAME: Final = "absent"
#: Bytes are not JSON, so no value of an object can equal this.
_ABSENT: Final = b"restow absent"

_MOST_TEXT: Final = 1024 * 1024
_MOST_ITEMS: Final = 100_000
_RANGE: Final = "lists.range"
_INTEGERS: Final = 2**63
_TOO_LONG: Final = "the result is too long"
#: What the evaluator, and the functions below, say where an evaluation is too costly.
_BOUNDS: Final = re.compile(f"[Ii]teration budget exceeded|{_TOO_LONG}")
_POSITION: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")


def as_function(function: Any, variables: Variables = ("self",)) -> Any:
    """Return a function: a text becomes a ``CelFunction``; anything else stays as it is."""
    return CelFunction(function, variables) if isinstance(function, str) else function


class CelFunction:
    """A CEL expression as a function of JSON values. Making one never fails; ``problem`` describes its defect."""

    def __init__(self, text: str, variables: Variables) -> None:
        self.text = text
        self.variables = variables
        self._limits = ExpressionLimits.of(text)
        self._program: Any = None

    def __repr__(self) -> str:
        return f"CEL {self.text!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelFunction) and (other.text, other.variables) == (self.text, self.variables)

    def __hash__(self) -> int:
        return hash((self.text, self.variables))

    def problem(self) -> str:
        """Return why the expression cannot be evaluated, as the predicate of a sentence; empty if it can."""
        try:
            self._program = self._compiled()
        except ImportError:
            return "needs CEL: install restow[cel]"
        except (RuntimeError, ValueError) as error:
            return f"is wrong: {_told(str(error))}"
        if has_nul(self.text):
            return "has U+0000: leave it out"
        returned = self._program.return_type().name()
        if returned.startswith("optional"):
            return "gives an optional value: write .orValue(absent) behind it"
        return ""

    def __call__(self, *values: Any) -> Any:
        """Return the expression's value for these arguments, ABSENT for ``absent``.

        Raises:
            ValueBeyondLimits: the expression cannot take these values: CEL lacks them, or they would cost too much.
            ObjectError: the expression fails for these values, or returns a value that JSON lacks.
        """
        if self._program is None:
            self._program = self._compiled()
        count = len(self.variables)
        data = dict(zip(self.variables, map(_given, values[:count]), strict=True))
        data[_READS] = [_given(value) for value in values[count:]]
        measure = Measure.of([*data.values()])
        if not measure.fits:
            self._refuse("cannot take this value: it has a number of more than 64 bits, or U+0000")
        if self._limits.are_exceeded(measure):
            self._refuse("would be too costly for a value of this size")
        data[_ABSENT_NAME] = _ABSENT
        try:
            found = self._program.eval(data=data)
            failed = found.type().name() == "ERROR"
            value = found.plain_value()
        except MemoryError:
            self._refuse("needs too much memory for this value")
        except (RuntimeError, TypeError, SystemError, ValueError) as error:
            if _BOUNDS.search(str(error)):
                self._refuse("would be too costly for this value")
            raise ObjectError(f"the CEL expression {self.text!r} failed: {_told(str(error))}") from None
        if failed and _BOUNDS.search(str(value)):
            self._refuse("would be too costly for this value")
        if failed:
            raise ObjectError(f"the CEL expression {self.text!r} failed: {_without_values(str(value))}")
        return self._json(value)

    def _refuse(self, why: str) -> NoReturn:
        raise ValueBeyondLimits(f"the CEL expression {self.text!r} {why}") from None

    def _compiled(self) -> Any:
        return _environment(self.variables).compile(self.text)

    def _json(self, value: Any) -> Any:
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float) and isfinite(value):
            return int(value) if value.is_integer() and abs(value) < _INTEGERS else value
        if isinstance(value, list):
            return [self._json(each) for each in value if each != _ABSENT]
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            return {name: self._json(value[name]) for name in sorted(value) if value[name] != _ABSENT}
        if isinstance(value, bytes | bytearray) and value == _ABSENT:
            return ABSENT
        what = type(value).__name__
        raise ObjectError(f"the CEL expression {self.text!r} gives a {what}, which JSON does not have: use string(…)")


def _given(value: Any) -> Any:
    return None if value is ABSENT else value


def _told(message: str) -> str:
    """Return the first line of a compiler's message, with its place in the expression."""
    found = _POSITION.search(message)
    if found is None:
        return _without_values(message)
    line, column, problem = found.groups()
    where = f"column {column}" if line == "1" else f"line {line}, column {column}"
    return f"{problem.replace(chr(39), chr(96)).replace(' (in container ``)', '')} at {where}"


def _without_values(message: str) -> str:
    """Return the part of a runtime error that shows no value, such as ``NOT_FOUND: Key not found in map : "a"``."""
    code, colon, rest = message.partition(": ")
    text = re.split(r"[:\"']", rest if colon and code.isupper() else message, maxsplit=1)[0]
    return text.strip().removesuffix(" [INTERNAL]") or "it raised an error"


@cache
def _environment(variables: Variables) -> Any:
    from cel_expr_python import cel  # takes 50 MB, and few rules have an expression
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional

    types = cel.Type
    known = dict.fromkeys(variables, types.DYN) | {_READS: types.List(types.DYN), _ABSENT_NAME: types.DYN}
    extensions = [ext_bindings.ExtBindings(), ext_math.ExtMath(), ext_optional.ExtOptional()]
    return cel.NewEnv(variables=known, extensions=extensions, functions=_library(cel))


def _library(cel: Any) -> list[Any]:
    """Return Kubernetes' string library and ``sort``; in cel-expr-python's own, ``replace`` has no bound."""
    text, number, texts = cel.Type.STRING, cel.Type.INT, cel.Type.List(cel.Type.STRING)
    anything = cel.Type.List(cel.Type.DYN)
    table: Sequence[tuple[str, Any, Sequence[Any], Callable[..., Any]]] = (
        ("charAt", text, [text, number], lambda value, index: _slice(value, index, index + 1)),
        ("indexOf", number, [text, text], lambda value, part: value.find(part)),
        ("indexOf", number, [text, text, number], lambda value, part, start: value.find(part, _place(value, start))),
        ("join", text, [texts], lambda values: _bounded(values, "")),
        ("join", text, [texts, text], _bounded),
        ("lastIndexOf", number, [text, text], lambda value, part: value.rfind(part)),
        ("lowerAscii", text, [text], lambda value: _ascii(value, str.lower)),
        ("replace", text, [text, text, text], lambda value, old, new: _replaced(value, old, new, -1)),
        ("replace", text, [text, text, text, number], _replaced),
        ("reverse", text, [text], lambda value: value[::-1]),
        ("sort", anything, [anything], _sorted),
        ("split", texts, [text, text], lambda value, part: _split(value, part, -1)),
        ("split", texts, [text, text, number], _split),
        ("substring", text, [text, number], lambda value, start: _slice(value, start, len(value))),
        ("substring", text, [text, number, number], _slice),
        ("trim", text, [text], lambda value: value.strip()),
        ("upperAscii", text, [text], lambda value: _ascii(value, str.upper)),
    )
    names = dict.fromkeys(name for name, _, _, _ in table)
    members = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"restow_{name}_{len(takes)}", gives, takes, True, function)
                for each, gives, takes, function in table
                if each == name
            ],
        )
        for name in names
    ]
    counted = cel.Overload("restow_lists_range", cel.Type.List(number), [number], False, _range)
    return [*members, cel.FunctionDecl(_RANGE, [counted])]


def _range(count: int) -> list[int]:
    if not 0 <= count <= MOST_ITERATIONS:
        raise ValueError(_TOO_LONG)
    return [*range(count)]


def _place(value: str, index: int) -> int:
    if not 0 <= index <= len(value):
        raise ValueError("index out of range")
    return index


def _slice(value: str, start: int, end: int) -> str:
    if start == len(value) and end == start + 1:
        return ""  # charAt at the end of the text, as in cel-go
    if _place(value, start) > _place(value, end):
        raise ValueError("index out of range")
    return value[start:end]


def _bounded(values: Sequence[str], separator: str) -> str:
    if sum(map(len, values)) + len(separator) * len(values) > _MOST_TEXT:
        raise ValueError(_TOO_LONG)
    return separator.join(values)


def _replaced(value: str, old: str, new: str, most: int) -> str:
    count = value.count(old) if most < 0 else min(value.count(old), most)
    if len(value) + count * (len(new) - len(old)) > _MOST_TEXT:
        raise ValueError(_TOO_LONG)
    return value.replace(old, new, most)


def _split(value: str, separator: str, most: int) -> list[str]:
    if most == 0:
        return []
    if (value.count(separator) if most < 0 else most) > _MOST_ITEMS:
        raise ValueError(_TOO_LONG)
    if not separator:
        head = value[: len(value) if most < 0 else most - 1]
        return [*head, value[len(head) :]] if len(head) < len(value) else [*head]
    return value.split(separator, most - 1 if most > 0 else -1)


def _ascii(value: str, change: Callable[[str], str]) -> str:
    return "".join(change(each) if each.isascii() else each for each in value)


def _sorted(values: Sequence[Any]) -> list[Any]:
    if len({type(value) for value in values}) > 1 or not all(isinstance(value, str | int | float) for value in values):
        raise ValueError("only texts, or only numbers, can be sorted")
    return sorted(values)

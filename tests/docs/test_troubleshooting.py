"""The page that is searched by the words of a message has the words of each message that ends a command.

A message is what the source raises an error of ``ENDS`` with: a text, an f-string, or a name that was assigned one
before. What differs between two occurrences is a hole. The page has to quote a few words in a row of what is between
two holes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "troubleshooting.md"
ROOMS = ("restow", "migrator", "conversion", "kube", "cloudprofile", "crds")

#: Errors that end a command, or refuse one object of what it does, in front of a person.
ENDS: Final = frozenset(
    {
        "BadCertificate",
        "BadReply",
        "BundleError",
        "CertificateError",
        "ConfigError",
        "ConverterDown",
        "CrdError",
        "CredentialsExpired",
        "FindingsError",
        "GroupServedElsewhere",
        "InputError",
        "InvalidConfiguration",
        "Lagging",
        "ListFailed",
        "MigrationRefused",
        "NativeStuck",
        "NoTargetVersion",
        "NotAnswering",
        "NotOffered",
        "PolicyError",
        "RevisionUnreadable",
        "RunError",
        "TimedOut",
        "UnknownKind",
        "UnknownVersion",
        "Unreadable",
        "WiringRefused",
    }
)
#: Errors that need no entry, with the reason. A new class of errors has to be put here, or into ``ENDS``.
ARGUED: Final[Mapping[str, str]] = {
    "the API server's own message is what a person sees, which the page has by its words": """
        AlreadyExists ApiError BadRequest Conflict Forbidden Gone Invalid MethodNotAllowed NotFound ServerError TooLarge
        TooManyRequests UnsupportedMediaType
    """,
    "a base, or without a text of its own: restow.cli.session.sentence says what to do": """
        CertificateUntrusted ConversionError KubeError ObjectError OutcomeUnknown ReviewError ReviewTooLarge
        TooDeep Unauthorized Unreachable WiringError
    """,
    "is caught where it is raised, and another error is told instead": """
        BrokenOff CallbackFailed GaveUp InvalidRange InvalidTime InvalidVersion InvalidWindow NestedTooDeep NoJson
        NoRelease NoUpdateTarget NotData NotYaml PathError QueueClosed QueueFull QueueOfKindFull ResponseRejected
        ReviewFailed RuleFileError RulesInvalid StartStopped TooOld NotRepresentable _Bad _Ended _EnoughError _Gone
        _NoAnswer _NotDone _ReviewTooLong
    """,
    "is answered to a client of the webhook, and listed in docs/serving.md": "AdmissionError Refusal",
    "is told to the author of conversions by restow check and by pytest, with the place of the mistake": """
        DefinitionError FunctionFails LawBroken NotConformant NotTranslatable RuleFailed Skipped ValueBeyondLimits
    """,
}
#: Functions that return a sentence which another module raises.
SENTENCES: Final = ("migrator/requests/preflight.py", "restow/cli/session.py")
_SHORTEST: Final = 12
_WORDS: Final = 4


def sources() -> Iterator[tuple[str, ast.Module]]:
    """The modules of the project."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def template(node: ast.AST | None, before: Mapping[str, str]) -> str:
    """A text with a hole, ``…``, for what differs."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(template(part, before) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left, before) + template(right, before)
        case ast.Name(id=name):
            return before.get(name, "…")
    return "…"


def messages(module: ast.Module, *, returned: bool) -> Iterator[tuple[int, str, str]]:
    """The line, the class and the template of each message of a module."""
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        before: dict[str, str] = {}
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
        for node in sorted(nodes, key=lambda each: each.lineno):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    before[name] = template(value, before)
                case ast.Raise(exc=ast.Call(func=ast.Name(id=raised), args=[first, *_])) if raised in ENDS:
                    yield node.lineno, raised, template(first, before)
                case ast.Return(value=value) if returned:
                    yield node.lineno, "a sentence", template(value, before)


def pieces(text: str) -> list[str]:
    """What a reader can search for: the texts between holes that have words enough."""
    parts = (re.sub(r"\s+", " ", part).strip(" .,:;()'\"") for part in text.split("…"))
    return [part for part in parts if len(part) >= _SHORTEST]


def runs(piece: str) -> Iterator[str]:
    """Every run of words of a piece that is long enough to be found by; the piece itself where it is short."""
    words = piece.split()
    for start in range(max(1, len(words) - _WORDS + 1)):
        yield " ".join(words[start : start + _WORDS])


@cache
def page() -> str:
    """What the page quotes: all that is marked as literal."""
    text = PAGE.read_text(encoding="utf-8").replace("\\|", "|")
    return "\n".join(re.sub(r"\s+", " ", quoted) for quoted in re.findall(r"`([^`]+)`", text))


def found() -> list[object]:
    """Each message that has words enough to be searched for."""
    return [
        pytest.param(parts, id=f"{place}:{line}")
        for place, module in sources()
        for line, _raised, text in messages(module, returned=place in SENTENCES)
        if (parts := pieces(text))
    ]


@pytest.mark.parametrize("parts", found())
def test_the_words_of_a_message_are_on_the_page(parts: list[str]) -> None:
    """A reader who pastes a message into the search finds nothing, and asks a person instead."""
    quoted = page()
    known = any(run in quoted for part in parts for run in runs(part))
    assert known, f"docs/howto/troubleshooting.md has no entry for `{' … '.join(parts)}`"


def test_messages_are_found_at_all() -> None:
    """A renamed class would take its messages out of the test above without a word."""
    raised = {name for _, module in sources() for _, name, _ in messages(module, returned=False)}
    assert ENDS - raised == set()


def test_each_class_of_errors_is_on_the_page_or_argued_away() -> None:
    """A new error would end commands with a message that the page does not know."""
    bases = {"Exception", "ValueError", "AssertionError", "RuntimeError"}
    classes: set[str] = set()
    defined = [
        (node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases})
        for _, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    ]
    while more := {name for name, of in defined if of & (bases | classes | {"ClickException"})} - classes:
        classes |= more
    argued = {name for names in ARGUED.values() for name in names.split()}
    assert classes - ENDS - argued == set()
    assert argued - classes == set()
    assert argued & ENDS == set()

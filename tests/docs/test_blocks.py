"""Pages become blocks: what CommonMark makes hard to see, and what must not slip through."""

from __future__ import annotations

import pytest

from tests.docs.blocks import Block, PageError, commands, parse

BACKTICKS = "```"


def page(text: str) -> str:
    """A page; ''' stands for the fence's backticks, and one more for one more."""
    return text.replace("''''", f"{BACKTICKS}`").replace("'''", BACKTICKS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'''sh\nls\n'''\n", [(2, "sh", "ls\n", {})]),
        ("~~~sh\nls\n~~~\n", [(2, "sh", "ls\n", {})]),
        ("'''\nwhat a person sees\n'''\n", []),
        ("'''sh\nnever closed\n", [(2, "sh", "never closed\n", {})]),
        ("- item\n\n  '''sh\n  ls\n    deeper\n  '''\n", [(4, "sh", "ls\n  deeper\n", {})]),
        ("1. item\n   '''sh\n   ls\n   '''\n", [(3, "sh", "ls\n", {})]),
        ("> '''sh\n> ls\n> '''\n", [(2, "sh", "ls\n", {})]),
        ("'''sh\necho '~~~'\n~~~\n'''\n", [(2, "sh", "echo '~~~'\n~~~\n", {})]),
        ("''''sh\n'''\nls\n'''\n''''\n", [(2, "sh", "'''\nls\n'''\n", {})]),
        ("'''{toctree}\na\n'''\n'''{eval-rst}\n.. x::\n'''\n", []),
        ("''''{note}\nprose\n\n'''sh\nls\n'''\n''''\n", [(5, "sh", "ls\n", {})]),
        (":::{note}\n\n'''sh\nls\n'''\n\n:::\n", [(4, "sh", "ls\n", {})]),
        ("a ''' b\n\n'''sh\nls\n'''\n", [(4, "sh", "ls\n", {})]),
        ("`a.py`\n\n<!-- file: a.py -->\n'''python\n1\n'''\n", [(5, "python", "1\n", {"file": "a.py"})]),
        (
            "<!-- given: a, b -->\n\n<!-- exits: 3 -->\n'''console\n$ ls\n'''\n",
            [(5, "console", "$ ls\n", {"given": "a, b", "exits": "3"})],
        ),
        ("text of a.md\n<!-- file: a.md -->\n'''markdown\n# a\n'''\n", [(4, "markdown", "# a\n", {"file": "a.md"})]),
        (
            "Takes 8 MiB.\n<!-- constant: 8 MiB = a:b -->\n\n<!-- exits: 3 -->\n'''console\n$ ls\n'''\n",
            [(6, "console", "$ ls\n", {"exits": "3"})],
        ),
        ("<!-- record: a -->\n| a |\n|---|\n<!-- end of record -->\n'''sh\nls\n'''\n", [(6, "sh", "ls\n", {})]),
        ("- a\n\n  <!-- file: a -->\n  '''sh\n  ls\n  '''\n", [(5, "sh", "ls\n", {"file": "a"})]),
    ],
)
def test_what_is_a_block(text: str, found: list[tuple[int, str, str, dict[str, str]]]) -> None:
    """A fence that is not seen is not run."""
    blocks = parse("a.md", page(text))
    assert [(each.line, each.language, each.text, dict(each.directives)) for each in blocks] == [
        (line, language, page(body), directives) for line, language, body, directives in found
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("'''rust\nfn\n'''\n", "nothing runs `rust`"),
        ("'''json\n{}\n'''\n", "nothing runs `json`"),
        ("''''{tip}\n'''rust\nfn\n'''\n''''\n", "a.md:2: nothing runs `rust`"),
        ("'''python norun\n1\n'''\n", "more than a language"),
        ("'''{code-block} python\n1\n'''\n", "may hold code"),
        ("'''{literalinclude} a.py\n'''\n", "may hold code"),
        ("'''{eval-rst}\n.. code-block:: sh\n'''\n", "may hold code"),
        ("text\n\n    indented\n", "a.md:3: indented code"),
        ("<!-- fil: a -->\n'''sh\nls\n'''\n", "is no directive"),
        ("<!-- figure: 8 -->\n'''sh\nls\n'''\n", "is no directive"),
        ("<!-- skip -->\n'''sh\nls\n'''\n", "is no directive"),
        ("<!-- File: a -->\n'''sh\nls\n'''\n", "is no directive"),
        ("<!-- file: -->\n'''sh\nls\n'''\n", "is no directive"),
        ("text <!-- file: a -->\n'''sh\nls\n'''\n", "inside of a paragraph"),
        ("<!-- file: a -->\n\ntext\n\n'''sh\nls\n'''\n", "before what is no fence"),
        ("<!-- file: a -->\n", "at the end"),
        ("text\n\n<!-- file: a.py -->\n'''sh\nls\n'''\n", "does not see that this is a.py"),
        ("<!-- file: a -->\n<!-- file: b -->\n'''sh\nls\n'''\n", "a second `file`"),
        ("<!-- file: a -->\n'''\nls\n'''\n", "a fence that nothing runs"),
        ("<!-- given: a -->\n'''{toctree}\na\n'''\n", "a fence that nothing runs"),
        ("<!-- exits: 1 -->\n'''sh\nls\n'''\n", "`exits` says nothing of a fence of `sh`"),
        ("<!-- until: true -->\n'''python\n1\n'''\n", "`until` says nothing of a fence of `python`"),
        ("<!-- file: a -->\n<!-- exits: 1 -->\n'''console\n$ ls\n'''\n", "neither exits"),
        ("<!-- file: ../a -->\n'''sh\nls\n'''\n", "outside of the work folder"),
        ("<!-- file: /a -->\n'''sh\nls\n'''\n", "outside of the work folder"),
        ("<!-- in: /tmp -->\n'''sh\nls\n'''\n", "knows the checkout only"),
        ("<!-- exits: one -->\n'''console\n$ ls\n'''\n", "is no exit code"),
        ("<!-- exits: 1, 2 -->\n'''console\n$ ls\n'''\n", "2 exit codes for 1 commands"),
        ("'''console\nls\n'''\n", "begins with a command"),
        ("'''console\n'''\n", "without a command"),
        ("'''console\n$ ls \\\n'''\n", "goes on nowhere"),
        ("'''yaml\nspec: {}\n'''\n", "a part of a manifest"),
        ("'''yaml\n- {}\n'''\n", "a part of a manifest"),
        ("'''yaml\n{\n'''\n", "no YAML"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    """A block that nothing executes, and a directive that says nothing, are mistakes of the author."""
    with pytest.raises(PageError) as refused:
        parse("a.md", page(text))
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$ ls\n", [("ls", None)]),
        ("$ ls\na\nb\n", [("ls", "a\nb")]),
        ("$ one\n$ two\nb\n", [("one", None), ("two", "b")]),
        ("$ one\na\n\n$ two\nb\n", [("one", "a"), ("two", "b")]),
        ("$ one\n\n$ two\n", [("one", None), ("two", None)]),
        ("$ ls \\\n  -l\na\n", [("ls \\\n  -l", "a")]),
        ("$ ls \\\n  -l \\\n  .\na\n", [("ls \\\n  -l \\\n  .", "a")]),
        ("$ ls \\\n$ no command\na\n", [("ls \\\n$ no command", "a")]),
        ("$ ls\na \\\nb\n", [("ls", "a \\\nb")]),
        ("$ ls\n$5\n $ a\n", [("ls", "$5\n $ a")]),
        ("$ ls\na\n\nb\n\n", [("ls", "a\n\nb")]),
    ],
)
def test_a_console_s_commands(text: str, found: list[tuple[str, str | None]]) -> None:
    """Output that is taken for a command, or the other way round, compares nothing."""
    block = Block("a.md", 1, "console", text)
    assert [(each.text, each.printed) for each in commands(block)] == found


@pytest.mark.parametrize(("said", "codes"), [(None, [0, 0]), ("3", [0, 3]), ("1, 0", [1, 0]), ("1,3", [1, 3])])
def test_exit_codes(said: str | None, codes: list[int]) -> None:
    """A single code is the last command's."""
    block = Block("a.md", 1, "console", "$ a\n$ b\n", {} if said is None else {"exits": said})
    assert [each.code for each in commands(block)] == codes


def test_lines_are_those_of_the_page() -> None:
    """A failure has to name the command's own line."""
    (block,) = parse("a.md", page("# a\n\n- b\n\n  '''console\n  $ one\n  1\n  $ two\n  '''\n"))
    assert [each.line for each in commands(block)] == [6, 8]

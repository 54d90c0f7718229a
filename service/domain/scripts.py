"""Which items of an argument vector are code: the text after `-c`, `-e` and their like (cases.md M13).

A value put into such a text would become code, so no placeholder may stand there. A guess too many costs a rewrite of one
command; a guess too few runs what a caller wrote, so doubt counts as code.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

_SHELL: Final = re.compile(r"(?:ba|da|z|k|mk|a|fi|c|tc|r|rba)?sh|busybox")
_RUNNER: Final = re.compile(r"su|runuser|flock|script")  # they hand the text after -c to a shell
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*(?:\.exe)?")
_OTHER: Final = re.compile(
    r"(?:perl|ruby|node|nodejs|bun|deno|php|lua|luajit|Rscript|pwsh|powershell)[0-9.]*(?:\.exe)?"
)
_OTHER_LETTERS: Final = "eEpr"
_LONG: Final = ("--eval", "--print", "--command", "--session-command", "--run", "-Command", "-EncodedCommand")
_PYTHON_CODE: Final = re.compile(r"-[bBdEhiIOqPsSuvVx?]*c(.*)", re.DOTALL)


def script_items(command: Sequence[str]) -> set[int]:
    """Indexes of the items that a shell or interpreter reads as code, and of options that a placeholder could make so.

    The program may stand behind others (`sudo`, `env`, `timeout 5`), so every item is looked at that could be one.
    """
    found: set[int] = set()
    for index, item in enumerate(command):
        program = item.rsplit("/", 1)[-1]
        for name, scripts in _KINDS:
            if name.fullmatch(program):
                found |= scripts(command, index + 1)
    return found


def _after_shell(command: Sequence[str], index: int) -> set[int]:
    """With `c` in any of its options, the first operand is the script."""
    found: set[int] = set()
    code = False
    while index < len(command):
        item = command[index]
        if not item.startswith(("-", "+")) or item == "--":
            if code:
                found.add(index + (item == "--"))
            return found
        if not item.startswith("--"):
            code = code or "c" in _static(item)
            if "{" in item:
                found.add(index)
        takes_value = item in ("--rcfile", "--init-file") or (not item.startswith("--") and item[-1] in "oO")
        index += 2 if takes_value else 1
    return found


def _after_runner(command: Sequence[str], index: int) -> set[int]:
    """`su git -c '…'`: options may follow operands."""
    found: set[int] = set()
    for place in range(index, len(command)):
        item = command[place]
        if item in _LONG or re.fullmatch("-[A-Za-z]*c", item):
            found.add(place + 1)
        elif _joined(item, "c"):
            found.add(place)
    return found


def _after_python(command: Sequence[str], index: int) -> set[int]:
    """`-c` ends Python's own options; its text follows, in the same item or as the next."""
    while index < len(command) and command[index].startswith("-") and command[index] not in ("-", "--", "-m"):
        item = command[index]
        if match := _PYTHON_CODE.fullmatch(item):
            return {index} if match[1] else {index + 1}
        if _static(item) == "-":
            return {index}
        index += 2 if item in ("-W", "-X") else 1
    return set()


def _after_other(command: Sequence[str], index: int) -> set[int]:
    """Several texts may be given; an item that is one does not end the options."""
    found: set[int] = set()
    while index < len(command):
        item = command[index]
        if item == "--" or (not item.startswith("-") and index not in found):
            return found
        if item in _LONG or (item.startswith("-") and not item.startswith("--") and item[-1] in _OTHER_LETTERS):
            found.add(index + 1)
        elif _joined(item, _OTHER_LETTERS):
            found.add(index)
        index += 2 if item in ("-I", "--require", "--import") else 1
    return found


def _static(item: str) -> str:
    """What stands before the first brace, where a placeholder may be."""
    return item.split("{", 1)[0]


def _joined(item: str, letters: str) -> bool:
    """`-e{code}`, `--eval={code}`, or an option that a placeholder could make one."""
    static = _static(item)
    if item.startswith("--"):
        return static.startswith(tuple(f"{option}=" for option in _LONG))
    return item.startswith("-") and (static == "-" or any(letter in static[1:] for letter in letters))


_KINDS: Final[tuple[tuple[re.Pattern[str], Callable[[Sequence[str], int], set[int]]], ...]] = (
    (_SHELL, _after_shell),
    (_RUNNER, _after_runner),
    (_PYTHON, _after_python),
    (_OTHER, _after_other),
)

"""The bytes of one TOOL.hdlp → a Definition, or all problems of the file with their places (contract/tool-hdlp.md)."""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, Final

from service.domain.definitions import MAX_FILE_BYTES, Constraints, Definition, Problem, Reading
from service.domain.methods import check_method
from service.domain.placeholders import check_command
from service.domain.quoting import shown_name
from service.intake.definitions import fields, full_width
from service.intake.definitions import strict_yaml as yaml
from service.intake.definitions.characters import decode
from service.intake.definitions.definition_fields import READERS
from service.intake.definitions.fields import MAX_PROBLEMS, Notes
from service.intake.definitions.operations import check_operation
from service.intake.definitions.yaml_parsers import PARSER

FIELDS: Final = tuple(READERS)
REQUIRED: Final = FIELDS[:10]
ADDRESS: Final = "HLDP://"
ABOUT_UNDECLARED: Final = frozenset({"cmd-missing", "undeclared-slot"})


def too_large(size: int) -> Reading:
    """The reading of a file that is not read at all: its size in bytes alone says no (cases.md Y23)."""
    problem = Problem(
        "too-large",
        f"文件有{size}字节，最多{MAX_FILE_BYTES}字节（64 KiB）。",
        f"The file has {size:,} bytes; at most {MAX_FILE_BYTES:,} (64 KiB) are taken.",
    )
    return Reading(None, (problem,))


def read_definition(
    content: bytes, folder: str, *, extra_operations: Collection[str] = (), parser: Any = PARSER
) -> Reading:
    """Read one file; `folder` is its folder's name, `extra_operations` as for `check_operation`. Never raises."""
    notes, definition = read_notes(content, folder, extra_operations, parser)
    return as_reading(notes.problems, notes.warnings, definition)


def read_notes(
    content: bytes, folder: str, extra_operations: Collection[str] = (), parser: Any = PARSER
) -> tuple[Notes, Definition | None]:
    """All that there is to say of a file, and the definition: whole where only rules between its fields found problems."""
    if len(content) > MAX_FILE_BYTES:
        return Notes(too_large(len(content)).problems), None
    decoded = decode(content)
    if isinstance(decoded, Problem):
        return Notes((decoded,)), None
    text, address = _without_address(decoded.text)
    document = yaml.compose(text, parser)
    notes = Notes([*decoded.problems, *document.problems], decoded.warnings)
    notes.reported = decoded.characters | ({"\ufffd"} if decoded.characters else frozenset())
    definition = None
    if isinstance(document.root, yaml.Mapping):
        definition = _definition(notes, document.root, folder, address, extra_operations)
    else:
        _explain(notes, document, text)
    return notes, definition


def _without_address(text: str) -> tuple[str, str | None]:
    """A first line `HLDP://…`, as HLDP documents carry, and the text with that line left blank."""
    if not text.startswith(ADDRESS):
        return text, None
    line, _, rest = text.partition("\n")
    return f"\n{rest}", line.rstrip()


def as_reading(found: Iterable[Problem], warned: Iterable[Problem], definition: Definition | None) -> Reading:
    """Problems and warnings in the order of their places, not more than are worth reading; any problem is the end of it."""
    problems = sorted(found, key=_place)
    if len(problems) > MAX_PROBLEMS:
        more = len(problems) - MAX_PROBLEMS + 1
        last = Problem("too-many-problems", f"还有{more}个问题没有列出。", f"{more} more problems are not listed.")
        problems = [*problems[: MAX_PROBLEMS - 1], last]
    warnings = tuple(sorted(warned, key=_place)[:MAX_PROBLEMS])
    return Reading(None if problems else definition, tuple(problems), warnings)


def _place(problem: Problem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0


def _explain(notes: Notes, document: yaml.Document, text: str) -> None:
    """Why there is no mapping, and the likely reasons in the text."""
    root = document.root
    if root is None and not document.problems:
        notes.problems.append(
            Problem(
                "empty-file",
                "文件是空的；请写上工具的定义，从name: 开始。",
                "The file is empty: write the definition, from name: on.",
                line=1,
                column=1,
            )
        )
    elif isinstance(root, yaml.Scalar) and root.empty:
        notes.problem(
            root, None, "empty-file", "文档是空的；请写上工具的定义。", "The document is empty: write the definition."
        )
    elif isinstance(root, (yaml.Scalar, yaml.Sequence)):
        zh, en = fields.kind_of(root)
        notes.problem(
            root, None, "not-a-mapping", f"整个文件是{zh}，应是一行行“键: 值”，例如name: shell-exec。",
            f"The whole file is {en}: it should be lines of `key: value`, such as name: shell-exec.",
        )  # fmt: skip
    if isinstance(root, yaml.Scalar):
        notes.problems.extend(full_width.hints(text, FIELDS, None))
    elif document.failed_at is not None:
        notes.problems.extend(full_width.hints(text, (*FIELDS, "HLDP"), document.failed_at[0]))
        known = {(found.code, found.line) for found in notes.problems}
        tabs = (found for found in yaml.leading_tabs(text) if (found.code, found.line) not in known)
        notes.problems.extend(islice(tabs, MAX_PROBLEMS))


def _definition(
    notes: Notes, root: yaml.Mapping, folder: str, address: str | None, extra_operations: Collection[str]
) -> Definition:
    """What could be read; complete only when no problem was noted."""
    found, meant = fields.keys(notes, root, "", FIELDS)
    for name in REQUIRED:
        if name not in found and name not in meant:
            _missing(notes, root, name)
    values: dict[str, Any] = dict.fromkeys(REQUIRED)
    for name, node in found.items():
        values[name] = READERS[name](notes, node)
    if values["name"] is not None:
        _check_folder(notes, found["name"], values["name"], folder)
    values["params_schema"] = values["params_schema"] or {}
    values["constraints"] = values["constraints"] or Constraints()
    values["examples"] = values.get("examples") or ()
    definition = Definition(**values, address=address)
    if definition.command is not None:
        _take(notes, check_command(definition))
    if values["executor"] is not None and values["method"] is not None:
        _check_method(notes, definition, extra_operations)
        if not _parameters_known(found.get("params_schema")):
            notes.problems = [problem for problem in notes.problems if problem.code not in ABOUT_UNDECLARED]
    return definition


def _parameters_known(node: yaml.Node | None) -> bool:
    """Whether `params_schema` could be read; else nothing can be said to be undeclared."""
    return isinstance(node, yaml.Mapping) or (isinstance(node, yaml.Scalar) and node.empty)


def _missing(notes: Notes, root: yaml.Node, name: str) -> None:
    ending_zh, ending_en = ("，没有就写{}", ", {} for none") if name in ("params_schema", "constraints") else ("", "")
    notes.problem(
        root,
        name,
        "missing",
        f"缺少必填字段{name}；请加上{name}: …{ending_zh}。",
        f"The field {name} is missing: add `{name}: …`{ending_en}.",
    )


def _check_method(notes: Notes, definition: Definition, extra_operations: Collection[str]) -> None:
    problems, warnings = check_method(definition)
    _take(notes, (problems, warnings))
    if definition.executor == "git-forgejo" and not any(found.field == "method" for found in problems):
        _take(notes, check_operation(definition, extra_operations=extra_operations))


def _take(notes: Notes, found: tuple[list[Problem], list[Problem]]) -> None:
    """Problems and warnings of rules between fields, with the places of those fields."""
    problems, warnings = found
    notes.problems.extend(notes.placed(problem) for problem in problems)
    notes.warnings.extend(notes.placed(warning) for warning in warnings)


def _check_folder(notes: Notes, node: yaml.Node, name: str, folder: str) -> None:
    if name != folder:
        notes.problem(
            node,
            "name",
            "name-mismatch",
            f"name是{name}，文件夹是{shown_name(folder)}；两个要一样。",
            f"The name is {name} and the folder is {shown_name(folder)}: they must be the same.",
        )

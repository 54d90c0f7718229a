"""What `method` may be for each executor, and what it asks of the parameters (contract/executors.md)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from service.domain.definitions import Definition, Parameter, Problem
from service.domain.placeholders import slots
from service.domain.quoting import escaped, quoted

VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
QUERY_VERBS: Final = ("GET", "DELETE")
_GATEKEEPER: Final = re.compile(r"[a-z][a-z0-9._-]*")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OPERATION: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROCESS_PARAMETERS: Final[Mapping[str, str]] = {"cwd": "string", "stdin": "string", "env": "object"}
_PATH_SLOT: Final = re.compile(r"\{([^{}]*)\}")
# RFC 3986's pchar, without `@` and with the braces of slots.
_PATH_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:%{}/-]*")


def check_method(definition: Definition) -> tuple[list[Problem], list[Problem]]:
    """Problems and warnings of `method`, `command` and the parameters that the executor gives a meaning of its own."""
    if definition.executor in ("shell", "gatekeeper"):
        problems, warnings = _check_process(definition)
    elif definition.executor == "hlpd-api":
        problems, warnings = _check_api(definition)
    else:
        problems, warnings = _check_operation_name(definition), []
    if definition.command is not None and definition.executor not in ("shell", "gatekeeper"):
        problems.append(_no_command(definition.executor))
    if definition.node is not None and definition.executor != "gatekeeper":
        warnings.append(
            Problem("no-effect", "node只对gatekeeper起作用。", "node has an effect for gatekeeper only.", "node")
        )
    return problems, warnings


def is_route(method: str) -> bool:
    """Whether an hlpd-api method is a verb and a path, not the name of an RPC method."""
    return " " in method or "/" in method


def route_of(method: str) -> tuple[str, str]:
    """Verb and path template of a route that was checked at registration."""
    verb, _, path = method.partition(" ")
    return verb, path


def path_slots(path: str) -> list[str]:
    """Names in a path template's braces, in order."""
    return _PATH_SLOT.findall(path)


def _no_command(executor: str) -> Problem:
    return Problem(
        "command-not-taken",
        f"{executor}不运行程序，不能有command；请删掉它。",
        f"{executor} runs no program and takes no command: delete it.",
        "command",
    )


def _check_process(definition: Definition) -> tuple[list[Problem], list[Problem]]:
    method, command, shell = definition.method, definition.command, definition.executor == "shell"
    problems: list[Problem] = []
    warnings: list[Problem] = []
    if shell and method not in ("exec", "run"):
        problems.append(_shell_method(method))
    elif not shell and _GATEKEEPER.fullmatch(method) is None:
        problems.append(_gatekeeper_method(method))
    elif method == "run" and command is None:
        problems.append(_run_needs_command())
    elif command is not None and (method not in ("exec", "run") or (shell and method == "exec")):
        problems.append(_command_elsewhere(method, shell=shell))
    elif method == "exec" and command is None:
        problems.extend(_needs_cmd(definition.params_schema))
    if method in ("exec", "run"):
        problems.extend(_process_types(definition.params_schema))
        if shell or command is not None:
            warnings.extend(_unused(definition))
    return problems, warnings


def _shell_method(method: str) -> Problem:
    return Problem(
        "bad-method",
        f"shell的method只有exec（要字符串参数cmd）和run（要command），不是{quoted(method)}。",
        f"shell knows the methods exec (with a string parameter cmd) and run (with command), not {quoted(method)}.",
        "method",
    )


def _gatekeeper_method(method: str) -> Problem:
    return Problem(
        "bad-method",
        f"gatekeeper的method是小写名字，例如exec、file.read，不是{quoted(method)}。",
        f"A gatekeeper's method is a lower-case name such as exec or file.read, not {quoted(method)}.",
        "method",
    )


def _run_needs_command() -> Problem:
    return Problem(
        "command-missing",
        "method: run要有command，例如command: [df, -h]。",
        "method: run needs a command, such as command: [df, -h].",
        "method",
    )


def _command_elsewhere(method: str, *, shell: bool) -> Problem:
    if shell:
        return Problem(
            "command-not-taken",
            "shell的exec运行参数cmd，不能有command；要运行固定程序请写method: run。",
            "shell's exec runs the parameter cmd and takes no command: write method: run for a fixed program.",
            "command",
        )
    return Problem(
        "command-not-taken",
        f"method {quoted(method)}不运行固定程序，不能有command；请写method: exec，或删掉command。",
        f"The method {quoted(method)} runs no fixed program and takes no command: write method: exec, or delete it.",
        "command",
    )


def _needs_cmd(schema: Mapping[str, Parameter]) -> Iterable[Problem]:
    cmd = schema.get("cmd")
    if cmd is None:
        yield Problem(
            "cmd-missing",
            "method: exec要有字符串参数cmd，例如cmd: { type: string, required: true }，或者写command。",
            "method: exec needs a string parameter, cmd: { type: string, required: true }, or a command.",
            "method",
        )
    elif cmd.type != "string":
        yield _wrong_type("cmd", "string", cmd.type)
    elif cmd.secret:
        yield Problem(
            "secret-in-command",
            "cmd会成为进程的参数，别的进程看得到，不能是secret；密钥请用stdin或env传。",
            "cmd becomes a process's argument, which others see, and cannot be secret: hand secrets over by stdin or env.",
            "params_schema.cmd",
        )


def _wrong_type(name: str, wanted: str, got: str) -> Problem:
    return Problem(
        "parameter-type",
        f"参数{name}在这里有固定含义，type应是{wanted}，不是{got}。",
        f"The parameter {name} has a meaning of its own here: its type is {wanted}, not {got}.",
        f"params_schema.{name}",
    )


def _process_types(schema: Mapping[str, Parameter]) -> Iterable[Problem]:
    for name, wanted in _PROCESS_PARAMETERS.items():
        if name in schema and schema[name].type != wanted:
            yield _wrong_type(name, wanted, schema[name].type)


def _unused(definition: Definition) -> Iterable[Problem]:
    """With a fixed program, and for `/bin/sh -c cmd`, other parameters go nowhere."""
    used = {name for item in definition.command or () for name in slots(item, definition.params_schema)}
    if definition.command is None:
        used.add("cmd")
    for name in definition.params_schema:
        if name not in used and name not in _PROCESS_PARAMETERS:
            yield Problem(
                "unused-parameter",
                f"参数{name}没有用到：command里没有{{{name}}}。"
                if definition.command
                else f"参数{name}没有用到：exec只看cmd、cwd、stdin、env。",
                f"The parameter {name} is not used: "
                + (f"command has no {{{name}}}." if definition.command else "exec looks at cmd, cwd, stdin and env."),
                f"params_schema.{name}",
            )


def _check_operation_name(definition: Definition) -> list[Problem]:
    if _OPERATION.fullmatch(definition.method):
        return []
    return [
        Problem(
            "bad-method",
            f"git-forgejo的method是Forgejo接口的operationId，例如repoGetContents，不是{quoted(definition.method)}。",
            f"git-forgejo's method is an operationId such as repoGetContents, not {quoted(definition.method)}.",
            "method",
        )
    ]


def _check_api(definition: Definition) -> tuple[list[Problem], list[Problem]]:
    method = definition.method
    if not is_route(method):
        if _NAME.fullmatch(method) and method not in VERBS:
            return [], []
        return [
            _bad_route(
                f"要写成“GET /路径”或一个方法名，不是{quoted(method)}",
                f"write `GET /path` or a method's name, not {quoted(method)}",
            )
        ], []
    problem = _route_problem(method)
    if problem is not None:
        return [problem], []
    verb, path = route_of(method)
    return _check_slots(verb, path_slots(path), definition.params_schema)


def _bad_route(zh: str, en: str, code: str = "bad-method") -> Problem:
    return Problem(code, f"method不对：{zh}。", f"The method is not valid: {en}.", "method")


def _route_problem(method: str) -> Problem | None:
    verb, _, path = method.partition(" ")
    if verb not in VERBS:
        if verb.upper() in VERBS:
            return _bad_route(f"动词要大写，写{verb.upper()}", f"write the verb in capitals, {verb.upper()}")
        return _bad_route(
            f"以{' '.join(VERBS)}之一开头，不是{quoted(verb)}",
            f"begin with one of {' '.join(VERBS)}, not {quoted(verb)}",
        )
    if " " in path or path.startswith("\t"):
        return _bad_route(
            f"{verb}和路径之间正好一个空格，路径里没有空格", f"exactly one space follows {verb}, and the path has none"
        )
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        return _bad_route(
            "只写路径，不写网址：地址在服务的设置里", "write the path only: the server's address stands in settings"
        )
    if not path.startswith("/"):
        return _bad_route("路径以/开头", "the path begins with /")
    return _path_problem(path)


def _path_problem(path: str) -> Problem | None:
    for sign in ("//", "@", "?", "#", "\\"):
        if sign in path:
            return _bad_route(
                f"路径里不能有{sign}（查询参数写进params_schema）",
                f"a path cannot hold {sign} (declare query parameters instead)",
            )
    if (strange := _PATH_CHARACTERS.sub("", path)) != "":
        return _bad_route(f"路径里的{quoted(strange)}要百分号编码", f"percent-encode {quoted(strange)} in the path")
    if re.search(r"%(?![0-9A-Fa-f]{2})", path):
        return _bad_route("%后面要两位十六进制数", "two hexadecimal digits follow each %")
    for segment in path.split("/")[1:]:
        if problem := _segment_problem(segment):
            return problem
    left = _PATH_SLOT.sub("", path)
    if "{" in left or "}" in left:
        return _bad_route("路径里的花括号没有配对", "a brace in the path is not closed")
    return None


def _segment_problem(segment: str) -> Problem | None:
    """`.` and `..`, and separators, however often they were percent-encoded."""
    plain = segment
    for _ in range(8):
        decoded = unquote(plain)
        if decoded == plain:
            break
        plain = decoded
    else:
        return _bad_route(f"{quoted(segment)}编码的层数太多", f"{quoted(segment)} is encoded too many times")
    if plain in (".", ".."):
        return _bad_route(f"路径里不能有{escaped(segment)}这一段", f"a path cannot hold the segment {escaped(segment)}")
    if any(sign in plain for sign in "/\\?#@") or not plain.isprintable():
        return _bad_route(
            f"路径的一段{quoted(segment)}里编码了分隔符或控制字符",
            f"the segment {quoted(segment)} hides a separator or control",
        )
    return None


def _check_slots(verb: str, named: list[str], schema: Mapping[str, Parameter]) -> tuple[list[Problem], list[Problem]]:
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for name in dict.fromkeys(named):
        parameter = schema.get(name)
        if parameter is None:
            zh = f"路径里的{{{escaped(name[:64])}}}没有在params_schema里声明"
            problems.append(
                _bad_route(
                    zh, f"{{{escaped(name[:64])}}} in the path is not declared in params_schema", "undeclared-slot"
                )
            )
        elif parameter.secret or parameter.type in ("array", "object"):
            problems.append(slot_problem(name, parameter))
        elif not parameter.required and "default" not in parameter.as_json():
            warnings.append(optional_slot(name))
    if verb in QUERY_VERBS:
        problems.extend(
            secret_in_query(name) for name, parameter in schema.items() if parameter.secret and name not in named
        )
    return problems, warnings


def slot_problem(name: str, parameter: Parameter) -> Problem:
    """A parameter that cannot stand in a path: a secret, an array, an object."""
    if parameter.secret:
        return Problem(
            "secret-in-path",
            f"secret参数{name}不能放进路径：网址会进日志。",
            f"The secret {name} cannot stand in a path: URLs end in logs.",
            f"params_schema.{name}",
        )
    return Problem(
        "slot-type",
        f"{name}是{parameter.type}，不能放进路径；只有string、integer、number、boolean可以。",
        f"{name} is {parameter.type} and cannot stand in a path: only string, integer, number and boolean can.",
        f"params_schema.{name}",
    )


def secret_in_query(name: str) -> Problem:
    """A secret that would be sent in the query."""
    return Problem(
        "secret-in-query",
        f"secret参数{name}会进查询字符串，网址会进日志；请用POST、PUT或PATCH。",
        f"The secret {name} would go into the query, and URLs end in logs: use POST, PUT or PATCH.",
        f"params_schema.{name}",
    )


def optional_slot(name: str) -> Problem:
    """A path needs a value for each slot."""
    return Problem(
        "optional-slot",
        f"{name}在路径里，没有值就不能执行；请写required: true或给默认值。",
        f"{name} stands in the path, and nothing runs without a value: write required: true, or give a default.",
        f"params_schema.{name}",
    )

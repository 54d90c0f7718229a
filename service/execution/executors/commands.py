"""What a definition's command becomes, and what of its parameters no command can take (M2, M13, M14).

Shared by the executors that start programs: shell here, gatekeeper on another server.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from service.domain.definitions import Definition
from service.domain.executors import HIDDEN, ParameterProblem
from service.domain.placeholders import render

SHELL: Final = "/bin/sh"
EXTRAS: Final = ("cwd", "env", "stdin")  # what a command gets beside its arguments, where the definition declares it
# Shell globs, on the whole name: what the loader, a shell or an interpreter obeys before the tool's own code runs,
# what makes git, tar, make, pagers and builders start other programs, and where they look for files that say so. A
# list can never be whole: a definition that declares `env` gives the caller more than its parameters say.
LOADING: Final = (
    *(
        "PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "BASH_FUNC_*",
        "BASHOPTS",
        "SHELLOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "ZDOTDIR",
        "CDPATH",
    ),
    *("LD_*", "DYLD_*", "*_PRELOAD", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "MALLOC_*", "OPENSSL_*"),
    *("PYTHON*", "PERL5*", "PERLLIB", "RUBY*", "GEM_*", "NODE_OPTIONS", "NODE_PATH", "LUA_*", "AWKPATH", "AWKLIBPATH"),
    *("PHPRC", "PHP_INI_SCAN_DIR", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    *("GIT_SSH*", "GIT_CONFIG*", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_PAGER", "GIT_*EDITOR"),
    *("GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"),
    *("GIT_ALTERNATE_*", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL*", "GIT_TRACE*"),
    *("GIT_ATTR_*", "GIT_SSL_*", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_REDIRECT_*"),
    *("HOME", "XDG_*", "CURL_HOME", "WGETRC", "SYSTEM_WGETRC", "SSH_ASKPASS*", "SUDO_ASKPASS", "RSYNC_*", "CVS_RSH"),
    *("EDITOR", "VISUAL", "PAGER", "*_PAGER", "MANPAGER", "MANOPT", "BROWSER", "LESS", "LESSOPEN", "LESSCLOSE"),
    *("VIMINIT", "GVIMINIT", "EXINIT", "VIM", "VIMRUNTIME", "MYVIMRC", "EMACS*", "SHELL", "KSH_ENV", "FPATH"),
    *("BASH_LOADABLES_PATH", "TAR_OPTIONS", "TAPE", "RSH", "GZIP", "ZIPOPT", "UNZIP*"),
    *(
        "MAKEFLAGS",
        "MFLAGS",
        "GNUMAKEFLAGS",
        "MAKEFILES",
        "MAKEOVERRIDES",
        "CC",
        "CXX",
        "CPP",
        "LD",
        "AR",
        "GCC_EXEC_PREFIX",
    ),
    *("COMPILER_PATH", "CMAKE_*", "NINJAFLAGS", "GOFLAGS", "GOROOT", "GOENV", "GOTOOLDIR", "CGO_*", "GO111MODULE"),
    *("RUSTC*", "RUSTFLAGS", "RUSTDOC*", "CARGO*", "[Nn][Pp][Mm]_[Cc][Oo][Nn][Ff][Ii][Gg]_*", "YARN_*"),
    *("DENO_*", "BUN_*", "PIP_*", "MAVEN_*", "MVN_*", "GRADLE_*", "ANT_*", "SBT_*", "DOTNET_*", "CORECLR_*"),
    *(
        "COR_*",
        "COMPlus_*",
        "JULIA_*",
        "R_PROFILE*",
        "R_ENVIRON*",
        "R_LIBS*",
        "R_HOME",
        "ERL_*",
        "ELIXIR_*",
        "TCLLIBPATH",
        "TCL_LIBRARY",
        "GUILE_*",
        "DOCKER_CONFIG",
        "DOCKER_HOST",
    ),
    *("KUBECONFIG", "ANSIBLE_*", "TF_CLI_*", "PSQLRC", "PGSERVICE*", "PGPASSFILE", "PGSYSCONFDIR", "MYSQL_HOME"),
)


def command_argv(definition: Definition, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The argument vector: `command` filled in, or `/bin/sh -c cmd`, for parameters that passed `command_problems`."""
    if definition.command is None:
        return _given_argv(definition, parameters) or (SHELL, "-c", parameters["cmd"])
    argv, _ = render(definition.command, definition.params_schema, parameters)
    return tuple(argv)


def command_preview(definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a command will be given, JSON-ready: `{"argv", "cwd"?, "env"?, "stdin"?}`."""
    extras = {name: parameters[name] for name in EXTRAS if name in parameters and name in definition.params_schema}
    return {"argv": list(command_argv(definition, parameters)), **extras}


def command_problems(definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
    """Every reason why these parameters cannot become this command: no `cmd`, placeholders, NUL, `env`."""
    problems = [*_cmd_problems(definition, parameters), *_render_problems(definition, parameters)]
    known = {problem.param for problem in problems}
    problems += [
        ParameterProblem(name, "nul", "不能含有 NUL 字符", "cannot hold a NUL character")
        for name, value in parameters.items()
        if name not in known and isinstance(value, str) and "\0" in value and _is_bound(definition, name)
    ]
    if isinstance(env := parameters.get("env"), Mapping):
        problems += _env_problems(env, named=not definition.params_schema["env"].secret)
    return problems


def _given_argv(definition: Definition, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """A gatekeeper's exec prefers `argv` to `cmd` where it knows it; to the shell executor it is a name like any.

    A secret one stands for itself where people look (executors.Executor.preview).
    """
    argv = parameters.get("argv")
    if argv == HIDDEN:
        argv = [HIDDEN]
    return tuple(argv) if definition.executor != "shell" and isinstance(argv, list) else ()


def _cmd_problems(definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
    """A schema need not require `cmd`, but there is nothing to run without it."""
    if definition.command is not None or "cmd" in parameters or _given_argv(definition, parameters):
        return []
    zh = "缺少参数cmd（字符串），没有可运行的命令。"
    return [ParameterProblem("cmd", "missing", zh, "The parameter cmd is missing (a string): there is nothing to run.")]


def _render_problems(definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
    if definition.command is None:
        return []
    return list(render(definition.command, definition.params_schema, parameters)[1])


def _is_bound(definition: Definition, name: str) -> bool:
    """Whether a text becomes an argument or a path; standard input takes any byte."""
    if name == "cwd":
        return True
    if definition.command is None:
        return name == "cmd"
    return any("{" + name + "}" in item for item in definition.command)


def _env_problems(env: Mapping[str, Any], *, named: bool) -> list[ParameterProblem]:
    """`named`: whether a variable's name may be quoted; not when the whole parameter is secret."""
    problems = []
    for name, value in env.items():
        reason = _env_reason(name, value)
        if reason is not None:
            quoted = f"{name!r}: " if named else ""
            problems.append(ParameterProblem("env", "bad-env", quoted + reason[0], quoted + reason[1]))
    return problems


def _env_reason(name: str, value: Any) -> tuple[str, str] | None:
    if not name or "=" in name or "\0" in name:
        return "变量名不能为空，也不能含有 = 或 NUL", "a variable's name cannot be empty or hold = or NUL"
    if not isinstance(value, str):
        return "变量的值必须是字符串", "a variable's value must be a string"
    if "\0" in value:
        return "变量的值不能含有 NUL", "a variable's value cannot hold NUL"
    if any(fnmatchcase(name, pattern) for pattern in LOADING):
        return (
            "不能设置会改变程序加载或启动方式的变量",
            "a variable that changes how programs are loaded or started cannot be set",
        )
    return None

"""The shell executor: a checked call in, an Outcome out. Rows of cases.md: X1, X4, X5, X8, U3, U7, U11, M2, M13, M14."""

import dataclasses
import threading

import pytest

from service.domain.definitions import Definition, Parameter
from service.domain.executors import Call, Cancel, ToolFile
from service.execution.executors.commands import command_preview, command_problems
from service.execution.executors.sandbox import Sandbox
from service.execution.executors.shell import ShellExecutor

pytestmark = pytest.mark.usefixtures("nothing_left")

TEXT = Parameter("string")
EXEC = {"cmd": Parameter("string", required=True), "cwd": TEXT, "stdin": TEXT, "env": Parameter("object")}
SCRIPT = ToolFile("greet.sh", executable=True, content=b'#!/bin/sh\necho "hello $1"\n')


def definition(schema=EXEC, command=None):
    return Definition(
        name="tool",
        display="工具",
        intent="做一件事",
        method="exec" if command is None else "run",
        executor="shell",
        author="ICE",
        created="2026-05-31",
        why="因为",
        params_schema=schema,
        command=command,
    )


@pytest.fixture(params=["bubblewrap", "none"])
def shell(request):
    executor = ShellExecutor(Sandbox(request.param))
    if (reason := executor.unavailable(definition())) is not None:
        pytest.skip(reason.en)
    return executor


def run(shell, parameters, tool=None, timeout_ms=20_000, keep=65_536, cancel=None, **more):
    return shell.run(
        Call(
            run_id="0190",
            definition=tool or definition(),
            parameters=parameters,
            timeout_ms=timeout_ms,
            max_output_bytes=keep,
            actor="token:1",
            cancel=cancel or Cancel(),
            files=[SCRIPT],
            **more,
        )
    )


def problems(parameters, tool=None):
    return [
        (problem.param, problem.code)
        for problem in ShellExecutor(Sandbox("none")).check(tool or definition(), parameters)
    ]


def test_a_command_runs_in_a_shell_and_succeeds(shell):
    outcome = run(shell, {"cmd": "printf '%s' \"$((6 * 7))\" | cat; ./greet.sh you"})

    assert (outcome.state, outcome.reason, outcome.exit_code, outcome.why) == ("succeeded", None, 0, None)
    assert outcome.stdout.kept == b"42hello you\n"
    assert outcome.totals == "produced"


def test_a_vector_is_never_given_to_a_shell(shell):
    tool = definition({"who": TEXT, "more": TEXT}, ("./greet.sh", "{who}; echo $HOME", "--x={more}"))

    outcome = run(shell, {"who": "$(id) `id` 'q' \"q\" {more}\n"}, tool)

    assert outcome.stdout.kept == b"hello $(id) `id` 'q' \"q\" {more}\n; echo $HOME\n"


def test_directory_input_and_environment_are_honoured(shell):
    parameters = {"cmd": "pwd; cat; echo $NAME", "cwd": "/usr", "stdin": "输入\n\0", "env": {"NAME": "值 'x'"}}

    assert run(shell, parameters).stdout.kept == "/usr\n输入\n\0值 'x'\n".encode()


def test_the_environment_holds_nothing_else(shell, monkeypatch):
    """X11: what the service was started with stays with it."""
    monkeypatch.setenv("BITONG_SECRET", "s3cret")
    tool = definition({}, ("/usr/bin/env",))

    lines = set(run(shell, {}, tool).stdout.kept.decode().split())

    assert lines == {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8", "TERM=dumb"}


def test_without_input_a_tool_reads_the_end_at_once(shell):
    """X8."""
    assert run(shell, {"cmd": "cat; exit 9"}).exit_code == 9


def test_what_a_success_says_on_standard_error_is_not_a_reason(shell):
    """U7, U11."""
    outcome = run(shell, {"cmd": "echo careful >&2"})

    assert (outcome.state, outcome.stderr.kept, outcome.why) == ("succeeded", b"careful\n", None)


def test_a_silent_failure_is_told_by_its_exit_code(shell):
    """U7: nothing on either stream, exit 3."""
    outcome = run(shell, {"cmd": "exit 3"})

    assert (outcome.state, outcome.reason, outcome.exit_code) == ("failed", "exit-code", 3)
    assert outcome.why == ("退出码 3", "exit code 3")


def test_a_failure_in_the_tools_own_words_gets_none_of_ours(shell):
    outcome = run(shell, {"cmd": "echo broken >&2; exit 3"})

    assert (outcome.reason, outcome.stderr.kept, outcome.why) == ("exit-code", b"broken\n", None)


def test_death_by_a_signal_is_named_also_after_words_of_its_own(shell):
    """X5."""
    outcome = run(shell, {"cmd": "echo broken >&2; kill -SEGV $$"})

    assert (outcome.state, outcome.reason, outcome.signal, outcome.exit_code) == ("failed", "signal", "SIGSEGV", None)
    assert outcome.why.en == "killed by SIGSEGV"


@pytest.mark.parametrize(
    ("program", "words"),
    [("no-such-program", "No such file or directory (ENOENT)"), ("/etc/passwd", "Permission denied (EACCES)")],
)
def test_a_program_that_does_not_start_says_why(shell, program, words):
    """X4."""
    outcome = run(shell, {}, definition({}, (program,)))

    assert (outcome.state, outcome.reason, outcome.exit_code) == ("failed", "did-not-start", None)
    assert outcome.why.en == f"did not start: {words}"
    assert outcome.why.zh.startswith("没有启动")


def test_a_directory_that_is_not_there_is_a_run_that_did_not_start(shell):
    outcome = run(shell, {"cmd": "pwd", "cwd": "/no/such"})

    assert outcome.reason == "did-not-start"
    assert "No such file or directory" in outcome.why.en


def test_a_run_past_its_limit_keeps_what_it_said(shell):
    """X1, U11: standard error, and then one line with the reason."""
    outcome = run(shell, {"cmd": "echo out; echo err >&2; sleep 60"}, timeout_ms=400)

    assert (outcome.state, outcome.reason) == ("timed_out", "deadline")
    assert (outcome.stdout.kept, outcome.stderr.kept) == (b"out\n", b"err\n")
    assert outcome.why.en == "stopped at its time limit of 400 ms"
    assert 400 <= outcome.duration_ms < 5400


@pytest.mark.parametrize(
    ("asked", "state", "reason"), [("cancelled", "cancelled", "cancelled"), ("shutdown", "interrupted", "shutdown")]
)
def test_a_run_that_is_asked_to_end_says_who_asked(shell, asked, state, reason):
    cancel = Cancel()
    timer = threading.Timer(0.2, cancel.ask, [asked])
    timer.start()

    outcome = run(shell, {"cmd": "echo out; sleep 60"}, cancel=cancel)

    timer.join()
    assert (outcome.state, outcome.reason, outcome.stdout.kept) == (state, reason, b"out\n")
    assert outcome.duration_ms < 5000


def test_output_past_the_cap_is_counted_and_told_as_it_comes(shell):
    """U3, U11: the cut may fall inside a character; what is kept is bytes."""
    heard = []

    outcome = run(shell, {"cmd": "printf 笔筒"}, keep=4, on_output=lambda name, data: heard.append(data))

    assert outcome.stdout.kept == "笔筒".encode()[:4]
    assert (outcome.stdout.total, outcome.stdout.truncated) == (6, True)
    assert b"".join(heard) == "笔筒".encode()


def test_a_command_that_is_not_given_is_missing_though_its_schema_does_not_require_it():
    tool = definition({"cmd": TEXT, "argv": Parameter("array")})

    assert problems({}, tool) == [("cmd", "missing")]
    assert problems({"argv": ["true"]}, tool) == [("cmd", "missing")]
    assert problems({"cmd": ""}, tool) == []


def test_a_gatekeeper_may_be_given_a_vector_instead():
    tool = dataclasses.replace(definition({"cmd": TEXT, "argv": Parameter("array")}), executor="gatekeeper")

    assert [problem.code for problem in command_problems(tool, {})] == ["missing"]
    assert command_problems(tool, {"argv": ["true"]}) == []
    assert command_preview(tool, {"argv": ["true"]})["argv"] == ["true"]


@pytest.mark.parametrize("param", ["cmd", "cwd"])
def test_a_nul_in_an_argument_or_a_path_is_refused(param):
    """M2."""
    assert problems({"cmd": "true", param: "a\0b"}) == [(param, "nul")]


def test_a_nul_in_a_vectors_argument_is_refused():
    """M2; a parameter that only goes elsewhere, such as standard input, may hold one."""
    tool = definition({"who": TEXT, "stdin": TEXT}, ("echo", "to {who}"))

    assert [param for param, _ in problems({"who": "a\0b", "stdin": "a\0b"}, tool)] == ["who"]


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "\x1b[31m", "汉", "-rf"])
def test_other_characters_are_data(text):
    """M2."""
    assert problems({"cmd": text, "cwd": text, "stdin": text + "\0", "env": {"NAME": text}}) == []


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP", "GIT_SSH", "IFS"),
        *("GIT_SSH_COMMAND", "ANY_PRELOAD", "GLIBC_TUNABLES", "PERL5LIB", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "PS4"),
        *("SHELLOPTS", "BASHOPTS", "BASH_FUNC_echo%%", "A=B", "=", "A\0B", ""),
        *(
            "TAR_OPTIONS",
            "MAKEFLAGS",
            "GNUMAKEFLAGS",
            "MAKEFILES",
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_COMMON_DIR",
            "HOME",
        ),
        *("GIT_ALLOW_PROTOCOL", "GIT_TRACE", "XDG_CONFIG_HOME", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN"),
        *("RSYNC_RSH", "SSH_ASKPASS", "GOFLAGS", "RUSTC_WRAPPER", "CARGO_BUILD_RUSTC", "npm_config_script_shell"),
        *(
            "NPM_CONFIG_PREFIX",
            "DOTNET_STARTUP_HOOKS",
            "R_PROFILE_USER",
            "ERL_AFLAGS",
            "VIMINIT",
            "CURL_HOME",
            "WGETRC",
        ),
    ],
)
def test_the_environment_cannot_change_how_programs_are_loaded(name):
    """M14."""
    assert problems({"cmd": "true", "env": {"FINE": "1", name: "x"}}) == [("env", "bad-env")]


@pytest.mark.parametrize("value", ["a\0b", 1, None, True, ["x"], {}])
def test_the_environment_takes_texts_only(value):
    """M14, M2: `env` is an object of strings, which its schema cannot say."""
    assert problems({"cmd": "true", "env": {"NAME": value}}) == [("env", "bad-env")]


def test_all_problems_are_told_and_a_secrets_are_not_quoted():
    tool = definition({**EXEC, "env": Parameter("object", secret=True)})
    parameters = {"cmd": "\0", "cwd": "\0", "env": {"LD_S3CRET": "x", "PATH": "y"}}

    found = ShellExecutor(Sandbox("none")).check(tool, parameters)

    assert [(p.param, p.code) for p in found] == [
        ("cmd", "nul"),
        ("cwd", "nul"),
        ("env", "bad-env"),
        ("env", "bad-env"),
    ]
    assert not any("S3CRET" in p.zh + p.en for p in found)


def test_without_a_sandbox_it_is_refused_and_says_what_to_set():
    executor = ShellExecutor(Sandbox(bwrap="/no/such/bwrap"))

    message = executor.unavailable(definition())

    assert 'shell_sandbox = "none"' in message.en
    assert 'shell_sandbox = "none"' in message.zh
    assert executor.target(definition()) is None

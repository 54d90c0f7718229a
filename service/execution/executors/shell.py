"""The `shell` executor: a command on this host, in the sandbox (contract/executors.md, shell)."""

import errno
import time
from collections.abc import Mapping
from typing import Any, Final

from service.domain.definitions import Definition
from service.domain.executors import Call, Outcome, ParameterProblem
from service.errors import Message
from service.execution.executors.commands import command_argv, command_preview, command_problems
from service.execution.executors.process import Finished
from service.execution.executors.sandbox import Sandbox

# All that a tool's environment holds, beside what its `env` parameter adds.
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108  the sandbox's own
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


class ShellExecutor:
    """`method: exec` gives the parameter `cmd` to /bin/sh; any other method runs the definition's `command`."""

    name = "shell"
    uses_files = True

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def unavailable(self, definition: Definition) -> Message | None:  # noqa: ARG002  the same for every definition
        """Why shell tools are refused on this host, and what the operator can do."""
        reason = self._sandbox.unavailable()
        if reason is None:
            return None
        return Message(f"shell 工具在这里不能运行：{reason.zh}", f"shell tools cannot run here: {reason.en}")

    def refusal(self, definition: Definition) -> Message | None:  # noqa: ARG002  what it runs is up to the definition
        """None: the operator's leave is not asked for by definition."""
        return None

    def check(self, definition: Definition, parameters: Mapping[str, Any]) -> list[ParameterProblem]:
        """NUL, placeholders, and what `env` may not set."""
        return command_problems(definition, parameters)

    def preview(self, definition: Definition, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The argument vector, and what else the tool gets."""
        return command_preview(definition, parameters)

    def target(self, definition: Definition) -> str | None:  # noqa: ARG002  always this host
        """None: this host."""
        return None

    def run(self, call: Call) -> Outcome:
        """Run it in the calling thread, which must live as long: the sandbox dies with the thread that started it."""
        started = time.monotonic()
        parameters = call.parameters
        finished = self._sandbox.run(
            command_argv(call.definition, parameters),
            env={**ENVIRONMENT, **parameters.get("env", {})},
            files=call.files,
            cwd=parameters.get("cwd"),
            stdin=parameters.get("stdin", "").encode("utf-8", "surrogatepass"),
            deadline=started + call.timeout_ms / 1000,
            keep=call.max_output_bytes,
            cancel=call.cancel,
            on_output=call.on_output,
        )
        state, reason, why = _ending(finished, call)
        return Outcome(
            state=state,
            reason=reason,
            stdout=finished.stdout,
            stderr=finished.stderr,
            duration_ms=int((time.monotonic() - started) * 1000),
            exit_code=finished.exit_code,
            signal=finished.signal,
            why=why,
        )


def _ending(finished: Finished, call: Call) -> tuple[str, str | None, Message | None]:
    """State, reason, and one line that says why where standard error does not."""
    if finished.ended == "deadline":
        limit = f"{call.timeout_ms} ms"
        return "timed_out", "deadline", Message(f"超过时限 {limit}，已终止", f"stopped at its time limit of {limit}")
    if finished.ended == "cancelled":
        return _cancelled(call.cancel.reason)
    if finished.ended == "did-not-start":
        said = _errno_words(finished.error)
        return "failed", "did-not-start", Message(f"没有启动：{said}", f"did not start: {said}")
    if finished.signal is not None:
        return "failed", "signal", Message(f"被信号 {finished.signal} 终止", f"killed by {finished.signal}")
    if finished.exit_code != 0:
        code = finished.exit_code
        return "failed", "exit-code", None if finished.stderr.total else Message(f"退出码 {code}", f"exit code {code}")
    return "succeeded", None, None


def _cancelled(asked: str | None) -> tuple[str, str, Message]:
    if asked == "shutdown":
        return "interrupted", "shutdown", Message("服务停止，已终止", "stopped because the service was shutting down")
    return "cancelled", "cancelled", Message("已取消", "cancelled")


def _errno_words(error: OSError | None) -> str:
    if error is None:
        return "unknown"
    name = errno.errorcode.get(error.errno or 0)
    words = error.strerror or str(error)
    return f"{words} ({name})" if name and error.errno != errno.EIO else words

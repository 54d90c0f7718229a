"""Commands that are watched while they go on, and a service whose tools can be held and released."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.harness.definitions import shell_exec_text, tool_text
from tests.harness.parts import Parts
from tests.harness.service import ALL_SCOPES, BitongService, environment

END_S = 60


def live_service(parts: Parts) -> BitongService:
    """`sh`: a shell; `roomy`: one that keeps 1 MiB; `short`: one that keeps 100 bytes; `echo-input`: `cat` of a secret.

    `asks`: a shell that asks first; `destroys`: another, that says so of itself.
    """
    repo = parts.repo("first")
    repo.write_tool("sh", text=shell_exec_text("sh", executor="shell"))
    asks = {"timeout_ms": 30000, "require_confirm": True}
    texts = {
        "roomy": shell_exec_text("roomy", executor="shell", constraints={"max_output_bytes": 1 << 20}),
        "short": shell_exec_text("short", executor="shell", constraints={"max_output_bytes": 100}),
        "asks": shell_exec_text("asks", executor="shell", constraints=asks),
        "destroys": shell_exec_text("destroys", executor="shell", constraints=asks, effect="destructive"),
    }
    for name, text in texts.items():
        repo.write_tool(name, text=text)
    stdin = {"stdin": {"type": "string", "secret": True}, "note": {"type": "string", "required": False}}
    repo.write_tool("echo-input", text=tool_text("echo-input", command=["cat"], params_schema=stdin))
    repo.commit()
    repo.push()
    return parts.service(repo)


class Gate:
    """Holds a shell command until it is opened."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"gate-{time.monotonic_ns()}"

    @property
    def waits(self) -> str:
        """The shell's words to wait here."""
        return f"while [ ! -e {self._file} ]; do sleep 0.02; done"

    def open(self) -> None:
        """Let it go on."""
        self._file.touch()


class Command:
    """A command that goes on, with pipes, as one who may everything unless a token is given."""

    def __init__(
        self, service: BitongService, *arguments: str, url: str | None = None, token: str | None = None
    ) -> None:
        token = token or service.token(*ALL_SCOPES)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", *arguments],
            bufsize=0,  # what `line` read ahead would be lost to `end`
            env=environment(service.settings, BITONG_URL=url or service.url, BITONG_TOKEN=token),
            cwd=service.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Where the tests run in a shell's background Ctrl-C is ignored, and what they start would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )

    def line(self) -> bytes:
        """The next line on standard output, as soon as it is there."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def aside(self) -> bytes:
        """The next line on standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, bytes, bytes]:
        """Its exit code and what else it said, once it ended."""
        out, err = self.process.communicate(timeout=END_S)
        return self.process.returncode, out, err


def at_a_terminal(service: BitongService, *arguments: str, typed: dict[str, str]) -> tuple[int, bytes, str]:
    """A command at a terminal, with its standard output piped: exit code, that output, and what the terminal showed.

    `typed`: for each text that the terminal shows, in order, what is typed then.
    """
    ours, theirs = pty.openpty()
    env = environment(service.settings, BITONG_URL=service.url, BITONG_TOKEN=service.token(*ALL_SCOPES))
    process = subprocess.Popen(
        [sys.executable, "-m", "service", *arguments],
        env=env,
        cwd=service.folder,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, waiting = b"", list(typed.items())
    until = time.monotonic() + END_S
    while select.select([ours], [], [], max(0, until - time.monotonic()))[0]:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed: it ended
            break
        if waiting and waiting[0][0] in shown.decode("utf-8", "ignore"):
            os.write(ours, f"{waiting.pop(0)[1]}\n".encode())
    output = process.communicate(timeout=END_S)[0]
    os.close(ours)
    return process.returncode, output, shown.decode("utf-8", "replace")

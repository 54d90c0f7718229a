"""`bitong demo`, from an empty folder and again on the same one, tried with exactly the lines it prints."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.service import bitong, environment, eventually, free_port

LAST = "audit verify --database"


class Demo:
    """A running demo."""

    def __init__(self, folder: Path, *, data: Path) -> None:
        self.port = free_port()
        self.said = folder / "stderr"
        self.printed = folder / "stdout"
        arguments = ["--data-dir", str(data), "--port", str(self.port), "--gatekeeper-port", "0"]
        with self.printed.open("wb") as stdout, self.said.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "demo", *arguments],
                env=environment({}, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1"),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.printed.read_text("utf-8")

    def ready(self) -> bool:
        assert self.process.poll() is None, self.said.read_text("utf-8")
        return LAST in self.text

    def follow(self, folder: Path) -> str:
        """Paste everything it printed into a shell; what that printed."""
        env = environment({}, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
        done = subprocess.run(
            ["bash", "-e", str(self.printed)], cwd=folder, env=env, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def token(self) -> str:
        return re.findall(r"bitong_[\w-]{20,}", self.text)[0]

    def call(self, tool: str, **params: str) -> dict[str, Any]:
        """The answer to a call with the printed token."""
        answer = httpx.post(
            f"http://127.0.0.1:{self.port}/api/v1/exec",
            json={"tool": tool, "params": params},
            headers={"Authorization": f"Bearer {self.token}"},
            trust_env=False,
            timeout=30,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def end(self, number: int) -> int:
        """What Ctrl-C (SIGINT) or a supervisor (SIGTERM) does; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(40)


@contextmanager
def running(folder: Path, data: Path) -> Iterator[Demo]:
    demo = Demo(folder, data=data)
    try:
        eventually(demo.ready, within_s=60)
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_demo_is_followed_as_printed_from_an_empty_folder_and_again(tmp_path: Path) -> None:
    """The main job on embedded defaults: clone, write, push, call, list, verify; the second time on what is there.

    The token stays the same, so that what was noted of the first start still serves.
    """
    data = tmp_path / "a folder" / "data"
    for number in (signal.SIGINT, signal.SIGTERM):
        with running(tmp_path, data) as demo:
            seen = demo.follow(tmp_path)

            token = demo.token
            assert '"ok":true' in seen
            assert "你好，光之湖！" in seen or "Bitong's demo" in seen
            assert "相符 / verifies" in seen
            assert demo.end(number) == 0
            assert not listens(demo.port)
        assert (data / "demo.token").read_text().strip() == token

    done = bitong("audit", "verify", "--database", str(data / "bitong.db"), env=environment({}), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_what_the_demo_keeps_is_closed_to_others(tmp_path: Path) -> None:
    """The folder 0700, its secrets 0600, and no tool of the gatekeeper's reaches them (X35).

    The work folder, which tools see, is beside it and not in it.
    """
    data = tmp_path / "data"
    with running(tmp_path, data) as demo:
        read = demo.call("file-read", path=str(data / "webhook.secret"))
        ran = demo.call("shell-exec", cmd=f"cat {data}/*.secret {data}/*.token")
        assert demo.end(signal.SIGTERM) == 0

    kept = [(data / name).read_text().strip() for name in ("webhook.secret", "gatekeeper.token", "demo.token")]
    assert (read["ok"], ran["ok"]) == (False, False)
    assert not any(secret in f"{read}{ran}" for secret in kept)
    secrets = ("webhook.secret", "gatekeeper.token", "demo.token", "bitong.db", "service.log", "gatekeeper.log")
    assert data.stat().st_mode & 0o777 == 0o700
    assert {name: (data / name).stat().st_mode & 0o777 for name in secrets} == dict.fromkeys(secrets, 0o600)
    assert (tmp_path / "data-work" / "README.txt").is_file()
    assert not (tmp_path / "data-work" / "bitong.db").exists()


def test_a_demo_that_is_killed_takes_its_children_along(tmp_path: Path) -> None:
    """Also where nobody could end them in order: no port stays taken."""
    with running(tmp_path, tmp_path / "data") as demo:
        demo.process.kill()
        demo.process.wait()

        eventually(lambda: not listens(demo.port), within_s=20)


@pytest.mark.parametrize("option", ["--port", "--gatekeeper-port"])
def test_a_port_that_is_taken_is_said_with_the_option_to_use(option: str, tmp_path: Path) -> None:
    """In words, before anything is made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = ["--data-dir", "data", "--port", "0", "--gatekeeper-port", "0", option, port]
        done = bitong("demo", *arguments, env=environment({}), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert port in done.stderr
    assert f"{option} " in done.stderr or f"{option}." in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("data", "work"), [("a/data", "a"), ("a", "a/work"), ("a", "b/../a"), ("/", "/x")])
def test_a_work_folder_that_holds_the_data_or_lies_in_it_is_refused(data: str, work: str, tmp_path: Path) -> None:
    """What is denied to the gatekeeper may not be what it works in."""
    done = bitong("demo", "--data-dir", data, "--work-dir", work, env=environment({}), cwd=tmp_path)

    assert done.returncode == 2
    assert "--work-dir" in done.stderr

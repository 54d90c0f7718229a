"""`bitong demo`: the main job on embedded defaults, in the foreground, from an empty folder and again on the same one."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from service.cli import calling, demo_words, showing
from service.cli.calling import Service
from service.cli.demo_layout import (
    Layout,
    check_apart,
    free_port,
    gatekeeper_command,
    plain_environment,
    prepare,
    service_environment,
)
from service.cli.processes import Child, own
from service.errors import Message, NotFound, Unavailable
from service.store.folder import DataFolder

TOKEN_NAME: Final = "demo"  # noqa: S105 - a name
READY_S: Final = 60.0
END_S: Final = 25.0  # the service gives its runs ten seconds, then records their end


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("demo")(demo)


def demo(
    data_dir: Annotated[
        Path,
        typer.Option("--data-dir", envvar="BITONG_DATA_DIR", metavar="DIR", help="一切都放在这里 / keeps everything"),
    ] = Path("./data"),
    work_dir: Annotated[
        Path | None,
        typer.Option("--work-dir", metavar="DIR", help="工具的工作目录，默认 <DIR>-work / where tools work"),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="服务的端口，0 任选 / the service's port; 0: any")
    ] = 8920,
    gatekeeper_port: Annotated[
        int, typer.Option("--gatekeeper-port", min=0, max=65_535, help="gatekeeper 的端口 / the gatekeeper's port")
    ] = 3911,
) -> None:
    """在前台运行一套完整的演示：仓库、服务、gatekeeper、令牌。 A whole demo in the foreground; Ctrl-C ends it.

    示例 / example: bitong demo --data-dir ./data --port 8920
    """
    data = data_dir.resolve()
    work = (work_dir or data.parent / f"{data.name}-work").resolve()
    check_apart(data, work)
    layout = Layout(data, work, free_port(port, "--port"), free_port(gatekeeper_port, "--gatekeeper-port"))
    prepare(layout)
    ended = _Ended()
    with _children(layout) as children:
        _wait_ready(layout, children, ended)
        if not ended.asked():
            _introduce(layout)
        while not ended.asked():
            _check(children)
            ended.wait(0.3)
    showing.say(Message("演示已结束，数据都还在。", "the demo has ended; its data is kept."))


class _Ended:
    """Ctrl-C or SIGTERM asks for the end; asked again, it comes at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: Any) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    def asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        self._asked.wait(seconds)


@contextmanager
def _children(layout: Layout) -> Iterator[list[Child]]:
    """Gatekeeper and service; ended the other way round, since what the service runs may be at the gatekeeper."""
    children: list[Child] = []
    try:
        command = gatekeeper_command(layout)
        children.append(Child("gatekeeper", command, plain_environment(os.environ), layout.data / "gatekeeper.log"))
        children.append(Child("service", own("service.app"), service_environment(layout), layout.data / "service.log"))
        yield children
    finally:
        for child in reversed(children):
            try:
                child.end(END_S)
            except KeyboardInterrupt:
                child.kill()


def _check(children: list[Child]) -> None:
    """Raise Unavailable, with its last words, when one has ended by itself."""
    for child in children:
        if not child.runs():
            sys.stderr.write(child.last_words() + "\n")
            raise Unavailable(
                Message(
                    f"{child.name} 自己结束了，日志在 {child.log}",
                    f"the {child.name} ended by itself; its log is {child.log}",
                )
            )


def _wait_ready(layout: Layout, children: list[Child], ended: _Ended) -> None:
    deadline = time.monotonic() + READY_S
    while not ended.asked() and not (_answers(f"{layout.gatekeeper_url}/healthz") and _answers(f"{layout.url}/readyz")):
        _check(children)
        if time.monotonic() > deadline:
            raise Unavailable(
                Message(
                    f"{READY_S:.0f} 秒内没有就绪，日志在 {layout.data}",
                    f"not ready within {READY_S:.0f} s; see the logs in {layout.data}",
                )
            )
        ended.wait(0.1)


def _answers(url: str) -> bool:
    import httpx  # noqa: PLC0415

    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _introduce(layout: Layout) -> None:
    """What cannot work here, in words; then the lines to try."""
    works = _gatekeeper_runs_commands(layout)
    if works is not None:
        showing.say(
            Message(
                f"gatekeeper 在这里不能执行命令，只能读写文件：{works.zh}",
                f"the gatekeeper cannot run commands here, only work with files: {works.en}",
            )
        )
    why = _shell_trouble()
    if why is not None:
        showing.say(
            Message(
                f"executor 为 shell 的工具在这里不能执行：{why.zh}",
                f"tools of the executor shell cannot run here: {why.en}",
            )
        )
    place = demo_words.Place(
        url=layout.url,
        sign_in=_sign_in(layout),
        token=_token(layout),
        bare=layout.bare,
        clone=layout.work / "native-repo",
        database=layout.data / "bitong.db",
        logs=layout.data,
        runs_commands=works is None,
    )
    sys.stdout.write(demo_words.lines(place))
    sys.stdout.flush()


def _gatekeeper_runs_commands(layout: Layout) -> Message | None:
    """None when it does; else why not, in its own words."""
    import httpx  # noqa: PLC0415

    token = layout.secret("gatekeeper.token").read_text("ascii").strip()
    call = {"method": "exec", "params": {"argv": ["true"]}, "timeout_ms": 10_000, "max_output_bytes": 1000}
    answer = httpx.post(
        f"{layout.gatekeeper_url}/exec",
        json=call,
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=20,
    )
    told = answer.json()
    if told.get("ok") is True:
        return None
    said = str(told.get("error") or told.get("stderr") or told.get("reason")).strip().splitlines() or [""]
    return Message(showing.cell(said[0]), showing.cell(said[-1]))  # in zh, then in en; bwrap's own in one line


def _shell_trouble() -> Message | None:
    from service.execution.executors.sandbox import Sandbox  # noqa: PLC0415

    return Sandbox(os.environ.get("BITONG_SHELL_SANDBOX", "bubblewrap")).unavailable()


def _sign_in(layout: Layout) -> str:
    """A one-time link to the pages, as `bitong login` prints it."""
    with _operator(layout) as operator:
        return str(operator.json("POST", "/sign-in-links")["url"])


def _operator(layout: Layout) -> Service:
    control = DataFolder(layout.data).running()
    if control is None:
        raise Unavailable(Message("服务没有就绪。", "The service is not ready."))
    return Service(control.url, control.token)


def _token(layout: Layout) -> str:
    """The demo's token (read, exec), kept in a file (0600) so that it stays the same; a new one where it has ended."""
    file = layout.data / "demo.token"
    if file.exists():
        token = file.read_text("ascii").strip()
        with Service(layout.url, token) as service:
            if service.ask("GET", "/tools", query={"limit": 1}).is_success:
                return token
    with _operator(layout) as operator:
        _revoke_old(operator)
        made = operator.json("POST", "/tokens", body={"name": TOKEN_NAME, "scopes": ["read", "exec", "confirm"]})
    token = str(made["token"])
    DataFolder(layout.data).write(file.name, f"{token}\n".encode())
    return token


def _revoke_old(operator: Service) -> None:
    with suppress(NotFound):
        operator.json("DELETE", f"/tokens/{calling.path_part(TOKEN_NAME)}")

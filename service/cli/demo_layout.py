"""Where the demo's parts are and what they are told: folders, ports, secrets, command lines, settings.

In the data folder: what the service keeps, `native-repo.git`, and the secrets that the parts share (0600). Beside it, in a
folder of its own, what the gatekeeper may work in: the data folder is denied to whatever it runs.
"""

import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.cli import demo_repository, showing
from service.cli.processes import own
from service.errors import Message, Unavailable, UsageError
from service.store.folder import DataFolder

NODE: Final = "BS-SG-001"  # the seed's own name of a gatekeeper
README: Final = """这是笔筒演示中 gatekeeper 的工作目录：工具在这里读写文件、执行命令。
This is where the gatekeeper of Bitong's demo works: tools read and write files here, and run commands.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The demo's folders and ports."""

    data: Path
    work: Path
    port: int
    gatekeeper_port: int

    @property
    def bare(self) -> Path:
        """The repository that people push to."""
        return self.data / "native-repo.git"

    @property
    def url(self) -> str:
        """The service's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def gatekeeper_url(self) -> str:
        """The gatekeeper's."""
        return f"http://127.0.0.1:{self.gatekeeper_port}"

    def secret(self, name: str) -> Path:
        """A file with a random text, 0600, made once."""
        file = self.data / name
        if not file.exists():
            DataFolder(self.data).write(name, f"{secrets.token_urlsafe(32)}\n".encode())
        return file


def check_apart(data: Path, work: Path) -> None:
    """Raise UsageError where one of the two, both resolved, lies within the other."""
    if work.is_relative_to(data) or data.is_relative_to(work):
        raise UsageError(
            Message(
                "--work-dir 不能在数据目录之内，也不能包含它。",
                "--work-dir may not lie within the data folder, nor hold it.",
            )
        )


def free_port(port: int, option: str) -> int:
    """The port, if nobody listens there; a free one for 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise Unavailable(
                Message(
                    f"端口 {port} 用不了（{reason}）；请用 {option} 换一个。",
                    f"The port {port} cannot be had ({reason}); give another with {option}.",
                )
            ) from None
        return int(probe.getsockname()[1])


def prepare(layout: Layout) -> None:
    """Everything that stands before the processes start. Raises Unavailable where another service has the folder."""
    folder = DataFolder(layout.data)
    folder.make()
    folder.lock()
    folder.unlock()
    try:
        layout.work.mkdir(mode=0o755, parents=True, exist_ok=True)
        readme = layout.work / "README.txt"
        if not readme.exists():
            readme.write_text(README, "utf-8")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Unavailable(
            Message(
                f"用不了 {layout.work}：{reason}；请给 --work-dir。",
                f"Cannot use {layout.work}: {reason}; give --work-dir.",
            )
        ) from None
    if demo_repository.make(layout.bare):
        showing.say(Message(f"新建了仓库 {layout.bare}", f"made the repository {layout.bare}"))
    secret = layout.secret("webhook.secret")
    demo_repository.install_hook(layout.bare, url=f"{layout.url}/hooks/forgejo", secret_file=secret)


def gatekeeper_command(layout: Layout) -> list[str]:
    """The reference gatekeeper, which may work in one folder and never sees the data folder."""
    return own(
        "service",
        "gatekeeper",
        *("--port", str(layout.gatekeeper_port)),
        *("--token-file", str(layout.secret("gatekeeper.token"))),
        *("--root", str(layout.work)),
        *("--deny", str(layout.data)),
        *("--state-dir", str(layout.work / ".gatekeeper")),
    )


def plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without settings: none of them is the gatekeeper's."""
    return {name: value for name, value in environment.items() if not name.startswith("BITONG_")}


def service_environment(layout: Layout) -> dict[str, str]:
    """What makes the service the demo's; other settings of the caller's environment go on to hold."""
    node = {"url": layout.gatekeeper_url, "token_file": str(layout.secret("gatekeeper.token"))}
    own_settings = {
        "BITONG_DATA_DIR": str(layout.data),
        "BITONG_HOST": "127.0.0.1",
        "BITONG_PORT": str(layout.port),
        "BITONG_REPOSITORY_URL": str(layout.bare),
        "BITONG_REPOSITORY_BRANCH": "main",
        "BITONG_WEBHOOK_SECRET_FILE": str(layout.secret("webhook.secret")),
        "BITONG_GATEKEEPERS": json.dumps({NODE: node}),
        "BITONG_GATEKEEPER_DEFAULT": NODE,
    }
    return dict(os.environ) | own_settings

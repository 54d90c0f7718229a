"""`bitong hook post-receive`: a plain bare repository tells the service of a push, as a forge would.

Runs while the pusher waits, so it is made of the standard library alone. What goes wrong here never fails the push, which
already happened: one sentence on standard error, exit 0, and the service's next look finds what moved.

The pusher's name is `--pusher`, else what the git server authenticated (`REMOTE_USER`, `GL_USER` of gitolite), else the
account that the push runs as. git's own `user.name` is not used: anybody may write anything there.
"""

import argparse
import http.client
import json
import os
import pwd
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from service.errors import Message

TIMEOUT_S: Final = 5.0  # as Forgejo's own
MOST_COMMITS: Final = 15  # as Forgejo names in one payload
_ACCOUNTS: Final = ("REMOTE_USER", "GL_USER", "USER", "LOGNAME")
EXAMPLE: Final = (
    "示例 / example, in hooks/post-receive: exec bitong hook post-receive "
    "--url http://127.0.0.1:8920/hooks/forgejo --secret-file /etc/bitong/webhook.secret"
)


def main(arguments: Sequence[str]) -> int:
    """The hook: reads `old new ref` lines on standard input and sends one signed event each. Exit 0, or 2 used wrongly."""
    asked = _parser().parse_args(arguments)
    try:
        secret = Path(asked.secret_file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        _say(Message(f"密钥文件读不到（{_why(error)}）", f"the secret's file cannot be read ({_why(error)})"))
        return 0
    pusher = asked.pusher or _account(os.environ)
    for line in sys.stdin.buffer.read().splitlines():
        parts = os.fsdecode(line).split(" ", 2)
        if len(parts) == 3:  # old, new, ref
            event, payload = _event(*parts, repository_id=asked.repository_id, pusher=pusher)
            if not _send(asked.url, event, payload, secret):
                break  # the next look finds all of them
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bitong hook post-receive",
        description="在裸仓库的 post-receive 中把推送告诉笔筒。 In a bare repository's post-receive: tell Bitong of a push.",
        epilog=EXAMPLE,
    )
    parser.add_argument("--url", required=True, help="Webhook 地址 / the webhook's URL (…/hooks/forgejo)")
    parser.add_argument(
        "--secret-file", required=True, metavar="FILE", help="webhook_secret 所在的文件 / holds webhook_secret"
    )
    parser.add_argument("--repository-id", type=int, default=1, metavar="N", help="仓库编号 / the repository's number")
    parser.add_argument(
        "--pusher", metavar="NAME", help="推送者，默认取自环境 / who pushes; from the environment unless given"
    )
    return parser


def _event(old: str, new: str, ref: str, *, repository_id: int, pusher: str) -> tuple[str, dict[str, Any]]:
    """(name, payload) as Forgejo shapes them (facts: its modules/structs/hook.go)."""
    folder = Path.cwd()
    owner, name = folder.parent.name or "local", folder.name.removesuffix(".git")
    person = {"id": 0, "login": pusher, "username": pusher, "full_name": "", "email": ""}
    repository = {"id": repository_id, "name": name, "full_name": f"{owner}/{name}", "owner": {"login": owner}}
    common = {"ref": ref, "repository": repository, "sender": person}
    if set(new) == {"0"} and ref.startswith("refs/heads/"):
        return "delete", {**common, "ref_type": "branch", "pusher_type": "user"}
    commits = [] if set(new) == {"0"} or not ref.startswith("refs/heads/") else _commits(old, new)
    return "push", {
        **common,
        "before": old,
        "after": new,
        "compare_url": "",
        "commits": commits[:MOST_COMMITS],
        "total_commits": len(commits),
        "head_commit": None if set(new) == {"0"} else {"id": new},
        "pusher": person,
    }


def _commits(old: str, new: str) -> list[dict[str, Any]]:
    """The commits that this push brought, newest first; none where git does not say in time."""
    wanted = ["--max-count=10", new] if set(old) == {"0"} else ["--max-count=1000", new, f"^{old}"]
    listing = ["git", "rev-list", *wanted, "--"]
    try:
        done = subprocess.run(listing, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [{"id": commit} for commit in done.stdout.split()]


def _send(url: str, event: str, payload: Mapping[str, Any], secret: str) -> bool:
    from service.intake.forgejo import sign  # noqa: PLC0415 - wrong usage needs none of it

    body = json.dumps(payload, ensure_ascii=False, indent=2).encode("utf-8", "replace")
    delivery = str(uuid.uuid4())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "bitong-hook",
        "X-Forgejo-Delivery": delivery,
        "X-Forgejo-Event": event,
        "X-Forgejo-Event-Type": event,
        **sign(body, secret),
    }
    try:
        status = _post(url, body, headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        _say(Message(f"连不上 {url}（{_why(error)}）", f"{url} cannot be reached ({_why(error)})"))
        return False
    if not 200 <= status < 300:
        _say(Message(f"{url} 回答了 {status}", f"{url} answered {status}"))
        return False
    return True


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The answer's status; no proxy, no redirect. Raises OSError, HTTPException, or ValueError for no URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("no http(s) URL")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", parts.path or "/", body, dict(headers))
        return connection.getresponse().status
    finally:
        connection.close()


def _account(environment: Mapping[str, str]) -> str:
    for name in _ACCOUNTS:
        if environment.get(name):
            return environment[name]
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__


def _say(what: Message) -> None:
    sys.stderr.write(f"笔筒没有收到通知：{what.zh}。推送已完成，下一次查看会补上。\n")
    sys.stderr.write(f"Bitong was not told: {what.en}. The push is done; the next look finds it.\n")


def application() -> Any:
    """The group, for `bitong --help`; `bitong hook post-receive` itself is answered before typer is imported."""
    import typer  # noqa: PLC0415 - not on the way of a push

    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="git 钩子。 git hooks.")

    @group.callback()
    def _group() -> None:
        """Keeps the group a group while it has one command."""

    @group.command("post-receive", add_help_option=False, context_settings={"ignore_unknown_options": True})
    def post_receive(arguments: list[str] | None = None) -> None:
        """在裸仓库中把推送告诉笔筒。 In a bare repository, tell Bitong of a push."""
        raise typer.Exit(main(arguments or []))

    return group

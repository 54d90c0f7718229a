"""From a repository's URL to a stream of what is in its history. The reading happens in a process of its own.

The service's half: it starts that process, hands it a look, turns what comes back into the nouns of domain/history.py.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from service import errors
from service.domain.history import Seen
from service.intake.mirror import wire
from service.intake.mirror.helper import Connection, Ended, Helper

# How much longer than its deadline a look's process, which ends itself then, is waited for.
_GRACE_S: Final = 10.0

_MESSAGES: Final = {
    "repository-unreachable": errors.Message(
        "读不到仓库 {url}：{cause}。请检查 Forgejo 是否在运行、地址是否正确；工具照常运行，下一次会再试。",
        "The repository {url} cannot be reached: {cause}. Check that Forgejo runs and the address is right; "
        "tools go on running and the next look tries again.",
    ),
    "repository-not-found": errors.Message(
        "仓库 {url} 不存在，或令牌看不到它：{cause}。请检查仓库地址，以及令牌是否有 read:repository 权限。",
        "There is no repository at {url}, or the token may not see it: {cause}. Check the address, and that the token "
        "has read:repository.",
    ),
    "repository-unauthorized": errors.Message(
        "仓库 {url} 拒绝了访问：{cause}。请换一个有 read:repository 权限的令牌。",
        "The repository {url} refused access: {cause}. Set a token that has read:repository.",
    ),
    "repository-damaged": errors.Message(
        "仓库 {url} 的内容读不出来：{cause}。请在仓库上运行 git fsck；工具照常运行，下一次会再试。",
        "What is in the repository {url} cannot be read: {cause}. Run git fsck on it; tools go on running and the "
        "next look tries again.",
    ),
    "repository-timeout": errors.Message(
        "读仓库 {url} 超时：{cause}。请检查网络和仓库大小；工具照常运行，下一次会再试。",
        "Reading the repository {url} took too long: {cause}. Check the network and the repository's size; tools go "
        "on running and the next look tries again.",
    ),
    "repository-unsupported": errors.Message(
        "仓库 {url} 的格式不受支持：{cause}。请使用完整的、对象格式为 SHA-1 的仓库。",
        "The repository {url} is of a kind that is not supported: {cause}. Use a whole repository with SHA-1 objects.",
    ),
}


# What the mirror process says most often; what is not here is shown as it came.
_CAUSES_ZH: Final = {
    "the server refused the credentials": "服务器不接受这个令牌",
    "the server knows no such repository": "服务器说没有这个仓库",
    "what answers there is not git": "那个地址上的不是 git 服务",
    "the server refers to another address": "服务器让我们去别的地址",
    "too many redirects": "重定向太多",
    "no answer in time": "迟迟没有回应",
    "the connection ended early": "连接中途断开",
    "its object format is not SHA-1": "对象格式不是 SHA-1",
    "it is a shallow clone; git fetch --unshallow makes it whole": "这是浅克隆；用 git fetch --unshallow 补全",
    "it needs more memory than a look may have": "读它需要的内存超过上限",
    "the look's time is over": "时间用完了",
    "the mirror process ended or did not start": "镜像进程没有启动或已退出",
    "a tree object is cut short or garbled": "有一个 tree 对象不完整",
    "nobody answers at that address": "那个地址没有回应",
}


class Mirror:
    """The tracked branch of one repository, at an HTTP(S) URL or a local path.

    `folder`: where the bare mirror is kept. `deadline_s`: for one whole look. One look at a time; others wait.
    """

    def __init__(
        self,
        *,
        folder: Path,
        url: str,
        branch: str,
        tools_path: str = "tools",
        username: str = "bitong",
        token: str | None = None,
        deadline_s: float = 300.0,
        max_pack_bytes: int = 1 << 30,
    ) -> None:
        self._request = {
            "folder": os.fspath(folder.absolute()),
            "url": url if "://" in url else os.fspath(Path(url).absolute()),
            "branch": branch,
            "tools_path": tools_path,
            "username": username,
            "token": token,
            "deadline_s": deadline_s,
            "max_pack_bytes": max_pack_bytes,
        }
        self._url = url
        self._token = token
        self._deadline_s = deadline_s
        self._helper = Helper()
        self._looking = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the mirror process ahead of the first look; returns at once."""
        self._helper.start()

    def close(self) -> None:
        """End the mirror process, and with it a look that is under way; no other begins."""
        self._closed = True
        self._helper.close()

    def look(
        self,
        *,
        tips: Sequence[str],
        known: Callable[[], Iterable[str]],
        keep: Sequence[str] = (),
        full: bool = False,
    ) -> Iterator[Seen]:
        """A Tip; then, where its commit is not among `tips`, all that is new, as domain/history.py describes it.

        `tips`: commits known with all their ancestors. `known`: every known commit, asked for only where what is new
        does not simply end at `tips`. `keep`: commits whose objects must survive. `full`: as if nothing were known.
        Raises RepositoryUnreachable. Closing the iterator ends the look.
        """
        request = {**self._request, "tips": list(tips), "keep": list(keep), "full": full}
        with self._looking:
            try:
                yield from self._talk_again(request, known)
            except Ended as ended:
                raise self._failure(*_why(ended)) from ended
            except TimeoutError as error:
                raise self._failure("repository-timeout", f"over {self._deadline_s:g} s") from error
            except wire.Garbled as error:
                raise self._failure("repository-damaged", str(error)) from error

    def _talk_again(self, request: Mapping[str, Any], known: Callable[[], Iterable[str]]) -> Iterator[Seen]:
        """A helper that had just died takes a look with it, before a word of it was said; a new one gets it then."""
        said = False
        try:
            for seen in self._talk(request, known):
                said = True
                yield seen
        except Ended as ended:
            if said or ended.exit_code is not None or self._closed:
                raise
            yield from self._talk(request, known)

    def _talk(self, request: Mapping[str, Any], known: Callable[[], Iterable[str]]) -> Iterator[Seen]:
        with Connection(self._helper, self._deadline_s + _GRACE_S) as connection:
            connection.send(wire.json_frame(wire.REQUEST, request))
            while True:
                kind, body = connection.receive()
                if kind == wire.DONE:
                    return
                if kind == wire.FAILED:
                    raise self._failure(*wire.failure_from(body))
                if kind == wire.ASK_KNOWN:
                    connection.send(wire.frame(wire.KNOWN, wire.pack_ids(known())))
                else:
                    yield wire.seen_from(kind, body)

    def _failure(self, code: str, cause: str) -> errors.RepositoryUnreachable:
        if self._token:
            cause = cause.replace(self._token, "***")
        code = code if code in _MESSAGES else "repository-unreachable"
        url, cause = without_credentials(self._url), cause[:300]
        first, semicolon, rest = cause.partition("; the next clone")
        words = errors.Message(
            _MESSAGES[code].zh.format(url=url, cause=_CAUSES_ZH.get(first, first) + semicolon + rest),
            _MESSAGES[code].en.format(url=url, cause=cause),
        )
        return errors.RepositoryUnreachable(words, code=code, facts={"cause": cause})


def without_credentials(url: str) -> str:
    """A URL as it may be shown: no user, no password, no query."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _why(ended: Ended) -> tuple[str, str]:
    """Code and cause for a look's process that ended without a word."""
    if ended.exit_code in (-signal.SIGALRM, -signal.SIGXCPU):
        return "repository-timeout", "the look's time is over"
    if ended.exit_code is None:
        return "repository-unreachable", "the mirror process ended or did not start"
    return "repository-damaged", f"the look's process was ended (exit {ended.exit_code})"

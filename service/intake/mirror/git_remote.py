"""The repository behind an HTTP(S) URL: its refs, and packs of what it has. dulwich speaks the protocol.

No proxies, no retries, and nothing is asked of any other origin, so a token goes nowhere else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import urllib3
from dulwich.client import HTTPUnauthorized, Urllib3HttpGitClient
from dulwich.errors import GitProtocolError, NotGitRepository
from dulwich.objects import ObjectID

from service.domain.history import Tip

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 60.0
MAX_REDIRECTS: Final = 3


class Unreachable(Exception):
    """The repository could not be read; `code` as errors.RepositoryUnreachable has it, `cause` short, without secrets."""

    def __init__(self, code: str, cause: str) -> None:
        super().__init__(cause)
        self.code = code
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Address:
    """A repository's URL in parts; credentials in it count where none were given otherwise."""

    origin: str
    path: str
    username: str
    password: str | None

    @classmethod
    def parse(cls, url: str, username: str, token: str | None) -> "Address":
        """For HTTP(S) URLs."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        netloc = f"[{host}]" if ":" in host else host
        if parts.port is not None:
            netloc += f":{parts.port}"
        if token is None and parts.password is not None:
            username, token = unquote(parts.username or username), unquote(parts.password)
        return cls(f"{parts.scheme}://{netloc}/", parts.path.lstrip("/"), username, token)


class _Pool(urllib3.PoolManager):
    """Connections to one origin: no proxies, no retries, redirects followed for GET within the origin only."""

    def __init__(self, origin: str) -> None:
        super().__init__(timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S), retries=False)
        self._origin = origin

    def request(self, method: str, url: str, *arguments: Any, **options: Any) -> urllib3.BaseHTTPResponse:
        """As PoolManager's, within the origin."""
        for _ in range(MAX_REDIRECTS + 1):
            if not url.startswith(self._origin):
                raise Unreachable("repository-unreachable", "the server refers to another address")
            answer = super().request(method, url, *arguments, **{**options, "redirect": False})
            location = answer.headers.get("Location")
            if method != "GET" or answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            answer.drain_conn()
            url = urllib3.util.url.parse_url(location).url if "://" in location else self._origin + location.lstrip("/")
        raise Unreachable("repository-unreachable", "too many redirects")


class _Client(Urllib3HttpGitClient):
    """dulwich's client, but asking for the refs once: a look at the tip and the fetch after it share the answer."""

    _discovered: Any = None

    def _discover_references(self, *arguments: Any, **options: Any) -> Any:
        if self._discovered is None:
            self._discovered = super()._discover_references(*arguments, **options)
        return self._discovered


class Remote:
    """The repository behind one HTTP(S) URL."""

    def __init__(self, address: Address, branch: str) -> None:
        self._address = address
        self._ref = b"refs/heads/" + branch.encode()
        self._client = self._connect()

    def _connect(self) -> _Client:
        address = self._address
        username = address.username if address.password else None
        return _Client(
            address.origin, pool_manager=_Pool(address.origin), quiet=True, username=username, password=address.password
        )

    def tip(self) -> Tip:
        """Where the branch stands, by its refs alone. Raises Unreachable."""
        refs, symrefs = self._refs(self._client, (b"HEAD", self._ref))
        commit = refs.get(self._ref)
        empty = commit is None and not any(
            name.startswith(b"refs/heads/") and value for name, value in self._all_branches(refs).items()
        )
        head = symrefs.get(b"HEAD", b"")
        default = head.removeprefix(b"refs/heads/").decode("utf-8", "replace") if head else None
        return Tip(commit_id(commit), default, empty)

    def _all_branches(self, refs: Mapping[bytes, bytes | None]) -> Mapping[bytes, bytes | None]:
        if refs.get(b"HEAD"):
            return {b"refs/heads/": refs[b"HEAD"]}
        return self._refs(self._connect(), (b"refs/heads/",))[0]

    def _refs(self, client: _Client, prefixes: Sequence[bytes]) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]:
        with _translated(client):
            found = client.get_refs(self._address.path, ref_prefix=list(prefixes))
        if found.object_format not in (None, "sha1"):
            raise Unreachable("repository-unsupported", f"object format {found.object_format}")
        return found.refs, found.symrefs

    def pack(self, want: str, haves: Iterable[str], write: Callable[[bytes], int]) -> None:
        """Ask for the objects of one commit that those of `haves` lack; the pack's bytes go to `write`."""
        with _translated(self._client):
            self._client.fetch_pack(
                self._address.path,
                _Wants(want),
                _Haves(haves),
                write,
                progress=_ignore,
            )


class _Wants:
    """The one commit we want, whatever is advertised."""

    def __init__(self, want: str) -> None:
        self._want = ObjectID(want.encode())

    def __call__(self, refs: Mapping[Any, Any], depth: int | None = None) -> list[ObjectID]:
        """What dulwich calls with the refs."""
        del refs, depth
        return [self._want]


def _ignore(text: bytes) -> None:
    """What the server says of its progress."""


class _Haves:
    """The commits we say we have; a stateless server reads them all at once."""

    shallow: frozenset[bytes] = frozenset()

    def __init__(self, haves: Iterable[str]) -> None:
        self._left = iter([have.encode() for have in haves])

    def __next__(self) -> Any:
        return next(self._left, None)

    def ack(self, sha: bytes) -> None:
        """Nothing to stop: all was said."""

    def nak(self) -> None:
        """Nothing in common."""


@contextmanager
def _translated(client: _Client) -> Iterator[None]:
    """Turns whatever a server can make dulwich and urllib3 raise into Unreachable."""
    try:
        yield
    except (Unreachable, MemoryError):
        raise
    except Exception as error:
        raise _unreachable(error, dumb=bool(client.dumb)) from error


def _unreachable(error: Exception, *, dumb: bool) -> Unreachable:
    text = str(error)
    if isinstance(error, HTTPUnauthorized) or "http resp 403" in text:
        return Unreachable("repository-unauthorized", "the server refused the credentials")
    if isinstance(error, NotGitRepository):
        return Unreachable("repository-not-found", "the server knows no such repository")
    if "object format" in text.lower() or "sha256" in text.lower():
        return Unreachable("repository-unsupported", "its object format is not SHA-1")
    if dumb:
        return Unreachable("repository-not-found", "what answers there is not git")
    if isinstance(error, GitProtocolError) and "http resp " in text:
        return Unreachable("repository-unreachable", "HTTP " + text.partition("http resp ")[2][:3])
    cause: BaseException = error
    while isinstance(cause, GitProtocolError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, urllib3.exceptions.TimeoutError) and not isinstance(
        cause, urllib3.exceptions.NewConnectionError
    ):
        return Unreachable("repository-timeout", "no answer in time")
    if isinstance(cause, urllib3.exceptions.NewConnectionError):
        return Unreachable("repository-unreachable", "nobody answers at that address")
    return Unreachable("repository-unreachable", type(cause).__name__)


def commit_id(name: bytes | None) -> str | None:
    """An id as a ref has it, as text. Raises Unreachable where it is no SHA-1."""
    if name is None:
        return None
    if len(name) != 40:
        raise Unreachable("repository-unsupported", "its object format is not SHA-1")
    return name.decode("ascii")


def local_path(url: str) -> Path | None:
    """The folder that a URL names, None for what is reached otherwise."""
    if url.startswith("file://"):
        return Path(unquote(urlsplit(url).path))
    return None if "://" in url else Path(url)

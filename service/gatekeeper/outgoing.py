"""The `http` method: one request to where this gatekeeper may reach, its answer as JSON (X36).

What counts is the address that is connected to: the name is resolved once, each address is judged, and that one is
used. So octal and decimal hosts, names that resolve inside, and v4 addresses in v6 dress need no rules of their own.

A pattern is `scheme://host[:port]/path` with `*` in host or path; the port must be the same. Without patterns: any
public address. With them: only what they name, and an address that is not public only where a pattern names the host
without `*`: then a name may lead to a private one; loopback, link-local and the like must be written as the address
itself (`localhost` counts as one). Where a pattern gives a path, it names no URL with a segment that hides a slash, a
backslash or dots: a far side that decodes and folds them would leave that path.
"""

import base64
import ipaddress
import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import httpx

from service.domain.executors import Cancel, Stream
from service.errors import Message, UsageError
from service.execution.executors.http import DEFAULT_PORTS, HttpCaller, Lost, NotSent, Request
from service.execution.executors.http import Answer as HttpAnswer
from service.execution.executors.paths import is_unfit
from service.execution.executors.wire import Address
from service.gatekeeper.answers import Answer, CannotDo, answer, cut, json_bytes

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# What frames the request, or says who it is for, is ours.
_OUR_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "upgrade", "expect"}
)
_LOST_STATUSES: Final = (502, 504)
_WHOLE: Final = "/*"  # every path of a host
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# Stand for other addresses in ways that differ by network: NAT64's local prefix, 6to4, Teredo, v4-compatible, site-local.
_STRANGE: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10")))


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet, also when it stands inside another one."""
    inner = _inside(address)
    if inner is not address:
        return is_public(inner)
    special = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not special and not _is_strange(address)


def is_private(address: Address) -> bool:
    """Whether it is public or of a private network; never this host, the link, or where clouds keep their metadata."""
    inner = _inside(address)
    if inner is not address:
        return is_private(inner)
    special = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    return is_public(address) or (
        address.is_private and not special and not address.is_reserved and not _is_strange(address)
    )


def _is_strange(address: Address) -> bool:
    return any(address in network for network in _STRANGE)


def _inside(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for (v4-mapped, NAT64), or itself."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


class Outgoing:
    """Makes the requests. `patterns` as the module says; UsageError for one of another form."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_pattern(pattern) for pattern in patterns]
        self._callers: dict[str, HttpCaller] = {
            "public": HttpCaller(may_connect=is_public),
            "private": HttpCaller(may_connect=is_private),
            "any": HttpCaller(),
        }

    def prepare(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> Callable[[float, int, Cancel], Answer]:
        """What sends it, given deadline, bytes to keep and a cancel. Sends nothing yet; ValueError or CannotDo."""
        if method.upper() not in _METHODS:
            raise ValueError(f"method is one of {', '.join(_METHODS)}")
        for name in headers:
            if name.lower() in _OUR_HEADERS:
                raise ValueError(f"the header {name!r} cannot be set")
        parts = _split(url)
        caller = self._callers[self._reach(parts)]
        request = Request(method.upper(), parts.geturl(), tuple(headers.items()), body)
        return lambda deadline, keep, cancel: _send(request, caller, deadline, keep, cancel)

    def _reach(self, parts: SplitResult) -> str:
        """Which addresses are allowed for this URL: "public", "private" or "any"."""
        if not self._patterns:
            return "public"
        named = [pattern for pattern in self._patterns if _matches(pattern, parts)]
        if not named:
            raise CannotDo("这个网址不在 --allow-url 里", "this URL is none that --allow-url names")
        literal = [pattern.hostname or "" for pattern in named if "*" not in (pattern.hostname or "*")]
        if not literal:
            return "public"
        return "any" if any(_is_address(host) for host in literal) else "private"


def _split(url: str) -> SplitResult:
    """The URL as it will be sent: ASCII, without a fragment. Raises ValueError."""
    if any(character <= " " or character in "\\\x7f" for character in url):
        raise ValueError("the URL holds a space, a backslash or a control character")
    if "@" in urlsplit(url).netloc:
        raise ValueError("the URL holds a user name or a password")
    try:
        clean = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError("the URL cannot be read") from error
    if clean.scheme not in DEFAULT_PORTS or not clean.host or clean.userinfo:
        raise ValueError("the URL is not an absolute http or https URL")
    place = clean.netloc.decode("ascii")
    path, _, query = clean.raw_path.decode("ascii").partition("?")
    if any(unquote(unquote(segment)).partition(";")[0] in (".", "..") for segment in path.split("/")):
        raise ValueError("the URL's path holds a segment . or ..")
    return SplitResult(clean.scheme, place, path, query, "")


def _pattern(pattern: str) -> SplitResult:
    parts = urlsplit(pattern)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            Message(
                f"--allow-url {pattern!r} 要写成 https://host[:port]/path，host 和 path 里可以有 *",
                f"--allow-url {pattern!r} is not of the form https://host[:port]/path, with * in host or path",
            )
        )
    return parts._replace(path=parts.path or _WHOLE)


def _matches(pattern: SplitResult, parts: SplitResult) -> bool:
    return (
        pattern.scheme == parts.scheme
        and (pattern.port or DEFAULT_PORTS[pattern.scheme]) == (parts.port or DEFAULT_PORTS[parts.scheme])
        and fnmatchcase(parts.hostname or "", pattern.hostname or "")
        and fnmatchcase(parts.path or "/", pattern.path)
        and (pattern.path == _WHOLE or not any(segment and is_unfit(segment) for segment in parts.path.split("/")))
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _send(request: Request, caller: HttpCaller, deadline: float, keep: int, cancel: Cancel) -> Answer:
    result = caller.call(request, deadline=deadline, keep=keep, cancel=cancel)
    if isinstance(result, HttpAnswer):
        lost = result.status in _LOST_STATUSES
        return answer(
            ok=not lost,
            stdout=cut(_document(result.status, result.headers, result.body, keep), keep),
            reason="lost-answer" if lost else None,
            why=f"HTTP {result.status}" if lost else None,
        )
    if isinstance(result, NotSent):
        reason = "cancelled" if result.cause == "cancelled" else "did-not-start"
        return answer(ok=False, reason=reason, why=result.why)
    return _lost(result, keep)


def _lost(lost: Lost, keep: int) -> Answer:
    """It may have acted. What came of an answer is given as it came."""
    reason = {"cancelled": "cancelled", "garbled": "bad-answer"}.get(lost.cause, "lost-answer")
    document = b"" if lost.status is None else _document(lost.status, lost.headers, lost.body, keep)
    return answer(ok=False, stdout=cut(document, keep), reason=reason, why=lost.why)


def _document(status: int, headers: httpx.Headers, body: Stream, keep: int) -> bytes:
    """`{status, headers, body | body_b64, body_bytes, body_sha256, truncated}`; the body is cut so that all fits.

    Not where the headers alone are more than `keep` bytes.
    """
    facts: dict[str, Any] = {"status": status, "headers": dict(headers)}
    facts |= {"body_bytes": body.total, "body_sha256": body.sha256}
    kept = body.kept
    while True:
        document = json_bytes(facts | {"truncated": len(kept) < body.total} | _body(kept, cut=len(kept) < body.total))
        if len(document) <= keep or not kept:
            return document
        kept = kept[: min(len(kept) - 1, len(kept) * keep * 9 // (len(document) * 10))]


def _body(data: bytes, *, cut: bool) -> dict[str, str]:
    """As text where it is UTF-8; a character that the cut left incomplete goes with the cut."""
    for less in range(4 if cut else 1):
        try:
            text = data[: len(data) - less].decode()
        except UnicodeDecodeError:
            continue
        if len(json.dumps(text, ensure_ascii=False)) <= 2 * len(data) + 16:
            return {"body": text}
        break
    return {"body_b64": base64.b64encode(data).decode()}

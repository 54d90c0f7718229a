"""Speaking to a running service: by an address and a token, or as the operator of the data folder on this host."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlsplit

from service import errors
from service.cli import settings as given
from service.domain.history import Progress
from service.errors import BitongError, Message, Unavailable, UsageError
from service.settings import LOOPBACK, Settings
from service.store.folder import DataFolder

if TYPE_CHECKING:
    import httpx

API: Final = "/api/v1"
CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
SILENCE_S: Final = 45.0  # of a stream, which says something every 15 s; then the line is taken for dead
MOST: Final = 1000  # items of one page

KINDS: Final[Mapping[int, type[BitongError]]] = {
    400: errors.Malformed,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Unsupported,
    409: errors.Conflict,
    413: errors.TooLarge,
    415: errors.Unsupported,
    422: errors.Invalid,
    429: errors.Busy,
}


class Lost(Unavailable):
    """The connection ended before the answer did: what was asked for may have happened, or not."""


class Service:
    """A client of one running service, by its base address; `token` goes with each request."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        if not token.isascii() or not token.isprintable():
            raise UsageError(Message("令牌含有不可用的字符。", "The token holds characters that no token has."))
        import httpx  # noqa: PLC0415 - as long to load as all the rest; commands without a service do without

        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        within_s: Any = ANSWER_S,
    ) -> "httpx.Response":
        """One request below `/api/v1`; any answer. Raises Unavailable where it could not be asked, Lost where no answer came."""
        import httpx  # noqa: PLC0415

        timeout = httpx.Timeout(within_s, connect=CONNECT_S)
        params = {name: _spelled(value) for name, value in (query or {}).items() if value is not None}
        with self._failing_in_words():
            return self._client.request(method, API + path, params=params, json=body, headers=headers, timeout=timeout)

    @contextmanager
    def stream(
        self, path: str, *, after: str | None = None, silence_s: float = SILENCE_S
    ) -> "Iterator[httpx.Response]":
        """A stream of events or a file, any answer, its body not read yet; `after`: the last event that came. Raises as `ask`."""
        import httpx  # noqa: PLC0415

        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": after})
        timeout = httpx.Timeout(silence_s, connect=CONNECT_S)
        with (
            self._failing_in_words(),
            self._client.stream("GET", API + path, headers=headers, timeout=timeout) as answer,
        ):
            yield answer

    @contextmanager
    def _failing_in_words(self) -> Iterator[None]:
        import httpx  # noqa: PLC0415

        kind: type[Unavailable] = Unavailable
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            why = Message("连不上", "cannot be reached")
        except httpx.TimeoutException:
            kind, why = Lost, Message("没有及时回答", "did not answer in time")
        except httpx.TransportError:
            kind, why = Lost, Message("断开了连接，没有答完", "ended the connection before its answer")
        except (httpx.HTTPError, httpx.InvalidURL):
            why = Message("连不上", "cannot be reached")
        except UnicodeEncodeError:
            raise UsageError(Message("参数不是 UTF-8 文本。", "An argument is no UTF-8 text.")) from None
        else:
            return
        raise kind(Message(f"{self.url} {why.zh}。服务在运行吗？", f"{self.url} {why.en}. Does the service run?"))

    def json(self, method: str, path: str, **how: Any) -> Any:
        """The JSON of an answer that is well; else the failure it tells of, by kind."""
        answer = self.ask(method, path, **how)
        if answer.is_success:
            return _json_of(answer)
        raise failure_of(answer)

    def progress(self) -> Progress | None:
        """How far the look that runs there has come; None where none runs, or nothing is said."""
        import httpx  # noqa: PLC0415

        try:
            told = self._client.get(f"{self.url}/readyz", timeout=CONNECT_S).json()["parts"]["repository"]
            return Progress(told["phase"], told["done"], told["total"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None

    def everything(self, path: str) -> list[dict[str, Any]]:
        """A whole list, cursor by cursor."""
        page = self.get(path, limit=MOST)
        items = list(page["items"])
        while page["next"] is not None:
            page = self.get(path, limit=MOST, cursor=page["next"])
            items += page["items"]
        return items

    def get(self, path: str, **query: Any) -> Any:
        """A GET's JSON; a query that is None is left out."""
        return self.json("GET", path, query=query)


def reading(settings_file: Any = None) -> Service:
    """The service to read from: by BITONG_URL and BITONG_TOKEN; without a token, as the operator on this host."""
    url, token = os.environ.get("BITONG_URL"), os.environ.get("BITONG_TOKEN")
    if token:
        return Service(_safe(url or _local_url(settings_file)), token)
    if url:
        raise UsageError(
            Message("已设 BITONG_URL，还需要 BITONG_TOKEN。", "BITONG_URL is set; BITONG_TOKEN is needed as well.")
        )
    service = running(given.read(settings_file))
    if service is None:
        raise _nothing_runs()
    return service


def acting(settings_file: Any = None, *, scopes: Sequence[str] = ("exec",)) -> Service:
    """The service to run tools through: a token says who acts, so that the operator's own access does not serve."""
    if not os.environ.get("BITONG_TOKEN"):
        needed = " ".join(f"--scope {scope}" for scope in scopes)
        raise UsageError(
            Message(
                f"执行工具需要令牌：请设 BITONG_TOKEN（bitong token create 名称 {needed}）。",
                f"Running a tool needs a token: set BITONG_TOKEN (bitong token create NAME {needed}).",
            )
        )
    return reading(settings_file)


def running(settings: Settings) -> Service | None:
    """The service that holds this data folder, as its operator; None when none runs, whatever a crash left behind."""
    control = DataFolder(settings.data_dir).running()
    if control is None:
        return None
    service = Service(control.url, control.token)
    try:
        answers = service.ask("GET", "/tokens", query={"limit": 1}, within_s=ANSWER_S).is_success
    except Unavailable:
        answers = False
    return service if answers else None


def path_part(text: str) -> str:
    """Text as one part of a path."""
    return quote(os.fsencode(text), safe="")


def failure_of(answer: "httpx.Response") -> BitongError:
    """The failure that an answer tells of: RFC 9457 problem details, or `/exec`'s own shape."""
    kind = KINDS.get(answer.status_code, Unavailable)
    try:
        shape = answer.json()
    except ValueError:
        shape = None
    told = shape if isinstance(shape, dict) else {}
    message = told.get("message")
    if isinstance(message, dict) and isinstance(message.get("zh"), str) and isinstance(message.get("en"), str):
        said = Message(message["zh"], message["en"])
    else:
        host = answer.request.url.copy_with(query=None)
        said = Message(f"{host} 回答了 {answer.status_code}。", f"{host} answered {answer.status_code}.")
    return kind(said, code=str(told.get("code", "error")), facts={"problems": told.get("problems"), "answer": told})


def _json_of(answer: "httpx.Response") -> Any:
    try:
        return answer.json()
    except ValueError:
        raise Unavailable(
            Message("回答不是 JSON；BITONG_URL 指的是笔筒吗？", "The answer is no JSON; does BITONG_URL name a Bitong?")
        ) from None


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _local_url(settings_file: Any) -> str:
    settings = given.read(settings_file)
    control = DataFolder(settings.data_dir).running()
    return settings.public_url if control is None else control.url


def _safe(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = None, ""
    if parts is None or parts.scheme not in ("http", "https") or not host:
        raise UsageError(Message("BITONG_URL 应为 http(s) 地址。", "BITONG_URL takes an http(s) URL."))
    if parts.scheme == "http" and host not in LOOPBACK and not host.startswith("127."):
        raise UsageError(
            Message(
                "BITONG_URL：令牌只能经 https 或本机回环地址发送。",
                "BITONG_URL: a token goes over https or loopback only.",
            )
        )
    return url


def _nothing_runs() -> Unavailable:
    return Unavailable(
        Message(
            "没有找到运行中的服务：请先 bitong serve，或设 BITONG_URL 与 BITONG_TOKEN。",
            "No running service was found: start bitong serve, or set BITONG_URL and BITONG_TOKEN.",
        )
    )

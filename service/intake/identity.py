"""Which repository is the tracked one: the forge's number, set, or asked of its API by the repository's address."""

from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import structlog

from service.domain.deliveries import UNKNOWN

logger = structlog.get_logger(__name__)

_TIMEOUT_S = 10.0


class RepositoryIdentity:
    """Answers the number; None where neither it nor an API is set, so that every signed delivery counts.

    UNKNOWN while the API has not answered: deliveries are kept, cause looks, and wait to be told whose they are.
    """

    def __init__(
        self,
        *,
        fixed: int | None,
        repository_url: str | None,
        api_url: str | None,
        token: str | None,
        transport: Callable[[], httpx.BaseTransport] = httpx.HTTPTransport,
    ) -> None:
        self._id = fixed
        self._api_url = api_url
        self._full_name = _full_name(repository_url)
        self._token = token
        self._transport = transport

    def __call__(self) -> int | None:
        """The number as known now."""
        if self._id is None and self._asks():
            return UNKNOWN
        return self._id

    def names(self) -> tuple[str, str] | None:
        """Owner and name, as the repository's address says; None for a local path."""
        if self._full_name is None:
            return None
        owner, name = self._full_name.split("/")
        return owner, name

    def resolve(self) -> None:
        """Ask the API, once it is needed; a failure is logged and asked again with the next look."""
        if self._id is not None or not self._asks():
            return
        headers = {"Authorization": f"token {self._token}"} if self._token else {}
        try:
            with httpx.Client(transport=self._transport(), timeout=_TIMEOUT_S, trust_env=False) as client:
                answer = client.get(f"{self._api_url}/repos/{self._full_name}", headers=headers)
            number = answer.json()["id"] if answer.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            logger.warning("the forge did not say the repository's number", error=type(error).__name__)
            return
        if isinstance(number, int) and number > 0:
            self._id = number
        else:
            logger.warning("the forge does not know the repository", status=answer.status_code)

    def _asks(self) -> bool:
        return self._api_url is not None and self._full_name is not None


def _full_name(url: str | None) -> str | None:
    """`owner/name` from the tail of the repository's address."""
    if url is None or "://" not in url:
        return None
    parts = [part for part in urlsplit(url).path.split("/") if part]
    if len(parts) < 2:
        return None
    return f"{parts[-2]}/{parts[-1].removesuffix('.git')}"

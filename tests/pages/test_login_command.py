"""`bitong login`: a link to the pages for whoever is on the host, while the service runs and before it does."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.web.pages.view import SESSION
from tests.harness.service import BitongService


@pytest.fixture
def service(tmp_path: Path) -> Iterator[BitongService]:
    service = BitongService(tmp_path)
    yield service
    service.close()


def enter(service: BitongService, link: str) -> httpx.Response:
    """Open the printed link and press its button."""
    assert link.startswith(f"{service.url}/sign-in/link?token=")
    fields = {"link": link.partition("token=")[2]}
    headers = {"Origin": service.url, "Sec-Fetch-Site": "same-origin"}
    return httpx.post(link.partition("?")[0], data=fields, headers=headers, trust_env=False)


def test_the_link_alone_is_printed_and_signs_in(service: BitongService) -> None:
    """Once; and one made before the service ran is as good."""
    before = service.cli("login")
    service.start()
    during = service.cli("login")

    for done in (before, during):
        assert done.returncode == 0, done.stderr
        link = done.stdout.strip()
        assert len(link.split()) == 1
        first, again = enter(service, link), enter(service, link)
        assert (first.status_code, again.status_code) == (303, 409)
        assert SESSION in first.headers["Set-Cookie"]
    assert not any(line for line in service.log_text().splitlines() if before.stdout.strip()[-43:] in line)


def test_json_says_until_when(service: BitongService) -> None:
    service.start()

    done = service.cli("login", "--json")

    assert '"expires_at"' in done.stdout
    assert '"url"' in done.stdout

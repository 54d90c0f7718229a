"""P5: whatever a pusher, a tool or a caller writes is shown as text: no dialog, no request, nothing for the policy to stop."""

import json
import shlex
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.git_http import git
from tests.harness.definitions import shell_exec_text, tool_text
from tests.pages.browser import CHROMIUM, chromium, window
from tests.pages.conftest import ALL
from tests.pages.vectors import VECTORS
from tests.web.desk import Desk

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")]

PRINTABLE = ["".join(character for character in vector if character.isprintable()) for vector in VECTORS]
BUNDLE = " ".join(PRINTABLE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Every text that a pusher can set holds every vector that the definition's own rules let through."""
    desk = Desk(tmp_path_factory.mktemp("strangers"))
    third = len(PRINTABLE) // 3
    texts = {
        "display": PRINTABLE[0][:40],
        "author": '<img src=x onerror="alert(1)">',
        "deprecated": " ".join(PRINTABLE[:10]),
    }
    git("config", "user.name", '"><script>alert(1)</script>', at=desk.repository)
    git("config", "user.email", "<img/src=x/onerror=alert(1)>@example.org", at=desk.repository)
    desk.commit(
        shell_exec=shell_exec_text(constraints={"timeout_ms": 20000, "max_output_bytes": 1_000_000}),
        first=tool_text(
            "first", intent=" ".join(PRINTABLE[:third])[:400], why=" ".join(PRINTABLE[third : 2 * third])[:800], **texts
        ),
        asks=tool_text(
            "asks",
            constraints={"require_confirm": True},
            params_schema={"text": {"type": "string", "description": " ".join(PRINTABLE[2 * third :])[:400]}},
            command=["echo", "{text}"],
            examples=PRINTABLE[:3],
        ),
        wrong=f"name: {json.dumps(BUNDLE)}\nmethod: {json.dumps(PRINTABLE[5])}\nevil<script>: 1\n",
    )
    desk.commit(
        first=tool_text(
            "first", intent=" ".join(PRINTABLE[third:])[:400], why="</span><script>alert(1)</script>", **texts
        )
    )
    desk.start()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def addresses(desk: Desk) -> list[str]:
    """Runs whose output, error and parameters hold every vector; then each page that shows them."""
    caller = desk.client("read", "exec")

    def call(tool: str, **params: str) -> dict:  # type: ignore[type-arg]
        answer = caller.post("/api/v1/exec", json={"tool": tool, "params": params})
        assert answer.status_code in (200, 202, 422), answer.text
        return answer.json()  # type: ignore[no-any-return]

    everything = "\n".join(VECTORS)
    said = shlex.quote(everything)
    failed = call("shell-exec", cmd=f"printf %s {said}; printf %s {said} >&2; exit 1")["run"]["id"]
    refused = call("shell-exec", **{"cmd": "true", PRINTABLE[1]: PRINTABLE[2]})["run"]["id"]
    question = call("asks", text=everything)["confirmation"]["id"]
    runs = [
        call("shell-exec", cmd=f"printf %s {shlex.quote(vector)} >&2; false")["run"]["id"] for vector in VECTORS[::10]
    ]
    rejected = caller.get("/api/v1/rejections").json()["items"][0]
    pages = [
        "/",
        "/runs",
        "/tools",
        "/tools/first",
        "/tools/asks",
        "/tools/first/versions",
        "/registrations",
        "/audit",
        "/access",
    ]
    pages += [f"/tools/first/versions/{number}" for number in (1, 2)] + [
        f"/runs/{run}" for run in (failed, refused, *runs)
    ]
    pages += [f"/confirmations/{question}", "/confirmations", *[f"/audit/{index}" for index in range(1, 12)]]
    pages += [f"/registrations/{rejected['commit']}/{quote(rejected['tool'], safe='')}"]
    return pages


@pytest.fixture(scope="module")
def cookie(desk: Desk) -> str:
    return desk.bitong.sessions.open("7", '<img src=x onerror="alert(1)">', ALL, "forgejo")[1]


def test_there_are_a_hundred_vectors() -> None:
    assert len(set(VECTORS)) >= 100


def test_texts_of_strangers_do_nothing_on_any_page(
    browser: Browser, desk: Desk, addresses: list[str], cookie: str
) -> None:
    with window(browser, desk, cookie) as seen:
        for address in addresses:
            answer = seen.page.goto(address)
            assert answer is not None
            assert answer.status == 200, address
            assert (
                seen.page.locator("main script, main iframe, main object, main [onerror], main style").count() == 0
            ), address
            seen.assert_quiet()


@pytest.mark.parametrize(
    "where", ["/search?q={}", "/runs?tool={}&q={}", "/tools?q={}", "/audit?tool={}", "/sign-in?next=/{}"]
)
def test_texts_in_an_address_do_nothing(browser: Browser, desk: Desk, cookie: str, where: str) -> None:
    signed_in = None if where.startswith("/sign-in") else cookie
    with window(browser, desk, signed_in) as seen:
        for vector in VECTORS[::3]:
            seen.page.goto(where.replace("{}", quote(vector, safe="")))
            assert seen.page.locator("main script, main iframe, main [onerror]").count() == 0, vector
        seen.assert_quiet()


def test_output_that_comes_while_one_watches_does_nothing(browser: Browser, desk: Desk, cookie: str) -> None:
    """The live tail appends text, never markup."""
    said = shlex.quote("\n".join(VECTORS))
    started = desk.client("exec").post(
        "/api/v1/exec",
        json={"tool": "shell-exec", "params": {"cmd": f"sleep 1; printf %s {said}; sleep 2"}, "wait": False},
    )
    with window(browser, desk, cookie) as seen:
        seen.page.goto(f"/runs/{started.json()['run']['id']}")
        seen.page.locator("#stdout", has_text="evil.example").wait_for()

        assert "\x1b" not in (seen.page.locator("#stdout").text_content() or "")
        assert seen.page.locator("#stdout *").count() == 0
        seen.assert_quiet()

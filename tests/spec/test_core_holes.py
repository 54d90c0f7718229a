"""What a review of the execution core found, each held by a test: streams, full queues, large questions."""

import time

import httpx
import pytest

from tests.harness.calls import Background, Gates
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

ASKS = {
    "method": "exec",
    "without": ("command",),
    "params_schema": {"cmd": {"type": "string", "required": True}},
    "constraints": {"require_confirm": True},
}


def _service(parts: Parts, **settings: object) -> BitongService:
    repo = parts.repo()
    repo.write_tool("asks", **ASKS)
    repo.write_tool("runs", **{**ASKS, "constraints": {}})
    repo.commit()
    repo.push()
    return parts.service(repo, **settings)


@pytest.mark.parametrize("path", ["/events", "/runs/{id}/events"])
def test_head_of_a_stream_is_its_headers(parts: Parts, path: str) -> None:
    """HEAD asks as GET does and has no body: it may not hold the connection."""
    service = _service(parts)
    run = service.run("runs", {"cmd": "true"})["run"]["id"]

    answer = service.admin.request("HEAD", API + path.format(id=run), timeout=5)

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_an_open_stream_does_not_hold_up_the_end(parts: Parts) -> None:
    """R7: whoever has a page open is no reason to wait out the grace, ten seconds here and ten more."""
    service = _service(parts)
    headers = {"Authorization": f"Bearer {service.token('read')}"}
    with httpx.stream("GET", service.url + f"{API}/events", headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        began = time.monotonic()
        service.stop()
        took = time.monotonic() - began

    assert took < 10
    assert "Traceback" not in service.log_text()


def test_a_full_queue_spends_no_yes(parts: Parts, tmp_path) -> None:
    """429, and the question waits on; the same yes runs it once there is a place."""
    service = _service(parts, max_runs=1, max_runs_per_token=1, max_queue=1)
    token = service.token("exec", "confirm")
    asked = service.exec("asks", {"cmd": "echo yes"}, token=token).json()["confirmation"]["id"]
    gates = Gates(tmp_path)
    gate = gates.new()
    with Background(service) as background:
        background.exec(token, "runs", {"cmd": gate.cmd})
        eventually(lambda: service.items("/runs", state="started"))
        background.exec(token, "runs", {"cmd": "true"})
        eventually(lambda: service.items("/runs", state="queued"))

        full = service.client(token).post(f"{API}/confirmations/{asked}", json={"decision": "approve"})
        waits = service.client(token).get(f"{API}/confirmations/{asked}").json()["state"]
        gate.open()
    gates.close()
    ran = service.client(token).post(f"{API}/confirmations/{asked}", json={"decision": "approve"})

    assert (full.status_code, full.headers["retry-after"], waits) == (429, "2", "waiting")
    assert ran.json()["output"] == "yes\n"


def test_large_questions_cost_nobody_else_anything(parts: Parts) -> None:
    """S15, R19: twenty questions of a megabyte each; lists and previews stay small, one is shown whole."""
    service = _service(parts)
    token = service.token("exec", "confirm")
    cmd = "echo " + "x" * 1_000_000
    for _ in range(20):
        assert service.exec("asks", {"cmd": cmd}, token=token).status_code == 202

    listed = service.client(token).get(f"{API}/confirmations")
    one = service.client(token).get(f"{API}/confirmations/{listed.json()['items'][0]['id']}").json()

    assert len(listed.content) < 500_000
    assert [item["params"] for item in listed.json()["items"]] == [None] * 20
    assert one["params"] == {"cmd": cmd}
    assert len(str(one["preview"])) < 20_000
    assert "(1000005)" in str(one["preview"])


def test_a_refused_run_keeps_nothing_of_what_it_waited_with(parts: Parts) -> None:
    """http-api.md: a digest and the problems, at most 4 KiB; also where its parameters were kept while it waited."""
    service = _service(parts)
    asked = service.exec("asks", {"cmd": "echo kept-only-while-waiting"}).json()
    path = f"{API}/confirmations/{asked['confirmation']['id']}"

    rejected = service.admin.post(path, json={"decision": "reject"})

    assert rejected.json()["state"] == "rejected"
    run = service.get(f"/runs/{asked['run']['id']}")
    assert (run["state"], run["params"]) == ("refused", None)
    assert len(run["params_digest"]) == 64

"""SIGKILL at any moment: nothing acknowledged is lost, nothing is left open, and the log verifies (R8, X13, R7)."""

import contextlib
import hashlib
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo, push_payload, signed_headers
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually


def _open_runs(service: BitongService) -> list[str]:
    return [run["id"] for state in ("started", "queued") for run in service.items("/runs", state=state)]


def _call_in_background(service: BitongService, token: str, cmd: str) -> threading.Thread:
    """A call whose answer nobody will see."""

    def call() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        body = {"tool": "local-exec", "params": {"cmd": cmd}}
        with contextlib.suppress(httpx.TransportError):
            httpx.post(f"{service.url}{API}/exec", json=body, headers=headers, timeout=60, trust_env=False)

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_a_run_that_the_service_did_not_survive_is_interrupted_and_never_tried_again(parts: Parts) -> None:
    """R8, X13: three times on one folder; the record says `crash`, exactly one end follows each start."""
    repo = parts.repo()
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.commit()
    repo.push()
    service = parts.service(repo)
    marks = parts.folder / "marks"
    marks.mkdir()
    token = service.token("exec")
    interrupted = []
    for number in range(3):
        thread = _call_in_background(service, token, f"echo x >> {marks}/{number}; sleep 3")
        run = eventually(lambda: _open_runs(service))[0]
        eventually((marks / str(number)).exists)

        service.kill()
        thread.join()
        service.start()

        eventually(lambda: not _open_runs(service), within_s=5)
        interrupted.append(run)

    items = service.items("/audit")
    for run in interrupted:
        told = service.get(f"/runs/{run}")
        ends = [item for item in items if item["type"] == "run.finished" and item["facts"]["run"] == run]
        assert (told["state"], told["reason"], told["ok"]) == ("interrupted", "crash", False)
        assert [end["facts"]["state"] for end in ends] == ["interrupted"]
    assert [(marks / str(number)).read_text() for number in range(3)] == ["x\n"] * 3


def test_at_sigterm_a_running_tool_is_ended_and_its_record_is_complete(parts: Parts) -> None:
    """R7: intake stops, what does not end within the grace is ended; nothing of it is left for the next start."""
    repo = parts.repo()
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.commit()
    repo.push()
    service = parts.service(repo, shutdown_grace_s=1)
    thread = _call_in_background(service, service.token("exec"), "echo early; sleep 30")
    run = eventually(lambda: _open_runs(service))[0]
    time.sleep(0.3)

    service.stop()
    thread.join()
    service.assert_verifies()
    service.start()

    told = service.get(f"/runs/{run}")
    assert told["state"] in ("cancelled", "interrupted")
    assert told["reason"] == "shutdown"
    assert told["output"] == "early\n"


def test_a_second_service_on_the_same_folder_is_refused(parts: Parts) -> None:
    """One writer: the second says what holds the folder and ends; the first goes on."""
    service = parts.service(parts.repo("only"))
    second = BitongService(parts.folder / "second", **{**service.settings, "port": 0})

    done = second.cli("serve")

    assert done.returncode != 0
    assert "data_dir" in done.stderr or str(service.data_dir) in done.stderr
    assert service.run("only")["ok"] is True


@dataclass
class Load:
    """Calls and pushes from several threads, and what of them was acknowledged before the end came."""

    service: BitongService
    repo: NativeRepo
    token: str
    answers: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)
    started: int = 0
    _ending: threading.Event = field(default_factory=threading.Event)

    def round(self, seconds: float) -> None:
        """Load for `seconds`, then SIGKILL under it."""
        self._ending.clear()
        threads = [threading.Thread(target=work) for work in (self._call, self._call, self._push)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.service.kill()
        self._ending.set()
        for thread in threads:
            thread.join()

    def _call(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.Client(base_url=self.service.url, headers=headers, trust_env=False, timeout=60) as client,
        ):
            while not self._ending.is_set():
                word = f"word-{random.randrange(10**12)}"  # noqa: S311 – a sign to know it by
                answer = client.post(f"{API}/exec", json={"tool": "say", "params": {"word": word}})
                if answer.status_code == 200:
                    assert answer.json()["output"] == word
                    self.answers.append(answer.json())

    def _push(self) -> None:
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.Client(base_url=self.service.url, trust_env=False, timeout=60) as client,
        ):
            while not self._ending.is_set():
                self.started += 1
                self.repo.write_tool(f"pushed-{self.started}")
                self.repo.commit()
                body = push_payload(self.repo, self.repo.push())
                if client.post("/hooks/forgejo", content=body, headers=signed_headers(body)).is_success:
                    self.hooks.append(hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("rounds", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_however_often_the_service_is_killed(parts: Parts, rounds: int) -> None:
    """R8: each 200 is there with its leaf, each accepted delivery with its outcome, each pushed tool registered."""
    repo = parts.repo("first")
    repo.write_tool("say", command=["printf", "%s", "{word}"], params_schema={"word": {"type": "string"}})
    repo.commit()
    repo.push()
    service = parts.service(repo)
    load = Load(service, repo, service.token("exec"))
    _ = service.admin  # its token is made before the first end
    chance = random.Random(20261201)  # noqa: S311 – the same moments each time, as far as a clock allows
    for _ in range(rounds):
        load.round(chance.uniform(0.05, 0.6))
        service.start()
        eventually(lambda: not _open_runs(service), within_s=5)

    service.sync()
    runs = {run["id"]: run for run in service.items("/runs")}
    rows = {row["body_sha256"]: row for row in service.items("/deliveries")}
    assert load.answers
    assert load.hooks
    for told in load.answers:
        run = runs[told["run"]["id"]]
        assert (run["state"], run["receipt"]["index"]) == ("succeeded", told["receipt"]["index"])
        assert service.entry(told["receipt"]["index"])["leaf"] == told["receipt"]["leaf"]
    assert [digest for digest in load.hooks if not rows[digest]["outcome"]] == []
    assert {name for name in service.tools() if name.startswith("pushed-")} == {
        f"pushed-{number}" for number in range(1, load.started + 1)
    }

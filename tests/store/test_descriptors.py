"""No descriptor left: refused in words, the record is kept, and it recovers by itself (R5)."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually
from tests.store.kept import python

FULL = """
import os, sys
from pathlib import Path
import resource
from service.store.database import Database
from service.domain.audit import Fact
from service.errors import Unavailable
database = Database(Path(sys.argv[1]))
with database.read():
    pass  # a reader's connection, kept for the next
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
def job(number):
    def work(transaction):
        transaction.append_all([Fact("run.refused", "a", {"run": f"{number}-{n}", "x": "x" * 4000}) for n in range(100)])
        if number % 3 == 0:
            raise ValueError
    return work
import threading
def ask(number):
    try:
        database.write(job(number))
    except ValueError:
        pass
for group in range(4):
    threads = [threading.Thread(target=ask, args=(group * 8 + n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
with database.read() as first:
    try:
        with database.read() as second:
            print("opened")
    except Unavailable:
        print(database.log.size)
"""


@contextmanager
def no_descriptor_left(service: BitongService) -> Iterator[None]:
    """The running service may open nothing more than it has open now."""
    assert service.process is not None
    pid = service.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    held = {int(file.name) for file in Path(f"/proc/{pid}/fd").iterdir()}
    lowest_free = next(number for number in range(len(held) + 1) if number not in held)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_without_descriptors_calls_are_refused_in_words_and_the_record_stays_whole(parts: Parts) -> None:
    """R5: 503, or a run that says it did not start, recorded; never a 500, never a lost record; then all works again."""
    repo = parts.repo("say")
    service = parts.service(repo)
    token, admin = service.token("exec", "read"), service.admin
    assert service.exec("say", token=token).json()["ok"]  # its connection stays open
    log_before = service.get("/audit")["items"][0]["index"]

    newcomer: list[int] = []

    def come_anew() -> None:
        newcomer.append(httpx.get(f"{service.url}/healthz", trust_env=False, timeout=60).status_code)

    with no_descriptor_left(service):
        answers = [service.exec("say", token=token) for _ in range(6)]
        threading.Thread(target=come_anew).start()
        reads = [admin.get(API + path) for path in ("/runs", "/audit", "/tools") for _ in range(3)]

    for answer in answers:
        told = answer.json()
        if answer.status_code == 200:
            assert (told["ok"], told["run"]["reason"]) == (False, "did-not-start")
            assert told["receipt"]["index"] > log_before
        else:
            assert (answer.status_code, told["ok"]) == (503, False)
    assert {answer.status_code for answer in reads} <= {200, 503}
    assert service.exec("say", token=token).json()["output"] == "say\n"
    assert service.get("/runs")["items"][0]["state"] == "succeeded"
    assert eventually(lambda: newcomer) == [200], "who came meanwhile was only kept waiting"
    service.assert_lives()


def test_the_writer_needs_no_descriptor_beyond_those_it_holds(path: Path) -> None:
    """R5: large groups with failing jobs and a checkpoint between, while nothing can be opened.

    A read that would need a further connection is Unavailable, and the one that is open goes on.
    """
    with python(FULL, str(path)) as process:
        told = process.communicate()[0]

    assert process.returncode == 0
    assert int(told.splitlines()[-1]) == 100 * sum(number % 3 != 0 for number in range(32))

"""The reference gatekeeper over HTTP: who may, at most once, what a command sees, and how it ends (executors.md)."""

import base64
import dataclasses
import hashlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from service.domain.definitions import Definition, Parameter
from service.domain.executors import Call, Cancel
from service.errors import UsageError
from service.execution.executors.gatekeeper import GatekeeperExecutor, Node
from service.gatekeeper import journal as journal_module
from service.gatekeeper.answers import json_bytes
from service.gatekeeper.journal import Journal
from service.gatekeeper.server import GatekeeperConfig, create_app, running, serve

TOKEN = "a-token-of-the-node-0123456789"
needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None
    or subprocess.run(["bwrap", "--bind", "/", "/", "--unshare-pid", "true"], capture_output=True).returncode != 0,
    reason="bubblewrap cannot work on this host",
)


class Gatekeeper:
    """One that runs, and how to speak to it."""

    def __init__(self, url, root):
        self.url = url
        self.root = root
        self.client = httpx.Client(trust_env=False, timeout=30)

    def post(self, method, params=None, *, token=TOKEN, headers=None, **rest):
        headers = {"Authorization": f"Bearer {token}"} | (headers or {})
        body = {"method": method, "params": params or {}, **rest}
        return self.client.post(f"{self.url}/exec", json=body, headers=headers)

    def run(self, cmd, **rest):
        answer = self.post("exec", {"cmd": cmd}, **rest)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def start(tmp_path):
    """Starts one, with a root and a state folder; what it is given changes the rest."""
    with ExitStack() as stack:

        def make(**changes):
            root = tmp_path / "root"
            root.mkdir(exist_ok=True)
            config = GatekeeperConfig(**{"token": TOKEN, "state_dir": tmp_path / "state", "roots": (root,)} | changes)
            gatekeeper = Gatekeeper(stack.enter_context(running(config)), root)
            stack.callback(gatekeeper.client.close)
            return gatekeeper

        yield make


@pytest.fixture
def gatekeeper(start):
    return start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for all the tests that leave nothing behind in it."""
    folder = tmp_path_factory.mktemp("gatekeeper")
    (folder / "root").mkdir()
    config = GatekeeperConfig(token=TOKEN, state_dir=folder / "state", roots=(folder / "root",))
    with running(config) as url:
        gatekeeper = Gatekeeper(url, folder / "root")
        yield gatekeeper
        gatekeeper.client.close()


def output(answer, name="stdout"):
    """The stream's bytes, in whichever form they came."""
    exact = answer.get(f"{name}_b64")
    return base64.b64decode(exact) if exact is not None else answer[name].encode()


# Who may


def test_it_says_that_it_is_there_and_which_version(shared):
    told = shared.client.get(f"{shared.url}/healthz").json()

    assert told["ok"] is True
    assert told["version"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"X-Token": TOKEN},
    ],
)
def test_without_the_token_nothing_is_done(shared, headers):
    """R3: also not with the token in the query."""
    mark = shared.root / "mark"
    call = {"method": "exec", "params": {"cmd": f"touch {mark}"}}

    answer = shared.client.post(f"{shared.url}/exec?token={TOKEN}", json=call, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert not mark.exists()


def test_two_authorization_headers_are_none(shared):
    """R3: which of them counts would be anybody's guess."""
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong")]

    answer = shared.client.post(f"{shared.url}/exec", content=b"{}", headers=headers)

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
        (b'{"params": {}}', 400),
        (b'{"method": "exec", "params": []}', 400),
        (b'{"method": "exec", "params": {"cmd": "true"}, "timeout_ms": "5"}', 400),
        (b'{"method": "exec", "params": {"cmd": "true"}, "timeout_ms": 0}', 400),
        (b'{"method": "exec", "params": {"cmd": "true"}, "run_id": "../x"}', 400),
        (b'{"method": "rm", "params": {}}', 422),
        (b'{"method": "\\ud800", "params": {}}', 422),
        (b'{"method": "exec", "params": {}}', 422),
        (b'{"method": "exec", "params": {"cmd": 5}}', 422),
        (b'{"method": "exec", "params": {"cmd": "a\\u0000b"}}', 422),
        (b'{"method": "exec", "params": {"cmd": "\\ud800"}}', 422),
        (b'{"method": "exec", "params": {"argv": []}}', 422),
        (b'{"method": "exec", "params": {"cmd": "true", "cdw": "/"}}', 422),
        (b'{"method": "exec", "params": {"cmd": "true", "env": {"A": 1}}}', 422),
        (b'{"method": "file.read", "params": {"path": "a", "offset": -1}}', 422),
        (b'{"method": "file.read", "params": {"path": "a", "offset": ' + b"9" * 5000 + b"}}", 400),
        (b'{"method": "file.read", "params": {"path": "a", "limit": 1e30}}', 422),
        (b'{"method": "file.write", "params": {"path": "a", "content": "*", "encoding": "base64"}}', 422),
        (b'{"method": "file.write", "params": {"path": "a", "content": "", "mode": "replace"}}', 422),
        (b'{"method": "http", "params": {"url": "http://u:p@example.com/"}}', 422),
        (b'{"method": "http", "params": {"url": "http://example.com/", "headers": {"A": "b\\r\\nC: d"}}}', 200),
    ],
)
def test_what_is_no_call_is_refused_with_a_sentence(shared, body, status):
    """M2, X36: nothing is begun."""
    answer = shared.client.post(f"{shared.url}/exec", content=body, headers={"Authorization": f"Bearer {TOKEN}"})

    assert answer.status_code == status
    assert answer.json()["ok"] is False


def test_a_method_that_is_not_offered_is_refused(start):
    gatekeeper = start(methods=frozenset({"file.read"}))

    answer = gatekeeper.post("exec", {"cmd": "true"})

    assert (answer.status_code, answer.json()["code"]) == (422, "not-allowed")


def test_a_body_over_the_cap_or_the_deadline_is_refused(start):
    """facts/platform.md: uvicorn has neither."""
    gatekeeper = start(max_body_bytes=1000, body_deadline_s=0.3)

    large = gatekeeper.post("exec", {"cmd": "x" * 2000})
    port = int(gatekeeper.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(f"POST /exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode())
        slow.sendall(b"Content-Length: 100\r\n\r\n{")
        slow.settimeout(5)
        late = slow.recv(65536)

    assert large.status_code == 413
    assert late.startswith(b"HTTP/1.1 400 ")


def test_it_does_not_listen_beyond_loopback_by_itself(tmp_path):
    """Tokens would cross the network in clear."""
    config = GatekeeperConfig(token=TOKEN, state_dir=tmp_path / "state")

    with pytest.raises(UsageError, match="loopback"):
        serve(config, "0.0.0.0", 0)  # noqa: S104  refused
    with pytest.raises(UsageError, match="token"):
        create_app(GatekeeperConfig(token="", state_dir=tmp_path / "state"))


# What a command gives


def test_a_command_gives_both_streams_and_its_exit_code(shared):
    """Totals and hashes cover everything."""
    told = shared.run("echo out; echo err >&2; exit 3")

    assert (told["ok"], told["exit_code"], told["stdout"], told["stderr"]) == (False, 3, "out\n", "err\n")
    assert (told["stdout_bytes"], told["stdout_sha256"]) == (4, hashlib.sha256(b"out\n").hexdigest())


def test_a_vector_is_not_read_by_a_shell(shared):
    """`argv` goes before `cmd`."""
    told = shared.post("exec", {"argv": ["printf", "%s", "$HOME;"], "cmd": "exit 9", "stdin": "x"}).json()

    assert (told["exit_code"], told["stdout"]) == (0, "$HOME;")


def test_directory_environment_and_input_are_given(shared):
    told = shared.post("exec", {"cmd": "pwd; echo $A; cat", "cwd": "/usr", "env": {"A": "乙"}, "stdin": "in"})

    assert told.json()["stdout"] == "/usr\n乙\nin"


def test_a_relative_directory_is_one_beneath_the_first_root(shared):
    """As the paths of `file.*` are."""
    (shared.root / "within").mkdir()

    told = shared.post("exec", {"cmd": "pwd", "cwd": "within"}).json()

    assert told["stdout"] == f"{shared.root}/within\n"


def test_the_gatekeepers_own_environment_is_not_the_commands(start, monkeypatch):
    """Small and its own: PATH, HOME, LANG."""
    monkeypatch.setenv("SECRET_OF_OURS", "s3cret")

    told = start().run("env")

    assert {line.partition("=")[0] for line in told["stdout"].splitlines()} <= {"PATH", "HOME", "LANG", "PWD"}


def test_output_that_is_no_text_comes_exactly(shared):
    """U3: invalid UTF-8, GBK, NUL; much NUL would be six bytes each as JSON."""
    told = shared.run(r"printf '\377\000\326\320'; head -c 100000 /dev/zero >&2", max_output_bytes=200_000)

    assert output(told) == b"\xff\x00\xd6\xd0"
    assert output(told, "stderr") == b"\0" * 100_000


def test_a_lot_of_output_on_both_streams_is_counted(shared):
    """U1, U2: the first bytes, true totals, no deadlock."""
    told = shared.run("head -c 5000000 /dev/zero | tee /dev/stderr", max_output_bytes=1000)

    assert (told["stdout_bytes"], told["stderr_bytes"], told["truncated"]) == (5_000_000, 5_000_000, True)
    assert told["stdout_sha256"] == hashlib.sha256(b"\0" * 5_000_000).hexdigest()
    assert len(output(told)) == 1000


def test_a_command_over_its_limit_is_ended_with_what_it_said(gatekeeper, tmp_path):
    """X1, X2: the whole group goes; partial output stands."""
    alive = tmp_path / "alive"
    started = time.monotonic()

    told = gatekeeper.run(f"echo part; (sleep 1; touch {alive}) & sleep 30", timeout_ms=300)

    assert time.monotonic() - started < 2
    assert (told["ok"], told["reason"], told["stdout"]) == (False, "deadline", "part\n")
    time.sleep(1.1)
    assert not alive.exists()


@pytest.mark.parametrize("argv", [["/nowhere/x"], ["no-such-command"], ["/etc/passwd"]])
def test_what_cannot_start_says_so(shared, argv):
    """X4: errno in words."""
    told = shared.post("exec", {"argv": argv}).json()

    assert (told["ok"], told["reason"]) == (False, "did-not-start")
    assert told["why"] in ("No such file or directory", "Permission denied")


def test_a_signals_name_is_given(shared):
    told = shared.run("kill -SEGV $$")

    assert (told["reason"], told["signal"], told["exit_code"]) == ("signal", "SIGSEGV", None)


def test_files_are_written_read_and_listed(gatekeeper):
    """`content` may hold a NUL: it is data."""
    path = str(gatekeeper.root / "a")

    assert gatekeeper.post("file.write", {"path": path, "content": "你\0好"}).json()["ok"] is True
    assert gatekeeper.post("file.read", {"path": path}).json()["stdout"] == "你\0好"
    assert json.loads(gatekeeper.post("file.list", {"path": str(gatekeeper.root)}).json()["stdout"])["name"] == "a"
    refused = gatekeeper.post("file.read", {"path": "/etc/passwd"}).json()
    assert (refused["ok"], refused["stdout"]) == (False, "")
    assert "/etc/passwd" in refused["stderr"]


def test_without_a_root_no_file_is_reached(start):
    refused = start(roots=()).post("file.read", {"path": "/etc/passwd"}).json()

    assert refused["ok"] is False
    assert "--root" in refused["stderr"]


def test_output_is_streamed_when_asked_for(shared):
    """Server-sent events, the answer last; a refusal keeps its status."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/event-stream"}
    call = {"method": "exec", "params": {"cmd": "echo one; sleep 0.3; echo two"}}
    times = {}

    with shared.client.stream("POST", f"{shared.url}/exec", json=call, headers=headers) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                times[line] = time.monotonic()

    said = [json.loads(line[6:]) for line in times]
    assert [base64.b64decode(event["b64"]) for event in said[:-1]] == [b"one\n", b"two\n"]
    assert said[-1]["stdout"] == "one\ntwo\n"
    assert list(times.values())[1] - next(iter(times.values())) > 0.2
    assert shared.post("exec", {"cmd": 5}, headers={"Accept": "text/event-stream"}).status_code == 422


# At most once


def test_a_run_id_runs_once(gatekeeper):
    """A second request gets the ending of the first."""
    count = gatekeeper.root / "count"

    first = gatekeeper.run(f"echo x >> {count}; echo done", run_id="r-1")
    again = gatekeeper.run(f"echo x >> {count}; echo done", run_id="r-1")
    other = gatekeeper.post("exec", {"cmd": "echo other"}, run_id="r-1")

    assert count.read_text() == "x\n"
    assert (again["stdout"], again["repeated"]) == ("done\n", True)
    assert again == first | {"repeated": True}
    assert (other.status_code, other.json()["code"]) == (409, "other")


def test_ten_requests_at_once_with_one_run_id_run_once(gatekeeper):
    """One runs; the others hear that it does, or how it ended."""
    count = gatekeeper.root / "count"
    statuses = []

    def ask():
        answer = gatekeeper.post("exec", {"cmd": f"echo x >> {count}; sleep 0.3"}, run_id="r-1")
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert count.read_text() == "x\n"
    assert set(statuses) <= {200, 409}
    assert 200 in statuses


@pytest.mark.parametrize("method", ["file.write", "http"])
def test_other_methods_with_effects_run_once_too(start, far_side, answering, method):
    side = far_side(answering(b"ok"))
    gatekeeper = start(allow_urls=(f"{side.url}/*",))
    params = {
        "file.write": {"path": "log", "content": "x", "mode": "append"},
        "http": {"method": "POST", "url": f"{side.url}/", "body": "x"},
    }[method]

    first = gatekeeper.post(method, params, run_id="r-1").json()
    again = gatekeeper.post(method, params, run_id="r-1").json()

    assert first["ok"] is True
    assert again["stdout"] == first["stdout"]
    if method == "http":
        assert side.connections == 1
    else:
        assert (gatekeeper.root / "log").read_text() == "x"


def own_process(tmp_path, *, env=None):
    """A gatekeeper in a process of its own; its URL."""
    (tmp_path / "root").mkdir(exist_ok=True)
    code = (
        "import sys; from pathlib import Path; from service.gatekeeper.server import GatekeeperConfig, serve\n"
        "folder = Path(sys.argv[1])\n"
        f"config = GatekeeperConfig(token={TOKEN!r}, state_dir=folder / 'state', roots=(folder / 'root',),"
        " shutdown_grace_s=0.2)\n"
        "serve(config, port=0, on_ready=lambda url: print(url, flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **(env or {})},
    )
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_id_runs_once_across_restarts(tmp_path, ending):
    """Killed while one run goes on: that one is never begun again, the one that ended keeps its ending."""
    process, url = own_process(tmp_path)
    first = Gatekeeper(url, tmp_path / "root")
    first.run("echo done", run_id="r-done")
    count = tmp_path / "root/count"

    def ask():
        with pytest.raises(httpx.TransportError) if ending == signal.SIGKILL else ExitStack():
            first.run(f"echo x >> {count}; exec sleep 20", run_id="r-cut")

    asking = threading.Thread(target=ask)
    asking.start()
    while not count.exists():
        time.sleep(0.01)
    process.send_signal(ending)
    process.wait(20)
    asking.join()
    process.stdout.close()

    process, url = own_process(tmp_path)
    second = Gatekeeper(url, tmp_path / "root")
    cut = second.post("exec", {"cmd": f"echo x >> {count}; exec sleep 20"}, run_id="r-cut")
    done = second.run("echo done", run_id="r-done")
    process.terminate()
    process.wait(20)
    process.stdout.close()
    for gatekeeper in (first, second):
        gatekeeper.client.close()

    assert count.read_text() == "x\n"
    assert done["stdout"] == "done\n"
    if ending == signal.SIGKILL:
        assert (cut.status_code, cut.json()["code"]) == (409, "interrupted")
    else:
        assert cut.json()["reason"] == "shutdown"


def test_a_cancel_ends_what_runs_and_says_so(gatekeeper):
    """X2: `ok` only when it is over; the ending has the output so far."""
    answers = []
    asking = threading.Thread(target=lambda: answers.append(gatekeeper.run("echo part; sleep 20", run_id="r-1")))
    asking.start()
    while gatekeeper.post("status", {"run_id": "r-1"}).json()["state"] != "running":
        time.sleep(0.01)
    time.sleep(0.2)

    told = gatekeeper.post("cancel", {"run_id": "r-1"}).json()
    asking.join()

    assert (told["ok"], told["state"], told["ending"]["stdout"]) == (True, "ended", "part\n")
    assert answers[0]["reason"] == "cancelled"


def test_a_cancel_after_the_end_says_how_it_ended(gatekeeper):
    gatekeeper.run("echo done", run_id="r-1")

    told = gatekeeper.post("cancel", {"run_id": "r-1"}).json()

    assert (told["ok"], told["state"], told["ending"]["stdout"]) == (False, "ended", "done\n")


def test_a_cancel_that_comes_first_keeps_the_run_from_beginning(gatekeeper):
    """Two connections have no order: the request may still be on its way when the cancel arrives."""
    mark = gatekeeper.root / "mark"

    cancelled = gatekeeper.post("cancel", {"run_id": "r-1"}).json()
    late = gatekeeper.run(f"touch {mark}", run_id="r-1")

    assert cancelled["ok"] is True
    assert (late["ok"], late["reason"]) == (False, "cancelled")
    assert not mark.exists()


def test_cancel_and_status_work_while_every_place_is_taken(start):
    """And one more run is told to come back."""
    gatekeeper = start(max_calls=1)
    asking = threading.Thread(target=lambda: gatekeeper.run("sleep 20", run_id="r-1"))
    asking.start()
    while gatekeeper.post("status", {"run_id": "r-1"}).json()["state"] != "running":
        time.sleep(0.01)

    busy = gatekeeper.post("exec", {"cmd": "true"})
    told = gatekeeper.post("cancel", {"run_id": "r-1"}).json()
    asking.join()

    assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
    assert told["ok"] is True


def test_two_gatekeepers_do_not_share_a_journal(gatekeeper, tmp_path):
    """Each would run what the other has run."""
    with pytest.raises(UsageError, match="in use"):
        create_app(GatekeeperConfig(token=TOKEN, state_dir=tmp_path / "state"))


def test_a_journal_survives_a_torn_line_and_forgets_what_is_old(tmp_path):
    """A crash in the middle of a write; a week later the runs are gone, not before."""
    now = [1000.0]
    journal = Journal(tmp_path, lambda: now[0])
    journal.claim("old", "d", durable=True)
    journal.end("old", {"ok": True, "stdout": "kept"})
    journal.claim("cut", "d", durable=True)
    journal.close()
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'{"run_id": "torn", "dig')

    journal = Journal(tmp_path, lambda: now[0])
    assert journal.claim("old", "d", durable=True) == ("ended", {"ok": True, "stdout": "kept"})
    assert journal.claim("cut", "d", durable=True) == ("interrupted", None)
    assert journal.claim("torn", "d", durable=True) == ("new", None)
    journal.end("torn", {"ok": True, "stdout": "x" * 1_000_000})
    journal.close()
    now[0] += 6 * 24 * 3600
    Journal(tmp_path, lambda: now[0]).close()
    now[0] += 2 * 24 * 3600
    journal = Journal(tmp_path, lambda: now[0])

    assert journal.look("old") == ("unknown", None)
    assert (tmp_path / "runs.jsonl").stat().st_mode & 0o077 == 0
    journal.close()


def test_an_ending_too_large_to_keep_keeps_its_totals(tmp_path):
    journal = Journal(tmp_path)
    journal.claim("r", "d", durable=False)
    journal.end("r", {"ok": True, "exit_code": 0, "stdout": "x" * 1_000_000, "stdout_bytes": 1_000_000})

    state, ending = journal.claim("r", "d", durable=False)

    assert (state, ending["stdout"], ending["stdout_bytes"], ending["truncated"]) == ("ended", "", 1_000_000, True)
    journal.close()


def test_many_large_endings_do_not_make_each_run_write_the_file_anew(tmp_path, monkeypatch):
    """A run's end must not cost more the longer the gatekeeper stands: seconds, under the lock that a cancel needs."""
    monkeypatch.setattr(journal_module, "FILE_BYTES", 1_000_000)
    journal = Journal(tmp_path)
    files = []
    for number in range(200):
        journal.claim(f"r{number}", "d", durable=False)
        journal.end(f"r{number}", {"ok": True, "stdout": "x" * 100_000})
        files.append((tmp_path / "runs.jsonl").stat().st_ino)

    written_anew = sum(one != other for one, other in itertools.pairwise(files))
    assert 5 < written_anew < 50
    assert journal.look("r199") == ("ended", {"ok": True, "stdout": "x" * 100_000})
    assert journal.look("r0") == ("ended", None)
    journal.close()


def test_the_journal_holds_nothing_that_a_secret_could_be_guessed_by(gatekeeper, tmp_path):
    """S14: what tells two calls apart is keyed."""
    params = {"cmd": "true", "env": {"PIN": "1234"}}
    gatekeeper.post("exec", params, run_id="r-1")

    lines = Path(tmp_path, "state/runs.jsonl").read_text().splitlines()
    (record,) = (json.loads(line) for line in lines if '"digest"' in line)
    plain = json_bytes(["exec", sorted(params.items())])
    assert record["digest"] not in {hashlib.sha256(plain).hexdigest(), ""}
    assert gatekeeper.post("exec", params, run_id="r-1").json()["repeated"] is True
    assert gatekeeper.post("exec", params | {"env": {"PIN": "1235"}}, run_id="r-1").status_code == 409


# What a command cannot see


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """One that guards a data folder and its own token file, with all the rest as its root; a process beside it."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "data").mkdir()
    (folder / "data/bitong.db").write_text("s3cret")
    (folder / "token").write_text("s3cret")
    (folder / "denied.txt").write_text("s3cret")
    config = GatekeeperConfig(
        token=TOKEN,
        state_dir=folder / "state",
        roots=(folder,),
        deny=(folder / "data", folder / "denied.txt"),
        token_file=folder / "token",
    )
    beside = subprocess.Popen(["sleep", "300"], env={"OURS": "s3cret"})
    with running(config) as url:
        gatekeeper = Gatekeeper(url, folder)
        gatekeeper.run("true", run_id="r-0")
        yield gatekeeper
        gatekeeper.client.close()
    beside.kill()
    beside.wait()


@needs_bwrap
@pytest.mark.parametrize(
    "cmd",
    [
        "cat {data}/bitong.db",
        "ls -la {data}",
        "cat {token}",
        "cat {state}/runs.jsonl",
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
        "cat /proc/*/root{data}/bitong.db",
        "umount {data}; umount -l {data}; cat {data}/bitong.db",
        "umount {token}; cat {token}",
        "cat {denied}",
        "umount {denied}; cat {denied}",
        "unshare -Urm sh -c 'umount {data}; umount {token}; cat {data}/bitong.db {token}'",
        "mkdir -p {tmp}/m; unshare -Urm sh -c 'mount --bind {tmp} {tmp}/m; cat {tmp}/m/data/bitong.db'",
        "nsenter -t 1 -m cat {data}/bitong.db",
        "cat /run/*/*; cat {state}/*",
    ],
)
def test_a_command_sees_nothing_that_is_denied(guarded, cmd):
    """X35: our database, keys, token file and the environment of what started it."""
    tmp = guarded.root
    names = {
        "data": tmp / "data",
        "token": tmp / "token",
        "state": tmp / "state",
        "tmp": tmp,
        "denied": tmp / "denied.txt",
    }

    told = guarded.run("echo begun; " + cmd.format(**names))

    assert told["stdout"].startswith("begun\n")
    assert b"s3cret" not in output(told) + output(told, "stderr")
    assert b"bitong.db\n" not in output(told)
    assert b"run_id" not in output(told)


@needs_bwrap
def test_a_guarded_command_works_with_all_the_rest(guarded):
    """A mask, not a jail: it writes, it has its environment and directory, and nothing of the gatekeeper's."""
    params = {"cmd": "echo x > made; pwd; echo $A; cat; ls /proc/self/fd | wc -l; exit 7", "cwd": str(guarded.root)}

    told = guarded.post("exec", params | {"env": {"A": "乙", "LD_PRELOAD": ""}, "stdin": "in\n"}).json()

    assert (told["exit_code"], told["stdout"]) == (7, f"{guarded.root}\n乙\nin\n4\n")
    assert (guarded.root / "made").read_text() == "x\n"


@needs_bwrap
def test_a_state_folder_inside_a_denied_one_is_hidden_with_it(start, tmp_path):
    """The demo's layout: one folder is denied whole, and what the gatekeeper itself keeps is in it."""
    data = tmp_path / "data"
    data.mkdir()
    gatekeeper = start(deny=(data,), state_dir=data / "gatekeeper")

    told = gatekeeper.post("exec", {"cmd": f"ls -A {data} | wc -l"}).json()

    assert (told["ok"], told["stdout"]) == (True, "0\n")


@needs_bwrap
def test_nothing_survives_a_guarded_command(guarded, tmp_path):
    """X2: own session, double fork: the PID namespace ends with it."""
    alive = tmp_path / "alive"

    told = guarded.run(f"(setsid sh -c 'sleep 1; touch {alive}' &) ; sleep 30", timeout_ms=300)

    assert told["reason"] == "deadline"
    time.sleep(1.1)
    assert not alive.exists()


@needs_bwrap
@pytest.mark.parametrize("argv", [["/nowhere/x"], ["no-such-command"]])
def test_a_guarded_command_that_cannot_start_says_so(guarded, argv):
    """X4."""
    told = guarded.post("exec", {"argv": argv}).json()

    assert (told["ok"], told["reason"]) == (False, "did-not-start")


@needs_bwrap
@pytest.mark.parametrize("within", ["", "unshare -Urm "])
def test_what_is_denied_stays_so_when_folders_above_it_are_renamed(start, tmp_path, within):
    """X35: masks stand at paths, so that no folder on the way to one can be moved by a command."""
    inner = tmp_path / "outer/inner"
    (inner / "data").mkdir(parents=True)
    (inner / "data/bitong.db").write_text("s3cret")
    (inner / "token").write_text("s3cret")
    gatekeeper = start(roots=(tmp_path,), deny=(inner / "data",), token_file=inner / "token")

    rename = f"{within}{sys.executable} -c 'import os, sys; os.rename(*sys.argv[1:])'"

    for folder, moved in ((inner, inner.with_name("moved")), (inner.parent, tmp_path / "moved")):
        told = gatekeeper.run(f"{rename} {folder} {moved}")
        assert told["exit_code"] == 1
        assert not moved.exists()
    told = gatekeeper.run(f"grep -r s3cret {tmp_path}/outer; echo x > {inner}/new; mv {inner}/new {inner}/newer")

    assert output(told) == b""
    assert (inner / "newer").exists()  # beside what is denied all goes on as before


@needs_bwrap
@pytest.mark.parametrize("content", [b"#!/nowhere/sh\n", b"echo no program\n", b"\x7fELF"])
def test_what_is_no_program_is_not_started_by_other_means(guarded, tmp_path, content):
    """X4: an interpreter that is not there; text that bubblewrap would give to a shell."""
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)

    told = guarded.post("exec", {"argv": [str(program)]}).json()

    assert (told["ok"], told["reason"], told["exit_code"]) == (False, "did-not-start", None)
    assert told["why"]
    assert output(told) + output(told, "stderr") == b""


@needs_bwrap
def test_a_guarded_commands_death_by_a_signal_is_not_an_exit_code(guarded):
    """X5; an exit code that looks like one is one."""
    died, left = guarded.run("kill -SEGV $$"), guarded.run("exit 139")

    assert (died["exit_code"], died["reason"], died["signal"]) == (None, "signal", "SIGSEGV")
    assert (left["exit_code"], left.get("signal")) == (139, None)


@needs_bwrap
def test_many_variables_reach_a_guarded_command(guarded):
    told = guarded.post("exec", {"cmd": "env | grep -c ^A", "env": {f"A{n}": "1" for n in range(4000)}}).json()

    assert (told["ok"], told["stdout"]) == (True, "4000\n")


@needs_bwrap
@pytest.mark.parametrize("within", ["", "unshare -Ur ", "unshare -Urm ", "unshare -Urmpf "])
def test_a_guarded_command_changes_no_setting_of_the_kernel(guarded, within):
    """X35: what is written to core_pattern runs on the host, past all masks; root owns it even without capabilities.

    Opened for appending and nothing written, so that masks that fail here harm nobody.
    """
    script = (
        "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger /sys/kernel/uevent_helper;"
        " do (: >>$f) 2>&1 && echo opened $f; done; mount -o remount,rw /proc; mount -t proc proc /proc;"
        " (: >>/proc/sys/kernel/core_pattern) && echo opened after all; true"
    )

    told = guarded.post("exec", {"cmd": f'{within}sh -c "$SCRIPT"', "env": {"SCRIPT": script}}).json()

    assert b"opened" not in output(told)


@pytest.mark.parametrize("path", ["data/bitong.db", "denied.txt", "token", "state/runs.jsonl", "/proc/self/environ"])
def test_no_file_method_reaches_what_is_denied(guarded, path):
    """X35: read, written, listed."""
    for method, params in (
        ("file.read", {"path": path}),
        ("file.write", {"path": path, "content": "x", "mode": "overwrite"}),
        ("file.write", {"path": path, "content": "x", "mode": "append"}),
        ("file.list", {"path": str(Path(path).parent) if "/" in path else path}),
    ):
        told = guarded.post(method, params).json()
        assert told["ok"] is False
        assert "s3cret" not in json.dumps(told)
    assert (guarded.root / "data/bitong.db").read_text() == "s3cret"


def test_what_is_denied_must_be_there(tmp_path):
    """A name mistyped would hide nothing, and nobody would know."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    command = ["gatekeeper", "--port", "0", "--token-file", str(token), "--deny", str(tmp_path / "dta")]

    done = subprocess.run(
        [sys.executable, "-m", "service", *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 2
    assert "--deny" in done.stderr
    assert "没有" in done.stderr


def test_where_nothing_can_be_hidden_commands_are_refused(start, tmp_path, monkeypatch):
    """Never a fall-back that nobody asked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    mark = tmp_path / "mark"

    told = start(deny=(tmp_path / "data",)).run(f"touch {mark}")

    assert told["ok"] is False
    assert "bubblewrap" in told["stderr"]
    assert not mark.exists()


# With the executor


def call(cmd, *, timeout_ms=5000, cancel=None, on_output=None):
    definition = Definition(
        name="shell-exec",
        display="Shell命令执行",
        intent="执行一条shell命令",
        method="exec",
        executor="gatekeeper",
        author="ICE-GL-ZY001",
        created="2026-05-31",
        why="基础工具",
        params_schema={"cmd": Parameter("string", required=True)},
    )
    return Call("run-1", definition, {"cmd": cmd}, timeout_ms, 65536, "token:1", cancel or Cancel(), tuple, on_output)


def test_executor_and_gatekeeper_understand_each_other(shared):
    """The seed's §4, by way of a gatekeeper: hello comes back, with totals of what was produced."""
    runs = GatekeeperExecutor({"BS-SG-001": Node(shared.url, TOKEN)}, "BS-SG-001")

    outcome = runs.run(call("echo hello; echo 乙 >&2"))

    assert (outcome.state, outcome.exit_code, outcome.totals) == ("succeeded", 0, "produced")
    assert (outcome.stdout.kept, outcome.stderr.kept) == (b"hello\n", "乙\n".encode())


def test_a_limit_and_a_cancel_reach_through_with_the_output_so_far(gatekeeper):
    """X1: `timed_out` from the gatekeeper itself; `cancelled` once it confirms."""
    runs = GatekeeperExecutor({"BS-SG-001": Node(gatekeeper.url, TOKEN, stream=True)}, "BS-SG-001")
    cancel = Cancel()

    late = runs.run(call("echo part; sleep 20", timeout_ms=300))
    heard = []

    def on_output(name, data):
        heard.append((name, data))
        cancel.ask()

    ended = runs.run(
        dataclasses.replace(call("echo part; sleep 20", cancel=cancel, on_output=on_output), run_id="run-2")
    )

    assert (late.state, late.reason, late.stdout.kept) == ("timed_out", "deadline", b"part\n")
    assert (ended.state, ended.reason, ended.stdout.kept) == ("cancelled", "cancelled", b"part\n")
    assert heard == [("stdout", b"part\n")]


@pytest.mark.skipif(os.getuid() == 0, reason="root reads every process")
def test_without_masks_a_command_still_does_not_read_the_gatekeepers_memory(shared):
    """X35: a process of the same user reads `/proc/$PPID/environ` unless the kernel was told otherwise."""
    told = shared.run("cat /proc/$PPID/environ")

    assert (told["ok"], told["stdout"]) == (False, "")

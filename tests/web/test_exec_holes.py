"""Holes found from outside in execution, access and the record: each test is one that an answer or a file fell through."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pysqlite3.dbapi2 as sqlite
import pytest

from tests.git_http import GitHttpServer
from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, environment, eventually

SIX = ["ok", "tool", "method", "output", "error", "duration_ms"]
WORD = {"word": {"type": "string", "required": True}}


@pytest.fixture(scope="module")
def git_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHttpServer]:
    """One git server for all repositories."""
    with GitHttpServer(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture
def parts(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[Parts]:
    """Parts for one test alone; at its end nothing is left over and the log verifies."""
    parts = Parts(tmp_path_factory.mktemp("own"), git_server)
    yield parts
    git_server.faults.hang = False
    parts.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[BitongService]:
    """One service for the tests that only ask."""
    parts = Parts(tmp_path_factory.mktemp("shared"), git_server)
    yield parts.service(_repo(parts))
    parts.close()


def _repo(parts: Parts) -> NativeRepo:
    repo = parts.repo()
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool("say", command=["printf", "%s", "{word}"], params_schema=WORD)
    repo.write_tool("versioned")
    repo.commit()
    repo.push()
    return repo


def _issue(service: BitongService, name: str, *scopes: str, **more: Any) -> dict[str, Any]:
    answer = service.admin.post(f"{API}/tokens", json={"name": name, "scopes": list(scopes), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


def _sees(service: BitongService, token: str) -> int:
    return service.client(token).get(f"{API}/tools", params={"limit": 1}).status_code


def _raw(service: BitongService, request: bytes, *, wait_s: float = 5.0) -> bytes:
    """What comes back for these bytes, until the first answer is there or the connection ends."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=wait_s) as connection:
        connection.sendall(request)
        return connection.recv(65536)


@contextlib.contextmanager
def _locked(service: BitongService) -> Iterator[None]:
    """Another process holds the database's write lock."""
    connection = sqlite.connect(str(service.data_dir / "bitong.db"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


# The record


class _Node:
    """A gatekeeper that answers every call with these bytes."""

    def __init__(self, answer: bytes) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def test_a_gatekeepers_count_that_no_column_holds_still_ends_the_run(parts: Parts) -> None:
    """audit.md, Leaves: a far side's strangest answer becomes an entry, numbers that do not fit as text."""
    nothing = hashlib.sha256(b"").hexdigest()
    said = {"ok": True, "stdout": "x", "stdout_bytes": 9_999_999_999_999_999_999, "stdout_sha256": "ab" * 32}
    node = _Node(json.dumps({**said, "stderr": "", "stderr_bytes": 0, "stderr_sha256": nothing}).encode())
    repo = parts.repo()
    repo.write_tool("far", text=shell_exec_text("far", executor="gatekeeper", node="N"))
    repo.commit()
    repo.push()
    service = parts.service(repo, gatekeepers={"N": {"url": node.url, "token": "t"}})

    answer = service.exec("far", {"cmd": "true"})

    assert answer.status_code == 200, answer.text
    assert service.items("/runs", state="started") == []


# Tokens


def test_a_revocation_that_could_not_be_recorded_can_be_repeated_and_lasts(parts: Parts) -> None:
    """Revoking acts, and lasts: a refused one (503) must not look done, be 404 the second time, and undo itself."""
    service = parts.service(_repo(parts))
    victim = _issue(service, "victim", "read")
    with _locked(service):
        first = service.admin.delete(f"{API}/tokens/victim")

    second = service.admin.delete(f"{API}/tokens/victim")
    service.stop()
    service.start()

    assert first.status_code == 503
    assert second.status_code == 200
    assert _sees(service, victim["token"]) == 401


def test_revoking_by_name_ends_the_token_that_lives(shared: BitongService) -> None:
    """Names may be used again once their token expired; the one revoked by it is the live one."""
    soon = time.time() + 1.2
    _issue(shared, "ci", "read", expires_at=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(soon)) + "Z")
    time.sleep(1.5)
    live = _issue(shared, "ci", "read")

    assert shared.admin.delete(f"{API}/tokens/ci").status_code == 200

    assert _sees(shared, live["token"]) == 401


def test_a_pattern_means_the_same_in_every_list(shared: BitongService) -> None:
    """R13: `[^s]*` is fnmatch's "^ or s"; for SQLite's GLOB it is "all but s", which shows what must not be there.

    Refusing such a pattern is as good.
    """
    shared.run("local-exec", {"cmd": "true"})
    call = {"name": "caret", "scopes": ["read", "exec"], "tools": ["[^s]*"]}
    issued = shared.admin.post(f"{API}/tokens", json=call)
    if issued.status_code == 422:
        return
    client = shared.client(issued.json()["token"])

    seen = {tool["name"] for tool in client.get(f"{API}/tools").json()["items"]}
    entries = client.get(f"{API}/audit", params={"limit": 1000}).json()["items"]
    runs = client.get(f"{API}/runs").json()["items"]

    assert seen == {"say"}
    assert {entry["facts"]["tool"] for entry in entries if "tool" in entry["facts"]} <= seen
    assert {run["tool"] for run in runs} <= seen


def test_a_pattern_that_is_no_text_is_refused(parts: Parts) -> None:
    """U5: a lone surrogate is `?` in the leaf and itself in the row, so the log verifies no more (the fixture looks)."""
    service = parts.service()

    answer = service.admin.post(f"{API}/tokens", content=b'{"name": "odd", "scopes": ["read"], "tools": ["\\ud800"]}')

    assert answer.status_code == 422


def test_a_token_with_many_patterns_is_refused_or_served(shared: BitongService) -> None:
    """What was taken on creation is not a 500 in every list afterwards."""
    patterns = [f"t{number}*" for number in range(2000)]
    answer = shared.admin.post(f"{API}/tokens", json={"name": "many", "scopes": ["read"], "tools": patterns})

    if answer.status_code == 201:
        client = shared.client(answer.json()["token"])
        statuses = [client.get(API + path).status_code for path in ("/runs", "/audit", "/rejections")]
        assert statuses == [200, 200, 200]
    else:
        assert answer.status_code == 422


def test_a_time_before_the_year_1000_sorts_before_today(shared: BitongService) -> None:
    """`900-01-01` sorts after `2026-…`: such a token never ends, and such a `since` hides everything."""
    shared.run("versioned")
    old = _issue(shared, "old", "read", expires_at="0900-01-01T00:00:00Z")

    assert _sees(shared, old["token"]) == 401
    assert shared.get("/runs", since="0900-01-01")["items"]


def test_a_sync_names_only_tools_that_its_asker_sees(parts: Parts) -> None:
    """R13: "everywhere" holds for the answer of `POST /sync?wait=true` too, as it does for deliveries."""
    repo = _repo(parts)
    service = parts.service(repo)
    token = _issue(service, "narrow", "admin", tools=["say*"])["token"]
    repo.write_tool("hidden-one")
    repo.commit()
    repo.push()

    answer = service.client(token).post(f"{API}/sync", params={"wait": "true"})

    assert answer.status_code == 200
    assert "hidden-one" not in answer.text


def test_readyz_names_parts_and_ages_and_counts_nothing(shared: BitongService) -> None:
    """http-api.md: open to everybody, so how many tools there are, hidden ones too, is not said there."""
    told = shared.anonymous.get("/readyz").json()["parts"]["repository"]

    assert not {"tools", "revision"} & set(told)


# What an answer holds


def test_a_call_over_the_limits_still_says_what_was_found(parts: Parts) -> None:
    """429, where nobody may wait: the six fields with the method, and the definition that was found."""
    service = parts.service(_repo(parts), max_runs=1, max_queue=0)
    service.tools()  # the client that both threads use
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(service.run, "local-exec", {"cmd": "sleep 2"})
        eventually(lambda: service.items("/runs", state="started"))
        answer = service.exec("say", {"word": "x"})
        long.result()

    told = answer.json()
    assert (answer.status_code, told["method"]) == (429, "shell:run")
    assert told["found"] is True
    assert told["definition"]["version"] == 1


def test_what_ran_and_could_not_be_recorded_says_which_run_it_was(parts: Parts) -> None:
    """503 after the tool ran: method, definition and the run's id are known, and the caller needs them to look later."""
    service = parts.service(_repo(parts))
    service.tools()  # the client that both threads use
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(service.exec, "local-exec", {"cmd": "sleep 1; echo out"})
        eventually(lambda: service.items("/runs", state="started"))
        with _locked(service):
            answer = call.result()
    run = service.items("/runs")[0]["id"]
    eventually(lambda: not service.items("/runs", state="started"))

    told = answer.json()
    assert (answer.status_code, told["code"], told["output"]) == (503, "cannot-record", "out\n")
    assert told["method"] == "shell:exec"
    assert told["found"] is True
    assert told["run"]["id"] == run


def test_a_call_that_waits_for_nothing_is_never_refused_because_a_definition_changed(parts: Parts) -> None:
    """`definition-changed` is for a call that waited; one that arrives while a look publishes runs one or the other."""
    repo = _repo(parts)
    service = parts.service(repo)
    token, answers, ending = service.token("exec"), [], threading.Event()

    def call() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=service.url, headers=headers, trust_env=False, timeout=30) as client:
            while not ending.is_set():
                answers.append(client.post(f"{API}/exec", json={"tool": "versioned", "params": {}}))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(6):
        repo.write_tool("versioned", command=["echo", str(number)])
        repo.commit()
        service.push(repo)
    ending.set()
    for thread in threads:
        thread.join()

    assert {(answer.status_code, answer.json().get("code")) for answer in answers} == {(200, None)}


def test_a_search_of_any_length_is_answered(shared: BitongService) -> None:
    """SQLite refuses a LIKE pattern over 50,000 bytes; that is the caller's mistake or none, never a 500."""
    answer = shared.admin.get(f"{API}/runs", params={"q": "a" * 60_000})

    assert answer.status_code in (200, 422)


def test_a_page_of_tools_repeats_none_of_the_page_before(parts: Parts) -> None:
    """A cursor that counts positions shows a tool twice, or skips one, when another is registered meanwhile."""
    repo = _repo(parts)
    service = parts.service(repo)
    first = service.get("/tools", limit=2)
    repo.write_tool("aaa")
    repo.commit()
    service.push(repo)

    second = service.get("/tools", limit=2, cursor=first["next"])

    names = [tool["name"] for tool in first["items"] + second["items"]]
    assert len(names) == len(set(names))


def test_a_range_is_read_as_http_says(shared: BitongService) -> None:
    """RFC 9110: units are compared without case, unknown units are ignored, a 416 tells the size there is."""
    path = f"{API}/runs/{shared.run('say', {'word': '0123456789'})['run']['id']}/stdout"

    upper = shared.admin.get(path, headers={"Range": "Bytes=0-1"})
    unknown = shared.admin.get(path, headers={"Range": "items=0-1"})
    beyond = shared.admin.get(path, headers={"Range": "bytes=10-"})

    assert (upper.status_code, upper.content) == (206, b"01")
    assert (unknown.status_code, unknown.content) == (200, b"0123456789")
    assert (beyond.status_code, beyond.headers.get("Content-Range")) == (416, "bytes */10")


@pytest.mark.parametrize("name", [b"\\ud800", b"..", b"a" * 70, "马良".encode(), b"a\\u0000b"])
def test_a_name_that_no_tool_can_have_is_unknown(shared: BitongService, name: bytes) -> None:
    """M4: text that is no Unicode, or no name, is a name that nobody has: 404, and not a fault of ours."""
    answer = shared.admin.post(f"{API}/exec", content=b'{"tool": "' + name + b'"}')

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-tool")


# The edge


@pytest.mark.parametrize(
    "request_line",
    [b"GARBAGE\r\n\r\n", b"GET /healthz HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"],
    ids=["garbage", "version", "target"],
)
def test_what_is_no_http_gets_a_request_id_too(shared: BitongService, request_line: bytes) -> None:
    """http-api.md: every answer carries X-Request-Id, that of the HTTP library too."""
    assert b"x-request-id:" in _raw(shared, request_line).lower()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://evil.example/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:evil\r\n\r\n",
    ],
    ids=["twice", "absolute-form", "port"],
)
def test_a_foreign_host_is_refused_in_whatever_form_it_comes(shared: BitongService, request_bytes: bytes) -> None:
    """P4: a second Host line (RFC 9112 §3.2: 400), the authority of an absolute target, a port that is none."""
    assert _raw(shared, request_bytes).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", ["/healthz", "/hooks/forgejo", f"{API}/exec"])
def test_an_unknown_verb_is_told_which_ones_are_taken(shared: BitongService, path: str) -> None:
    """405 says what is taken; nothing went wrong inside, and nothing is in the log."""
    answer = shared.anonymous.request("PROPFIND", path)

    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert "Allow" in answer.headers


def test_headers_that_come_one_byte_at_a_time_are_cut_off(shared: BitongService) -> None:
    """W7: five seconds for a hook hold for its headers too; nobody who is not known holds a connection for ever."""
    with socket.create_connection(("127.0.0.1", shared.port)) as connection:
        connection.sendall(b"POST /hooks/forgejo HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        connection.settimeout(1)
        end = time.monotonic() + 15
        closed = False
        while not closed and time.monotonic() < end:
            try:
                connection.sendall(b"a")
                closed = connection.recv(4096) == b"" or closed
            except TimeoutError:
                continue
            except OSError:
                closed = True

    assert closed


def test_headers_without_end_are_not_kept(shared: BitongService) -> None:
    """Eight megabytes of headers from nobody: refused on the way, not collected in memory."""
    line = b"X-" + b"a" * 8000 + b": b\r\n"
    with socket.create_connection(("127.0.0.1", shared.port), timeout=5) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        try:
            for _ in range(1000):
                connection.sendall(line)
            connection.sendall(b"\r\n")
            refused = not connection.recv(12).endswith(b" 200")
        except ConnectionError:
            refused = True

    assert refused


def test_connections_without_end_neither_fill_the_log_nor_stop_the_service(parts: Parts) -> None:
    """R5: at RLIMIT_NOFILE it goes on for those it has, says little, and recovers by itself."""
    service = parts.service(_repo(parts))
    service.run("versioned")  # a connection that is there before
    assert service.process is not None
    hard = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (100, hard))
    idle = [socket.create_connection(("127.0.0.1", service.port), timeout=5) for _ in range(150)]
    try:
        time.sleep(2)
        asked = time.monotonic()
        with contextlib.suppress(httpx.TransportError):
            service.admin.get("/healthz", timeout=10)
        took, said = time.monotonic() - asked, service.log.stat().st_size
    finally:
        for connection in idle:
            connection.close()
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        eventually(lambda: service.anonymous.get("/healthz", timeout=30).status_code == 200, within_s=60)

    assert said < 1_000_000
    assert took < 5


# Ends


@pytest.mark.parametrize("wait", ["false", "true"])
def test_a_forge_that_hangs_does_not_hold_up_the_end(parts: Parts, git_server: GitHttpServer, wait: str) -> None:
    """R7: the grace is one second; a look, or somebody who waits for one, is no reason to live for minutes."""
    service = parts.service(_repo(parts), shutdown_grace_s=1, fetch_timeout_s=60)
    assert service.process is not None
    token = service.token("admin")
    git_server.faults.hang = True

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError):
            headers = {"Authorization": f"Bearer {token}"}
            url = f"{service.url}{API}/sync?wait={wait}"
            httpx.post(url, headers=headers, timeout=90, trust_env=False)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(1)
    began = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    try:
        service.process.wait(90)
    finally:
        took = time.monotonic() - began
        git_server.faults.hang = False
        service.process = None
        thread.join()

    assert took < 15


# Settings


def _serve(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    env = environment({"data_dir": str(folder / "data"), "port": 0}, **settings)
    command = [sys.executable, "-m", "service.app", *arguments]
    try:
        return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", "it started")


def test_a_name_that_begins_with_127_is_not_loopback(tmp_path: Path) -> None:
    """R16: `127.example.org` is anybody's; a token does not go there in clear."""
    done = _serve(tmp_path, BITONG_REPOSITORY_URL="http://127.evil.invalid/x", BITONG_REPOSITORY_TOKEN="t")

    assert done.returncode == 2, done.stderr
    assert "repository_url" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shell_read_paths", '["V4LUE"]'),
        ("host", "V4LUE.invalid"),
        ("gatekeepers", '{"a": {"url": "http://127.0.0.1:1", "token": 4711}}'),
        ("allowed_hosts", "[" * 20_000),
    ],
)
def test_an_unfit_setting_is_named_and_its_value_never_quoted(tmp_path: Path, name: str, value: str) -> None:
    """cli.md: errors name the setting, never its value; it is a usage error and no trace of calls."""
    done = _serve(tmp_path, **{f"BITONG_{name.upper()}": value})

    assert done.returncode == 2, done.stderr[-500:]
    assert name in done.stderr
    assert "V4LUE" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_that_is_not_utf_8_is_refused_in_words(tmp_path: Path) -> None:
    """The file is named; no trace of calls."""
    file = tmp_path / "bitong.toml"
    file.touch(0o600)
    file.write_bytes(b'log_origin = "\xff"\n')

    done = _serve(tmp_path, str(file))

    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr[-500:]
    assert file.name in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="says what a service that is root says")
def test_without_a_sandbox_as_root_the_record_says_so(shared: BitongService) -> None:
    """executors.md: as uid 0 the mode says so in the log, on pages and in the record."""
    [entry] = shared.items("/audit", type="service.started")

    assert "root" in json.dumps(entry["facts"])

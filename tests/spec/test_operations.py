"""What whoever runs it looks at: health, readiness, metrics, the description of the API, and what is said in the log.

S11 (an affected SQLite) cannot be tested here: the tests have one library, and it is not an affected one. S1, S3 and S4
(full disk, I/O errors) need a file system that fails on order: the store's own tests.
"""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests.harness.forge import NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually


@pytest.fixture(scope="module")
def repo(shared_parts: Parts) -> NativeRepo:
    return shared_parts.repo("first", "second")


@pytest.fixture(scope="module")
def service(shared_parts: Parts, repo: NativeRepo) -> BitongService:
    return shared_parts.service(repo)


@contextmanager
def _silent_server() -> Iterator[str]:
    """An address that takes connections and says nothing, until the end."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    held.append(listener.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/native-repo.git"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for connection in held:
            connection.close()


def test_health_and_readiness_are_open_and_say_nothing_secret(service: BitongService) -> None:
    """Names of parts and ages: no address, no error's text, nothing of the settings."""
    for path in ("/healthz", "/readyz"):
        answer = service.anonymous.get(path)

        assert answer.status_code == 200
        assert answer.headers["X-Request-Id"]
        assert str(service.data_dir) not in answer.text
        assert str(service.settings["repository_url"]) not in answer.text
        assert "127.0.0.1" not in answer.text


def test_a_service_is_not_ready_before_its_first_look_has_ended(parts: Parts) -> None:
    """503 while the look goes on, 200 once it ended, well or not; it is alive all the while."""
    with _silent_server() as url:
        service = parts.service(start=False, repository_url=url)
        service.start(until="/healthz")

        assert service.anonymous.get("/readyz").status_code == 503

    eventually(lambda: service.anonymous.get("/readyz").status_code == 200, within_s=60)


def test_a_service_without_a_reachable_repository_is_ready_with_an_empty_registry(parts: Parts) -> None:
    """R10: the look ended, not well; readiness says so in words and ages, not in an error's text."""
    service = parts.service(repository_url="http://127.0.0.1:9/native-repo.git")

    ready = service.anonymous.get("/readyz")

    assert ready.status_code == 200
    assert "127.0.0.1" not in ready.text
    assert service.tools() == {}
    assert service.exec("first").status_code == 404


def test_the_apis_description_is_valid_and_lists_what_there_is(service: BitongService) -> None:
    """OpenAPI 3.1, checked by a validator that is not ours; each route that the specification tests is in it."""
    document = service.get("/openapi.json")

    validate(document)
    assert document["openapi"].startswith("3.1")
    routes = {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path))
        for path, verbs in document["paths"].items()
        for method in verbs
    }
    wanted = {("POST", f"{API}/exec"), ("POST", f"{API}/sync"), ("POST", "/hooks/forgejo")}
    wanted |= {("GET", path) for path in ("/healthz", "/readyz", "/metrics", f"{API}/openapi.json", f"{API}/schema")}
    wanted |= {
        ("GET", f"{API}{path}")
        for path in (
            "/tools",
            "/tools/{}",
            "/tools/{}/versions",
            "/tools/{}/versions/{}",
            "/tools/{}/versions/{}/source",
            "/runs",
            "/runs/{}",
            "/runs/{}/stdout",
            "/runs/{}/stderr",
            "/audit",
            "/audit/entries/{}",
            "/rejections",
            "/deliveries",
            "/tokens",
        )
    }
    assert wanted - routes == set()


def test_the_answers_of_exec_are_as_the_description_says(service: BitongService) -> None:
    """A client made from the document reads every one of them."""
    document = service.get("/openapi.json")
    responses = document["paths"][f"{API}/exec"]["post"]["responses"]
    answers = [
        service.exec("first"),
        service.exec("nothing"),
        service.exec("first", {"x": 1}),
        service.exec("first", commit="abc"),
    ]

    for answer in answers:
        schema = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": document.get("components", {})}).validate(answer.json())


def test_every_answer_has_a_request_id_of_its_own(service: BitongService) -> None:
    """Also those that are refused; the log can be asked for it."""
    asked = [
        service.anonymous.get("/healthz"),
        service.anonymous.get(f"{API}/tools"),
        service.anonymous.get("/no-such-page"),
        service.anonymous.post("/hooks/forgejo", content=b"{}"),
        service.exec("first"),
        service.admin.get(f"{API}/schema"),
    ]
    ids = [answer.headers["X-Request-Id"] for answer in asked]

    assert all(ids)
    assert len(set(ids)) == len(ids)


def test_metrics_ask_for_a_reader_unless_the_operator_opens_them(service: BitongService, parts: Parts) -> None:
    """`metrics_public`; hooks that were refused are counted there, since nothing else is kept of them (W1)."""
    service.anonymous.post("/hooks/forgejo", content=b"{}", headers={"Content-Type": "application/json"})
    public = parts.service(parts.repo("only"), metrics_public=True)

    assert service.anonymous.get("/metrics").status_code == 401
    assert service.client(service.token("exec")).get("/metrics").status_code == 403
    text = service.client(service.token("read")).get("/metrics").text
    assert "bitong_" in text
    assert public.anonymous.get("/metrics").status_code == 200


def test_the_schema_of_definitions_is_served_and_accepts_the_seeds_example(service: BitongService) -> None:
    """Editors read it; it is a JSON Schema, and the example of section 7 is valid by it."""
    schema = service.get("/schema")

    Draft202012Validator.check_schema(schema)
    example = {
        "name": "shell-exec",
        "display": "Shell命令执行",
        "intent": "在服务器上执行一条shell命令并返回结果",
        "method": "exec",
        "executor": "gatekeeper",
        "params_schema": {
            "cmd": {"type": "string", "required": True, "description": "要执行的shell命令"},
            "cwd": {"type": "string", "required": False, "description": "工作目录"},
        },
        "constraints": {"timeout_ms": 30000, "max_output_bytes": 65536, "require_confirm": False},
        "author": "ICE-GL-ZY001",
        "created": "2026-05-31",
        "why": "铸渊需要通过gatekeeper执行服务器命令。这是所有系统操作的基础工具。",
    }
    checker = Draft202012Validator(schema)
    assert list(checker.iter_errors(example)) == []
    assert list(checker.iter_errors({**example, "timout": 5}))
    assert list(checker.iter_errors({name: value for name, value in example.items() if name != "why"}))


def test_a_look_asked_for_is_answered_at_once_or_when_it_is_done(service: BitongService, repo: NativeRepo) -> None:
    """202 `{queued: true}` without `wait`; with it, 200 and what changed."""
    repo.write_tool("by-sync")
    repo.commit()
    repo.push()

    waited = service.admin.post(f"{API}/sync", params={"wait": "true"})
    queued = service.admin.post(f"{API}/sync")

    assert (waited.status_code, queued.status_code) == (200, 202)
    assert "by-sync" in waited.text
    assert queued.json() == {"queued": True}
    assert "by-sync" in service.tools()


def test_the_data_folder_is_for_its_owner_alone(service: BitongService) -> None:
    """Folder 0700, files 0600: the control token stands there."""
    assert service.data_dir.stat().st_mode & 0o777 == 0o700
    database = service.data_dir / "bitong.db"
    assert database.stat().st_mode & 0o777 == 0o600
    loose = [file for file in service.data_dir.iterdir() if file.is_file() and file.stat().st_mode & 0o077]
    assert loose == []


def test_the_log_says_what_happened_and_no_secret(service: BitongService) -> None:
    """As uid 0 or without a sandbox it says so; the hook's secret is not in it."""
    text = service.log_text()

    assert service.settings["webhook_secret"] not in text
    assert "sandbox" in text.lower() or "沙" in text


def test_an_answer_is_json_in_utf_8_without_escapes_that_hide_it(service: BitongService) -> None:
    """People read answers as they come: Chinese stands there as Chinese."""
    answer = service.exec("nothing-here")

    assert "此工具尚不在仓库中，需铸渊新建" in answer.content.decode()
    assert answer.headers["Content-Type"].startswith("application/json")
    assert json.loads(answer.content)["found"] is False

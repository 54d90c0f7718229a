"""Lists as files: whole, inert in a spreadsheet, and no burden while somebody reads slowly (contract/http-api.md, `format`)."""

import base64
import csv
import hashlib
import io
import json
import socket
import threading

import httpx
import pytest

from service.verify import VerifyError
from service.verify.export import verify_export
from service.web import exporting
from service.web.exporting import inert
from service.web.server import API
from tests.harness.definitions import shell_exec_text
from tests.harness.service import bitong, environment
from tests.web.desk import Desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.commit(shell_exec=shell_exec_text(), other=shell_exec_text("other"))
    desk.start()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def somebody(desk) -> httpx.Client:
    client = desk.client("read", "exec", "admin")
    for number in range(12):
        run(client, f"echo {number}")
    return client


def run(client: httpx.Client, cmd: str, tool: str = "shell-exec") -> str:
    answer = client.post(f"{API}/exec", json={"tool": tool, "params": {"cmd": cmd}})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run"]["id"])


def rows_of(client: httpx.Client, path: str, **query: str) -> list[dict[str, str]]:
    answer = client.get(API + path, params={"format": "csv", **query})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))


def lines_of(client: httpx.Client, path: str, **query: str) -> list[dict]:
    answer = client.get(API + path, params={"format": "ndjson", **query})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert answer.content.endswith(b"\n")
    return [json.loads(line) for line in answer.content.splitlines()]


def everything(client: httpx.Client, path: str) -> list[dict]:
    return list(client.get(API + path, params={"limit": 1000}).json()["items"])


@pytest.fixture
def small_pages(monkeypatch):
    """Many short reads, also for few rows."""
    monkeypatch.setattr(exporting, "PAGE", 3)
    monkeypatch.setattr(exporting, "WINDOW", 5)


def test_ndjson_of_runs_is_the_list_item_by_item(somebody, small_pages):
    assert lines_of(somebody, "/runs") == everything(somebody, "/runs")


def test_csv_of_runs_has_a_line_for_each(somebody, small_pages):
    rows = rows_of(somebody, "/runs")

    items = everything(somebody, "/runs")
    assert [row["id"] for row in rows] == [item["id"] for item in items]
    assert [row["receipt_leaf"] for row in rows] == [item["receipt"]["leaf"] for item in items]
    assert {row["ok"] for row in rows} <= {"true", "false"}


def test_an_export_holds_what_the_filter_asks_for(somebody, small_pages):
    failed = run(somebody, "echo to be found >&2; exit 4")

    assert [item["id"] for item in lines_of(somebody, "/runs", q="to be found")] == [failed]
    assert [row["id"] for row in rows_of(somebody, "/runs", state="failed", tool="shell-exec")] == [failed]
    assert lines_of(somebody, "/audit", run=failed) == [
        somebody.get(f"{API}/audit/entries/{item['index']}").json()
        for item in reversed(somebody.get(f"{API}/audit", params={"run": failed}).json()["items"])
    ]


def test_the_log_as_ndjson_is_whole_and_can_be_recomputed(somebody, small_pages):
    """Each line has the exact bytes of its leaf, in order, from the first entry on."""
    entries = [line for line in lines_of(somebody, "/audit") if "checkpoint" not in line]

    assert [entry["index"] for entry in entries] == list(range(len(entries)))
    assert [entry["index"] for entry in entries] == [item["index"] for item in reversed(everything(somebody, "/audit"))]
    for entry in entries:
        content = base64.b64decode(entry["entry_b64"])
        assert hashlib.sha256(b"\0" + content).hexdigest() == entry["leaf"]
        assert json.loads(content)["facts"] == entry["facts"]


@pytest.mark.parametrize("value", ["=cmd()", "+1", "@x", "-1+2", "\t=1", "\r=1", "＝1"])
def test_a_cell_that_looks_like_a_formula_is_inert(value):
    """U10."""
    assert inert(value) == f"'{value}"


@pytest.mark.parametrize("value", ["plain", "", "a=b", 5, -5, None, True])
def test_other_cells_stay_as_they_are(value):
    assert inert(value) == value


def test_what_a_tool_said_is_inert_in_a_spreadsheet_and_exact_in_ndjson(somebody):
    """U10: an error that begins like a formula."""
    said = '=HYPERLINK("http://x")\n'
    failed = run(somebody, "echo '=HYPERLINK(\"http://x\")' >&2; exit 1")

    (row,) = [row for row in rows_of(somebody, "/runs", q="HYPERLINK") if row["id"] == failed]
    (item,) = [item for item in lines_of(somebody, "/runs", q="HYPERLINK") if item["id"] == failed]

    assert (row["error"], item["error"]) == (f"'{said}", said)


def test_what_comes_meanwhile_is_not_in_it(desk, somebody, monkeypatch):
    """The end is that of the moment it began; nothing is there twice, nothing is missing."""
    monkeypatch.setattr(exporting, "PAGE", 3)
    before = everything(somebody, "/runs")
    with somebody.stream("GET", f"{API}/runs", params={"format": "ndjson"}) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        desk.client("exec").post(f"{API}/exec", json={"tool": "shell-exec", "params": {"cmd": "echo new"}})
        content = first + b"".join(pieces)

    assert [json.loads(line)["id"] for line in content.splitlines()] == [item["id"] for item in before]


def test_a_token_exports_what_it_may_see(desk, somebody):
    """With `exec` alone its own; tools outside its patterns are not there; the log only with `read`."""
    other = run(somebody, "echo other", tool="other")
    alone, limited = desk.client("exec"), desk.client("read", tools=("oth*",))
    mine = run(alone, "echo mine")

    assert [item["id"] for item in lines_of(alone, "/runs")] == [mine]
    assert [item["id"] for item in lines_of(limited, "/runs")] == [other]
    assert alone.get(f"{API}/audit", params={"format": "csv"}).status_code == 403
    shown = lines_of(limited, "/audit")
    assert all(line["facts"].get("tool", "other") == "other" for line in shown)
    assert not any("checkpoint" in line for line in shown)


@pytest.mark.parametrize(
    "query", [{"format": "xls"}, {"format": "csv", "limit": "5"}, {"format": "csv", "cursor": "x"}]
)
@pytest.mark.parametrize("path", ["/runs", "/audit"])
def test_what_cannot_be_exported_is_said(somebody, path, query):
    answer = somebody.get(API + path, params=query)

    assert (answer.status_code, answer.json()["code"]) == (422, "bad-parameters")


def test_who_reads_nothing_holds_no_thread_and_no_view(desk, somebody, monkeypatch):
    """R19, S9: forty exports that nobody reads, over four threads; others are served, and the write-ahead log folds."""
    monkeypatch.setattr(exporting, "PAGE", 1)
    monkeypatch.setattr(exporting, "_json", lambda value: "x" * 300_000)  # more than the sockets between hold
    host, port = desk.url.removeprefix("http://").split(":")
    head = f"GET {API}/runs?format=ndjson HTTP/1.1\r\nHost: {host}\r\nAuthorization: {somebody.headers['authorization']}\r\n\r\n"
    readers = []
    try:
        for _ in range(40):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect((host, int(port)))
            reader.sendall(head.encode())
            readers.append(reader)
        for reader in readers:
            assert reader.recv(12) == b"HTTP/1.1 200"

        assert somebody.get("/healthz", timeout=5).status_code == 200
        assert somebody.get(f"{API}/runs", timeout=5).status_code == 200
        assert desk.bitong.database.fold()
    finally:
        for reader in readers:
            reader.close()


def test_a_token_that_ends_gets_nothing_more(desk, somebody, monkeypatch):
    """The answer breaks off, so that it does not look whole."""
    monkeypatch.setattr(exporting, "PAGE", 1)
    client = desk.client("read")
    name = "-".join(["read", str(len(desk._clients) - 1)])
    gate, pages = threading.Event(), exporting._run_pages

    def slow(*arguments):
        for number, rows in enumerate(pages(*arguments)):
            if number == 1:
                assert gate.wait(20)
            yield rows

    monkeypatch.setattr(exporting, "_run_pages", slow)
    with client.stream("GET", f"{API}/runs", params={"format": "ndjson"}) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        assert somebody.delete(f"{API}/tokens/{name}").status_code == 200
        gate.set()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)


def test_the_head_of_an_export_is_quick_and_empty(somebody):
    answer = somebody.head(f"{API}/runs", params={"format": "csv"})

    assert (answer.status_code, answer.content) == (200, b"")
    assert "attachment" in answer.headers["content-disposition"]


def test_the_command_line_writes_a_whole_file_or_none(desk, somebody, tmp_path):
    token = somebody.headers["Authorization"].removeprefix("Bearer ")
    env = environment({}, BITONG_URL=desk.url, BITONG_TOKEN=token)

    done = bitong("audit", "export", "-o", "log.ndjson", env=env, cwd=tmp_path)
    again = bitong("audit", "export", "-o", "log.ndjson", env=env, cwd=tmp_path)
    table = bitong("audit", "export", "--format", "csv", "--type", "run.finished", env=env, cwd=tmp_path)

    assert (done.returncode, done.stdout, again.returncode) == (0, "", 2)
    file = tmp_path / "log.ndjson"
    assert file.stat().st_mode & 0o777 == 0o600
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    indexes = [entry["index"] for entry in entries if "index" in entry]
    assert indexes == list(range(len(indexes)))
    assert len(indexes) > 20
    assert {row["type"] for row in csv.DictReader(io.StringIO(table.stdout))} == {"run.finished"}
    assert list(tmp_path.iterdir()) == [file]


@pytest.fixture(scope="module")
def exported(desk, somebody, tmp_path_factory):
    """The whole log as a file, with the checkpoint that it leads to."""
    assert somebody.get(f"{API}/audit/checkpoint").status_code == 200
    file = tmp_path_factory.mktemp("export") / "log.ndjson"
    file.write_bytes(somebody.get(f"{API}/audit", params={"format": "ndjson"}).content)
    return file


@pytest.fixture(scope="module")
def vkey(desk) -> str:
    return str(desk.bitong.checkpoints.keys[-1])


def test_an_export_verifies_with_the_key_alone(exported, vkey, tmp_path):
    """contract/audit.md, Verification: no server, no database."""
    report = verify_export(exported, keys=[vkey])

    assert report.findings == ()
    assert report.checkpoints == 1
    assert report.size == len(exported.read_text().splitlines()) - 1
    done = bitong("audit", "verify", "--export", str(exported), "--key", vkey, env=environment({}), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def _flipped(lines: list[str]) -> list[str]:
    line = json.loads(lines[7])
    content = bytearray(base64.b64decode(line["entry_b64"]))
    content[40] ^= 1
    return [*lines[:7], json.dumps(line | {"entry_b64": base64.b64encode(content).decode()}), *lines[8:]]


def _rewritten(lines: list[str]) -> list[str]:
    """With its leaf recomputed: found against the checkpoint."""
    line = json.loads(lines[7])
    content = base64.b64decode(line["entry_b64"]).replace(b'"actor":"', b'"actor":"x')
    line |= {"entry_b64": base64.b64encode(content).decode(), "leaf": hashlib.sha256(b"\0" + content).hexdigest()}
    return [*lines[:7], json.dumps(line | {"actor": json.loads(content)["actor"]}), *lines[8:]]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_flipped, "leaf-differs"),
        (_rewritten, "checkpoint-differs"),
        (lambda lines: [*lines[:7], *lines[8:]], "index-missing"),
        (lambda lines: [*lines[:7], lines[8], lines[7], *lines[9:]], "index-missing"),
        (lambda lines: [*lines[:-5], lines[-1]], "log-cut"),
        (lambda lines: [lines[0].replace('"log.opened","at"', '"log.closed","at"'), *lines[1:]], "column-differs"),
    ],
)
def test_what_was_changed_in_an_export_is_found(exported, vkey, tmp_path, change, what):
    """S5, S6."""
    (tmp_path / "changed").write_text("\n".join(change(exported.read_text().splitlines())) + "\n")

    report = verify_export(tmp_path / "changed", keys=[vkey])

    assert what in {finding.what for finding in report.findings}


@pytest.mark.parametrize("content", ["", "id,state\r\n", "[1]\n", "{}\n"])
def test_what_is_no_export_is_said(tmp_path, content):
    (tmp_path / "file").write_text(content)

    if content:
        with pytest.raises(VerifyError):
            verify_export(tmp_path / "file")
    else:
        assert [finding.what for finding in verify_export(tmp_path / "file").findings] == ["index-missing"]

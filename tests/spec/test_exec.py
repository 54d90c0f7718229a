"""`POST /exec`: which answer each call gets, what parameters may be, and that what comes back is what was produced.

Both executors that run here: `shell` on this host, `gatekeeper` through the reference gatekeeper's own process.
Confirmations, keys, the queue, and following a run have files of their own.
"""

import base64
import contextlib
import hashlib
import json
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.definitions import shell_exec_text
from tests.harness.forge import NativeRepo, Push
from tests.harness.gatekeeper import ReferenceGatekeeper
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, bitong, environment, eventually, free_port

MAX_PARAMS = 100_000
TEXT = {"type": "string"}
WORD = {"word": {"type": "string", "required": True}}


@dataclass
class Tried:
    """A service with tools for every rule, the node behind it, and commits of note."""

    service: BitongService
    repo: NativeRepo
    node: ReferenceGatekeeper
    first: str
    second: str
    gone: str
    orphan: str

    def code(self, tool: str, params: dict[str, Any] | None = None, **fields: Any) -> tuple[int, str]:
        """Status and code of a call."""
        answer = self.service.exec(tool, params, **fields)
        return answer.status_code, answer.json()["code"]

    def runs(self) -> int:
        """How many runs there are."""
        return len(self.service.items("/runs"))

    def local(self, cmd: str, **fields: Any) -> dict[str, Any]:
        """One shell command, its answer."""
        return self.service.run("local-exec", {"cmd": cmd}, **fields)


@pytest.fixture(scope="module")
def tried(shared_parts: Parts) -> Tried:
    node = shared_parts.gatekeeper()
    repo = shared_parts.repo()
    unreachable = {"url": f"http://127.0.0.1:{free_port()}", "token": "x"}
    settings = node.settings | {"gatekeepers": {**node.settings["gatekeepers"], "BS-GZ-006": unreachable}}
    service = shared_parts.service(repo, max_params_bytes=MAX_PARAMS, **settings)
    repo.write_tool("versioned", display="一")
    first = repo.commit()
    repo.write_tool("versioned", display="二")
    repo.write_tool("leaves")
    second = repo.commit()
    _write_tools(repo)
    repo.remove_tool("leaves")
    gone = repo.commit()
    service.push(repo)
    repo.write_tool("orphaned")
    orphan = repo.commit()
    service.push(repo)
    repo.git("reset", "--quiet", "--hard", gone)
    service.push(repo, force=True)
    return Tried(service, repo, node, first, second, gone, orphan)


def _write_tools(repo: NativeRepo) -> None:
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.write_tool("shell-exec", text=shell_exec_text(executor="gatekeeper"))
    repo.write_tool("far-away", text=shell_exec_text("far-away", executor="gatekeeper", node="BS-GZ-006"))
    repo.write_tool("nowhere", text=shell_exec_text("nowhere", executor="gatekeeper", node="BS-XX-999"))
    repo.write_tool("say", command=["printf", "%s", "{word}"], params_schema=WORD)
    repo.write_tool("say-far", executor="gatekeeper", command=["printf", "%s", "{word}"], params_schema=WORD)
    repo.write_tool("short", text=shell_exec_text("short", constraints={"max_output_bytes": 10}))
    repo.write_tool("quick", text=shell_exec_text("quick", constraints={"timeout_ms": 500}))
    repo.write_tool("missing-program", command=["/nonexistent/program"])
    repo.write_tool("reads", command=["cat"], params_schema={"stdin": TEXT, "env": {"type": "object"}})
    repo.write_tool(
        "typed",
        command=["echo", "{count}", "--", "{flag}", "{kind}"],
        params_schema={
            "count": {"type": "integer", "required": True, "minimum": 1, "maximum": 9},
            "flag": {"type": "boolean", "default": False},
            "kind": {"type": "string", "enum": ["甲", "乙"]},
            "list": {"type": "array", "items": {"type": "string"}, "max_length": 3},
            "free": {"type": "object"},
            "ratio": {"type": "number"},
            "code": {"type": "string", "pattern": "^[a-z]+$", "min_length": 2},
        },
    )
    repo.write_tool(
        "hides",
        command=["wc", "-c"],
        params_schema={"stdin": {"type": "string", "required": True, "secret": True, "max_length": 64}},
    )


# Which answer a call gets


@pytest.mark.parametrize(
    ("tool", "params", "fields", "status", "code"),
    [
        ("local-exec", {"cmd": "exit 1"}, {}, 200, "failed"),
        ("shell-exec", {"cmd": "exit 1"}, {}, 200, "failed"),
        ("quick", {"cmd": "sleep 20"}, {}, 200, "timed-out"),
        ("no-such-tool", {}, {}, 404, "unknown-tool"),
        ("../../etc/passwd", {}, {}, 404, "unknown-tool"),
        ("leaves", {}, {}, 404, "removed-tool"),
        ("orphaned", {}, {}, 409, "orphaned"),
        ("versioned", {}, {"version": 1}, 409, "not-active"),
        ("local-exec", {}, {}, 422, "bad-parameters"),
        ("local-exec", {"cmd": "true"}, {"timeout_ms": 30001}, 422, "bad-parameters"),
        ("local-exec", {"cmd": "true"}, {"unknown": 1}, 422, "bad-parameters"),
        ("nowhere", {"cmd": "true"}, {}, 503, "not-available"),
        ("local-exec", {"cmd": "x" * 2 * MAX_PARAMS}, {}, 413, "too-large"),
    ],
)
def test_each_case_has_its_status_and_its_code(
    tried: Tried, tool: str, params: dict[str, Any], fields: dict[str, Any], status: int, code: str
) -> None:
    """The table of http-api.md, as far as it can occur (M4 for the body's size, M16 for the unknown field)."""
    answer = tried.service.exec(tool, params, **fields)

    told = answer.json()
    assert (answer.status_code, told["code"]) == (status, code)
    assert list(told)[:6] == ["ok", "tool", "method", "output", "error", "duration_ms"]
    assert (told["ok"], told["tool"]) == (False, "" if status == 413 else tool)  # too large to be read
    assert told["error"]
    assert set(told["message"]) == {"zh", "en"}
    assert all(told["message"].values())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"3",
        b'"shell-exec"',
        b"[]",
        b'{"tool": 5}',
        b'{"tool": "local-exec", "params": []}',
        b'{"tool": "local-exec", "params": {"cmd": "true"}, "timeout_ms": "5"}',
        b'{"tool": "local-exec", "params": {"cmd": NaN}}',
        b'{"tool": "local-exec", "tool": "say", "params": {}}',
        b"\xff",
    ],
)
def test_what_is_no_call_is_a_bad_request_and_no_run(tried: Tried, body: bytes) -> None:
    """Not JSON, or of a wrong shape: 400, and the record of runs does not grow."""
    before = tried.runs()

    answer = tried.service.admin.post(f"{API}/exec", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request")
    assert tried.runs() == before


def test_who_may_not_run_starts_nothing(tried: Tried) -> None:
    """401 and 403 make no run, not even a refused one."""
    before = tried.runs()

    nobody = tried.service.anonymous.post(f"{API}/exec", json={"tool": "say", "params": {"word": "x"}})
    reader = tried.service.exec("say", {"word": "x"}, token=tried.service.token("read"))

    assert (nobody.status_code, nobody.json()["code"]) == (401, "unauthenticated")
    assert (reader.status_code, reader.json()["code"]) == (403, "forbidden")
    assert tried.runs() == before


@pytest.mark.parametrize(
    ("tool", "params", "fields"),
    [("say", {}, {}), ("versioned", {}, {"version": 1}), ("orphaned", {}, {}), ("say", {"word": "x"}, {"x": 1})],
)
def test_a_refusal_of_a_known_tool_is_a_recorded_run(
    tried: Tried, tool: str, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    """409 and 422 leave a run that never started, with a receipt of its own."""
    told = tried.service.exec(tool, params, **fields).json()

    run = tried.service.get(f"/runs/{told['run']['id']}")
    entry = tried.service.entry(told["receipt"]["index"])
    assert (run["state"], run["tool"], run["ok"]) == ("refused", tool, False)
    assert (entry["type"], entry["facts"]["run"], entry["facts"]["code"]) == ("run.refused", run["id"], told["code"])


@pytest.mark.parametrize("tool", ["no-such-tool", "leaves"])
def test_a_call_of_what_is_not_there_is_no_run(tried: Tried, tool: str) -> None:
    """404 makes none; names that anybody can invent would fill the record."""
    before = tried.runs()

    tried.service.exec(tool)

    assert tried.runs() == before


def test_a_hidden_tool_answers_byte_for_byte_as_an_unknown_one(tried: Tried) -> None:
    """R13: also where it was removed or orphaned, and whatever the parameters and demands are."""
    token = tried.service.token("exec", tools=("say*",))
    unknown = tried.service.exec("xxxxxxxx", {"cmd": "true"}, token=token)
    told = unknown.content.replace(b"xxxxxxxx", b"NAME")

    for tool in ("local-exec", "leaves", "orphaned", "typed", "versioned"):
        for fields in ({}, {"version": 99}, {"timeout_ms": 10**9}):
            hidden = tried.service.exec(tool, {"cmd": 1}, token=token, **fields)
            same = tried.service.exec("xxxxxxxx", {"cmd": 1}, token=token, **fields)
            assert hidden.status_code == same.status_code == 404
            assert hidden.content.replace(tool.encode(), b"NAME") == told
            assert set(hidden.headers) == set(unknown.headers)
    assert tried.service.exec("say", {"word": "见"}, token=token).json()["output"] == "见"


# What a call may demand


def test_a_demand_for_the_active_definition_runs(tried: Tried) -> None:
    """By its number, by the whole commit, by the file's sha256, by all of them."""
    active = tried.service.tools()["versioned"]["definition"]
    demands = {name: active[name] for name in ("version", "commit", "sha256")}

    by_one = [tried.service.run("versioned", **{name: value}) for name, value in demands.items()]
    by_all = tried.service.run("versioned", **demands)

    assert [told["definition"]["version"] for told in (*by_one, by_all)] == [2, 2, 2, 2]
    assert {name: by_all["definition"][name] for name in demands} == demands


def test_a_demand_for_another_definition_is_refused(tried: Tried) -> None:
    """M15: what would run is not what was asked for."""
    older = tried.service.versions("versioned")
    old = next(version for version in older if version["version"] == 1)

    assert tried.code("versioned", version=1) == (409, "not-active")
    assert tried.code("versioned", version=77) == (409, "not-active")
    assert tried.code("versioned", commit=tried.first) == (409, "not-active")
    assert tried.code("versioned", commit="ab" * 20) == (409, "not-active")
    assert tried.code("versioned", sha256=old["sha256"]) == (409, "not-active")


def test_a_shortened_commit_is_refused_with_the_full_one(tried: Tried) -> None:
    """M15: seven characters may mean another commit tomorrow."""
    answer = tried.service.exec("versioned", commit=tried.second[:7])

    assert (answer.status_code, answer.json()["code"]) == (422, "bad-parameters")
    assert tried.second in answer.text


# Parameters


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({}, {"count"}),
        ({"count": 1, "extra": 1, "more": 2}, {"extra", "more"}),
        ({"count": "1"}, {"count"}),
        ({"count": 5.0}, {"count"}),
        ({"count": True}, {"count"}),
        ({"count": None}, {"count"}),
        ({"count": 0}, {"count"}),
        ({"count": 10}, {"count"}),
        ({"count": 2**53}, {"count"}),
        ({"count": 1, "flag": "false"}, {"flag"}),
        ({"count": 1, "kind": "丙"}, {"kind"}),
        ({"count": 1, "list": ["a", 5]}, {"list"}),
        ({"count": 1, "list": ["a"] * 4}, {"list"}),
        ({"count": 1, "free": []}, {"free"}),
        ({"count": 1, "ratio": "1.5"}, {"ratio"}),
        ({"count": 1, "code": "abc1"}, {"code"}),
        ({"count": 1, "code": "abc\n"}, {"code"}),
        ({"count": 1, "code": "a"}, {"code"}),
        ({"flag": 1, "kind": 2, "list": 3, "nope": 4}, {"count", "flag", "kind", "list", "nope"}),
    ],
)
def test_parameters_that_do_not_fit_are_all_named(tried: Tried, params: dict[str, Any], wrong: set[str]) -> None:
    """M1: all at once, each by its name, nothing coerced; a refused run stands for it."""
    answer = tried.service.exec("typed", params)

    told = answer.json()
    assert (answer.status_code, told["code"]) == (422, "bad-parameters")
    assert {problem["param"].partition("[")[0].partition(".")[0] for problem in told["problems"]} == wrong
    assert all({"param", "code", "zh", "en"} <= set(problem) for problem in told["problems"])
    assert told["run"]["state"] == "refused"


def test_parameters_that_fit_are_put_where_the_definition_says(tried: Tried) -> None:
    """Defaults are filled in; an item whose optional parameter has no value is left out (M13's last part)."""
    assert tried.service.run("typed", {"count": 7})["output"] == "7 -- false\n"
    assert tried.service.run("typed", {"count": 7, "flag": True, "kind": "乙"})["output"] == "7 -- true 乙\n"
    assert tried.service.run("typed", {"count": 1, "ratio": 2, "free": {"深": [1]}, "list": [], "code": "ab"})["ok"]


@pytest.mark.parametrize("tool", ["say", "say-far"])
def test_text_is_data_and_passes_untouched(tried: Tried, tool: str) -> None:
    """M2: newline, tab, ESC, quotes and everything a shell would read are only signs; nothing is run of them."""
    word = 'a\nb\tc\x1b[31m \'"`$(touch /tmp/x)`" ; | & > * ~ \\ 笔\U0001f58c {word} %s'

    told = tried.service.run(tool, {"word": word})

    assert told["output"] == word
    assert told["error"] is None


@pytest.mark.parametrize(("tool", "name"), [("say", "word"), ("say-far", "word"), ("local-exec", "cmd")])
def test_a_nul_is_refused_where_it_would_be_bound(tried: Tried, tool: str, name: str) -> None:
    """M2: an argument ends at a NUL, so the tool would get another value than the record shows."""
    assert tried.code(tool, {name: "a\0b"}) == (422, "bad-parameters")


def test_a_value_that_looks_like_an_option_is_refused(tried: Tried) -> None:
    """A whole item that begins with `-` is read as an option by most programs; after `--` it is not."""
    assert tried.code("say", {"word": "--version"}) == (422, "bad-parameters")


def test_text_that_no_encoding_can_carry_is_refused(tried: Tried) -> None:
    """M4: a lone surrogate, as JSON can write it."""
    body = b'{"tool": "say", "params": {"word": "\\ud800"}}'

    answer = tried.service.admin.post(f"{API}/exec", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (422, "bad-parameters")


def test_a_value_that_is_too_deep_is_refused(tried: Tried) -> None:
    """M4: a hundred levels."""
    body = b'{"tool": "typed", "params": {"count": 1, "free": ' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"}}"

    answer = tried.service.admin.post(f"{API}/exec", content=body, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (422, "bad-parameters")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_over_the_cap_is_refused_and_makes_no_run(tried: Tried, framing: str) -> None:
    """M4: 413, whichever way its length is told."""
    before = tried.runs()
    body = json.dumps({"tool": "say", "params": {"word": "x" * 2 * MAX_PARAMS}}).encode()
    content = body if framing == "length" else iter([body[:50_000], body[50_000:]])

    answer = tried.service.admin.post(f"{API}/exec", content=content, headers={"Content-Type": "application/json"})

    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    assert tried.runs() == before


@pytest.mark.parametrize(
    "env",
    [
        {"LD_PRELOAD": "x"},
        {"PATH": "/tmp"},
        {"BASH_ENV": "x"},
        {"PYTHONPATH": "x"},
        {"IFS": "x"},
        {"A=B": "x"},
        {"": "x"},
    ],
    ids=repr,
)
def test_a_variable_that_changes_how_programs_start_is_refused(tried: Tried, env: dict[str, str]) -> None:
    """M14: they would run something else than the definition says."""
    assert tried.code("reads", {"env": env}) == (422, "bad-parameters")


def test_standard_input_and_variables_reach_the_tool_where_declared(tried: Tried) -> None:
    """X8: without `stdin` there is nothing to read, and a tool that reads does not hang."""
    assert tried.service.run("reads", {"stdin": "笔\n筒"})["output"] == "笔\n筒"
    assert tried.service.run("reads")["output"] == ""
    assert tried.service.run("reads", {"env": {"COLOUR": "x"}})["ok"] is True


# What comes back


def test_both_streams_come_back_apart_and_untouched(tried: Tried) -> None:
    """U7, U11: standard error stands in `error`, of a success too; a success without one has null."""
    both = tried.local("echo out; echo err >&2")
    only = tried.local("echo warning >&2")
    none = tried.local("true")

    assert (both["ok"], both["output"], both["error"]) == (True, "out\n", "err\n")
    assert (only["ok"], only["output"], only["error"]) == (True, "", "warning\n")
    assert (none["ok"], none["output"], none["error"]) == (True, "", None)
    assert "code" not in none


@pytest.mark.parametrize("tool", ["local-exec", "shell-exec"])
def test_a_failure_that_says_nothing_gets_one_line_with_its_exit_code(tried: Tried, tool: str) -> None:
    """U7: both streams empty, exit 3."""
    told = tried.service.run(tool, {"cmd": "exit 3"})

    assert (told["ok"], told["output"], told["run"]["exit_code"]) == (False, "", 3)
    assert "3" in told["error"]
    assert len(told["error"].strip().splitlines()) == 1


@pytest.mark.parametrize("tool", ["local-exec", "shell-exec"])
def test_bytes_that_are_not_text_come_back_exactly_beside_the_text(tried: Tried, tool: str) -> None:
    """U3: invalid UTF-8, GBK, NUL and a lone surrogate's bytes."""
    told = tried.service.run(tool, {"cmd": r"printf 'a\377\376\000b\304\343\355\240\200'"})

    raw = b"a\xff\xfe\x00b\xc4\xe3\xed\xa0\x80"
    run = told["run"]
    assert "\ufffd" in told["output"]
    assert (told["output"][0], "\0b" in told["output"]) == ("a", True)
    assert base64.b64decode(run["output_b64"]) == raw
    assert (run["output_bytes"], run["output_sha256"]) == (len(raw), hashlib.sha256(raw).hexdigest())
    assert tried.service.kept(run["id"]) == raw


@pytest.mark.parametrize("tool", ["local-exec", "shell-exec"])
def test_text_comes_back_without_a_second_copy(tried: Tried, tool: str) -> None:
    """`output_b64` only where it is needed; NUL, ESC and no newline at the end are text like any other."""
    told = tried.service.run(tool, {"cmd": r"printf '笔\000\033[31m筒'"})

    assert told["output"] == "笔\0\x1b[31m筒"
    assert not told["run"].get("output_b64")
    assert not told["run"]["truncated"] or not any(told["run"]["truncated"].values())
    assert told["run"]["totals"] == "produced"


def test_what_is_cut_is_said_and_totals_cover_everything(tried: Tried) -> None:
    """U11: no half character at the cut; hashes and sizes are of all bytes; nothing is said inside the output."""
    told = tried.service.run("short", {"cmd": "printf 笔筒笔筒; printf '%050d' 0 >&2"})

    whole, errors, run = "笔筒笔筒".encode(), b"0" * 50, told["run"]
    assert told["ok"] is True
    assert told["output"] == "笔筒笔"
    assert told["error"] == "0" * 10
    assert (run["output_bytes"], run["output_sha256"]) == (12, hashlib.sha256(whole).hexdigest())
    assert (run["stderr_bytes"], run["stderr_sha256"]) == (50, hashlib.sha256(errors).hexdigest())
    assert run["truncated"]
    assert run["notes"]
    assert all(set(note) == {"zh", "en"} for note in run["notes"])
    assert tried.service.kept(run["id"]) == whole[:10]
    assert tried.service.kept(run["id"], "stderr") == errors[:10]


@pytest.mark.parametrize("tool", ["local-exec", "shell-exec"])
def test_much_on_both_streams_neither_hangs_nor_is_lost_count_of(tried: Tried, tool: str) -> None:
    """U1 in small, U2: 3 MB on each; whoever reads one first would wait for ever."""
    told = tried.service.run(tool, {"cmd": "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"})

    run, zeros = told["run"], b"\0" * 3_000_000
    assert told["ok"] is True
    assert (len(told["output"]), len(told["error"])) == (65536, 65536)
    assert (run["output_bytes"], run["stderr_bytes"]) == (3_000_000, 3_000_000)
    assert run["output_sha256"] == run["stderr_sha256"] == hashlib.sha256(zeros).hexdigest()


def test_one_range_of_the_kept_bytes_can_be_asked_for(tried: Tried) -> None:
    """Large outputs are read in parts; what they are is never guessed by a browser."""
    run = tried.local("printf 0123456789")["run"]["id"]

    part = tried.service.admin.get(f"{API}/runs/{run}/stdout", headers={"Range": "bytes=2-4"})
    whole = tried.service.admin.get(f"{API}/runs/{run}/stdout")

    assert (part.status_code, part.content) == (206, b"234")
    assert part.headers["Content-Range"] == "bytes 2-4/10"
    assert whole.headers["Content-Type"] == "application/octet-stream"


# Limits and ends


@pytest.mark.parametrize("tool", ["local-exec", "shell-exec"])
def test_a_tool_that_takes_too_long_is_ended_and_what_it_said_comes_back(tried: Tried, tool: str) -> None:
    """X1, U11: partial output, its standard error, then one line with the reason; the call may lower the limit."""
    told = tried.service.run(tool, {"cmd": "echo early; echo waiting >&2; sleep 20"}, timeout_ms=700)

    assert (told["ok"], told["code"]) == (False, "timed-out")
    assert (told["run"]["state"], told["run"]["reason"]) == ("timed_out", "deadline")
    assert told["output"] == "early\n"
    assert told["error"].startswith("waiting\n")
    assert len(told["error"].strip().splitlines()) == 2
    assert 600 <= told["duration_ms"] < 10_000


def _marker() -> str:
    """Seconds to sleep that no other process of this host asks for."""
    return f"3153600{secrets.randbelow(10)}.{secrets.randbelow(10**9):09}"


def _processes_with(marker: str) -> list[bytes]:
    """Command lines of living processes that hold `marker`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((folder / "cmdline").read_bytes())
    return [line for line in found if marker.encode() in line]


def test_nothing_of_a_tool_is_left_after_its_end(tried: Tried) -> None:
    """X2: no background child outlives a tool that ended or was ended; one with a session of its own: the sandbox."""
    marker = _marker()
    tried.local(f"sleep {marker} & sleep {marker} & echo started")
    tried.local(f"(sleep {marker}; sleep {marker}) & sleep {marker}", timeout_ms=500)

    eventually(lambda: not _processes_with(marker), within_s=5)


@pytest.mark.parametrize(
    ("tool", "params"), [("missing-program", {}), ("local-exec", {"cmd": "true", "cwd": "/nonexistent"})]
)
def test_a_program_that_cannot_start_says_why(tried: Tried, tool: str, params: dict[str, Any]) -> None:
    """X4: `failed`, `did-not-start`, the system's own words."""
    told = tried.service.run(tool, params)

    assert (told["ok"], told["run"]["state"], told["run"]["reason"]) == (False, "failed", "did-not-start")
    assert told["run"]["exit_code"] is None
    assert "No such file" in told["error"]


def test_a_tool_ended_by_a_signal_says_which(tried: Tried) -> None:
    """X5: an exit code would be made up."""
    told = tried.local("kill -SEGV $$")

    assert (told["run"]["state"], told["run"]["reason"]) == ("failed", "signal")
    assert "SEGV" in str(told["run"]["signal"])
    assert told["run"]["exit_code"] is None
    assert told["error"]


# Secrets


def test_a_secret_parameter_stands_nowhere_but_in_the_tools_hands(tried: Tried) -> None:
    """M7, S14: not in an answer, a problem, the log, the record or any byte that is kept."""
    secret, too_long = "s3cr3t-笔筒-value", "s3cr3t-long-" + "x" * 64
    service = tried.service

    told = service.exec("hides", {"stdin": secret})
    refused = service.exec("hides", {"stdin": too_long})
    extra = service.exec("hides", {"stdin": secret, "cmd": 5})

    shown = [told.text, refused.text, extra.text]
    shown += [service.admin.get(f"{API}/runs/{answer.json()['run']['id']}").text for answer in (told, refused, extra)]
    shown += [str(service.items("/runs")), str(service.items("/audit")), service.admin.get("/metrics").text]
    shown.append(service.log_text())
    assert told.json()["output"].strip() == str(len(secret.encode()))
    assert (refused.status_code, extra.status_code) == (422, 422)
    for value in ("s3cr3t", secret, too_long):
        assert not [text for text in shown if value in text]
        assert not service.files_with(value.encode())
        assert not service.files_with(base64.b64encode(value.encode())[:12])


def test_tokens_stand_in_no_file_and_no_log(tried: Tried) -> None:
    """S14: a copy of everything we keep authenticates nobody."""
    token = tried.service.token("exec", "read")

    tried.service.run("say", {"word": "x"}, token=token)

    assert not tried.service.files_with(token.encode())
    assert token not in tried.service.log_text()


# Through a gatekeeper


def test_what_runs_through_a_gatekeeper_runs_there_with_the_same_receipt(tried: Tried) -> None:
    """The node's own words: exit code, both streams, totals of what was produced."""
    told = tried.service.run("shell-exec", {"cmd": "echo out; echo err >&2; exit 4", "cwd": str(tried.node.root)})

    run = tried.service.get(f"/runs/{told['run']['id']}")
    assert (told["output"], told["error"], told["run"]["exit_code"]) == ("out\n", "err\n", 4)
    assert (told["method"], run["method"]) == ("gatekeeper:exec", "gatekeeper:exec")
    assert told["run"]["reason"] == "exit-code"
    entry = tried.service.get("/audit", type="run.started", limit=1000)["items"]
    assert [item["facts"]["node"] for item in entry if item["facts"]["run"] == run["id"]] == ["BS-SG-001"]


def test_a_node_that_is_not_there_is_a_failure_that_did_not_start(tried: Tried) -> None:
    """R1: refused before anything was sent, so nothing can have happened there; never tried again."""
    told = tried.service.run("far-away", {"cmd": "true"})

    assert (told["ok"], told["run"]["state"], told["run"]["reason"]) == (False, "failed", "did-not-start")
    assert told["error"]


def test_a_gatekeeper_keeps_to_its_token(tried: Tried) -> None:
    """What stands behind it is a shell on a server."""
    call = {"method": "exec", "params": {"cmd": "echo hello"}}
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
        answer = httpx.post(f"{tried.node.url}/exec", json=call, headers=headers, trust_env=False)
        assert answer.status_code == 401
    assert httpx.get(f"{tried.node.url}/exec?token=a-token-of-the-node", trust_env=False).status_code in (401, 404, 405)


# In the sandbox


@pytest.fixture(scope="module")
def sandboxed(shared_parts: Parts) -> BitongService:
    program = shutil.which("bwrap")
    if not program or subprocess.run([program, "--unshare-all", "--ro-bind", "/", "/", "true"]).returncode:
        pytest.skip("bubblewrap cannot work on this host")
    repo = shared_parts.repo()
    repo.write_tool("shell-exec", text=shell_exec_text(executor="shell"))
    repo.write_tool("scripted", command=["sh", "say.sh"])
    repo.write("tools/scripted/say.sh", "cat say.sh; touch here 2>/dev/null || echo read-only\n")
    repo.commit()
    repo.push()
    return shared_parts.service(repo, shell_sandbox="bubblewrap")


def test_in_the_sandbox_the_seeds_example_runs(sandboxed: BitongService) -> None:
    """The sandbox is the default; the receipt is the same."""
    told = sandboxed.run("shell-exec", {"cmd": "echo hello; echo err >&2; exit 3"})

    assert (told["output"], told["error"], told["run"]["exit_code"]) == ("hello\n", "err\n", 3)


def test_in_the_sandbox_a_tool_has_its_own_files_read_only(sandboxed: BitongService) -> None:
    """What runs is what the commit holds, and stays so."""
    told = sandboxed.run("scripted")

    assert told["output"] == "cat say.sh; touch here 2>/dev/null || echo read-only\nread-only\n"


def test_in_the_sandbox_neither_our_files_nor_other_processes_nor_the_network_are_there(
    sandboxed: BitongService,
) -> None:
    """X11, X33, X34: the data folder, the host's processes and loopback are out of reach."""
    told = sandboxed.run(
        "shell-exec",
        {
            "cmd": f"ls {sandboxed.data_dir} 2>&1; ls /proc | grep -c '^[0-9]'; ls /proc/self/fd | wc -l;"
            f" (exec 3<>/dev/tcp/127.0.0.1/{sandboxed.port}) 2>&1; ls /run /home /root 2>&1; env"
        },
    )

    assert "bitong.db" not in told["output"]
    assert int(told["output"].split("\n")[1]) < 10
    assert "BITONG" not in told["output"]


def test_in_the_sandbox_nothing_of_a_tool_is_left_after_its_end(sandboxed: BitongService) -> None:
    """X2: as without one."""
    marker = _marker()
    sandboxed.run("shell-exec", {"cmd": f"setsid -f sleep {marker}; echo started"})
    sandboxed.run("shell-exec", {"cmd": f"setsid sleep {marker} & sleep {marker}"}, timeout_ms=700)

    eventually(lambda: not _processes_with(marker), within_s=5)


def test_where_the_sandbox_cannot_work_shell_tools_are_refused(parts: Parts) -> None:
    """Never a fall-back that nobody asked for: `none` must be said in so many words."""
    repo = parts.repo("first")
    service = parts.service(repo, start=False, shell_sandbox="bubblewrap")
    empty = parts.folder / "no-programs"
    empty.mkdir()
    service.variables["PATH"] = str(empty)
    service.start()

    answer = service.exec("first")

    assert (answer.status_code, answer.json()["code"]) == (503, "not-available")


# One thing at a time


def test_what_changes_between_two_calls_is_what_runs(tried: Tried) -> None:
    """A definition changed by a push is active for the next call and never for the one before."""
    tried.repo.write_tool("changes", display="一", command=["echo", "one"])
    tried.repo.commit()
    tried.service.push(tried.repo)
    one = tried.service.run("changes")
    tried.repo.write_tool("changes", display="一", command=["echo", "two"])
    after = tried.repo.commit()
    tried.service.deliver(tried.repo, Push(tried.repo.tip(), tried.repo.push().after))

    two = tried.service.run("changes")

    assert (one["output"], one["definition"]["version"]) == ("one\n", 1)
    assert (two["output"], two["definition"]["version"], two["definition"]["commit"]) == ("two\n", 2, after)


def test_the_command_line_runs_the_same_gatekeeper(tried: Tried) -> None:
    """`bitong gatekeeper` without a token file is used wrongly: there is no open shell by accident."""
    done = bitong("gatekeeper", "--port", str(free_port()), env=environment({}), cwd=tried.service.folder)

    assert done.returncode == 2
    assert "token" in done.stderr.lower()


def test_every_problem_of_a_call_is_told(tried: Tried) -> None:
    """http-api.md, 422: all of them, also where the refused run keeps only what four KiB hold."""
    params = {f"unknown{number:02}": 1 for number in range(60)}

    told = tried.service.exec("local-exec", {"cmd": "true", **params}).json()
    kept = tried.service.get(f"/runs/{told['run']['id']}")["problems"]

    assert {problem["param"] for problem in told["problems"]} == set(params)
    assert 0 < len(kept) < 60
    assert kept[-1]["code"] == "too-many-problems"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/exec", b'{"intent": "\\ud800 x"}'),
        ("/confirmations/00000000-0000-7000-8000-000000000000", b'{"decision": "reject", "reason": "\\ud800"}'),
    ],
)
def test_half_a_character_is_never_a_failure_of_ours(tried: Tried, path: str, body: bytes) -> None:
    """U5: JSON can name it, nothing can keep it."""
    answer = tried.service.admin.post(f"{API}{path}", content=body)

    assert answer.status_code in (400, 404)

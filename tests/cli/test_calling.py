"""Client commands: how parameters are typed, what goes where, and how refusals become exit codes."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.service import BitongService, bitong, environment


def test_values_are_typed_by_the_definition(service: BitongService) -> None:
    """A string stays text, whatever it looks like; all else is JSON, and --params says the rest."""
    pairs = ("a_string=7", "a_integer=7", "a_boolean=true", 'a_array=["x", 1]', 'a_object={"k": "v=w"}')

    done = service.client_cli("exec", "typed", *pairs, "--params", '{"a_number": 1.5}', "--json")

    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]["id"]
    assert service.get(f"/runs/{run}")["params"] == {
        "a_string": "7",
        "a_integer": 7,
        "a_number": 1.5,
        "a_boolean": True,
        "a_array": ["x", 1],
        "a_object": {"k": "v=w"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("a_integer=seven",),
        ("a_boolean=True",),
        ("no-equals-sign",),
        ("=x",),
        ("a_string=x", "a_string=y"),
        ("a_string=x", "--params", '{"a_string": "y"}'),
        ("--params", "{"),
        ("--params", "[1]"),
        ("--params", '{"a": 1, "a": 2}'),
        ("a_integer=1.5",),
        ("unknown=1",),
    ],
    ids=" ".join,
)
def test_parameters_that_do_not_fit_are_used_wrongly(service: BitongService, arguments: tuple[str, ...]) -> None:
    """Found here or by the service (422): 2, in words, and nothing on standard output."""
    done = service.client_cli("exec", "typed", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_an_argument_that_is_no_text_is_used_wrongly(service: BitongService) -> None:
    """A shell hands on any bytes; a parameter is Unicode."""
    env = environment(service.settings, BITONG_URL=service.url, BITONG_TOKEN=service.token("exec"))
    command = [sys.executable, "-m", "service", "exec", "sh", b"cmd=\xff"]

    done = subprocess.run(command, env=env, cwd=service.folder, capture_output=True)

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr


def test_bytes_come_through_exactly(service: BitongService) -> None:
    """Output that is no text too; the tool's standard error goes to ours."""
    env = environment(service.settings, BITONG_URL=service.url, BITONG_TOKEN=service.token("exec"))
    command = [sys.executable, "-m", "service", "exec", "sh", r"cmd=printf '\377\0\n'; printf '\376' >&2"]

    done = subprocess.run(command, env=env, cwd=service.folder, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"\xff\0\n", b"\xfe")


def test_what_a_tool_printed_cannot_move_the_cursor_where_it_is_shown(service: BitongService) -> None:
    """`exec` is raw, as a program would be; tables and fields escape."""
    service.run("sh", {"cmd": r"printf '\033[31mred\r' >&2; printf '\033]0;title\007'; exit 1"})

    listed = service.client_cli("runs", "list", "--limit", "1")
    run = json.loads(service.client_cli("runs", "list", "--limit", "1", "--json").stdout)["items"][0]["id"]
    shown = service.client_cli("runs", "show", run)

    assert "\x1b" not in listed.stdout + shown.stdout
    assert "\\u001b" in listed.stdout
    assert "\\u001b]0;title" in shown.stdout


def test_lists_take_the_api_s_filters(service: BitongService) -> None:
    """The filter that was given, and none that was not."""

    def ids(*arguments: str) -> list[str]:
        done = service.client_cli("runs", "list", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return [item["id"] for item in json.loads(done.stdout)["items"]]

    ok = service.run("first")["run"]["id"]
    bad = service.run("sh", {"cmd": "exit 4"})["run"]["id"]

    assert ids("--limit", "2") == [bad, ok]
    assert ids("--limit", "1", "--ok") == [ok]
    assert ids("--limit", "1", "--failed") == [bad]
    assert ok in ids("--tool", "first", "--since", "2026-01-01")
    assert bad not in ids("--tool", "first")
    assert ids("--until", "2000-01-01") == []


def test_reading_without_a_token_is_the_operator_s_on_this_host(service: BitongService) -> None:
    """By the data folder's control token; running a tool needs a token that says who does it."""
    listed = service.cli("tools", "list", "--json")
    ran = service.cli("exec", "first")

    assert "first" in {item["name"] for item in json.loads(listed.stdout)["items"]}
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "BITONG_TOKEN" in ran.stderr


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"BITONG_TOKEN": "wrong"}, 2),
        ({"BITONG_TOKEN": "kein-Token-✗"}, 2),
        ({"BITONG_TOKEN": "x", "BITONG_URL": "http://192.0.2.1:8920"}, 2),
        ({"BITONG_TOKEN": "x", "BITONG_URL": "nonsense"}, 2),
        ({"BITONG_TOKEN": "x", "BITONG_URL": "http://[::1"}, 2),
        ({"BITONG_URL": "http://127.0.0.1:8920"}, 2),
    ],
)
def test_an_address_or_token_that_does_not_serve_is_used_wrongly(
    service: BitongService, variables: dict[str, str], code: int
) -> None:
    """R16 too: a token goes over https or loopback only. No token is shown."""
    done = service.cli(
        "tools", "list", **{"BITONG_URL": service.url, **variables} if "BITONG_TOKEN" in variables else variables
    )

    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert variables.get("BITONG_TOKEN", "\0") not in done.stderr or variables["BITONG_TOKEN"] in ("x", "wrong")


def test_a_right_that_is_missing_is_said(service: BitongService) -> None:
    """403, in both languages."""
    token = service.token("read")

    done = service.client_cli("exec", "first", token=token)

    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) >= 2


def test_where_no_service_runs_reading_is_3(tmp_path: Path) -> None:
    """With the words to start or name one."""
    done = bitong("tools", "list", env=environment({"data_dir": str(tmp_path / "data")}), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert "bitong serve" in done.stderr


def test_an_unknown_setting_is_used_wrongly_for_every_command_that_reads_them(tmp_path: Path) -> None:
    """As for `serve`; commands that need no settings do not read them."""
    env = environment({}, BITONG_DATA_DIRR="x")
    results: dict[str, Any] = {
        words: bitong(*words.split(), env=env, cwd=tmp_path).returncode
        for words in ("serve", "tools list", "token list", "db check", "schema")
    }

    assert results == {"serve": 2, "tools list": 2, "token list": 2, "db check": 2, "schema": 0}


def test_a_damaged_log_is_1_and_says_where(service: BitongService, tmp_path: Path) -> None:
    """`audit verify --json` for programs: `ok`, and each finding with its index."""
    copy = tmp_path / "copy.db"
    with sqlite3.connect(f"file:{service.data_dir / 'bitong.db'}?mode=ro", uri=True) as source:
        target = sqlite3.connect(copy)
        source.backup(target)
        target.execute("UPDATE log_entries SET actor = 'somebody' WHERE idx = 1")
        target.commit()
        target.close()
    source.close()

    done = bitong("audit", "verify", "--database", str(copy), "--json", env=environment({}), cwd=tmp_path)
    words = bitong("audit", "verify", "--database", str(copy), env=environment({}), cwd=tmp_path)

    told = json.loads(done.stdout)
    assert (done.returncode, words.returncode, told["ok"]) == (1, 1, False)
    assert told["findings"][0]["index"] == 1
    assert "[1]" in words.stdout

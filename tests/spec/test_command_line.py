"""`bitong …` as people and scripts use it: what it prints where, how it exits, and which settings it refuses.

Exit codes: 0 done, 1 the thing asked about is not well, 2 used wrongly, 3 the service or a part cannot be reached.
"""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.git_http import git
from tests.harness.definitions import shell_exec_text, tool_text
from tests.harness.forge import SECRET, NativeRepo
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, bitong, environment, eventually, free_port


@dataclass
class Used:
    """A running service with some runs, and its command line."""

    service: BitongService
    repo: NativeRepo
    ok: dict[str, Any]
    failed: dict[str, Any]

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that knows the service's settings, its address and a token."""
        return self.service.client_cli(*arguments)

    def json(self, *arguments: str) -> Any:
        """What a command prints with --json."""
        done = self.cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def used(shared_parts: Parts) -> Used:
    repo = shared_parts.repo("first", "second")
    repo.write_tool("local-exec", text=shell_exec_text("local-exec", executor="shell"))
    repo.commit()
    repo.push()
    service = shared_parts.service(repo)
    ok = service.run("first")
    failed = service.run("local-exec", {"cmd": "echo out; echo err >&2; exit 3"})
    return Used(service, repo, ok, failed)


def _names(listed: Any) -> set[str]:
    items = listed["items"] if isinstance(listed, dict) else listed
    return {item["name"] for item in items}


# The words themselves


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("serve",),
        ("sync",),
        ("lint",),
        ("schema",),
        ("hook", "post-receive"),
        ("tools", "list"),
        ("tools", "show"),
        ("exec",),
        ("runs", "list"),
        ("runs", "show"),
        ("audit", "list"),
        ("audit", "show"),
        ("audit", "verify"),
        ("token", "create"),
        ("token", "list"),
        ("token", "revoke"),
        ("gatekeeper",),
    ],
    ids=" ".join,
)
def test_every_command_explains_itself_with_an_example(command: tuple[str, ...], tmp_path: Path) -> None:
    """`--help` is what is read first, without a service and without settings."""
    done = bitong(*command, "--help", env=environment({}), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert f"bitong {' '.join(command)}".strip() in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "arguments", [("no-such-command",), ("token", "create"), ("lint",), ("exec",), ("serve", "--x")]
)
def test_a_command_used_wrongly_is_exit_code_2_on_standard_error(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Scripts tell it from a failed run; standard output stays for data."""
    done = bitong(*arguments, env=environment({}), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


@pytest.mark.parametrize(
    "arguments", [("exec", "first"), ("runs", "list"), ("runs", "show", "0190b5a4-0000-7000-8000-000000000000")]
)
def test_a_service_that_cannot_be_reached_is_exit_code_3(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Not the caller's mistake, and not the run's."""
    env = environment({}, BITONG_URL=f"http://127.0.0.1:{free_port()}", BITONG_TOKEN="x")

    done = bitong(*arguments, env=env, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr


# Definitions


def _lint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bitong("lint", *arguments, env=environment({}), cwd=folder)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder `tools` with one valid and one invalid definition."""
    for name, text in {
        "good": tool_text("good"),
        "bad": tool_text("bad", without=("why",)).replace("constraints: {}", "constraints: {timout_ms: 5}"),
    }.items():
        (tmp_path / "tools" / name).mkdir(parents=True)
        (tmp_path / "tools" / name / "TOOL.hdlp").write_text(text, "utf-8")
    return tmp_path


def test_lint_names_file_line_and_reason_and_exits_1(tools: Path) -> None:
    """The same checks as at registration, before the push; all problems at once."""
    done = _lint(tools, "tools")

    assert done.returncode == 1
    assert "tools/bad/TOOL.hdlp:7" in done.stdout
    assert "timeout_ms" in done.stdout
    assert "why" in done.stdout
    assert "tools/good/TOOL.hdlp:" not in done.stdout


def test_lint_of_what_is_well_exits_0(tools: Path) -> None:
    """A file, a folder of one tool, or several of them."""
    assert _lint(tools, "tools/good").returncode == 0
    assert _lint(tools, "tools/good/TOOL.hdlp").returncode == 0
    assert _lint(tools, "tools/good", "tools/bad").returncode == 1


def test_lint_of_what_is_not_there_is_used_wrongly(tools: Path) -> None:
    """A path with a typing mistake must not look like a repository that is well."""
    assert _lint(tools, "tolls").returncode == 2


def test_lint_speaks_json(tools: Path) -> None:
    """For editors and hooks: the problems as the API gives them."""
    done = _lint(tools, "tools", "--format", "json")

    told = json.dumps(json.loads(done.stdout), ensure_ascii=False)
    assert done.returncode == 1
    for part in ("tools/bad/TOOL.hdlp", '"line": 7', '"zh"', '"en"', '"code"', '"field"'):
        assert part in told


def test_lint_speaks_sarif(tools: Path) -> None:
    """SARIF 2.1.0, as forges and editors read it."""
    done = _lint(tools, "tools", "--format", "sarif")

    told = json.loads(done.stdout)
    results = told["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert (done.returncode, told["version"]) == (1, "2.1.0")
    assert told["runs"][0]["tool"]["driver"]["name"].lower().startswith("bitong")
    assert {place["artifactLocation"]["uri"] for place in places} == {"tools/bad/TOOL.hdlp"}
    assert 7 in {place.get("region", {}).get("startLine") for place in places}
    assert all(result["ruleId"] and result["message"]["text"] for result in results)


def test_a_hostile_configuration_beside_the_files_is_not_read(tools: Path) -> None:
    """R17: no file is looked for by itself; whoever clones a repository does not run its settings."""
    for folder in (tools, tools / "tools", tools / "tools" / "good"):
        (folder / "bitong.toml").write_text("this is = not [toml", "utf-8")

    assert _lint(tools, "tools/good").returncode == 0
    assert bitong("schema", env=environment({}), cwd=tools).returncode == 0


def test_the_schema_is_the_one_that_is_served(used: Used) -> None:
    """One set of rules, wherever it is asked for."""
    done = used.cli("schema")

    assert done.returncode == 0
    assert json.loads(done.stdout) == used.service.get("/schema")


# Tokens


def test_a_new_token_is_printed_alone_and_once(used: Used) -> None:
    """So that a script can keep it; whatever else there is to say goes to standard error."""
    done = used.cli("token", "create", "for-a-script", "--scope", "read", "--scope", "exec", "--tools", "first")

    token = done.stdout.strip()
    listed = used.cli("token", "list", "--json")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert used.service.client(token).get(f"{API}/tools").json()["items"][0]["name"] == "first"
    assert "for-a-script" in listed.stdout
    assert token not in listed.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("x", "--scope", "everything"),
        ("x",),
        ("", "--scope", "read"),
        ("x", "--scope", "read", "--expires", "soon"),
    ],
)
def test_a_token_that_cannot_be_is_not_made(used: Used, arguments: tuple[str, ...]) -> None:
    """An unknown scope, none at all, no name, a time that is none."""
    done = used.cli("token", "create", *arguments)

    assert (done.returncode, done.stdout) == (2, "")


def test_a_name_is_given_to_one_token_at_a_time(used: Used) -> None:
    """Revoking goes by name: two of one name would leave one behind."""
    first = used.cli("token", "create", "one-of-a-name", "--scope", "read")
    second = used.cli("token", "create", "one-of-a-name", "--scope", "read")

    assert first.returncode == 0
    assert second.returncode != 0
    assert second.stdout == ""


def test_revoking_what_is_not_there_says_so(used: Used) -> None:
    """Exit code 1: the thing asked about is not there."""
    assert used.cli("token", "revoke", "nobody-has-this-name").returncode == 1


# Looking


def test_tools_are_listed_and_shown(used: Used) -> None:
    """For people as a table, for scripts as the API's own JSON."""
    table = used.cli("tools", "list")
    shown = used.cli("tools", "show", "first")

    assert _names(used.json("tools", "list")) == {"first", "second", "local-exec"}
    assert used.json("tools", "show", "first")["definition"]["commit"]
    assert (table.returncode, shown.returncode) == (0, 0)
    assert "local-exec" in table.stdout
    assert "试验工具" in shown.stdout
    assert used.cli("tools", "show", "nothing").returncode == 1


def test_runs_are_listed_and_shown(used: Used) -> None:
    """Newest first, with what came back."""
    listed = used.json("runs", "list")
    items = listed["items"] if isinstance(listed, dict) else listed
    shown = used.json("runs", "show", used.failed["run"]["id"])

    ids = [item["id"] for item in items]
    assert ids.index(used.failed["run"]["id"]) < ids.index(used.ok["run"]["id"])
    assert (shown["output"], shown["stderr"], shown["exit_code"]) == ("out\n", "err\n", 3)
    assert used.cli("runs", "list").returncode == 0
    assert used.cli("runs", "show", "0190b5a4-0000-7000-8000-000000000000").returncode == 1


def test_the_log_is_listed_shown_and_verified(used: Used) -> None:
    """`verify` needs no server: here it reads the database of one that runs."""
    index = used.ok["receipt"]["index"]
    listed = used.json("audit", "list")
    shown = used.json("audit", "show", str(index))

    items = listed["items"] if isinstance(listed, dict) else listed
    assert index in [item["index"] for item in items]
    assert (shown["leaf"], shown["type"]) == (used.ok["receipt"]["leaf"], "run.finished")
    assert used.cli("audit", "list").returncode == 0
    assert used.cli("audit", "show", str(10**9)).returncode == 1


def test_what_is_no_database_does_not_verify(used: Used, tmp_path: Path) -> None:
    """Exit code 1 with a sentence; a missing file is not a log that is well."""
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"no database at all" * 100)

    for file in (junk, tmp_path / "missing.db"):
        done = bitong("audit", "verify", "--database", str(file), env=environment({}), cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert done.returncode == 1 or file.name == "missing.db"
        assert "Traceback" not in done.stderr
        assert done.stderr or done.stdout


def test_verify_without_a_key_says_what_it_did_not_check(used: Used) -> None:
    """All but the signatures: said, so that nobody believes more than was done."""
    done = used.service.cli("audit", "verify", "--database", str(used.service.data_dir / "bitong.db"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "sign" in (done.stdout + done.stderr).lower() or "签" in done.stdout + done.stderr


# Doing


def test_exec_prints_what_the_tool_printed_and_exits_by_how_it_went(used: Used) -> None:
    """0 for a success, 1 for a failed run; the tool's standard error goes to ours."""
    ok = used.cli("exec", "local-exec", "cmd=echo hello 笔")
    failed = used.cli("exec", "local-exec", "--params", json.dumps({"cmd": "echo out; echo err >&2; exit 3"}))
    unknown = used.cli("exec", "no-such-tool")

    assert (ok.returncode, ok.stdout) == (0, "hello 笔\n")
    assert (failed.returncode, failed.stdout) == (1, "out\n")
    assert "err\n" in failed.stderr
    assert unknown.returncode == 1
    assert "此工具尚不在仓库中，需铸渊新建" in unknown.stderr + unknown.stdout
    assert used.json("exec", "first")["output"] == "first\n"


def test_sync_looks_now_and_says_what_changed(used: Used) -> None:
    """For whoever does not want to wait for the next look."""
    used.repo.write_tool("by-sync")
    used.repo.commit()
    used.repo.push()

    done = used.cli("sync")

    assert done.returncode == 0
    assert "by-sync" in done.stdout + done.stderr
    assert used.service.run("by-sync")["ok"] is True


def test_a_plain_bare_repository_tells_of_its_pushes_by_a_git_hook(parts: Parts) -> None:
    """`bitong hook post-receive` in a bare repository, and one real `git push`: the tool is registered."""
    repo = parts.repo("first")
    service = parts.service(repo, repository_url=str(repo.bare))
    secret = parts.folder / "hook-secret"
    secret.touch(0o600)
    secret.write_text(f"{SECRET}\n")
    command = [sys.executable, "-m", "service", "hook", "post-receive", "--url", f"{service.url}/hooks/forgejo"]
    hook = repo.bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {shlex.join([*command, '--secret-file', str(secret)])}\n")
    hook.chmod(0o755)
    (repo.bare / "bitong.toml").write_text("hostile = [")  # R17: not read
    repo.write_tool("by-hook")
    commit = repo.commit()

    git("push", str(repo.bare), "HEAD:refs/heads/main", "HEAD:refs/heads/other", at=repo.work)

    eventually(lambda: "by-hook" in service.tools())
    rows = service.items("/deliveries")
    assert service.tools()["by-hook"]["definition"]["commit"] == commit
    assert {row["ref"]: row["outcome"] for row in rows} == {"refs/heads/main": "applied", "refs/heads/other": "ignored"}


def test_a_git_hook_never_stops_a_push(parts: Parts) -> None:
    """The service may be down: the push is in, the next look finds it; the pusher reads a sentence."""
    repo = parts.repo("first")
    secret = parts.folder / "hook-secret"
    secret.write_text(SECRET)
    env = environment({})
    tip = repo.tip()
    done = bitong(
        "hook",
        "post-receive",
        "--url",
        f"http://127.0.0.1:{free_port()}/hooks/forgejo",
        "--secret-file",
        str(secret),
        env=env,
        cwd=repo.bare,
        stdin=f"{tip} {tip} refs/heads/main\n",
    )

    assert done.returncode in (0, 3)
    assert done.stderr
    assert "Traceback" not in done.stderr


# Settings


def _refused(folder: Path, settings: dict[str, Any], *arguments: str, **extra: str) -> str:
    """`serve` with these settings ends at once with 2; what it said."""
    told = {"data_dir": str(folder / "data"), "port": free_port(), **settings}
    done = bitong("serve", *arguments, env=environment(told, **extra), cwd=folder)
    assert done.returncode == 2, f"{done.returncode}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("BITONG_DATA_DIRR", "data_dir"),
        ("BITONG_WEBHOOK_SECRETS", "webhook_secret"),
        ("BITONG_POLL_INTERVAL", "poll_interval_s"),
    ],
)
def test_an_unknown_variable_is_an_error_that_names_the_nearest(variable: str, nearest: str, tmp_path: Path) -> None:
    """A setting with a typing mistake would be a setting that silently does not hold; its value is not shown."""
    said = _refused(tmp_path, {}, **{variable: "a-value-not-to-show"})

    assert variable in said
    assert nearest in said.lower()
    assert "a-value-not-to-show" not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "eighty"),
        ("port", "70000"),
        ("poll_interval_s", "-1"),
        ("gatekeepers", "{not json"),
        ("shell_sandbox", "perhaps"),
        ("repository_url", "ftp://example.org/x"),
        ("max_runs", "0"),
        ("forgejo_url", "http://127.0.0.1:9/git"),
    ],
)
def test_a_setting_that_cannot_be_is_named_without_its_value(name: str, value: str, tmp_path: Path) -> None:
    """Errors name the setting, never its value."""
    assert name in _refused(tmp_path, {name: value}).lower()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"gatekeepers": {"FAR": {"url": "http://192.0.2.1:3911", "token": "t0ken"}}}, "gatekeepers"),
        ({"repository_url": "http://192.0.2.1/native-repo.git", "repository_token": "t0ken"}, "repository_"),
        ({"hlpd_api_url": "http://192.0.2.1/", "hlpd_api_token": "t0ken"}, "hlpd_api_"),
        ({"forgejo_url": "http://192.0.2.1/api/v1", "forgejo_token": "t0ken"}, "forgejo_"),
        (
            {"forgejo_url": "http://192.0.2.1/api/v1", "oauth_client_id": "x", "oauth_client_secret": "t0ken"},
            "forgejo_",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_token_over_plain_http_to_another_host_is_refused(
    settings: dict[str, Any], name: str, tmp_path: Path
) -> None:
    """R16: it would be read on the way; loopback and https are fine, another address must be said to be meant."""
    said = _refused(tmp_path, settings)

    assert name in said.lower()
    assert "t0ken" not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repository_url", "http://u:t0ken@git.example.com/a/b.git"),
        ("repository_url", "https://t0ken@git.example.com/a/b.git"),
        ("repository_url", "git@git.example.com:t0ken/b.git"),
        ("anchor_repository_url", "https://u:t0ken@git.example.com/a/b.git"),
        ("forgejo_url", "https://u:t0ken@git.example.com/api/v1"),
        ("public_url", "https://t0ken@bitong.example.com"),
        ("gatekeepers", '{"FAR": {"url": "https://u:t0ken@192.0.2.1:3911"}}'),
    ],
)
def test_a_user_name_or_password_in_an_address_is_refused(name: str, value: str, tmp_path: Path) -> None:
    """R16's back door: a password there is a token by another name, and shows in logs."""
    said = _refused(tmp_path, {name: value})

    assert name in said
    assert "t0ken" not in said


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"data_dir": "/usr/local/bitong-of-a-test/data"}, ["data_dir", "/usr"]),
        ({"shell_read_paths": ["{folder}"]}, ["shell_read_paths", "data_dir"]),
        ({"shell_read_paths": ["{folder}/data/keys"]}, ["shell_read_paths", "data_dir"]),
        (
            {"shell_read_paths": ["{folder}/secrets"], "forgejo_token_file": "{folder}/secrets/a"},
            ["FORGEJO_TOKEN_FILE"],
        ),
        (
            {
                "shell_read_paths": ["{folder}/secrets"],
                "gatekeepers": {"N": {"url": "http://127.0.0.1:1", "token_file": "{folder}/secrets/a"}},
            },
            ["shell_read_paths", "gatekeepers.N.token_file"],
        ),
        ({"shell_read_paths": ["{folder}/secrets"], "BITONG_CONFIG": "{folder}/secrets/a"}, ["BITONG_CONFIG"]),
    ],
    ids=["beneath /usr", "beneath", "above", "secret", "node", "configuration"],
)
def test_what_is_ours_is_not_kept_where_shell_tools_read(
    settings: dict[str, Any], names: list[str], tmp_path: Path
) -> None:
    """X11, X33: inside the sandbox a tool is our own user, so that modes would not help."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/a").touch(0o600)
    (tmp_path / "secrets/a").write_text('language = "zh"')
    told = json.loads(json.dumps(settings).replace("{folder}", str(tmp_path)))
    extra = {name: told.pop(name) for name in list(told) if name.isupper()}

    said = _refused(tmp_path, told, **extra)

    assert all(said.count(name) == 2 for name in names), said  # in Chinese and in English
    assert not Path("/usr/local/bitong-of-a-test").exists()


def test_without_a_sandbox_it_does_not_matter_where_our_files_are(parts: Parts) -> None:
    """The other side: tools see everything there, and the operator said so in so many words."""
    service = parts.service(
        parts.repo("first"), start=False, shell_sandbox="none", shell_read_paths=[str(parts.folder)]
    )

    service.start()

    assert service.run("first", token=service.token("exec"))["ok"] is True


def test_a_node_that_is_said_to_be_insecure_is_taken(parts: Parts) -> None:
    """R16's other side: in so many words. A token made before the first start takes the lock and acts directly."""
    node = {"url": "http://192.0.2.1:3911", "token": "t0ken", "insecure": True}
    service = parts.service(parts.repo("first"), start=False, gatekeepers={"FAR": node})
    token = service.token("exec", name="early")

    service.start()

    assert service.run("first", token=token)["ok"] is True


def _configuration(folder: Path, mode: int, content: str) -> Path:
    file = folder / "bitong.toml"
    file.write_text(content + "\n", "utf-8")
    file.chmod(mode)
    return file


@pytest.mark.parametrize(
    ("mode", "content"),
    [
        (0o666, "max_runs = 4"),
        (0o620, "max_runs = 4"),
        (0o644, 'webhook_secret = "x-secret-in-a-file"'),
        (0o600, 'no_such_setting = "x"'),
        (0o600, "this is = not [toml"),
    ],
)
def test_a_configuration_that_others_can_write_or_that_shows_secrets_is_refused(
    tmp_path: Path, mode: int, content: str
) -> None:
    """R17: whoever can write it could start anything; whoever can read it could sign."""
    file = _configuration(tmp_path, mode, content)

    said = _refused(tmp_path, {}, "--config", str(file))

    assert file.name in said or "no_such_setting" in said
    assert "x-secret-in-a-file" not in said


def test_a_configuration_of_its_owner_is_read(parts: Parts) -> None:
    """R17's other side: readable by others as long as no secret stands in it."""
    service = parts.service(parts.repo("first"), start=False, webhook_secret=None)
    service.variables["BITONG_CONFIG"] = str(_configuration(parts.folder, 0o644, "max_params_bytes = 2000"))

    service.start()

    assert service.exec("first", {"x": "y" * 10_000}).status_code == 413


def test_a_secret_can_be_given_as_a_file(parts: Parts) -> None:
    """`<name>_file`: so that it stands in no environment and no process list."""
    secret = parts.folder / "secret"
    secret.touch(0o600)
    secret.write_text(f"{SECRET}\n")
    repo = parts.repo("first")
    service = parts.service(repo, webhook_secret=None, webhook_secret_file=str(secret))
    repo.write_tool("second")
    repo.commit()

    assert service.push(repo)["outcome"] == "applied"

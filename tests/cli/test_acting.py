"""Commands that change state: through the running service, and on the data folder itself where none runs."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, bitong, environment, free_port


def test_tokens_are_made_listed_and_ended_without_a_service(parts: Parts) -> None:
    """The same words, and the same entries in the log, as with one."""
    service = parts.service(parts.repo("first"), start=False)
    token = service.token("read", "exec", name="early")

    listed = json.loads(service.cli("token", "list", "--json").stdout)["items"]
    ended = service.cli("token", "revoke", "early")
    again = service.cli("token", "revoke", "early")

    service.start()
    assert [(item["name"], item["scopes"], item["created_by"]) for item in listed] == [
        ("early", ["read", "exec"], "operator")
    ]
    assert (ended.returncode, again.returncode) == (0, 1)
    assert service.client(token).get(f"{API}/tools").status_code == 401
    kinds = [entry["type"] for entry in service.items("/audit") if not entry["type"].startswith("key.")]
    assert kinds[-3:] == ["token.revoked", "token.issued", "log.opened"]


def test_what_a_killed_service_left_behind_is_not_taken_for_one_that_runs(parts: Parts) -> None:
    """Its control file names a port where nobody answers, or somebody else does."""
    service = parts.service(parts.repo("first"))
    service.kill()

    done = service.cli("token", "create", "after-the-crash", "--scope", "read")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("bitong_")
    service.start()


def test_a_folder_that_is_in_use_is_not_acted_on_twice(parts: Parts) -> None:
    """Where the service cannot be asked, the lock still holds: 3, and a sentence."""
    service = parts.service(parts.repo("first"))
    control = service.data_dir / "control.json"
    hidden = control.rename(control.with_suffix(".hidden"))

    done = service.cli("token", "create", "x", "--scope", "read")

    hidden.rename(control)
    assert (done.returncode, done.stdout) == (3, "")
    assert "lock" in done.stderr


@pytest.mark.parametrize(("given", "status"), [("90d", 200), ("12h", 200), ("2099-01-01", 200), ("0d", 401)])
def test_a_token_ends_when_it_was_said(service: BitongService, given: str, status: int) -> None:
    """As a span from now or as a time; one that has passed authenticates nobody."""
    done = service.cli("token", "create", f"ends-{given}", "--scope", "read", "--expires", given)

    assert done.returncode == 0, done.stderr
    assert service.client(done.stdout.strip()).get(f"{API}/tools").status_code == status


def test_sync_without_a_service_registers_by_itself(parts: Parts) -> None:
    """It takes the lock, looks, and tells how far it is on standard error."""
    service = parts.service(parts.repo("first", "second"), start=False)

    done = service.cli("sync", "--json")

    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)["registered"]) == ["first", "second"]
    assert "Traceback" not in done.stderr
    assert service.start().run("second")["ok"] is True


def test_sync_of_a_repository_that_cannot_be_reached_is_3(parts: Parts) -> None:
    """With and without a running service."""
    service = parts.service(start=False, repository_url=f"http://127.0.0.1:{free_port()}/x/y.git")

    direct = service.cli("sync")
    through = service.start().cli("sync")

    assert (direct.returncode, through.returncode) == (3, 3)
    assert "Traceback" not in direct.stderr + through.stderr


def test_sync_without_a_repository_is_used_wrongly(tmp_path: Path) -> None:
    """There is nothing to look at."""
    done = bitong("sync", env=environment({"data_dir": str(tmp_path / "data")}), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert "repository_url" in done.stderr


def test_the_schema_is_checked_and_upgraded(tmp_path: Path) -> None:
    """1 while there is none, 0 after the upgrade, 3 for what is no database."""
    data = tmp_path / "data"
    env = environment({"data_dir": str(data)})

    before = bitong("db", "check", env=env, cwd=tmp_path)
    upgrade = bitong("db", "upgrade", "--json", env=env, cwd=tmp_path)
    after = bitong("db", "check", "--json", env=env, cwd=tmp_path)
    (data / "bitong.db").write_bytes(b"no database" * 1000)
    junk = bitong("db", "upgrade", env=env, cwd=tmp_path)

    assert [done.returncode for done in (before, upgrade, after, junk)] == [1, 0, 0, 3]
    assert json.loads(after.stdout)["current"] is True
    assert json.loads(upgrade.stdout) == json.loads(after.stdout)
    assert "Traceback" not in junk.stderr


def test_the_gatekeeper_makes_its_token_and_ends_when_asked(tmp_path: Path) -> None:
    """0600, kept for the next start; the port is said on standard error."""
    command = [sys.executable, "-m", "service", "gatekeeper", "--port", "0", "--token-file", "token", "--root", "."]
    tokens = []
    for _ in range(2):
        process = subprocess.Popen(command, cwd=tmp_path, env=environment({}), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "http://127.0.0.1:" in process.stderr.readline()
        tokens.append((tmp_path / "token").read_text())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    assert len(tokens[0].strip()) >= 40
    assert tokens[0] == tokens[1]
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "arguments",
    [
        ("--methods", "everything"),
        ("--root", "not-there"),
        ("--allow-url", "not a pattern"),
        ("--token-file", "empty"),
        ("--token-file", "."),
    ],
    ids=" ".join,
)
def test_a_gatekeeper_that_cannot_be_is_used_wrongly(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """In words, before it listens."""
    (tmp_path / "empty").touch()

    done = bitong("gatekeeper", "--token-file", "t", "--port", "0", *arguments, env=environment({}), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[0] in done.stderr or "not-there" in done.stderr
    assert "Traceback" not in done.stderr

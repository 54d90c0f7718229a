"""In and beside the data folder: one service, its lock and its files, and commands that leave them alone (S8, S14)."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pysqlite3.dbapi2 as sqlite
import pytest

from service.errors import Unavailable
from service.store.folder import Control, DataFolder
from tests.git_http import GitHttpServer
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, bitong, environment
from tests.store.kept import ROOT, python

WATCHED = """
import atexit, os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event in ("open", "sqlite3.connect") else None)
held = set()
def looked():
    for name in os.listdir("/proc/self/fd"):
        try:
            held.add(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass
def trace(frame, event, arg):
    if event == "return" and "service" in frame.f_code.co_filename:
        looked()
sys.setprofile(trace)
def tell():
    sys.setprofile(None)
    found = sorted({name for name in [*opened, *held] if "bitong.db" in name})
    libraries = "_sqlite3" in sys.modules or "libsqlite3" in open("/proc/self/maps").read()
    with open(os.environ["TOLD"], "w") as file:
        file.write(repr((found, libraries)))
atexit.register(tell)
sys.argv[0] = "bitong"
from service.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, git_server: GitHttpServer) -> Iterator[BitongService]:
    """One service for this file, with a tool, a webhook secret and the tokens of a node and of the repository."""
    made = Parts(tmp_path_factory.mktemp("beside"), git_server)
    nodes = {"BS-SG-001": {"url": "http://127.0.0.1:9", "token": "the-token-of-a-gatekeeper"}}
    yield made.service(made.repo("say"), gatekeepers=nodes, repository_token="the-token-of-the-repository")
    made.close()


def _watched(service: BitongService, *arguments: str) -> tuple[list[str], bool]:
    """The database's files that a command had open, and whether another SQLite came into its memory."""
    told = service.folder / "told"
    token = service.token("read", "exec", "admin")
    settings = environment(service.settings, BITONG_URL=service.url, BITONG_TOKEN=token, TOLD=str(told))
    settings["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        env=settings,
        cwd=service.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, library = eval(told.read_text(), {})  # noqa: S307 - our own repr, of two constants
    return found, library


@pytest.mark.parametrize(
    "arguments",
    [
        ("tools", "list"),
        ("runs", "list"),
        pytest.param(("audit", "list"), marks=pytest.mark.slow),
        pytest.param(("token", "list"), marks=pytest.mark.slow),
        pytest.param(("exec", "say"), marks=pytest.mark.slow),
        pytest.param(("sync",), marks=pytest.mark.slow),
        pytest.param(("token", "create", "one", "--scope", "read"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_commands_beside_a_service_do_not_open_its_database(service: BitongService, arguments: tuple[str, ...]) -> None:
    """S8: they go through the service; a descriptor they closed could drop nobody's lock, for they have none."""
    assert _watched(service, *arguments) == ([], False)


@pytest.mark.parametrize("arguments", [("audit", "verify"), ("db", "check")], ids=" ".join)
def test_commands_that_must_look_into_the_file_do_so_with_the_same_library(
    service: BitongService, arguments: tuple[str, ...]
) -> None:
    """S8: and only with it; another SQLite in the same process would drop the locks when it closes the file."""
    _, other_library = _watched(service, *arguments)

    assert not other_library
    assert service.process is not None
    assert "libsqlite3" not in Path(f"/proc/{service.process.pid}/maps").read_text()


def test_a_service_goes_on_writing_while_its_file_is_verified(service: BitongService) -> None:
    """S8: verified again and again from the live file while runs are recorded; it finds a whole log, the service its lock.

    The files that the service holds are still those in the folder: none was removed or made anew by a reader.
    """
    token, ending, ran = service.token("exec"), threading.Event(), []

    def call() -> None:
        while not ending.is_set():
            ran.append(service.exec("say", token=token).json()["run"]["id"])

    caller = threading.Thread(target=call)
    caller.start()
    path = service.data_dir / "bitong.db"
    found = [
        bitong("audit", "verify", "--database", str(path), env=environment({}), cwd=service.folder) for _ in range(2)
    ]
    checked = service.cli("db", "check")
    ending.set()
    caller.join(60)

    assert [done.returncode for done in found] == [0, 0], found[0].stdout
    assert checked.returncode == 0
    assert len(ran) > 3
    assert {run["id"] for run in service.items("/runs")} >= set(ran)
    assert service.process is not None
    held = {str(file.readlink()) for file in Path(f"/proc/{service.process.pid}/fd").iterdir() if file.is_symlink()}
    assert {str(path), f"{path}-wal", f"{path}-shm"} <= held
    assert not [name for name in held if "bitong.db" in name and "deleted" in name]
    blocked = python(
        "import sys, pysqlite3.dbapi2 as s\n"
        "c = s.connect(sys.argv[1], isolation_level=None)\n"
        "print(c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchone()[0])\n"
        "c.execute('PRAGMA locking_mode=EXCLUSIVE')\n"
        "try: c.execute('PRAGMA journal_mode=DELETE').fetchone(); print('took it')\n"
        "except s.OperationalError as e: print(e)",
        str(path),
    )
    with blocked:
        told = blocked.communicate()[0]
    assert "locked" in told, "the service's locks stand"
    assert service.exec("say", token=token).json()["ok"]


def test_nothing_in_a_copy_of_the_database_authenticates(service: BitongService, tmp_path: Path) -> None:
    """S14: not in database, log, index or backup, at any moment: after start, while writing, after a kill, when closed."""
    tokens = [service.token("exec"), service.token("admin", name="second")]
    control = json.loads((service.data_dir / "control.json").read_bytes())["token"]
    issued = service.admin.post(f"{API}/tokens", json={"name": "by-api", "scopes": ["read"]}).json()["token"]
    service.admin.delete(f"{API}/tokens/by-api")
    secrets = {
        "webhook": service.hook_secret,
        "gatekeeper": "the-token-of-a-gatekeeper",
        "repository": "the-token-of-the-repository",
        "control": control,
        "issued": issued,
        **{
            f"token {number}": token
            for number, token in enumerate([*tokens, service.token("read", "exec", "confirm", "admin")])
        },
    }
    assert all(len(secret) > 8 for secret in secrets.values())

    def found(where: str) -> list[str]:
        place = tmp_path / where.replace(" ", "-")
        shutil.copytree(service.data_dir, place, ignore=shutil.ignore_patterns("mirror.git", "*.key", "control.json"))
        if (place / "bitong.db").exists():
            backup = sqlite.connect(place / "bitong.db")
            backup.execute("VACUUM INTO ?", (str(place / "backup.db"),))
            backup.close()
        content = b"".join(file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file())
        assert b"run.started" in content
        return [f"{name} {where}" for name, secret in secrets.items() if secret.encode() in content]

    said: list[str] = []
    for number in range(2):
        service.run("say")
        service.exec("say", {"wrong": number}, token=tokens[0])
        said += found(f"running {number}")
    service.kill()
    said += found("killed")
    service.start()
    secrets["control again"] = json.loads((service.data_dir / "control.json").read_bytes())["token"]
    service.stop()
    said += found("stopped")

    assert said == []
    log = service.log_text()
    assert [name for name, secret in secrets.items() if secret in log] == []
    service.start()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_and_all_in_it_is_the_operators_alone(service: BitongService) -> None:
    """design.md, Storage: 0700, its files 0600; control.json is there while the service runs and no longer."""
    folder = service.data_dir
    service.run("say")

    assert _mode(folder) == 0o700
    files = {file.name: _mode(file) for file in folder.iterdir() if file.is_file()}
    assert {"bitong.db", "bitong.db-wal", "bitong.db-shm", "control.json", "lock", "parameters.key"} <= set(files)
    assert {name: mode for name, mode in files.items() if mode != 0o600} == {}
    service.stop()
    assert not (folder / "control.json").exists()
    assert not (folder / "bitong.db-wal").exists()
    assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == []
    service.start()


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    """The rights of an older or hand-made folder are taken back."""
    folder = DataFolder(tmp_path / "data")
    folder.path.mkdir(mode=0o755)

    folder.make()

    assert _mode(folder.path) == 0o700


HOLDS_THE_FOLDER = """
import subprocess, sys
from pathlib import Path
from service.store.folder import Control, DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.make()
folder.lock()
folder.announce(Control("http://127.0.0.1:1", "t"))
child = subprocess.Popen(["sleep", "60"], close_fds=False)
print(child.pid, flush=True)
child.wait()
"""


def test_a_lock_is_one_processs_and_ends_with_it(tmp_path: Path) -> None:
    """Two on one folder: the second is refused by a sentence; after SIGKILL the file that is left blocks nobody.

    Also when a child of the killed process lives on: what it started does not hold the folder.
    """
    with python(HOLDS_THE_FOLDER, str(tmp_path / "data")) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        folder = DataFolder(tmp_path / "data")
        with pytest.raises(Unavailable, match="Another Bitong holds the lock") as refused:
            folder.lock()
        holder.kill()
        holder.wait()

        folder.lock()
        os.kill(child, 9)

    assert refused.value.code == "locked"
    assert (folder.path / "lock").exists()
    assert folder.running() == Control("http://127.0.0.1:1", "t"), (
        "a crash leaves it; whoever reads it asks that address"
    )
    folder.unlock()
    again = DataFolder(folder.path)
    again.lock()
    again.unlock()


def test_a_service_that_was_killed_starts_again_on_its_folder(service: BitongService) -> None:
    """Neither the lock's file, nor control.json, nor a write-ahead log left behind stands in the way; the token is new."""
    service.run("say")
    before = json.loads((service.data_dir / "control.json").read_bytes())

    service.kill()
    left = {file.name for file in service.data_dir.iterdir()}
    service.start()

    assert {"lock", "control.json", "bitong.db-wal"} <= left
    after = json.loads((service.data_dir / "control.json").read_bytes())
    assert after["token"] != before["token"]
    assert service.client(before["token"]).get(f"{API}/tools").status_code == 401
    assert service.run("say")["ok"]


def test_a_key_is_made_once_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    """R12: 32 bytes, 0600, the same at each start; a shortened one is neither used nor replaced."""
    folder = DataFolder(tmp_path / "data")
    folder.make()
    key = folder.key("parameters")

    assert folder.key("parameters") == key
    assert len(key) == 32
    assert _mode(folder.path / "parameters.key") == 0o600
    (folder.path / "parameters.key").write_bytes(key[:31])
    with pytest.raises(Unavailable, match=r"parameters\.key is damaged"):
        folder.key("parameters")
    assert (folder.path / "parameters.key").read_bytes() == key[:31]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    """S1: on a full disk the old content stays, and no half file is left beside it."""
    disk = small_disk("1m")
    folder = DataFolder(disk)
    folder.write("state", b"old")
    with pytest.raises(OSError, match="No space"):
        folder.write("state", b"x" * 2 * 1024 * 1024)

    assert (disk / "state").read_bytes() == b"old"
    assert [file.name for file in disk.iterdir()] == ["state"]

"""The starter set in `tools/`, each tool run as the seed's §4 shows: registered by a push, called, its real answer back."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.parts import Parts

if TYPE_CHECKING:
    from tests.harness.gatekeeper import ReferenceGatekeeper
    from tests.harness.service import BitongService

SHIPPED = Path(__file__).parents[2] / "tools"
NAMES = ["file-read", "file-write", "git-ops", "http-request", "shell-exec"]


class Starter:
    """A service whose repository is the starter set, and the gatekeeper that its tools run on."""

    def __init__(self, parts: Parts) -> None:
        self.node: ReferenceGatekeeper = parts.gatekeeper()
        repo = parts.repo()
        shutil.copytree(SHIPPED, repo.work / "tools", dirs_exist_ok=True)
        repo.commit("工具箱")
        self.service: BitongService = parts.service(repo, **self.node.settings)
        self.delivery = self.service.push(repo)


@pytest.fixture(scope="module")
def starter(shared_parts: Parts) -> Starter:
    return Starter(shared_parts)


def test_one_push_registers_the_seeds_five(starter: Starter) -> None:
    """Seed §2, step 1: the five folders, by name, in Chinese, with nobody installing anything; and what else is shipped."""
    tools = starter.service.tools()

    assert sorted(tools) == sorted(file.parent.name for file in SHIPPED.glob("*/TOOL.hdlp"))
    assert all(tool["author"] == "ICE-GL-ZY001" for tool in tools.values())
    assert all(tools[name]["warnings"] == [] for name in NAMES)


def test_a_tool_whose_far_side_is_not_set_up_is_registered_and_says_so(starter: Starter) -> None:
    """Persona database and Forgejo are the operator's to name: until then the tools are there, with a warning."""
    tools = starter.service.tools()

    codes = [[warning["code"] for warning in tools[name]["warnings"]] for name in ("persona-read", "repo-issues")]
    assert codes == [["executor-not-available"]] * 2


def test_shell_exec_says_hello(starter: Starter) -> None:
    """Seed §4, first example, word for word."""
    told = starter.service.run("shell-exec", {"cmd": "echo hello"})

    assert (told["ok"], told["method"], told["output"], told["error"]) == (True, "gatekeeper:exec", "hello\n", None)


def test_shell_exec_works_where_it_is_told_to(starter: Starter) -> None:
    told = starter.service.run("shell-exec", {"cmd": "pwd", "cwd": str(starter.node.root)})

    assert told["output"] == f"{starter.node.root}\n"


def test_git_ops_shows_the_latest_commits(starter: Starter) -> None:
    """The seed's own wish: 查看最近的提交记录."""
    place = starter.node.root / "some-repository"
    git = ["git", "-c", "user.name=铸渊", "-c", "user.email=zhuyuan@example.org", "-C", str(place)]
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "画一匹马"], check=True)

    told = starter.service.run("git-ops", {"repository": str(place), "operation": "log", "count": 5})

    assert told["ok"], told
    assert "画一匹马" in told["output"]


def test_git_ops_hands_no_option_to_git(starter: Starter) -> None:
    """A revision that begins with a dash would be an option; it is refused, and nothing runs."""
    answer = starter.service.exec("git-ops", {"repository": "/", "operation": "log", "revision": "--output=/tmp/x"})

    assert answer.status_code == 422
    assert answer.json()["run"]["state"] == "refused"


def test_file_write_then_file_read_give_the_same_text_back(starter: Starter) -> None:
    path = str(starter.node.root / "诗.txt")

    written = starter.service.run("file-write", {"path": path, "content": "神笔马良\n"})
    read = starter.service.run("file-read", {"path": path})

    assert written["ok"], written
    assert read["output"] == "神笔马良\n"
    assert Path(path).read_text(encoding="utf-8") == "神笔马良\n"


def test_file_write_does_not_cover_a_file_unless_told_to(starter: Starter) -> None:
    path = starter.node.root / "once.txt"
    path.write_text("first")

    told = starter.service.run("file-write", {"path": str(path), "content": "second"})

    assert told["ok"] is False
    assert told["error"]
    assert path.read_text() == "first"


def test_file_read_stays_inside_its_roots(starter: Starter) -> None:
    """M6: the real refusal comes back, and not a byte of the file."""
    told = starter.service.run("file-read", {"path": str(starter.node.root / "../../../../../../etc/passwd")})

    assert told["ok"] is False
    assert "root:" not in json.dumps(told)


def test_http_request_reaches_nothing_private_unless_told_to(starter: Starter) -> None:
    """X36, the default: the service itself stands on loopback and is not reached through a tool."""
    told = starter.service.run("http-request", {"url": f"{starter.service.url}/healthz"})

    assert told["ok"] is False
    assert told["error"]


def test_a_secret_header_of_http_request_is_in_no_kept_parameter(starter: Starter) -> None:
    """M7, on a shipped tool: the call fails, and the record holds a keyed hash in the header's place."""
    told = starter.service.run(
        "http-request", {"url": "http://127.0.0.1:9/", "headers": {"Authorization": "s3cr3t-value"}}
    )

    shown = starter.service.get(f"/runs/{told['run']['id']}")
    assert "s3cr3t-value" not in json.dumps(shown)
    assert base64.b64encode(b"s3cr3t-value").decode() not in json.dumps(shown)
    assert set(shown["params"]["headers"]) == {"secret"}


def test_json_format_lays_out_and_names_what_is_wrong(starter: Starter) -> None:
    """Its script comes from the commit with it; numbers and texts are as they were."""
    laid_out = starter.service.run("json-format", {"stdin": '{"a":1.10,"你":["好",{}]}'})
    wrong = starter.service.run("json-format", {"stdin": '{"a":1,\n}'})

    assert laid_out["output"] == '{\n  "a": 1.10,\n  "你": [\n    "好",\n    {}\n  ]\n}\n'
    assert (wrong["ok"], wrong["run"]["exit_code"]) == (False, 1)
    assert wrong["error"].startswith("第 2 行第 1 列 / line 2, column 1: ")

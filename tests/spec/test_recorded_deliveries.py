"""What two real Forgejo servers sent, byte for byte, in three orders: the registry is what git holds, each time."""

import hashlib
from dataclasses import dataclass

import pytest

from tests.git_http import git
from tests.harness.expected import Branch
from tests.harness.forge import RECORDED, ZEROS, NativeRepo, Recorded, recorded_deliveries
from tests.harness.parts import Parts
from tests.harness.service import BitongService

SECRET = "bitong-fixture-secret"
NO_TOOL_CAN_HAVE = 3  # folders: a byte that is not UTF-8, a tab, Chinese with a space and a quote
TIMES = {"in order": 1, "in reverse": 1, "each twice": 2}
EVERY = [
    pytest.param((version, order), id=f"{version} {order}", marks=[] if normal else [pytest.mark.slow])
    for version, order, normal in (
        ("11.0.15", "in order", True),
        ("11.0.15", "in reverse", True),
        ("11.0.15", "each twice", False),
        ("7.0.10", "in order", False),
        ("7.0.10", "in reverse", False),
        ("7.0.10", "each twice", True),
    )
]


@dataclass
class Played:
    """A service that was sent everything, the answers it gave, and the repository at its end."""

    service: BitongService
    branch: Branch
    answers: list[tuple[Recorded, int]]


def _follow(repo: NativeRepo, delivery: Recorded) -> None:
    """The branch as it stood on the day: where a push to main arrived, main stands at its `after`."""
    event = delivery.event
    if not event or event.get("ref") != "refs/heads/main" or event["repository"]["id"] != 1 or "after" not in event:
        return
    known = git("cat-file", "--batch-check", at=repo.bare, stdin=event["after"].encode())
    if not known.endswith("missing"):
        repo.place(event["after"])


@pytest.fixture(scope="module", params=EVERY)
def played(request: pytest.FixtureRequest, shared_parts: Parts) -> Played:
    version, order = request.param
    deliveries = recorded_deliveries(version)
    repo = shared_parts.repo()
    git("fetch", "--quiet", str(RECORDED / version / "native-repo.bundle"), "+refs/*:refs/recorded/*", at=repo.bare)
    tip = git("rev-parse", "refs/recorded/heads/main", at=repo.bare)
    if order == "in reverse":
        repo.place(tip)
        deliveries.reverse()
    service = shared_parts.service(repo, repository_id=1, webhook_secret=SECRET)
    answers = []
    for delivery in deliveries:
        if order != "in reverse":
            _follow(repo, delivery)
        sent = [service.hook(delivery.body, delivery.headers) for _ in range(TIMES[order])]
        answers += [(delivery, answer.status_code) for answer in sent]
    repo.place(tip)
    service.sync()
    return Played(service, Branch(repo.bare, tip), answers)


def test_each_delivery_is_answered_as_it_must_be(played: Played) -> None:
    """W1 for the hook without a secret, W8 for the form; all else, whatever its event, is fine with the forge."""
    wrong = []
    for delivery, status in played.answers:
        wanted = {"/nosecret": (401,), "/form": (415,)}.get(delivery.path, (202, 204))
        if status not in wanted:
            wrong.append((delivery.name, delivery.path, status))

    assert wrong == []


def test_the_registry_is_what_the_tip_of_main_holds(played: Played) -> None:
    """G24: whatever order they came in, and however often; `file-get` still names itself `file-read`."""
    folders = played.branch.folders(played.branch.tip)
    names = {name for name in folders if name.isascii() and name.isprintable() and name != "file-get"}

    tools = played.service.tools()

    assert len(folders) - len(names) == NO_TOOL_CAN_HAVE + 1
    assert set(tools) == names
    assert {name: tool["definition"]["commit"] for name, tool in tools.items()} == {
        name: played.branch.made_by(name) for name in names
    }
    assert {name: tool["definition"]["tree"] for name, tool in tools.items()} == {name: folders[name] for name in names}
    assert not any(tool["behind"] for tool in tools.values())


def test_what_cannot_be_registered_is_said(played: Played) -> None:
    """The moved definition and the three names that no tool can have stand in the list, with every problem."""
    current = [item for item in played.service.items("/rejections") if item["current"]]

    assert len({item["path"] for item in current}) == NO_TOOL_CAN_HAVE + 1
    assert any(item["tool"] == "file-get" for item in current)
    for item in current:
        assert item["problems"]
        assert all({"line", "column", "field", "code", "zh", "en"} <= set(problem) for problem in item["problems"])


def test_every_delivery_that_was_taken_has_a_row_with_its_outcome(played: Played) -> None:
    """Other branches, tags, issues and the other repository are kept as ignored, with the reason."""
    rows = {row["body_sha256"]: row for row in played.service.items("/deliveries")}

    assert rows
    taken = [delivery for delivery, status in played.answers if status // 100 == 2]
    ours = {"refs/heads/main", "main"}
    for delivery in taken:
        row = rows[hashlib.sha256(delivery.body).hexdigest()]
        if delivery.event["repository"]["id"] == 1 and delivery.event.get("ref") in ours:
            assert row["outcome"] in ("applied", "unchanged", "ignored"), delivery.name
        else:
            assert (row["outcome"], bool(row["reason"])) == ("ignored", True), delivery.name


def test_the_pusher_of_a_version_is_who_forgejo_says(played: Played) -> None:
    """Of a signed delivery for the tracked repository whose push brought the commit; never the claimed author."""
    versions = [version for name in played.service.tools() for version in played.service.versions(name)]
    told = {version["commit"]: version["pusher"] for version in versions}
    claimed = {
        delivery.event["pusher"]["login"]
        for delivery, _ in played.answers
        if delivery.event and "pusher" in delivery.event
    }

    assert set(told.values()) - {None} <= claimed
    known = played.branch.commits() | {ZEROS}  # what a push that took commits away moved from is not in the bundle
    for delivery, status in played.answers:
        event = delivery.event
        if status // 100 != 2 or not event or event.get("ref") != "refs/heads/main" or "pusher" not in event:
            continue
        if event["repository"]["id"] == 1 and event["before"] in known - {event["after"]} and event["after"] in told:
            assert told[event["after"]] == event["pusher"]["login"], delivery.name

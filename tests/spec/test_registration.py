"""From a push to the registry: what is registered, kept, rejected, removed, orphaned, and who is said to have done it.

Not testable from outside: a file changed in our own store (the end of X40, which the checker's tests cover), packs made
to exhaust a reader (G17, G18, G21: the mirror's tests).
"""

import hashlib
import shutil
from typing import Any

import pytest

from tests.git_http import GitHttpServer, git
from tests.harness.definitions import tool_text
from tests.harness.forge import DATA, ZEROS, NativeRepo, Push, push_payload
from tests.harness.parts import Parts
from tests.harness.service import API, BitongService, eventually

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def repo(shared_parts: Parts) -> NativeRepo:
    return shared_parts.repo("first")


@pytest.fixture(scope="module")
def bitong(shared_parts: Parts, repo: NativeRepo) -> BitongService:
    return shared_parts.service(repo, repository_id=1)


def _current(service: BitongService) -> dict[str, list[dict[str, Any]]]:
    """Folder → problems, of what the tip holds and could not be registered."""
    return {
        "".join(item["path"].split("/")[1:2]): item["problems"]
        for item in service.items("/rejections")
        if item["current"]
    }


def _codes(problems: list[dict[str, Any]]) -> set[str]:
    return {problem["code"] for problem in problems}


# What a push brings


def test_a_year_old_repository_of_120_tools_is_registered_by_its_first_push(parts: Parts) -> None:
    """Every style people write in, CRLF and a BOM, Chinese punctuation in texts: each one is valid.

    Before it the repository was empty: a branch that never existed is an empty registry, and ready.
    """
    repo = parts.repo()
    service = parts.service(repo)
    before = service.tools()
    shutil.copytree(DATA / "native-repo" / "tools", repo.work / "tools")
    repo.commit("一年的工具")

    row = service.push(repo, pusher="who-began")

    folders = {path.name for path in (DATA / "native-repo" / "tools").iterdir()}
    tools = service.tools()
    assert before == {}
    assert len(folders) == 120
    assert _current(service) == {}
    assert set(tools) == folders
    assert set(row["registered"]) == folders
    assert row["outcome"] == "applied"
    assert {tool["definition"]["pusher"] for tool in tools.values()} == {"who-began"}


def test_whoever_reads_that_a_push_was_applied_can_run_its_tools(bitong: BitongService, repo: NativeRepo) -> None:
    """The delivery's outcome is no promise but a report: what it says is registered runs with the next call."""
    missing = []
    for number in range(10):
        names = [f"at-once-{number}-{other}" for other in range(20)]
        for name in names:
            repo.write_tool(name)
        repo.commit()
        bitong.hook(push_payload(repo, repo.push()))
        while not bitong.get("/deliveries", limit=1)["items"][0]["outcome"]:
            pass
        shown = bitong.tools()
        missing += [name for name in names if name not in shown]

    assert missing == []


def test_a_definition_says_where_it_stands_in_git(bitong: BitongService, repo: NativeRepo) -> None:
    """Commit, tree and blob are git's own ids, the sha256 is of the file's bytes, which are kept as they are."""
    text = tool_text("stands", display="站着").encode().replace(b"\n", b"\r\n")
    repo.write_tool("stands", text=text)
    commit = repo.commit("写下一个工具", author="霜砚 <shuangyan@example.org>")
    bitong.push(repo, pusher="shuangyan")

    definition = bitong.tools()["stands"]["definition"]
    source = bitong.admin.get(f"{API}/tools/stands/versions/1/source")

    assert definition["version"] == 1
    assert definition["commit"] == commit
    assert definition["tree"] == repo.git("rev-parse", "HEAD:tools/stands")
    assert definition["blob"] == repo.git("rev-parse", "HEAD:tools/stands/TOOL.hdlp")
    assert definition["sha256"] == hashlib.sha256(text).hexdigest()
    assert definition["author"] == "ICE-GL-ZY001"
    assert definition["created"] == "2026-05-31"
    assert "霜砚" in str(definition["git_author"])
    assert definition["pusher"] == "shuangyan"
    assert source.content == text


def test_each_commit_that_changed_a_folder_is_a_version(bitong: BitongService, repo: NativeRepo) -> None:
    """History is complete, also where one push brings several commits; a change of comments alone counts (Y31)."""
    commits = []
    for text in (tool_text("grows"), tool_text("grows", display="二"), "# 注释\n" + tool_text("grows", display="二")):
        repo.write_tool("grows", text=text)
        commits.append(repo.commit())
    bitong.push(repo)

    versions = sorted(bitong.versions("grows"), key=lambda version: version["version"])

    assert [version["commit"] for version in versions] == commits
    assert [version["version"] for version in versions] == [1, 2, 3]
    assert [version["state"] for version in versions] == ["superseded", "superseded", "active"]


def test_forty_commits_are_all_found_though_the_payload_lists_fifteen(bitong: BitongService, repo: NativeRepo) -> None:
    """W16: Forgejo cuts the list without a word; git has them all, and all were pushed by the same person."""
    names = [f"of-forty-{number:02}" for number in range(40)]
    for name in names:
        repo.write_tool(name)
        repo.commit()

    row = bitong.push(repo, pusher="who-pushed-forty")

    tools = bitong.tools()
    assert set(row["registered"]) == set(names)
    assert {tools[name]["definition"]["pusher"] for name in names} == {"who-pushed-forty"}


@pytest.mark.parametrize("change", ["empty commit", "another file", "same content again"])
def test_a_push_that_changes_no_folder_of_a_tool_registers_nothing(
    bitong: BitongService, repo: NativeRepo, change: str
) -> None:
    """The contents API makes empty commits; the rest of the repository is not looked at."""
    before = bitong.tools()
    if change == "another file":
        repo.write("docs/README.md", "别处")
        repo.write("tools/README.md", "不是一个文件夹")
    repo.commit(change)

    row = bitong.push(repo)

    assert row["outcome"] == "unchanged"
    assert bitong.tools() == before


# What cannot be registered


def test_a_bad_definition_never_unpublishes_a_good_one(bitong: BitongService, repo: NativeRepo) -> None:
    """The last good version stays, marked behind; the rejection says file, line and reason in both languages."""
    repo.write_tool("stays", display="好的")
    good = repo.commit()
    bitong.push(repo)
    repo.write_tool("stays", text=tool_text("stays").replace("constraints: {}", "constraints: {timout_ms: 5}"))
    bad = repo.commit()

    row = bitong.push(repo, pusher="who-broke-it")

    tool = bitong.tools()["stays"]
    rejection = next(item for item in bitong.items("/rejections") if item["commit"] == bad)
    problem = rejection["problems"][0]
    assert (tool["definition"]["commit"], tool["behind"]) == (good, True)
    assert bitong.run("stays")["output"] == "stays\n"
    assert row["rejected"] == ["stays"]
    assert rejection["path"] == "tools/stays/TOOL.hdlp"
    assert (rejection["tool"], rejection["pusher"], rejection["current"]) == ("stays", "who-broke-it", True)
    assert problem["line"] == 7
    assert "timeout_ms" in problem["zh"]
    assert "timeout_ms" in problem["en"]

    repo.write_tool("stays", display="又好了")
    repo.commit()
    bitong.push(repo)

    mended = bitong.tools()["stays"]
    assert (mended["display"], mended["behind"]) == ("又好了", False)
    assert "stays" not in _current(bitong)
    assert any(item["commit"] == bad for item in bitong.items("/rejections"))


def test_a_definition_that_never_was_valid_is_no_tool(bitong: BitongService, repo: NativeRepo) -> None:
    """It is rejected with every problem at once, and the others of the push are registered."""
    repo.write_tool("never", folder="never", without=("why", "author"), created="yesterday")
    repo.write_tool("beside-never")
    repo.commit()

    row = bitong.push(repo)

    fields = {problem["field"] for problem in _current(bitong)["never"]}
    assert (row["registered"], row["rejected"]) == (["beside-never"], ["never"])
    assert {"why", "author", "created"} <= fields
    assert bitong.exec("never").status_code == 404


def _too_many(repo: NativeRepo, folder: str) -> None:
    for number in range(200):
        repo.write(f"{folder}/file-{number}", "x")


def _too_large(repo: NativeRepo, folder: str) -> None:
    repo.write(f"{folder}/large", b"x" * (2 * MIB))


def _too_large_together(repo: NativeRepo, folder: str) -> None:
    for number in range(5):
        repo.write(f"{folder}/part-{number}", bytes([number]) * (MIB - 1))


def _link(repo: NativeRepo, folder: str) -> None:
    (repo.work / folder / "link").symlink_to("/etc/passwd")


@pytest.mark.parametrize("spoil", [_too_many, _too_large, _too_large_together, _link])
def test_a_folder_beyond_its_limits_is_rejected(bitong: BitongService, repo: NativeRepo, spoil: Any) -> None:
    """X40: at most 200 files, 1 MiB each, 4 MiB together, regular files only."""
    name = spoil.__name__.strip("_").replace("_", "-")
    repo.write_tool(name)
    spoil(repo, f"tools/{name}")
    repo.commit()

    row = bitong.push(repo)

    assert row["rejected"] == [name]
    assert name in _current(bitong)
    assert name not in bitong.tools()


def test_a_folder_at_its_limits_is_registered(bitong: BitongService, repo: NativeRepo) -> None:
    """X40's other side: exactly 200 files, one of exactly 1 MiB."""
    repo.write_tool("at-limits")
    repo.write("tools/at-limits/large", b"x" * MIB)
    for number in range(198):
        repo.write(f"tools/at-limits/file-{number}", "x")
    repo.commit()

    assert bitong.push(repo)["registered"] == ["at-limits"]


# Scripts


def test_a_script_changed_alone_is_a_new_version_and_is_what_runs(bitong: BitongService, repo: NativeRepo) -> None:
    """G23: what runs is the folder as the commit holds it, with the modes it has there."""
    repo.write_tool("scripted", command=["./say.sh", "{word}"], params_schema={"word": {"type": "string"}})
    repo.write("tools/scripted/say.sh", '#!/bin/sh\necho "one $1"\n', executable=True)
    repo.commit()
    bitong.push(repo)
    first = bitong.run("scripted", {"word": "笔"})
    repo.write("tools/scripted/say.sh", '#!/bin/sh\necho "two $1"\n', executable=True)
    changed = repo.commit()
    bitong.push(repo)

    second = bitong.run("scripted", {"word": "筒"})

    assert (first["output"], first["definition"]["version"]) == ("one 笔\n", 1)
    assert (second["output"], second["definition"]["version"]) == ("two 筒\n", 2)
    assert second["definition"]["commit"] == changed
    assert second["definition"]["blob"] == first["definition"]["blob"]
    assert second["definition"]["tree"] != first["definition"]["tree"]


def test_tools_run_without_the_mirror_and_without_the_forge(parts: Parts) -> None:
    """R10: the files were stored at registration; with the forge gone, also at the start, registered tools run."""
    with GitHttpServer(parts.folder / "going") as going:
        repo = NativeRepo(going, "native-repo.git", parts.folder / "work")
        repo.write_tool("scripted", command=["sh", "say.sh"])
        repo.write("tools/scripted/say.sh", "echo still here\n")
        repo.commit()
        repo.push()
        service = parts.service(repo)
        service.stop()
    service.start()

    told = service.run("scripted")
    ready = service.anonymous.get("/readyz")
    body = push_payload(repo, Push(repo.tip(), repo.tip()))
    service.hook(body)

    assert told["output"] == "still here\n"
    assert ready.status_code == 200
    assert service.outcome(body, within_s=60)["outcome"] == "failed"


# Removal


def test_a_removed_folder_is_a_removed_tool_that_says_when_and_by_whom(bitong: BitongService, repo: NativeRepo) -> None:
    """G14: exec answers as for an unknown tool, and adds the removal; its versions stay to be read."""
    repo.write_tool("leaves")
    repo.commit()
    bitong.push(repo)
    run = bitong.run("leaves")["run"]["id"]
    repo.remove_tool("leaves")
    commit = repo.commit("不再需要", author="铸渊 <zhuyuan@example.org>")

    row = bitong.push(repo, pusher="zhuyuan")

    told = bitong.exec("leaves")
    answer = told.json()
    assert row["removed"] == ["leaves"]
    assert told.status_code == 404
    assert (answer["code"], answer["found"], answer["ok"]) == ("removed-tool", False, False)
    assert answer["suggestion"] == "此工具尚不在仓库中，需铸渊新建"
    assert answer["removed"]["commit"] == commit
    assert answer["removed"]["at"]
    assert "铸渊" in str(answer["removed"]["by"]) or "zhuyuan" in str(answer["removed"]["by"])
    assert "leaves" not in bitong.tools()
    assert [version["state"] for version in bitong.versions("leaves")] == ["removed"]
    assert bitong.get(f"/runs/{run}")["output"] == "leaves\n"


@pytest.mark.parametrize("how", ["definition", "rename"])
def test_a_folder_without_its_definition_is_a_removed_tool(bitong: BitongService, repo: NativeRepo, how: str) -> None:
    """Another file that stays does not make a tool; a renamed folder is another tool."""
    name = f"loses-{how}"
    repo.write_tool(name)
    repo.write(f"tools/{name}/notes.md", "留下")
    repo.commit()
    bitong.push(repo)
    if how == "definition":
        (repo.work / "tools" / name / "TOOL.hdlp").unlink()
    else:
        (repo.work / "tools" / name).rename(repo.work / "tools" / f"{name}-new")
        repo.write_tool(f"{name}-new")
    repo.commit()

    bitong.push(repo)

    assert bitong.exec(name).json()["code"] == "removed-tool"
    assert (f"{name}-new" in bitong.tools()) == (how == "rename")


def test_a_removed_tool_that_comes_back_goes_on_counting(bitong: BitongService, repo: NativeRepo) -> None:
    """A number is given once; version 1 stays what it was."""
    repo.write_tool("returns", display="一")
    repo.commit()
    repo.remove_tool("returns")
    repo.commit()
    repo.write_tool("returns", display="二")
    back = repo.commit()

    bitong.push(repo)

    definition = bitong.tools()["returns"]["definition"]
    assert (definition["version"], definition["commit"]) == (2, back)


# Force-push


def test_what_a_force_push_takes_away_is_orphaned_and_comes_back_with_its_commit(parts: Parts) -> None:
    """G13: it does not run (409), past runs and bytes stay; a tool that also stood before goes back to that version."""
    repo = parts.repo("kept")
    service = parts.service(repo)
    before = repo.tip()
    repo.write_tool("kept", display="新的")
    repo.write_tool("taken")
    after = repo.commit()
    service.push(repo)
    run = service.run("taken")["run"]["id"]

    service.deliver(repo, repo.place(before))
    orphaned = service.exec("taken")

    assert orphaned.status_code == 409
    assert orphaned.json()["code"] == "orphaned"
    assert set(service.tools()) == {"kept"}
    assert service.tools()["kept"]["definition"]["commit"] == before
    assert [version["state"] for version in service.versions("taken")] == ["orphaned"]
    assert service.get(f"/runs/{run}")["output"] == "taken\n"
    assert service.admin.get(f"{API}/tools/taken/versions/1/source").content == tool_text("taken").encode()

    service.deliver(repo, repo.place(after))
    eventually(lambda: service.exec("taken").status_code == 200)  # a repeat: its row had an outcome already

    assert service.run("taken")["definition"]["version"] == 1
    assert service.tools()["kept"]["definition"]["commit"] == after


def test_a_vanished_branch_is_no_mass_removal(parts: Parts) -> None:
    """W13: tools go on running while somebody finds out; the branch's return changes nothing."""
    repo = parts.repo("first", "second")
    service = parts.service(repo)
    tip = repo.tip()
    git("update-ref", "-d", "refs/heads/main", at=repo.bare)

    row = service.deliver(repo, Push(tip, ZEROS))

    assert not row["removed"]
    assert set(service.tools()) == {"first", "second"}
    assert service.run("first")["ok"] is True
    service.deliver(repo, repo.place(tip))
    assert {tool["definition"]["commit"] for tool in service.tools().values()} == {tip}
    assert [version["state"] for version in service.versions("second")] == ["active"]


# Names that collide


@pytest.mark.parametrize(("first", "second"), [("git-ops", "git_ops"), ("Foo", "foo"), ("a-B_c", "A_b-C")])
def test_of_two_names_that_collide_the_first_stays_until_it_leaves(
    bitong: BitongService, repo: NativeRepo, first: str, second: str
) -> None:
    """G16: both are named; G25: when the older one goes, the other is there without a commit of its own."""
    repo.write_tool(first)
    repo.commit()
    bitong.push(repo)
    repo.write_tool(second)
    commit = repo.commit()
    bitong.push(repo)

    problems = _current(bitong)[second]
    during = bitong.tools()

    assert _codes(problems) == {"name-collision"}
    assert first in problems[0]["zh"]
    assert first in problems[0]["en"]
    assert first in during
    assert second not in during
    assert [version["commit"] for version in bitong.versions(second)] == [commit]

    repo.remove_tool(first)
    repo.commit()
    bitong.push(repo)

    tools = bitong.tools()
    assert first not in tools
    assert tools[second]["definition"]["commit"] == commit
    assert second not in _current(bitong)


def test_of_two_colliding_names_of_one_commit_the_byte_order_decides(bitong: BitongService, repo: NativeRepo) -> None:
    """G16: nothing else tells which was first."""
    repo.write_tool("same_time")
    repo.write_tool("same-time")
    repo.commit()

    bitong.push(repo)

    tools = bitong.tools()
    assert "same-time" in tools
    assert "same_time" not in tools


# Merges


def test_a_merge_that_took_one_side_makes_no_version(bitong: BitongService, repo: NativeRepo) -> None:
    """G12: the folder is what one of the parents has, so that parent made it."""
    base = repo.head()
    repo.git("switch", "--quiet", "--create", "side")
    repo.write_tool("merged")
    made = repo.commit()
    repo.git("switch", "--quiet", "main")
    repo.write("docs/other.md", "另一边")
    repo.commit()
    repo.git("merge", "--quiet", "--no-ff", "-m", "合并", "side")
    assert repo.git("rev-parse", "HEAD^1^") == base

    bitong.push(repo)

    assert [version["commit"] for version in bitong.versions("merged")] == [made]
    assert bitong.tools()["merged"]["definition"]["commit"] == made


def test_a_merge_that_changed_the_folder_itself_makes_a_version(bitong: BitongService, repo: NativeRepo) -> None:
    """G12: an evil merge holds what neither parent has; so does one that takes a file from each side."""
    repo.write_tool("evil", display="底")
    bottom = repo.commit()
    repo.git("switch", "--quiet", "--create", "evil-side")
    repo.write("tools/evil/one", "1")
    one = repo.commit()
    repo.git("switch", "--quiet", "main")
    repo.write("tools/evil/two", "2")
    two = repo.commit()
    repo.git("merge", "--quiet", "--no-ff", "-m", "合并", "evil-side")
    merge = repo.head()

    bitong.push(repo)

    assert {version["commit"] for version in bitong.versions("evil")} == {bottom, one, two, merge}
    assert bitong.tools()["evil"]["definition"]["commit"] == merge


def test_an_octopus_merge_is_read_like_any_other(bitong: BitongService, repo: NativeRepo) -> None:
    """G12: three parents, each with a tool of its own."""
    made = {}
    for name in ("arm-one", "arm-two", "arm-three"):
        repo.git("switch", "--quiet", "--create", name, "main")
        repo.write_tool(name)
        made[name] = repo.commit()
    repo.git("switch", "--quiet", "main")
    repo.git("merge", "--quiet", "--no-ff", "-m", "章鱼", *made)

    bitong.push(repo)

    tools = bitong.tools()
    assert {name: tools[name]["definition"]["commit"] for name in made} == made


# Who


def test_the_pusher_of_a_version_never_changes(bitong: BitongService, repo: NativeRepo) -> None:
    """W24: neither a redelivery, nor a test delivery by someone else, nor a later push that reaches the commit."""
    repo.write_tool("whose")
    repo.commit()
    push = repo.push()
    bitong.deliver(repo, push, pusher="the-first")

    bitong.deliver(repo, push, pusher="the-second")
    bitong.deliver(repo, Push(push.after, push.after), pusher="the-tester")
    bitong.deliver(repo, Push(ZEROS, push.after), pusher="the-third")

    assert bitong.tools()["whose"]["definition"]["pusher"] == "the-first"


def test_a_pusher_nobody_told_of_stays_unknown(bitong: BitongService, repo: NativeRepo) -> None:
    """What a look finds by itself has authors that git claims, and no pusher; deliveries of others tell nothing."""
    repo.write_tool("unknown-pusher")
    repo.commit()
    push = repo.push()
    bitong.sync()
    bitong.deliver(repo, push, pusher="of-another-repository", repository_id=9)

    definition = bitong.tools()["unknown-pusher"]["definition"]

    assert definition["pusher"] is None
    assert "铸渊" in str(definition["git_author"])


# Commits and trees that git's own commands would not make


@pytest.fixture(scope="module")
def strange_repo(shared_parts: Parts) -> NativeRepo:
    return shared_parts.repo("good")


@pytest.fixture(scope="module")
def strange(shared_parts: Parts, strange_repo: NativeRepo) -> BitongService:
    return shared_parts.service(strange_repo)


def _folder(repo: NativeRepo, name: str, **fields: Any) -> str:
    """A tree that holds one valid TOOL.hdlp."""
    return repo.tree(("100644", b"TOOL.hdlp", repo.object("blob", tool_text(name, **fields).encode())))


def _plant(repo: NativeRepo, *entries: tuple[str, bytes, str], **commit: bytes) -> Push:
    """A commit on the tip whose `tools` holds `good` and these entries, in git's order."""
    good = git("rev-parse", f"{repo.tip()}:tools/good", at=repo.bare)
    listed = sorted([("40000", b"good", good), *entries], key=lambda e: e[1] + (b"/" if e[0] == "40000" else b""))
    root = repo.tree(("40000", b"tools", repo.tree(*listed)))
    return repo.place(repo.raw_commit(root, repo.tip(), **commit))


def _still_well(service: BitongService) -> None:
    assert service.run("good")["output"] == "good\n"
    assert service.anonymous.get("/readyz").status_code == 200


def test_two_definitions_in_one_folder_are_ambiguous(strange: BitongService, strange_repo: NativeRepo) -> None:
    """G1: parsers differ on which one counts, so none does; all else of the push is registered."""
    one, two = (strange_repo.object("blob", tool_text("twice", display=text).encode()) for text in "一二")
    tree = strange_repo.tree(("100644", b"TOOL.hdlp", one), ("100644", b"TOOL.hdlp", two))
    beside = ("40000", b"beside-twice", _folder(strange_repo, "beside-twice"))

    row = strange.deliver(strange_repo, _plant(strange_repo, ("40000", b"twice", tree), beside))

    assert row["registered"] == ["beside-twice"]
    assert "twice" in _current(strange)
    assert "twice" not in strange.tools()
    _still_well(strange)


def test_two_folders_of_one_name_are_both_rejected(strange: BitongService, strange_repo: NativeRepo) -> None:
    """G1: the same name twice in `tools`."""
    one, two = (_folder(strange_repo, "double", display=text) for text in "一二")

    strange.deliver(strange_repo, _plant(strange_repo, ("40000", b"double", one), ("40000", b"double", two)))

    assert "double" in _current(strange)
    assert "double" not in strange.tools()
    _still_well(strange)


def test_a_definition_that_is_a_link_is_rejected(strange: BitongService, strange_repo: NativeRepo) -> None:
    """G7: mode 120000 is said by its name."""
    target = strange_repo.object("blob", b"../good/TOOL.hdlp")
    tree = strange_repo.tree(("120000", b"TOOL.hdlp", target))

    strange.deliver(strange_repo, _plant(strange_repo, ("40000", b"linked", tree)))

    problems = _current(strange)["linked"]
    assert "symlink" in str(problems) or "symbolic link" in str(problems)
    assert "linked" not in strange.tools()
    _still_well(strange)


def test_a_folder_that_is_a_link_is_rejected(strange: BitongService, strange_repo: NativeRepo) -> None:
    """G9: `tools/foo` is a symlink to another tool."""
    strange.deliver(
        strange_repo, _plant(strange_repo, ("120000", b"link-to-good", strange_repo.object("blob", b"good")))
    )

    assert "link-to-good" not in strange.tools()
    assert "link-to-good" in str(strange.items("/rejections"))
    _still_well(strange)


@pytest.mark.parametrize(
    "name", [b"..", b".", b".git", b"a/b", b"bad-\xff-name", b"new\nline", b"tab\tline", "名字".encode(), b"-rf"]
)
def test_a_folder_with_a_name_no_tool_can_have_is_rejected_alone(
    strange: BitongService, strange_repo: NativeRepo, name: bytes
) -> None:
    """G10, Y30: the other tools of the push are registered; what the name would be a path of is not touched."""
    beside = f"beside-{name.hex()}"
    before = {item["commit"] for item in strange.items("/rejections")}

    row = strange.deliver(
        strange_repo,
        _plant(
            strange_repo,
            ("40000", name, _folder(strange_repo, "x")),
            ("40000", beside.encode(), _folder(strange_repo, beside)),
        ),
    )

    new = [item for item in strange.items("/rejections") if item["commit"] not in before]
    assert row["registered"] == [beside]
    assert [item["commit"] for item in new] == [strange_repo.tip()]
    assert new[0]["problems"]
    _still_well(strange)


def test_two_author_lines_are_nobodys_claim(strange: BitongService, strange_repo: NativeRepo) -> None:
    """G3: a commit with two authors is no source of an author; nothing of the service minds it."""
    author = b"author one <one@example.org> 1780000000 +0000\nauthor two <two@example.org> 1780000000 +0000\n"

    push = _plant(strange_repo, ("40000", b"two-authors", _folder(strange_repo, "two-authors")), author=author)
    strange.deliver(strange_repo, push)

    tool = strange.tools().get("two-authors")
    assert (tool is None and "two-authors" in _current(strange)) or tool["definition"]["git_author"] is None
    _still_well(strange)


@pytest.mark.parametrize(
    "author",
    [
        b"author nobody 1780000000 +0000\n",
        b"author no-time <x@example.org>\n",
        b"author before <x@example.org> -5 +0000\n",
        b"author long <x@example.org> 99999999999999999999 +0000\n",
        b"author far <x@example.org> 253402300800 +0000\n",
        b"author zone <x@example.org> 1780000000 +9999\n",
        b"author \xc4\xe3\xba\xc3 <x@example.org> 1780000000 +0800\nencoding GBK\n",
        b"author <b>markup</b> <x@example.org> 1780000000 +0800\n",
    ],
    ids=repr,
)
def test_an_author_line_that_cannot_be_read_is_shown_as_claimed(
    strange: BitongService, strange_repo: NativeRepo, author: bytes
) -> None:
    """G4, G6: registered all the same; author and date are claims."""
    name = f"author-{hashlib.sha256(author).hexdigest()[:8]}"

    row = strange.deliver(
        strange_repo, _plant(strange_repo, ("40000", name.encode(), _folder(strange_repo, name)), author=author)
    )

    assert row["registered"] == [name]
    assert strange.run(name)["output"] == f"{name}\n"
    assert [version["commit"] for version in strange.versions(name)] == [strange_repo.tip()]


# The repository's own address and secret


def test_a_repository_that_asks_for_a_token_is_read_with_it_and_never_shown_it(parts: Parts) -> None:
    """The token goes to the repository's own origin alone, and stands in no answer, no log and no file of ours."""
    secret = "a-token-for-git-alone"
    with GitHttpServer(parts.folder / "closed", user="bitong", token=secret) as closed:
        repo = NativeRepo(closed, "native-repo.git", parts.folder / "work")
        repo.write_tool("behind-a-door")
        repo.commit()
        repo.push()
        service = parts.service(repo, repository_token=secret)
        told = service.run("behind-a-door")
        closed.require(token="another", user="bitong")
        service.sync()
        again = service.run("behind-a-door")

        shown = service.log_text() + str(service.items("/audit")) + service.anonymous.get("/readyz").text
        assert (told["ok"], again["ok"]) == (True, True)
        assert secret not in shown
        assert not any(secret.encode() in file.read_bytes() for file in service.data_dir.rglob("*") if file.is_file())
        closed.require(token=secret, user="bitong")


def test_a_repository_that_comes_back_is_read_again(parts: Parts) -> None:
    """R10: what happened meanwhile is found by the next look, without anybody's help."""
    with GitHttpServer(parts.folder / "away") as away:
        repo = NativeRepo(away, "native-repo.git", parts.folder / "work")
        repo.write_tool("first")
        repo.commit()
        repo.push()
        service = parts.service(repo, poll_interval_s=1)
        away.faults.status = 502
        repo.write_tool("meanwhile")
        repo.commit()
        push = repo.push()
        body = push_payload(repo, push, pusher="told-meanwhile")
        service.hook(body)
        failed = service.outcome(body, within_s=60)["outcome"]
        during = set(service.tools())
        away.faults.status = None

        eventually(lambda: "meanwhile" in service.tools(), within_s=60)

        assert failed == "failed"
        assert during == {"first"}
        assert service.tools()["meanwhile"]["definition"]["pusher"] == "told-meanwhile"
        eventually(lambda: (service.delivery(body) or {}).get("outcome") == "applied")

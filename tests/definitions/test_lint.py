"""`bitong lint`: the same checks on files (contract/tool-hdlp.md, contract/cli.md)."""

import json
import os
import shutil
from pathlib import Path

import pytest

from service.intake.definitions.lint import as_json, as_sarif, as_text, lint
from tests.definitions.written import SEED, changed

NATIVE = Path(__file__).parent.parent / "data" / "native-repo"


def write(folder: Path, text: str = SEED, name: str = "TOOL.hdlp") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def summary(paths: list[Path]) -> list[tuple[str, list[str]]]:
    return [(path.name, [problem.code for problem in reading.problems]) for path, reading in lint(paths)]


@pytest.mark.parametrize("path", [".", "tools", "tools/shell-exec", "tools/shell-exec/TOOL.hdlp"])
def test_a_clone_its_tools_a_folder_or_a_file_can_be_linted(tmp_path, path):
    file = write(tmp_path / "tools" / "shell-exec")

    results = lint([tmp_path / path])

    assert [found for found, _ in results] == [file]
    assert results[0][1].problems == ()


def test_the_sample_repository_is_well():
    results = lint([NATIVE])

    assert len(results) == 120
    assert all(reading.definition is not None for _, reading in results)


def test_the_folder_gives_the_name_also_from_inside_it(tmp_path, monkeypatch):
    write(tmp_path / "shell-exec")
    monkeypatch.chdir(tmp_path / "shell-exec")

    assert summary([Path("TOOL.hdlp")]) == [("TOOL.hdlp", [])]
    assert summary([Path()]) == [("TOOL.hdlp", [])]


def test_a_path_that_is_not_there_or_holds_nothing_is_a_problem(tmp_path):
    """Silence would look like success."""
    assert summary([tmp_path / "no"]) == [("no", ["no-such-file"])]
    assert summary([tmp_path]) == [(tmp_path.name, ["no-definitions"])]


def test_a_file_nearly_named_so_is_a_problem(tmp_path):
    write(tmp_path / "tools" / "shell-exec", name="tool.hdlp")

    assert summary([tmp_path]) == [("tool.hdlp", ["misnamed-file"])]


def test_symbolic_links_are_problems_and_not_followed(tmp_path):
    """Registration rejects them (cases.md G7, G9), and a link may lead out of the clone."""
    file = write(tmp_path / "elsewhere" / "shell-exec")
    (tmp_path / "repo" / "tools" / "a").mkdir(parents=True)
    (tmp_path / "repo" / "tools" / "a" / "TOOL.hdlp").symlink_to(file)
    (tmp_path / "repo" / "tools" / "b").symlink_to(file.parent)

    assert summary([tmp_path / "repo"]) == [("TOOL.hdlp", ["symlink"]), ("b", ["symlink"])]


def test_a_large_file_or_a_pipe_is_not_read(tmp_path):
    """Y23: 50 MB cost nothing; a pipe would block."""
    large = write(tmp_path / "large")
    os.truncate(large, 50_000_000)
    pipe = tmp_path / "pipe" / "TOOL.hdlp"
    pipe.parent.mkdir()
    os.mkfifo(pipe)

    assert summary([large, pipe]) == [("TOOL.hdlp", ["too-large"]), ("TOOL.hdlp", ["not-a-file"])]


def test_names_that_collide_are_a_problem_of_the_later_one(tmp_path):
    """As registration decides within one commit: byte order (cases.md G16)."""
    for name in ("git-ops", "git_ops", "Git-Ops", "other"):
        write(tmp_path / "tools" / name, changed(("name: shell-exec", f"name: {name}")))

    results = {path.parent.name: reading for path, reading in lint([tmp_path])}

    assert [name for name, reading in results.items() if not reading.problems] == ["Git-Ops", "other"]
    assert results["git_ops"].problems[0].code == "name-collision"
    assert "Git-Ops" in results["git_ops"].problems[0].en


def test_the_text_form_has_places_and_both_languages(tmp_path):
    file = write(tmp_path / "shell-exec", changed(("30000", '"30000"')))
    results = lint([file])

    assert f"{file}:10:15: problem: constraints.timeout_ms takes an integer" in as_text(results, "en")
    assert f"{file}:10:15: 问题: constraints.timeout_ms要整数" in as_text(results, "zh")
    assert as_text(results, "en").endswith("[wrong-type]\n1 files, 1 problems, 0 warnings.\n")


def test_a_path_cannot_move_a_terminal(tmp_path):
    results = lint([tmp_path / "a\x1b[31m\nb"])

    assert "\x1b" not in as_text(results)
    assert len(as_text(results).splitlines()) == 2


def test_the_json_form_holds_definition_problems_and_warnings(tmp_path):
    good, bad = write(tmp_path / "shell-exec"), write(tmp_path / "x", changed(("type: string", "type: text")))
    report = json.loads(as_json(lint([good, bad])))

    assert [file["ok"] for file in report["files"]] == [True, False]
    assert report["files"][0]["definition"]["name"] == "shell-exec"
    assert report["files"][1]["problems"][1]["field"] == "params_schema.cmd.type"
    assert (report["problems"], report["warnings"]) == (2, 0)


def test_the_sarif_form_is_what_forges_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "tools" / "shell exec", changed(("30000", '"30000"')))
    report = json.loads(as_sarif(lint([Path("tools")])))

    (run,) = report["runs"]
    by_rule = {result["ruleId"]: result for result in run["results"]}
    assert report["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == sorted(by_rule)
    place = by_rule["wrong-type"]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "tools/shell%20exec/TOOL.hdlp"},
        "region": {"startLine": 10, "startColumn": 15},
    }
    assert by_rule["wrong-type"]["level"] == "error"


def test_nothing_in_the_linted_place_is_taken_as_configuration(tmp_path):
    """A clone of somebody else must not decide how it is checked."""
    shutil.copytree(NATIVE / "tools" / "disk-usage", tmp_path / "tools" / "disk-usage")
    (tmp_path / "pyproject.toml").write_text("[tool.bitong]\nignore = ['*']\n", encoding="utf-8")
    (tmp_path / ".bitong.toml").write_text("ignore = ['*']\n", encoding="utf-8")
    write(tmp_path / "tools" / "bad", SEED)

    assert summary([tmp_path]) == [("TOOL.hdlp", ["name-mismatch"]), ("TOOL.hdlp", [])]

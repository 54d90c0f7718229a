"""The house rules that a machine can hold: what stands at the top, which way imports go, what is documented."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from service.settings import SETTINGS

HOUSE = Path(__file__).parent.parent
SOURCES = sorted((HOUSE / "service").rglob("*.py"))
LONGEST_FILE = 400  # lines; style.md: look twice at 250, stop here
LONGER_ON_PURPOSE = {}

PROJECT = {"pyproject.toml", "service", "migrations", "tests", "tools", "deploy", "README.md"}
CARRIED = {".ci", ".gitignore", ".editorconfig", "LICENSE", "CHANGELOG.md", "Makefile", "uv.lock"}


def tracked() -> list[str]:
    """Paths that git holds, or would hold after an `add`: what make, tests and runs leave behind is ignored."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    paths = subprocess.run(listing, cwd=HOUSE, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in paths if (HOUSE / path).exists()]


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def setting_names(names: set[str]) -> set[str]:
    """Secrets may be given as `<name>_file`."""
    secrets = {setting.name for setting in SETTINGS if setting.secret}
    return {name.removesuffix("_file") if name.removesuffix("_file") in secrets else name for name in names}


def test_the_top_level_holds_what_the_frame_allows():
    """design.md, Top level (fixed)."""
    top = {path.split("/")[0] for path in tracked()}

    assert top - PROJECT - CARRIED == set()
    assert {*PROJECT, "LICENSE", "CHANGELOG.md", "Makefile", "uv.lock", ".ci"} - top == set()


def test_imports_go_down_only():
    """The contracts stand in pyproject.toml; their checker says which import breaks which."""
    program = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run([program, "--no-cache"], cwd=HOUSE, capture_output=True, text=True, check=False, timeout=100)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_source_file_says_what_it_is_for():
    silent = [str(file.relative_to(HOUSE)) for file in SOURCES if not ast.get_docstring(ast.parse(file.read_bytes()))]

    assert silent == []


def test_no_source_file_is_longer_than_anyone_reads():
    """Each exception has its reason, and goes when it is no longer one."""
    sizes = {str(file.relative_to(HOUSE)): lines(file) for file in SOURCES}
    long = {name: size for name, size in sizes.items() if size > LONGEST_FILE}

    assert {name: size for name, size in long.items() if name not in LONGER_ON_PURPOSE} == {}
    assert LONGER_ON_PURPOSE.keys() - long.keys() == set()


def test_every_setting_is_documented():
    """README's table of settings: a row for each, and none for what is no setting."""
    readme = (HOUSE / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^(#+) [^\n]*(?:Settings|设置)[^\n]*\n(.*?)(?=^#{1,6} |\Z)", readme, re.MULTILINE | re.DOTALL)
    if section is None:
        pytest.skip("README has no heading Settings yet")

    rows = re.findall(r"^\| *((?:`[a-z_]+`[, ]*)+)", section[2], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}

    assert documented == {setting.name for setting in SETTINGS}


def test_the_example_configuration_names_every_setting():
    example = (HOUSE / "deploy" / "bitong.toml.example").read_text(encoding="utf-8")
    with_everything = re.sub(r"^# (?=[a-z_]+ = |\[)", "", example, flags=re.MULTILINE)

    assert setting_names({*tomllib.loads(with_everything)}) == {setting.name for setting in SETTINGS}


def test_the_unit_sets_only_settings_that_exist():
    """An unknown BITONG_ variable keeps the service from starting."""
    unit = (HOUSE / "deploy" / "bitong.service").read_text(encoding="utf-8")
    names = {name.lower() for name in re.findall(r"^#?Environment=BITONG_(\w+)=", unit, re.MULTILINE)}

    assert setting_names(names - {"config"}) - {setting.name for setting in SETTINGS} == set()


def test_the_unit_waits_longer_than_the_service_takes_to_stop():
    """Else systemd kills runs whose records are still to be written (cases.md R7)."""
    unit = (HOUSE / "deploy" / "bitong.service").read_text(encoding="utf-8")
    patience = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    grace = next(setting.default for setting in SETTINGS if setting.name == "shutdown_grace_s")

    assert patience
    assert int(patience[1]) >= 2 * grace

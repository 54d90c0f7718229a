"""What the verifier's tests share: one whole database, and a copy of it to spoil."""

import shutil
from pathlib import Path

import pytest

from tests.verify.builder import example, signed_example


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    """A log of everything, with a tile; built once, and what the builder knows of it."""
    path = tmp_path_factory.mktemp("original") / "bitong.db"
    log = example(path, runs=150)
    log.close()
    return log


@pytest.fixture(scope="session")
def whole_record(tmp_path_factory):
    """A log with confirmations, keys and checkpoints: the builder, the keys, the notes."""
    path = tmp_path_factory.mktemp("record") / "bitong.db"
    built = signed_example(path)
    built[0].close()
    return built


@pytest.fixture
def record(whole_record, tmp_path):
    """A copy of it to spoil."""
    return Path(shutil.copy(whole_record[0].path, tmp_path / "record.db"))


@pytest.fixture
def copy(original, tmp_path):
    return Path(shutil.copy(original.path, tmp_path / "copy.db"))

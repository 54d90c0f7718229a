"""The bridge from Chinese to English: a table made from CC-CEDICT's form, and matching across it."""

import gzip
from pathlib import Path

import pysqlite3.dbapi2 as sqlite
import pytest

from service.domain.search.matcher import Matcher
from service.store import dictionary
from service.store.dictionary import InstalledDictionary
from tests.matching.registry import ANYONE, tool

# In the form of CC-CEDICT, the words our own.
LINES = """\
# a comment
磁盤 磁盘 [ci2 pan2] /(computer) disk/disk drive/
翻譯 翻译 [fan1 yi4] /to translate/to interpret/translator/CL:個|个[ge4]/
天文 天文 [tian1 wen2] /astronomy/
天文臺 天文台 [tian1 wen2 tai2] /observatory/
冷 冷 [leng3] /cold/
不是一行
望遠鏡 望远镜 [wang4 yuan3 jing4] /telescope/binoculars/
"""


@pytest.fixture
def opened(tmp_path: Path):
    source = tmp_path / "words.txt.gz"
    source.write_bytes(gzip.compress(LINES.encode()))
    dictionary.build(source, tmp_path / "words.sqlite")
    found = InstalledDictionary(tmp_path / "words.sqlite")
    yield found
    found.close()


def test_the_longest_entry_counts(opened):
    assert list(opened.glosses("看天文台的望远镜")) == [
        ("天文台", ["observatory"]),
        ("望远镜", ["telescope", "binoculars"]),
    ]


def test_asides_and_references_are_no_words(opened):
    assert [words for _, words in opened.glosses("磁盘翻译")] == [
        ["disk", "drive"],
        ["translate", "interpret", "translator"],
    ]


@pytest.mark.parametrize("text", ["", "disk", "冷", "一二三四五六七八九十", "😀", "\ud800", "天文" * 100_000])
def test_any_text_is_taken(opened, text):
    assert {entry for entry, _ in opened.glosses(text)} <= {"天文"}


def test_a_chinese_intent_finds_an_english_tool(opened):
    tools = [tool("telescope-point", "", "Point the telescope at a star"), tool("file-read", "", "Read a file")]

    assert not Matcher(tools).match("望远镜", ANYONE).found
    assert Matcher(tools, dictionary=opened).match("望远镜", ANYONE).candidates[0].tool == "telescope-point"


def test_an_english_intent_finds_a_chinese_tool(opened):
    tools = [tool("t-1", "望远镜", "转动望远镜"), tool("t-2", "文件", "读取文件")]

    assert not Matcher(tools).match("telescope", ANYONE).found
    assert Matcher(tools, dictionary=opened).match("telescope", ANYONE).candidates[0].tool == "t-1"


def test_the_table_says_where_it_comes_from(opened, tmp_path):
    """CC BY-SA 4.0 asks for the source's name."""
    with sqlite.connect(tmp_path / "words.sqlite") as connection:
        [(says,)] = connection.execute("SELECT says FROM source")

    assert "CC-CEDICT" in says
    assert "CC BY-SA 4.0" in says


def test_without_the_package_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(dictionary, "PACKAGE", "no_such_package_is_installed")

    assert dictionary.installed(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_installed_package_is_built_once(tmp_path, monkeypatch):
    (tmp_path / "carrier" / "data").mkdir(parents=True)
    (tmp_path / "carrier" / "__init__.py").touch()
    (tmp_path / "carrier" / "data" / "words.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dictionary, "PACKAGE", "carrier")
    folder = tmp_path / "kept"
    folder.mkdir()

    first = dictionary.installed(folder)
    built = [(path.name, path.stat().st_ino) for path in folder.iterdir()]
    again = dictionary.installed(folder)

    assert first is not None
    assert again is not None
    assert list(again.glosses("望远镜")) == [("望远镜", ["telescope", "binoculars"])]
    assert [(path.name, path.stat().st_ino) for path in folder.iterdir()] == built
    first.close()
    again.close()

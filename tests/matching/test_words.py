"""How a text is read: Chinese by characters and pairs, Latin words by stems, both by the classes they belong to."""

import pytest

from service.domain.search.queries import terms
from service.domain.search.spelling import Spelling
from service.domain.search.stems import stem
from service.domain.search.words import MAX_CHARACTERS, units, words


def test_chinese_is_read_by_characters_and_pairs():
    assert {"磁", "盘", "磁盘"} <= set(words("磁盘"))


def test_what_says_nothing_is_left_out():
    assert set(words("请把它给我")) & {"请", "把", "它", "给", "我"} == set()
    assert list(words("please do it for me")) == []


@pytest.mark.parametrize("text", ["repoCreateBranch", "repo_create_branch", "repo-create-branch", "Repo Create Branch"])
def test_identifiers_are_split_however_they_are_written(text):
    assert list(words(text, classes=False)) == ["repo", "creat", "branch"]


def test_full_width_letters_are_letters():
    assert set(words("ＮＧＩＮＸ　重启")) == set(words("nginx 重启"))


@pytest.mark.parametrize(
    ("one", "other"),
    [("restarting", "restart"), ("queries", "query"), ("running", "run"), ("files", "file"), ("deployed", "deploy")],
)
def test_endings_do_not_part_words(one, other):
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["status", "access", "redis", "https", "ls", "a1s", "é"])
def test_what_is_no_ending_stays(word):
    assert stem(word).startswith(word[:-1])
    assert stem(word) == stem(stem(word))


def test_both_languages_share_classes():
    assert set(words("重启")) & set(words("restart")) == {"=restart"}
    assert "#disk" in set(words("硬盘")) & set(words("disk"))


def test_the_longest_phrase_wins():
    [phrase] = [unit for unit in units("定时任务") if unit.classes]

    assert phrase.text == "定时任务"
    assert phrase.classes == ("#schedule",)


def test_two_latin_words_may_make_one_phrase():
    assert "#pullrequest" in set(words("open the pull requests"))


def test_digests_and_keys_serve_no_search():
    assert list(words("a" * 64)) == []


def test_only_the_beginning_of_a_long_text_is_read():
    assert set(words("日志" * MAX_CHARACTERS + "证书")) == set(words("日志" * 10))


@pytest.mark.parametrize("typed", ["regsiter", "registr", "regiister", "regiater"])
def test_one_slip_in_a_latin_word_is_understood(typed):
    known = {"register", "persona"}

    [term] = terms(typed, known.__contains__, Spelling(known))

    assert term.unit.words == ("register",)
    assert term.unit.text == typed
    assert term.weight < 1


def test_a_slip_that_could_be_two_words_is_left_alone():
    known = {"qwertz", "qwerta"}

    [term] = terms("qwert", known.__contains__, Spelling(known))

    assert term.unit.words == ("qwert",)


def test_a_word_counts_once_however_often_it_is_said():
    once, often = (terms(text, set().__contains__, Spelling(())) for text in ("日志", "日志日志日志"))

    assert [term.unit.words for term in often if "日志" in term.unit.words] == [
        term.unit.words for term in once if "日志" in term.unit.words
    ]

"""Intents of one kind, put together for the report of missing tools."""

from service.domain.search.clusters import clustered


def together(*texts: str) -> list[list[str]]:
    return [[texts[place] for place in places] for places in clustered(texts)]


def test_other_wordings_of_one_wish_are_put_together():
    weather = ("查一下明天的天气", "明天的天气怎么样", "看看明天的天气预报")

    assert together(*weather) == [[*weather]]


def test_a_verb_in_common_joins_nothing():
    assert together("查快递", "查天气") == [["查快递"], ["查天气"]]


def test_endings_of_english_words_keep_nothing_apart():
    assert len(together("translate this text to French", "translating texts into french, please")) == 1


def test_the_largest_comes_first_and_then_the_first():
    found = together("蒸馒头", "translate a letter", "蒸一锅馒头", "浇花")

    assert found == [["蒸馒头", "蒸一锅馒头"], ["translate a letter"], ["浇花"]]


def test_what_holds_no_word_stays_alone():
    assert together("", "🎉", "?") == [[""], ["🎉"], ["?"]]


def test_thousands_take_no_long():
    texts = [f"第{chr(0x4E00 + number % 3000)}{chr(0x5E00 + number // 7)}个愿望" for number in range(2000)]

    assert sum(map(len, clustered(texts))) == 2000

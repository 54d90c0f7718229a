"""Values in a URL: each fills its slot and is never more than that (contract/executors.md, Common)."""

import json
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.execution.executors.paths import fill, query_string, scalar_text, slot_problems, within

BASE = "http://127.0.0.1:3100/hlpd"
PERSONA = "/personas/{personaId}"
CONTENTS = "/repos/{owner}/{repo}/contents/{filepath}"
COMMIT = "/repos/{owner}/{repo}/git/commits/{sha}.{diffType}"
TWO_IN_ONE = "/a/{one}{two}/z"
DEEP = ("filepath",)
OPENED = {"owner": "fifthsystem", "repo": "native-repo"}


def codes(template, values, deep=()):
    """The codes by parameter."""
    return {problem.param: problem.code for problem in slot_problems(template, values, deep=deep)}


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("ICE-GL-ZY001", "ICE-GL-ZY001"),
        ("铸渊", "%E9%93%B8%E6%B8%8A"),
        ("a b?c#d;e=f&g@h:i", "a%20b%3Fc%23d%3Be%3Df%26g%40h%3Ai"),
        ("100%", "100%25"),
        ("...", "..."),
        (".git", ".git"),
        ("{repo}", "%7Brepo%7D"),
        (7, "7"),
        (1.5e300, "1.5e%2B300"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_value_is_one_percent_encoded_segment(value, sent):
    """Numbers and booleans as JSON has them; what was put in is not read again."""
    values = {"personaId": value}

    path = fill(PERSONA, values)

    assert slot_problems(PERSONA, values) == []
    assert path == "/personas/" + sent
    assert within(BASE + path, BASE, PERSONA)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "empty"),
        (".", "bad-segment"),
        ("..", "bad-segment"),
        ("../user/tokens", "bad-segment"),
        ("a/b", "bad-segment"),
        ("a\\b", "bad-segment"),
        ("%2e", "bad-segment"),
        ("%2E%2e", "bad-segment"),
        (".%2e", "bad-segment"),
        ("%252e%252e", "bad-segment"),
        ("a%2fb", "bad-segment"),
        ("a%5Cb", "bad-segment"),
        ("a%252Fb", "bad-segment"),
        ("\0", "control-character"),
        ("a\r\nHost: evil", "control-character"),
        ("%00", "control-character"),
        ("%250a", "control-character"),
        ("\x9b", "control-character"),
        ("\ud800", "bad-text"),
        (None, "wrong-type"),
        ([], "wrong-type"),
        (["a"], "wrong-type"),
        ({"a": 1}, "wrong-type"),
        (float("nan"), "wrong-type"),
    ],
)
def test_a_value_that_is_no_segment_is_refused(value, code):
    """M2, M6: as given, decoded once or decoded twice."""
    assert codes(PERSONA, {"personaId": value}) == {"personaId": code}


def test_every_slot_needs_its_own_value_and_all_problems_are_told():
    """M1: an optional parameter without a value too."""
    assert codes(CONTENTS, {"repo": "..", "filepath": "a"}, DEEP) == {"owner": "missing", "repo": "bad-segment"}


def test_a_problem_never_quotes_the_value():
    """A value may be what nobody should read."""
    (problem,) = slot_problems(PERSONA, {"personaId": "s3cret/../x"})

    assert "s3cret" not in json.dumps(problem.as_json())
    assert problem.zh.startswith("personaId")
    assert problem.en.startswith("personaId")


@pytest.mark.parametrize("value", ["README.md", "tools/shell-exec/TOOL.hdlp", "文 档/a%b.txt", ".forgejo/x"])
def test_a_file_path_is_segments_joined_by_slashes(value):
    """`deep`: each segment is encoded, the slashes between stay."""
    values = OPENED | {"filepath": value}

    path = fill(CONTENTS, values, deep=DEEP)

    assert slot_problems(CONTENTS, values, deep=DEEP) == []
    assert [unquote(segment) for segment in path.split("/")[5:]] == value.split("/")
    assert within(BASE + path, BASE, CONTENTS, deep=DEEP)


@pytest.mark.parametrize(
    "value", ["/etc/passwd", "a/", "a//b", "a/../b", "..", "a/%2e%2e/b", "a%2fb", "a/%252e%252e", "a\\b", "./a", "a/\n"]
)
def test_a_file_path_with_a_segment_that_is_none_is_refused(value):
    """M6: nothing is folded, so nothing that would be may be sent."""
    assert codes(CONTENTS, OPENED | {"filepath": value}, DEEP).keys() == {"filepath"}


@pytest.mark.parametrize(("one", "two"), [("%2", "e"), (".", "%2e"), ("%2", "f"), ("%25", "2f"), ("%", "5c")])
def test_two_slots_in_one_segment_may_not_join_to_what_neither_is(one, two):
    """Such as `{sha}.{diffType}`: the segment is looked at as a whole."""
    assert codes(TWO_IN_ONE, {"one": one, "two": two})


def test_two_slots_in_one_segment_are_ordinary_otherwise():
    """Forgejo has such a path."""
    values = OPENED | {"sha": "9fad454", "diffType": "patch"}

    assert slot_problems(COMMIT, values) == []
    assert fill(COMMIT, values) == "/repos/fifthsystem/native-repo/git/commits/9fad454.patch"
    assert within(BASE + fill(COMMIT, values), BASE, COMMIT)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:3100/hlpd/personas/a",
        "http://127.0.0.1:3100/hlpd/personas/a?b=/../c",
        "HTTP://127.0.0.1:3100/hlpd/personas/%E9%93%B8",
    ],
)
def test_what_the_template_allows_is_within(url):
    """The query may be any."""
    assert within(url, BASE, PERSONA)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:3100/hlpd/personas/a",
        "http://127.0.0.1:3101/hlpd/personas/a",
        "http://127.0.0.1/hlpd/personas/a",
        "http://127.0.0.1.evil.example:3100/hlpd/personas/a",
        "http://127.0.0.1:3100@evil.example/hlpd/personas/a",
        "http://evil.example/http://127.0.0.1:3100/hlpd/personas/a",
        "http://127.0.0.1:3100/personas/a",
        "http://127.0.0.1:3100/hlpd/../personas/a",
        "http://127.0.0.1:3100/hlpdx/personas/a",
        "http://127.0.0.1:3100/hlpd/personas/",
        "http://127.0.0.1:3100/hlpd/personas/a/b",
        "http://127.0.0.1:3100/hlpd/personas/..",
        "http://127.0.0.1:3100/hlpd/personas/%2E%2E",
        "http://127.0.0.1:3100/hlpd/personas/%252E%252E",
        "http://127.0.0.1:3100/hlpd/personas/%25252E",
        "http://127.0.0.1:3100/hlpd/personas/a%2Fb",
        "http://127.0.0.1:3100/hlpd/personas/a%5Cb",
        "http://127.0.0.1:3100/hlpd/personas/a;b",
        "http://127.0.0.1:3100/hlpd/personas/a#b",
        "http://127.0.0.1:3100/hlpd/personas/a#",
        "http://127.0.0.1:3100/hlpd//personas/a",
        "http://127.0.0.1:3100/hlpd/personas/a\n",
        "http://127.0.0.1:99999/hlpd/personas/a",
        "/hlpd/personas/a",
        "",
    ],
)
def test_what_leads_elsewhere_is_not_within(url):
    """facts/platform.md, "Text that becomes something else": `..` made another operation of a path."""
    assert not within(url, BASE, PERSONA)


def test_a_port_left_out_is_the_schemes_own():
    """The same origin, written in two ways."""
    assert within("https://a.example:443/personas/a", "https://a.example", PERSONA)


def test_a_query_repeats_an_arrays_name_and_encodes_everything():
    """executors.md, hlpd-api: query arrays repeat the name."""
    pairs = {"q": "a b&c=d+e/铸", "tag": ["x", "y"], "limit": 5, "deep": True, "none": []}

    query = query_string(pairs.items())

    assert query == "q=a%20b%26c%3Dd%2Be%2F%E9%93%B8&tag=x&tag=y&limit=5&deep=true"


@pytest.mark.parametrize("value", [{"a": 1}, [["a"]], [None], None, float("inf")])
def test_what_a_query_cannot_hold_is_no_query(value):
    """The caller refuses it before (422)."""
    with pytest.raises(ValueError, match=r"URL|JSON"):
        query_string([("a", value)])


anything = st.one_of(
    st.text(),
    st.text(alphabet=".%2eE5cCfF/\\0a;?#@ \u00e9"),
    st.lists(st.sampled_from(["..", ".", "%2e", "%252e", "%2f", "%5c", "a", "/", "%", "25"])).map("".join),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)


def decoded(path, times):
    for _ in range(times):
        path = unquote(path)
    return path


@given(anything, anything)
@example("%2", "e%2e")
def test_no_value_leaves_its_template(one, two):
    """Sent and decoded once it is the values; decoded up to three times, still as many segments and none of them dots."""
    values, template = {"one": one, "two": two, "id": two}, "/x/{one}{two}/y/{id}.json/{one}"
    if slot_problems(template, values):
        return

    path = fill(template, values)

    assert within(BASE + path, BASE, template)
    assert urlsplit(BASE + path).path == "/hlpd" + path
    a, b = scalar_text(one), scalar_text(two)
    assert unquote(path) == f"/x/{a}{b}/y/{b}.json/{a}"
    for times in (0, 1, 2, 3):
        segments = decoded(path, times).replace("\\", "/").split("/")
        assert len(segments) == 6
        assert not {"", ".", ".."} & set(segments[1:])


@given(st.lists(anything.map(scalar_text), min_size=1, max_size=4).map("/".join))
def test_no_file_path_leaves_its_template(value):
    """Its own segments, no more and no fewer, in their order."""
    template, values = "/raw/{filepath}", {"filepath": value}
    if slot_problems(template, values, deep=DEEP):
        return

    path = fill(template, values, deep=DEEP)

    assert within(BASE + path, BASE, template, deep=DEEP)
    for times in (1, 2, 3):
        segments = decoded(path, times).replace("\\", "/").split("/")
        assert len(segments) == 2 + len(value.split("/"))
        assert not {"", ".", ".."} & set(segments[1:])


@given(st.text(alphabet="abc/.%2eEfF5cC\\?#@:;[]", max_size=30))
def test_whatever_is_within_goes_to_one_segment_below_the_base(rest):
    """The check knows nothing of how the URL was made."""
    url = f"{BASE}/personas/{rest}"
    if not within(url, BASE, PERSONA):
        return

    assert url.partition("?")[0].count("/") == BASE.count("/") + 2
    assert decoded(urlsplit(url).path.rpartition("/")[2], 3) not in ("", ".", "..")


@given(st.dictionaries(st.text(min_size=1), anything.map(scalar_text)))
def test_a_query_is_read_back_as_it_was_given(pairs):
    """Whatever signs names and values hold."""
    assert dict(parse_qsl(query_string(pairs.items()), keep_blank_values=True)) == pairs

"""`GET /stats`: counts and durations that the overview shows, as far as a token may see."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest

from service.domain.actors import OPERATOR
from tests.pages.conftest import House


@pytest.fixture
def reader(house: House) -> httpx.Client:
    return house.desk.client("read")


def ask(client: httpx.Client, **query: str) -> dict[str, Any]:
    answer = client.get("/api/v1/stats", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_runs_are_counted_by_state_and_time(house: House, reader: httpx.Client) -> None:
    """The counts of the times add up to those in all, and those to the list of runs."""
    house.run("git-ops")

    told = ask(reader)

    listed = reader.get("/api/v1/runs", params={"limit": 1000}).json()["items"]
    assert told["states"] == {
        state: sum(run["state"] == state for run in listed) for state in {r["state"] for r in listed}
    }
    summed: dict[str, int] = {}
    for time in told["times"]:
        for state, count in time["states"].items():
            summed[state] = summed.get(state, 0) + count
    assert summed == told["states"]


@pytest.mark.parametrize(("by", "least", "most"), [("hour", 24, 25), ("day", 30, 31)])
def test_empty_hours_and_days_are_there_too(reader: httpx.Client, by: str, least: int, most: int) -> None:
    """A plot needs them; the first one begins no later than `since`."""
    told = ask(reader, by=by)

    assert least <= len(told["times"]) <= most
    assert told["times"][0]["at"] <= told["since"] < told["until"]
    moments = [datetime.fromisoformat(time["at"]) for time in told["times"]]
    step = timedelta(hours=1) if by == "hour" else timedelta(days=1)
    assert {later - earlier for earlier, later in pairwise(moments)} == {step}


def test_durations_are_told_by_tool(house: House, reader: httpx.Client) -> None:
    """p50 is no more than p95, and both are durations that runs had."""
    for _ in range(3):
        house.run("git-ops")
    took = {run["duration_ms"] for run in reader.get("/api/v1/runs", params={"tool": "git-ops"}).json()["items"]}

    tool = next(one for one in ask(reader)["tools"] if one["tool"] == "git-ops")

    assert tool["p50_ms"] <= tool["p95_ms"]
    assert {tool["p50_ms"], tool["p95_ms"]} <= took


def test_one_tool_alone_can_be_asked_for(house: House, reader: httpx.Client) -> None:
    """The plot on a tool's page."""
    house.run("shell-exec", cmd="true")

    told = ask(reader, tool="shell-exec", by="day")

    assert {tool["tool"] for tool in told["tools"]} == {"shell-exec"}
    assert sum(told["states"].values()) < sum(ask(reader, by="day")["states"].values())


def test_what_a_tokens_patterns_hide_is_not_counted(house: House) -> None:
    """A tool outside them does not exist, in counts too."""
    _, text = house.desk.bitong.authority.issue("narrow", ("read",), ["git-*"], None, OPERATOR)
    narrow = house.desk.keep(
        httpx.Client(base_url=house.desk.url, headers={"Authorization": f"Bearer {text}"}, trust_env=False)
    )
    house.asks("restart")

    told = ask(narrow)

    assert {tool["tool"] for tool in told["tools"]} == {"git-ops"}
    assert "awaiting_confirmation" not in told["waiting"]


def test_a_long_time_is_counted_by_the_day(reader: httpx.Client) -> None:
    """Unless it is said how."""
    since = (datetime.now(UTC) - timedelta(days=40)).date().isoformat()

    told = ask(reader, since=since)

    assert (told["by"], len(told["times"])) == ("day", 41)


@pytest.mark.parametrize(
    "query",
    [
        {"by": "week"},
        {"since": "yesterday"},
        {"tools": "x"},
        {"by": "hour", "since": "2020-01-01"},
        {"by": "day", "since": "2000-01-01"},
    ],
)
def test_what_cannot_be_answered_is_refused(reader: httpx.Client, query: dict[str, str]) -> None:
    """A time too long to be counted in one answer, too."""
    assert reader.get("/api/v1/stats", params=query).status_code == 422

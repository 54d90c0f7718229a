"""What is measured of a way to match: hit@1, recall@3, MRR, time, memory, the gate, and learning by replay."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from service.domain.actors import Actor
from service.domain.definitions import Definition
from service.domain.search.learned import LearnedIntent, cleaned, ground
from service.domain.search.matcher import Matcher
from tests.benchmarks.matching import sets
from tests.benchmarks.matching.sets import Query, Set

ACTOR = Actor("token:bench", frozenset({"read", "exec"}))
NOW = datetime(2026, 12, 1, tzinfo=UTC)

Rank = Callable[[str], Sequence[str]]


class Quality(NamedTuple):
    """Shares of the queries, and seconds by query."""

    hit_1: float
    hit_3: float
    recall_3: float
    mrr: float
    times: list[float]


def quality(rank: Rank, queries: Sequence[Query]) -> Quality:
    """Over the best three; a query's time is the least of two tries, since the machine is not ours alone."""
    sums, times = [0.0] * 4, []
    for query in queries:
        found, took = _timed(rank, query.text)
        times.append(min(took, _timed(rank, query.text)[1]))
        right = [place for place, name in enumerate(found[:3], 1) if name in query.gold]
        sums[0] += right[:1] == [1]
        sums[1] += bool(right)
        sums[2] += len(right) / len(query.gold)
        sums[3] += 1 / right[0] if right else 0
    count = len(queries) or 1
    return Quality(*(value / count for value in sums), times)


def _timed(rank: Rank, text: str) -> tuple[Sequence[str], float]:
    began = time.perf_counter()
    found = rank(text)
    return found, time.perf_counter() - began


class Gate(NamedTuple):
    """Shares: of good intents that found something, and the right one among three; of others that were not turned away."""

    kept: float
    hit_3: float
    missing: float  # intents of the set whose tool is not in the registry
    others: list[float]  # by the sets of intents that were handed in


def gate(of: Set, size: int, others: Mapping[str, Sequence[Query]], draws: int) -> Gate:
    """Registries of `size` tools drawn from the set."""
    chance = sets.draws(7)
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def count(name: str, *, yes: bool) -> None:
        sums[name][0] += yes
        sums[name][1] += 1

    for _ in range(draws):
        tools = chance.sample(of.tools, min(size, len(of.tools)))
        names = {tool.name for tool in tools}
        matcher = Matcher(tools)
        for query in of.answerable():
            match = matcher.match(query.text, ACTOR)
            if set(query.gold) <= names:
                count("kept", yes=match.found)
                count("hit", yes=any(one.tool in query.gold for one in match.candidates))
            elif not set(query.gold) & names:
                count("missing", yes=match.found)
        for name, queries in others.items():
            for query in queries:
                count(name, yes=matcher.match(query.text, ACTOR).found)
    shares = {name: yes / (asked or 1) for name, (yes, asked) in sums.items()}
    return Gate(shares["kept"], shares["hit"], shares.get("missing", 0.0), [shares[name] for name in others])


def confidences(of: Set) -> dict[str, tuple[int, int, int]]:
    """By confidence of the first candidate: how often, how often a tool serves the intent at all, how often the first does."""
    matcher = Matcher(of.tools)
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for query in of.queries:
        match = matcher.match(query.text, ACTOR)
        if match.found:
            seen = found[match.candidates[0].confidence]
            seen[0] += 1
            seen[1] += bool(query.gold)
            seen[2] += match.candidates[0].tool in query.gold
    return {name: (seen[0], seen[1], seen[2]) for name, seen in found.items()}


def learned(of: Set, accepted: int, most: int) -> tuple[float, float, int]:
    """hit@1 and hit@3 of at most `most` queries, after up to `accepted` other ones were accepted for each tool; and how many."""
    by_tool: defaultdict[str, list[Query]] = defaultdict(list)
    for query in of.answerable():
        by_tool[query.gold[0]].append(query)
    hits = [0.0, 0.0]
    asked = 0
    for turn in range(min(map(len, by_tool.values()))):
        taught, rest = _split(by_tool, accepted, turn)
        if asked + len(rest) > most:
            rest = sets.draws(turn).sample(rest, most - asked)
        matcher = Matcher(of.tools, learned=_lessons(of.tools, taught), now=NOW)
        found = quality(lambda text, matcher=matcher: matcher.rank(text, ACTOR), rest)  # type: ignore[misc]
        hits = [hit + value * len(rest) for hit, value in zip(hits, found[:2], strict=True)]
        asked += len(rest)
        if asked >= most:
            break
    return hits[0] / asked, hits[1] / asked, asked


def replayed(of: Set) -> tuple[float, float]:
    """hit@1 and hit@3 of the queries themselves, once each of them was accepted, three a tool at most."""
    by_tool: defaultdict[str, list[Query]] = defaultdict(list)
    for query in of.answerable():
        by_tool[query.gold[0]].append(query)
    taught = {tool: queries[:3] for tool, queries in by_tool.items()}
    matcher = Matcher(of.tools, learned=_lessons(of.tools, taught), now=NOW)
    found = quality(lambda text: matcher.rank(text, ACTOR), [query for queries in taught.values() for query in queries])
    return found.hit_1, found.hit_3


def _split(by_tool: dict[str, list[Query]], accepted: int, turn: int) -> tuple[dict[str, list[Query]], list[Query]]:
    taught, rest = {}, []
    for tool, queries in by_tool.items():
        start = turn % len(queries)
        turned = queries[start:] + queries[:start]
        taught[tool] = turned[: min(accepted, len(queries) - 1)]
        rest += turned[len(taught[tool]) :]
    return taught, rest


def _lessons(tools: Sequence[Definition], taught: dict[str, list[Query]]) -> dict[str, list[LearnedIntent]]:
    grounds = {tool.name: ground(tool) for tool in tools}
    return {
        tool: [LearnedIntent(cleaned(query.text), ACTOR.name, NOW, grounds[tool]) for query in queries]
        for tool, queries in taught.items()
        if tool in grounds
    }


def resident_mb() -> float:
    """What this process holds in memory now, in megabytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1000

"""`python -m tests.benchmarks.matching`: the tables, or a sentence where the data is not beside the checkout."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from service.domain.search.fields import Dictionary
from service.domain.search.matcher import Matcher
from service.store import dictionary as dictionaries
from tests.benchmarks.matching import measures, sets
from tests.benchmarks.matching.baselines import FullText, PlainBm25
from tests.benchmarks.tables import Table, median, ms, p99

AIMS = {
    "acebench_zh": "recall@3 .96",
    "livemcp": "recall@3 .68",
    "metatool_en": "recall@3 .62",
    sets.NATIVE: "hit@3 .90",
}
SIZES = (10, 30, 100, 300)
SCALES = (100, 1_000, 4_000)


def main() -> int:
    """Print every table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.matching", description="How well intents find their tools."
    )
    parser.add_argument("--quick", action="store_true", help="fewer queries: a first look, not a result")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)  # the child that measures itself
    options = parser.parse_args()
    if folder := sets.missing():
        print(f"bench-matching: skipped: its data is not at {folder}")
        return 0
    if options.memory:
        _print_memory(options.memory)
        return 0
    everything = [sets.native(), *map(sets.public, sets.PUBLIC)]
    with tempfile.TemporaryDirectory(prefix="bitong-bench-") as place:
        found = dictionaries.installed(Path(place))
        _quality(everything, found, most=200 if options.quick else 3_000)
    _gate({one.name: one for one in everything}, draws=1 if options.quick else 6)
    _confidence(everything[0])
    _learning({one.name: one for one in everything}, most=200 if options.quick else 900)
    _scale()
    return 0


def _quality(everything: list[sets.Set], dictionary: Dictionary | None, most: int) -> None:
    table = Table(
        "Intents to tools",
        "set",
        "way",
        "tools",
        "queries",
        "hit@1",
        "hit@3",
        "recall@3",
        "MRR",
        "p50 ms",
        "p99 ms",
        "aim",
    )
    for one in everything:
        queries = one.answerable()
        queries = sets.draws(1).sample(queries, min(most, len(queries)))
        matcher = Matcher(one.tools)
        ways: dict[str, measures.Rank] = {
            "FTS5 unicode61": FullText(one.tools, "unicode61").rank,
            "FTS5 trigram": FullText(one.tools, "trigram").rank,
            "plain BM25": PlainBm25(one.tools).rank,
            "Bitong": lambda text, matcher=matcher: matcher.rank(text, measures.ACTOR),  # type: ignore[misc]
        }
        if dictionary is not None:
            bridged = Matcher(one.tools, dictionary=dictionary)
            ways["Bitong, dictionary"] = lambda text, matcher=bridged: matcher.rank(text, measures.ACTOR)  # type: ignore[misc]
        for way, rank in ways.items():
            found = measures.quality(rank, queries)
            shares = [f"{value:.3f}" for value in found[:4]]
            aim = AIMS.get(one.name, "") if way.startswith("Bitong") else ""
            table.row(
                one.name,
                way,
                str(len(one.tools)),
                str(len(queries)),
                *shares,
                ms(median(found.times)),
                ms(p99(found.times)),
                aim,
            )
    if dictionary is None:
        table.note(f"The dictionary was not measured: {dictionaries.PACKAGE} is not installed.")
    table.show()


def _gate(everything: dict[str, sets.Set], draws: int) -> None:
    native = everything[sets.NATIVE]
    others = {
        "unrelated": native.of_kind("none-far"),
        "CLINC out of scope": everything["clinc150_en"].of_kind("oos_test"),
        "near": native.of_kind("none-near"),
    }
    table = Table(
        "Honest noes: what share found something", "set", "tools", "good", "right in 3", "own, missing", *others
    )
    for name in (sets.NATIVE, "acebench_zh", "acebench_en"):
        one = everything[name]
        for size in SIZES:
            if size < len(one.tools) * 3:
                found = measures.gate(one, size, others, 1 if size > len(one.tools) else draws)
                shares = (found.kept, found.hit_3, found.missing, *found.others)
                table.row(name, str(min(size, len(one.tools))), *(f"{value:.3f}" for value in shares))
    table.note(
        "Aims for the native-repo: unrelated at most .06, good at least .90. Near: only a tool that is missing would be right."
    )
    table.show()


def _confidence(native: sets.Set) -> None:
    table = Table(
        "Confidence of the first candidate, one intent in six served by no tool",
        "confidence",
        "given",
        "right",
        "of those that any tool serves",
    )
    found = measures.confidences(native)
    for name in ("high", "medium", "low"):
        given, served, right = found.get(name, (0, 0, 0))
        table.row(name, str(given), f"{right / (given or 1):.3f}", f"{right / (served or 1):.3f}")
    table.show()


def _learning(everything: dict[str, sets.Set], most: int) -> None:
    table = Table("Learning: other wordings accepted for each tool", "set", "accepted", "queries", "hit@1", "hit@3")
    for name, steps in ((sets.NATIVE, (0, 1, 2)), ("metatool_en", (0, 1, 3, 10)), ("clinc150_en", (0, 1, 3, 10))):
        for accepted in steps:
            hit_1, hit_3, count = measures.learned(everything[name], accepted, most)
            table.row(name, str(accepted), str(count), f"{hit_1:.3f}", f"{hit_3:.3f}")
    hit_1, hit_3 = measures.replayed(everything[sets.NATIVE])
    table.row(sets.NATIVE, "the same, again", "", f"{hit_1:.3f}", f"{hit_3:.3f}")
    table.note(
        "Aim: hit@3 .95 after three accepted intents a tool. The native-repo has three wordings a tool, so two can be taught."
    )
    table.show()


def _scale() -> None:
    table = Table("Size", "tools", "build and calibrate, s", "memory MB", "p50 ms", "p99 ms")
    for size in SCALES:
        child = [sys.executable, "-m", __package__, "--memory", str(size)]
        done = subprocess.run(child, capture_output=True, text=True, check=True)
        table.row(str(size), *done.stdout.split())
    table.note("Aims: p99 under 5 ms and at most 10 MB at 1,000 tools. Tools and intents of all sets, mixed.")
    table.show()


def _print_memory(size: int) -> None:
    everything = [sets.native(), *(sets.public(name) for name in ("acebench_zh", "acebench_en", "livemcp"))]
    chance = sets.draws(2)
    tools = chance.sample([tool for one in everything for tool in one.tools], size)
    texts = chance.sample([query.text for one in everything for query in one.queries], 1_000)
    queries = [sets.Query(text, ("",), "") for text in texts]
    before, began = measures.resident_mb(), time.monotonic()
    matcher = Matcher(tools)
    matcher.calibrate(measures.ACTOR)
    built = time.monotonic() - began
    found = measures.quality(lambda text: [one.tool for one in matcher.match(text, measures.ACTOR).candidates], queries)
    print(f"{built:.2f} {measures.resident_mb() - before:.1f} {ms(median(found.times))} {ms(p99(found.times))}")


if __name__ == "__main__":
    sys.exit(main())

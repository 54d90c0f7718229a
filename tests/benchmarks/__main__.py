"""`python -m tests.benchmarks [--quick] [TABLE…]`."""

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import machine

# In the order in which they run: name, module, what it says.
TABLES = {
    "exec": ("exec_calls", "a call, with and without the sandbox, against a C server"),
    "parts": ("exec_parts", "where the time of one call goes"),
    "push": ("push", "from a webhook to the new version"),
    "import": ("history", "the first look at a long history"),
    "start": ("start", "cold start, and memory when idle"),
    "writer": ("writer", "durable appends, one thread to sixty-four"),
    "verify": ("verifying", "the log checked by the verifier"),
    "far": ("far_calls", "a call of the persona database's or the forge's API"),
    "output": ("large_output", "a gigabyte of output, and sixty-four callers at once"),
    "gatekeeper": ("gatekeeper_calls", "a call that a gatekeeper runs"),
}


def main() -> int:
    """Run the tables that were named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="What Bitong costs, beside floors.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a first look, not a result")
    names = ", ".join(f"{name} ({says})" for name, (_, says) in TABLES.items())
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"all unless named: {names}")
    options = parser.parse_args()
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table {', '.join(unknown)}; there are {', '.join(TABLES)}")
    return _run(options.tables or list(TABLES), quick=options.quick)


def _run(names: list[str], *, quick: bool) -> int:
    began = time.monotonic()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="bitong-bench-") as place:
        machine.describe(Path(place))
        for name in names:
            folder = Path(place, name)
            folder.mkdir()
            try:
                importlib.import_module(f"tests.benchmarks.{TABLES[name][0]}").run(folder, quick=quick)
            except Exception as error:  # noqa: BLE001 - the other tables are still worth having
                failed += 1
                print(f"\n## {name}: not measured: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    print(f"* {time.monotonic() - began:.0f} s in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The service with a clock at its seams: `python -m tests.benchmarks.timed_service` instead of `service.app`.

Each mark is a name and a moment (`time.perf_counter`, one clock for all processes of a host); on exit they are written
to the file that BENCH_MARKS names. For one caller at a time: marks of calls that overlap could not be told apart.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service import app
from service.execution.execute import Execution
from service.execution.executors.shell import ShellExecutor
from service.store.database import Database
from service.web.auth import Authority
from service.web.routing import Pools
from service.web.server import Edge

MARKS: list[tuple[str, float]] = []


def mark(name: str) -> None:
    """It is now."""
    MARKS.append((name, time.perf_counter()))


def timed(owner: type, method: str, name: str) -> None:
    """Mark a synchronous method's begin and end."""
    plain = getattr(owner, method)

    def with_clock(*arguments: Any, **options: Any) -> Any:
        mark(name + "<")
        try:
            return plain(*arguments, **options)
        finally:
            mark(name + ">")

    setattr(owner, method, with_clock)


def timed_in_thread(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`Pools.run`, with marks also where the work begins and ends in its thread."""

    async def run(self: Pools, name: str, work: Callable[[], Any]) -> Any:
        def inside() -> Any:
            mark("thread<")
            try:
                return work()
            finally:
                mark("thread>")

        mark("pool<")
        try:
            return await plain(self, name, inside)
        finally:
            mark("pool>")

    return run


def timed_write(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`Database.write`, with marks also where the job begins and ends in the writer's thread."""

    def write(self: Database, work: Callable[..., Any], **options: Any) -> Any:
        def inside(transaction: Any) -> Any:
            mark("work<")
            try:
                return work(transaction)
            finally:
                mark("work>")

        mark("write<")
        try:
            return plain(self, inside, **options)
        finally:
            mark("write>")

    return write


def timed_edge(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The application as uvicorn calls it."""

    async def call(self: Edge, scope: Any, receive: Any, send: Any) -> None:
        mark("edge<")
        try:
            await plain(self, scope, receive, send)
        finally:
            mark("edge>")

    return call


def main() -> int:
    """Serve, then write what was marked."""
    timed(Authority, "authenticate", "auth")
    timed(Execution, "execute", "execute")
    timed(ShellExecutor, "run", "run")
    Pools.run = timed_in_thread(Pools.run)  # type: ignore[method-assign]
    Database.write = timed_write(Database.write)  # type: ignore[method-assign]
    Edge.__call__ = timed_edge(Edge.__call__)  # type: ignore[method-assign]
    try:
        return app.main()
    finally:
        Path(os.environ["BENCH_MARKS"]).write_text(json.dumps(MARKS), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

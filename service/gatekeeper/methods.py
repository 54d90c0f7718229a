"""What the gatekeeper does: one call in, one answer out, at most once for each run_id (contract/executors.md)."""

import errno
import logging
import os
import pwd
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from service.domain.executors import Cancel
from service.errors import Conflict, Invalid, Message, UsageError
from service.execution.executors.descendants import end_children
from service.execution.executors.launched import Descriptors, as_reported, joined
from service.execution.executors.launcher import launcher_code, launcher_image, read_report
from service.execution.executors.process import NOT_STARTED, Finished, run_process
from service.gatekeeper.answers import Answer, CannotDo, answer, failed, json_bytes, whole
from service.gatekeeper.beneath import Roots
from service.gatekeeper.calls import GatekeeperCall, content_of
from service.gatekeeper.config import GatekeeperConfig
from service.gatekeeper.files import Files
from service.gatekeeper.journal import Journal
from service.gatekeeper.masks import LAUNCHER, Masks
from service.gatekeeper.outgoing import Outgoing

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CANCEL_WAIT_S: Final = 2.0
SHUTDOWN_S: Final = 8.0
_READS: Final = ("file.read", "file.list")

_LOG = logging.getLogger(__name__)

OnOutput = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class _Act:
    """What an act may need to know while it runs; `deadline` by `time.monotonic()`."""

    deadline: float
    keep: int
    cancel: Cancel
    on_output: OnOutput | None


@dataclass(slots=True)
class _Live:
    """A run that goes on."""

    cancel: Cancel
    over: threading.Event = field(default_factory=threading.Event)


class Gatekeeper:
    """Holds roots and journal; `close` gives them back. Synchronous, from any thread."""

    def __init__(self, config: GatekeeperConfig) -> None:
        """Raises UsageError for an empty token, an unusable folder, an `allow_urls` of another form."""
        if not config.token:
            raise UsageError(Message("网关要有一个令牌", "the gatekeeper needs a token"))
        self._config = config
        self._outgoing = Outgoing(config.allow_urls)
        token_files = () if config.token_file is None else (config.token_file,)
        hidden = (*config.deny, config.state_dir, *token_files)
        self._masks = Masks.of(hidden)
        self._journal = Journal(config.state_dir)
        self._roots = Roots(config.roots, hidden)
        self._files = Files(self._roots, config.max_file_bytes)
        self._live: dict[str, _Live] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """End what still runs, and give back roots and journal."""
        self.end_runs()
        self._roots.close()
        self._journal.close()

    def end_runs(self) -> None:
        """Because the gatekeeper stops; waits until they are over."""
        with self._lock:
            live = list(self._live.values())
        for run in live:
            run.cancel.ask("shutdown")
        until = time.monotonic() + SHUTDOWN_S
        for run in live:
            run.over.wait(max(0, until - time.monotonic()))

    def handle(self, call: GatekeeperCall, started: float, on_output: OnOutput | None = None) -> Answer:
        """Do it, once; `started`: when it came, by `time.monotonic()`. A repeat gets the stored ending.

        Raises Invalid for parameters, Conflict for a run_id that was begun and has no ending to give, CannotRecord.
        """
        if call.method == "status":
            return self._status(call.params["run_id"])
        if call.method == "cancel":
            return self._cancel(call.params["run_id"])
        act = self._prepared(call)
        live = _Live(Cancel())
        knows = _Act(started + call.timeout_ms / 1000, call.max_output_bytes, live.cancel, on_output)
        if call.run_id is None:
            return _done(act, knows, started)
        with self._lock:
            # Known before it is claimed: a cancel finds either this or no trace at all.
            is_first = self._live.setdefault(call.run_id, live) is live
        try:
            ending = self._claim(call.run_id, call)
            if ending is not None:
                return ending | {"repeated": True}
            return self._attempt(call.run_id, act, knows, started)
        finally:
            if is_first:
                with self._lock:
                    del self._live[call.run_id]
                live.over.set()

    def _attempt(self, run_id: str, act: Callable[[_Act], Answer], knows: _Act, started: float) -> Answer:
        ending = failed(CannotDo("网关停下了", "the gatekeeper stopped"))
        try:
            ending = _done(act, knows, started)
        finally:
            self._journal.end(run_id, ending)
        return ending

    def _claim(self, run_id: str, call: GatekeeperCall) -> Answer | None:
        """None where it may begin now, for the first and only time."""
        state, ending = self._journal.claim(
            run_id, call.digest(self._config.token.encode()), durable=call.method not in _READS
        )
        if state == "new" or ending is not None:
            return ending
        zh, en = {
            "running": ("正在运行", "is running"),
            "ended": ("早已结束，结果没有留着", "ended long ago; its result is not kept"),
            "interrupted": ("在网关上次停下之前开始，结果不知道", "began before a restart; its end is not known"),
        }.get(state, ("是另一个调用的", "belongs to another call"))
        raise Conflict(Message(f"run_id {run_id} {zh}", f"run_id {run_id} {en}"), code=state)

    def _status(self, run_id: str) -> Answer:
        """`state` running, ended, interrupted or unknown, and the `ending`; the same as JSON on standard output."""
        state, ending = self._journal.look(run_id)
        facts = {"run_id": run_id, "state": state, "ending": ending}
        return answer(ok=True, stdout=whole(json_bytes(facts) + b"\n")) | facts

    def _cancel(self, run_id: str) -> Answer:
        """`ok` is true when the run is over because of this, or will never begin; `ending` says how it ended."""
        with self._lock:
            live = self._live.get(run_id)
            if live is None and self._journal.look(run_id)[0] == "unknown":
                # It may still be on its way: whoever comes later with this id finds it cancelled.
                self._journal.claim(run_id, "", durable=True)
                self._journal.end(run_id, answer(ok=False, reason="cancelled"))
        if live is not None:
            live.cancel.ask("cancelled")
            live.over.wait(CANCEL_WAIT_S)
        state, ending = self._journal.look(run_id)
        confirmed = ending is not None and ending.get("reason") == "cancelled"
        return answer(ok=confirmed) | {"run_id": run_id, "state": state, "ending": ending}

    def _prepared(self, call: GatekeeperCall) -> Callable[[_Act], Answer]:
        """What does it; all that can be wrong with the parameters has been said before that. Raises Invalid."""
        params = call.params
        if call.method == "exec":
            return lambda knows: self._exec(params, knows)
        if call.method == "file.list":
            return lambda knows: self._files.list(params["path"], knows.keep)
        if call.method == "file.read":
            return lambda knows: self._read(params, knows)
        if call.method == "file.write":
            content = content_of(params)
            return lambda _: self._files.write(params["path"], content, params.get("mode", "create"))
        return self._http(params)

    def _read(self, params: Any, knows: _Act) -> Answer:
        def go_on() -> None:
            if knows.cancel.asked() or time.monotonic() > knows.deadline:
                raise CannotDo("没有读完：超时或被取消", "not read to the end: out of time or cancelled")

        encoding = params.get("encoding", "utf-8")
        return self._files.read(
            params["path"], params.get("offset", 0), params.get("limit"), encoding, knows.keep, go_on
        )

    def _http(self, params: Any) -> Callable[[_Act], Answer]:
        body = params["body"].encode() if "body" in params else None
        try:
            send = self._outgoing.prepare(params.get("method", "GET"), params["url"], params.get("headers", {}), body)
        except ValueError as error:
            raise Invalid(Message(f"http：{error}", f"http: {error}")) from None
        except CannotDo as error:
            refusal = failed(error)
            return lambda _: refusal
        return lambda knows: send(knows.deadline, knows.keep, knows.cancel)

    def _exec(self, params: Any, knows: _Act) -> Answer:
        argv = params.get("argv") or ["/bin/sh", "-c", params["cmd"]]
        env = _own_environment() | params.get("env", {})
        cwd = str(next(iter(self._config.roots), Path("/")).absolute() / params.get("cwd", ""))  # an absolute one stays
        stdin = params.get("stdin", "").encode()
        if not self._config.deny:
            return _answer_of(_run(argv, env, cwd, stdin, knows), knows.cancel)
        if self._masks.bwrap is None:
            raise CannotDo(
                "设了 --deny 就要有 bubblewrap 才能执行命令，这里没有（apt install bubblewrap）",
                "with --deny, commands need bubblewrap, which is not here (apt install bubblewrap)",
            )
        if launcher_code() is None:
            raise CannotDo(
                "设了 --deny 时，在这种处理器上还不能执行命令",
                "with --deny, commands cannot run on this kind of processor yet",
            )
        return _answer_of(self._masked(argv, env, cwd, stdin, knows), knows.cancel)

    def _masked(self, argv: list[str], env: dict[str, str], cwd: str, stdin: bytes, knows: _Act) -> Finished:
        """Neither argument nor variable is bubblewrap's: all stands in the launcher's image (launcher.py)."""
        with Descriptors() as descriptors:
            try:
                image = launcher_image(argv, env, cwd, descriptors.report_fd)
            except ValueError as error:  # a NUL
                return NOT_STARTED.not_started(OSError(errno.EINVAL, str(error)))
            options = descriptors.memfd(joined(self._masks.options(descriptors.memfd(image))))
            bwrap = [self._masks.bwrap or "bwrap", "--args", str(options), "--", LAUNCHER]
            finished = _run(bwrap, {}, "/", stdin, knows, (descriptors.report_fd, *descriptors.memfds))
            return as_reported(finished, read_report(descriptors.report_fd))


def _run(
    argv: list[str], env: dict[str, str], cwd: str, stdin: bytes, knows: _Act, pass_fds: tuple[int, ...] = ()
) -> Finished:
    return run_process(
        argv,
        env=env,
        cwd=cwd,
        stdin=stdin,
        deadline=knows.deadline,
        keep=knows.keep,
        cancel=knows.cancel,
        on_output=_first(knows.on_output, knows.keep),
        pass_fds=pass_fds,
        end_first=end_children if pass_fds else None,  # bubblewrap's; others' belong to the group
    )


def _first(on_output: OnOutput | None, keep: int) -> OnOutput | None:
    """Hands on the first `keep` bytes of each stream: what waits to be sent is bounded, however slow the reader."""
    if on_output is None:
        return None
    left = {"stdout": keep, "stderr": keep}

    def hand_on(name: str, data: bytes) -> None:
        if part := data[: left[name]]:
            left[name] -= len(part)
            on_output(name, part)

    return hand_on


def _done(act: Callable[[_Act], Answer], knows: _Act, started: float) -> Answer:
    try:
        done = act(knows)
    except CannotDo as error:
        done = failed(error)
    except OSError as error:
        done = failed(CannotDo(f"系统出错：{error.strerror}", f"the system failed: {error.strerror}"))
    except Exception:  # noqa: BLE001  the run has begun: it gets an ending, whatever went wrong
        _LOG.exception("a method failed")
        done = failed(CannotDo("网关内部出错", "the gatekeeper failed"))
    return done | {"duration_ms": int((time.monotonic() - started) * 1000)}


def _answer_of(finished: Finished, cancel: Cancel) -> Answer:
    reason = cancel.reason if finished.ended == "cancelled" else finished.ended
    if finished.ended == "exited":
        reason = None if finished.signal is None else "signal"
    return answer(
        ok=finished.ended == "exited" and finished.exit_code == 0,
        stdout=finished.stdout,
        stderr=finished.stderr,
        exit_code=finished.exit_code if finished.ended == "exited" else None,
        reason=reason,
        signal=finished.signal if reason == "signal" else None,
        why=finished.error.strerror or str(finished.error) if finished.error is not None else None,
        duration_ms=finished.duration_ms,
    )


def _own_environment() -> dict[str, str]:
    """Small and its own; nothing of what the gatekeeper was started with."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = "/"
    return {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8"}

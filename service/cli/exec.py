"""`bitong exec`: run a tool through a running service, as if it ran here: its output, its errors, its exit."""

import secrets
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from service.cli import calling, printing, questions, showing
from service.cli import settings as given
from service.cli.calling import Lost, Service
from service.cli.following import INTERRUPTED
from service.cli.parameters import Parameters
from service.cli.patience import Patience
from service.errors import BitongError, Message, NotFound, Unavailable, UsageError

if TYPE_CHECKING:
    import httpx

_KEY_CHARACTERS: Final = 200
_AGAIN_S: Final = 1.0  # before the end of a run is asked for again whose answer was "it goes on"


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("exec")(execute)


def execute(
    name: Annotated[str, typer.Argument(metavar="NAME", help="工具名 / the tool's name")],
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="key=value",
            help="参数；key=@文件、key=- 从文件或标准输入读，密码不进进程列表 / parameters; key=@FILE or key=- reads a file or "
            "standard input, so that no secret stands in the process list (its last line break is left out); "
            "key=@@x is the text @x",
        ),
    ] = None,
    params: Annotated[
        str | None,
        typer.Option("--params", metavar="JSON", help="参数，一个 JSON 对象，或 @文件、- / a JSON object; or @FILE, -"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Idempotency-Key：同一调用只执行一次 / the same call with the same key runs once"),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="不等结束，输出运行的 id / print the run's id and do not wait")
    ] = False,
    timeout: Annotated[
        int | None, typer.Option("--timeout", metavar="MS", min=1, help="时限，毫秒，只能更短 / a shorter time limit")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="只输出完整的回答，结束后 / print the whole answer alone, at the end")
    ] = False,
    config: given.Config = None,
) -> None:
    """执行一个工具，输出随到随显；需要 BITONG_TOKEN。 Run a tool, its output as it comes; needs BITONG_TOKEN.

    示例 / example: bitong exec shell-exec cmd='git log --oneline -5' · bitong exec file-read --params '{"path": "a.txt"}'

    退出码 / exit codes: 0 成功 done · 1 失败，或需要确认 it failed, or waits for a yes · 2 用法不对 used wrongly ·
    3 连不上 cannot be reached · 130 Ctrl-C（运行仍继续 / the run goes on）
    """
    _check_key(key)
    given_parameters = Parameters(pairs or [], params)
    with calling.acting(config) as service:
        schema = _schema(service, name) if given_parameters.need_schema else {}
        call = {"tool": name, "params": given_parameters.typed(schema), "wait": json and not no_wait}
        if timeout is not None:
            call["timeout_ms"] = timeout
        answer = _Asking(service, call, key or secrets.token_hex(16)).answer()
        code = told(service, answer, json=json, wait=not no_wait)
    if code:
        raise typer.Exit(code)


class _Asking:
    """One call, asked until there is an answer. Its key stands for it: however often it is asked, it runs once."""

    def __init__(self, service: Service, call: dict[str, Any], key: str) -> None:
        self._service = service
        self._call = call
        self._key = key

    def answer(self) -> "httpx.Response":
        """What is answered; where the end is waited for, what is answered then."""
        try:
            while True:
                answer = self._ask()
                if not self._call["wait"] or _shape(answer).get("code") != "accepted":
                    return answer
                time.sleep(_AGAIN_S)  # `max_wait_s` passed, or nobody there knows more: ask again, with the same key
        except KeyboardInterrupt:
            showing.say(
                Message(
                    f"不再等待；若已开始，运行仍在进行：{self._look}",
                    f"No longer waited for; what began goes on: {self._look}",
                )
            )
            raise typer.Exit(INTERRUPTED) from None

    def _ask(self) -> "httpx.Response":
        patience = Patience(
            Message("没有等到回答；用同一个键再问。", "The answer was lost; asking again with the same key.")
        )
        within_s = None if self._call["wait"] else calling.ANSWER_S
        while True:
            try:
                return self._service.ask(
                    "POST", "/exec", body=self._call, headers={"Idempotency-Key": self._key}, within_s=within_s
                )
            except Unavailable as error:
                if not patience.tried and not isinstance(error, Lost):
                    raise
                patience.wait(self._unanswered(error))

    def _unanswered(self, error: Unavailable) -> Unavailable:
        said = error.message
        return Unavailable(
            Message(
                f"{said.zh} 不知道是否已执行：{self._look}；再次执行同一调用请加 --key {self._key}，不会执行两次。",
                f"{said.en} Whether it ran is not known: {self._look}; with --key {self._key} the same call never runs twice.",
            )
        )

    @property
    def _look(self) -> str:
        return f"bitong runs list --tool {self._call['tool']}"


def told(service: Service, answer: "httpx.Response", *, json: bool = False, wait: bool = True) -> int:
    """Print how a call stands, and what it does until it ended; the exit code. Raises what it was refused for.

    `answer`: as `/exec` gives it. `json`: it alone; without `wait` the run's id alone where it goes on.
    """
    shape = _shape(answer)
    if json:
        showing.as_json(shape)
    if answer.status_code not in (200, 202):
        if shape["output"] and not json:  # it ran, and that could not be recorded
            printing.Printing().finish(shape | {"error": None}, shape["run"])
        raise _refused(calling.failure_of(answer), shape)
    run = shape["run"]
    if shape.get("code") == "needs-confirmation":
        if not json:
            questions.show(shape["confirmation"], shape["definition"])
        questions.say_how_to_answer(shape["confirmation"], run["id"])
        return 1
    if shape.get("code") == "accepted":
        return _goes_on(service, shape, json=json, wait=wait)
    if not json:
        printing.Printing().finish(shape, run)
    return printing.exit_code(shape["ok"], run)


def _goes_on(service: Service, shape: dict[str, Any], *, json: bool, wait: bool) -> int:
    run = shape["run"]["id"]
    if wait and not json:
        return printing.live(service, run, shape["tool"], shape["definition"]["version"])
    if not json:
        typer.echo(run)
    showing.say(Message(f"运行中；跟随：bitong runs tail {run}", f"It runs; follow it: bitong runs tail {run}"))
    return 0


def _shape(answer: "httpx.Response") -> dict[str, Any]:
    """The answer in `/exec`'s shape. Raises the failure that any other tells of."""
    try:
        shape = answer.json()
    except ValueError:
        shape = None
    if not isinstance(shape, dict) or not isinstance(shape.get("output"), str):
        raise calling.failure_of(answer)
    return shape


def _refused(error: BitongError, shape: dict[str, Any]) -> BitongError:
    """The refusal, with what the seed says of a tool that is not there."""
    suggestion = shape.get("suggestion")
    if isinstance(suggestion, str) and suggestion not in error.message.zh:
        error.message = Message(f"{error.message.zh} {suggestion}", error.message.en)
    return error


def _schema(service: Service, tool: str) -> dict[str, Any]:
    """The tool's parameters; none where the tool is not there, which `/exec` then says better."""
    try:
        found = service.get(f"/tools/{calling.path_part(tool)}").get("params_schema")
    except NotFound:
        return {}
    return found if isinstance(found, dict) else {}


def _check_key(key: str | None) -> None:
    if key is not None and not (0 < len(key) <= _KEY_CHARACTERS and key.isascii() and key.isprintable()):
        raise UsageError(
            Message(
                f"--key 为 1 至 {_KEY_CHARACTERS} 个可见 ASCII 字符。",
                f"--key takes 1 to {_KEY_CHARACTERS} printable ASCII characters.",
            )
        )

"""A confirmation as people read it before they answer: what will run, who asks, until when."""

import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from service.cli import showing
from service.errors import Message


def show(question: Mapping[str, Any], definition: Mapping[str, Any], *, effect: str | None = None) -> None:
    """On standard error. `question`: an item of `/confirmations`, or what `/exec` says of it; `definition`: of its version."""
    showing.fields(
        [
            ("工具 tool", question["tool"]),
            ("显示 display", definition.get("display") or question.get("display")),
            ("版本 version", f"{question['version']} ({question['commit']})"),
            ("作者 author", definition.get("author")),
            ("缘由 why", definition.get("why")),
            ("影响 effect", effect),
            *((f"将执行 {name}", value) for name, value in _preview(question["preview"])),
            ("参数 params", question.get("params")),
            ("请求者 asks", question.get("actor")),
            ("请求于 asked", question.get("asked_at")),
            ("有效至 until", question["expires_at"]),
        ],
        aside=True,
    )


def say_how_to_answer(question: Mapping[str, Any], run: str) -> None:
    """The lines to go on with, each as it is typed."""
    showing.say(
        Message(
            f"需要确认，尚未执行。确认后可看：bitong runs tail {run}；确认：",
            f"It has not run: somebody has to say yes; then see it by bitong runs tail {run}. To say yes:",
        )
    )
    sys.stderr.write(f"    bitong confirm approve {showing.cell(question['id'])}\n")


def preview_text(preview: Mapping[str, Any]) -> str:
    """In one line, for a table."""
    return " · ".join(value if name == "argv" else f"{name}: {value}" for name, value in _preview(preview))


def _preview(preview: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Exactly what is sent: a vector as a shell would read it, all else as JSON."""
    argv = preview.get("argv")
    command = [("argv", shlex.join(argv))] if isinstance(argv, list) else []
    others = [(name, value) for name, value in preview.items() if name != "argv"]
    texts = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) for name, value in others
    ]
    return command + texts

"""`/tools`, a tool and its versions: what it does, how it is called, how it changed, whether it works."""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from service.domain.definitions import EXECUTORS
from service.web import runs, stats, tools
from service.web.pages.plots import by_time
from service.web.pages.view import View
from service.web.parts import Parts
from service.web.routing import Answer, Asked

PAGE: Final = 100
LATEST: Final = 10
_FILTERS: Final = ("q", "executor", "author", "state", "cursor")
_FILLED: Final[Mapping[str, Any]] = {
    "string": "…",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


def show_list(parts: Parts, asked: Asked) -> Answer:
    """The tools that can run, or those in another state."""
    view = View.of(parts, asked)
    filters: dict[str, Any] = {
        name: asked.query[name].strip() for name in _FILTERS if asked.query.get(name, "").strip()
    }
    shown = view.api(tools.list_tools, **filters, limit=PAGE)
    return view.render(
        "tools.html",
        here="/tools",
        tools=shown["items"],
        next=shown["next"],
        filters=filters,
        executors=EXECUTORS,
        states=("active", "removed", "orphaned"),
    )


def show(parts: Parts, asked: Asked) -> Answer:
    """One tool."""
    view = View.of(parts, asked)
    name = asked.path["name"]
    tool = view.api(tools.show_tool, at=asked.path)
    latest = view.api(runs.list_runs, tool=name, limit=LATEST)["items"]
    counted = view.api(stats.show_stats, by="day", tool=name) if view.actor.may("read") else None
    return view.render(
        "tool.html",
        here="/tools",
        tool=tool,
        versions=view.api(tools.list_versions, at=asked.path, limit=LATEST)["items"],
        runs=latest,
        plot=by_time(view, counted) if counted and counted["states"] else None,
        took=next(iter(counted["tools"]), None) if counted else None,
        calls=_calls(view, tool) if tool["state"] == "active" else [],
    )


def show_versions(parts: Parts, asked: Asked) -> Answer:
    """Its whole history."""
    view = View.of(parts, asked)
    shown = view.api(tools.list_versions, at=asked.path, limit=PAGE, cursor=asked.query.get("cursor"))
    return view.render(
        "versions.html", here="/tools", name=asked.path["name"], versions=shown["items"], next=shown["next"]
    )


def show_version(parts: Parts, asked: Asked) -> Answer:
    """One version: who wrote it and why, what changed since the one before, its source."""
    view = View.of(parts, asked)
    version = view.api(tools.show_version, at=asked.path)
    source = view.api(tools.show_source, at=asked.path).decode("utf-8", "replace")
    difference = view.api(tools.show_diff, at=asked.path)
    return view.render(
        "version.html",
        here="/tools",
        name=asked.path["name"],
        version=version,
        lines=source.splitlines(),
        difference=difference,
    )


def _calls(view: View, tool: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How to call it, ready to paste; the token is left out."""
    values = {name: _value(shape) for name, shape in tool["params_schema"].items() if shape["required"]}
    body = json.dumps({"tool": tool["name"], "params": values}, ensure_ascii=False)
    url = view.parts.link("/api/v1/exec")
    curl = (
        f'curl -sS -H "Authorization: Bearer $BITONG_TOKEN" -H "Content-Type: application/json" \\\n'
        f"  -d {shlex.quote(body)} {shlex.quote(url)}"
    )
    python = (
        "import json, os, urllib.request\n\n"
        f"call = json.dumps({json.loads(body)!r}).encode()\n"
        "headers = {\n"
        '    "Authorization": "Bearer " + os.environ["BITONG_TOKEN"],\n'
        '    "Content-Type": "application/json",\n'
        "}\n"
        f"request = urllib.request.Request({url!r}, call, headers)\n"
        "receipt = json.load(urllib.request.urlopen(request))\n"
        'print(receipt["output"], receipt["error"])'
    )
    given = " ".join(f"{name}={shlex.quote(_spelled(value))}" for name, value in values.items())
    command = f"bitong exec {tool['name']} {given}".rstrip()
    return [("curl", curl), ("Python", python), (view.say("命令行", "Command line"), command)]


def _value(shape: Mapping[str, Any]) -> Any:
    if "default" in shape:
        return shape["default"]
    return shape["enum"][0] if shape.get("enum") else _FILLED.get(shape["type"], "…")


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

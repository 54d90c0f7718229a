"""One frozen value, read once from mappings handed in: defaults, a TOML file, the environment (contract/cli.md, Settings).

Units are in the names. Errors name the setting, never its value; a secret hides in `repr`.
"""

import difflib
import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from service import setting_values as values
from service.errors import Message, UsageError
from service.setting_values import Secret
from service.settings_table import LOOPBACK, SETTINGS, Setting

__all__ = [
    "LOOPBACK",
    "SETTINGS",
    "Node",
    "Setting",
    "Settings",
    "is_loopback",
    "load",
    "refuse_open_file",
    "refuse_unsafe",
]

PREFIX: Final = "BITONG_"
NOT_SETTINGS: Final = ("BITONG_CONFIG", "BITONG_URL", "BITONG_TOKEN")


_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Node:
    """One gatekeeper as settings name it. `answer` maps the node's field names; `argv`, `cmd`: which of both it gets."""

    url: str
    token: Secret | None
    answer: Mapping[str, Any]
    argv: bool
    cmd: bool
    insecure: bool


class Settings:
    """Every setting as an attribute. Immutable once made. `files`: which file each of some was read from, by name."""

    def __init__(self, given: Mapping[str, Any], files: Mapping[str, Path]) -> None:
        for setting in SETTINGS:
            object.__setattr__(self, setting.name, given.get(setting.name, setting.default))
        object.__setattr__(self, "nodes", _nodes(given.get("gatekeepers", {})))
        object.__setattr__(self, "_files", dict(files))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings do not change: {name}")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __repr__(self) -> str:
        shown = {s.name: "•••" if s.secret else getattr(self, s.name) for s in SETTINGS}
        return f"Settings({shown})"

    @property
    def database_path(self) -> Path:
        """Where the SQLite database is."""
        return Path(self.data_dir) / "bitong.db"

    def private_paths(self) -> dict[str, Path]:
        """Name → path of what no tool may read: the data folder, the configuration, and files that hold secrets."""
        nodes = {f"gatekeepers.{name}.token_file": node.get("token_file") for name, node in self.gatekeepers.items()}
        of_nodes = {name: Path(str(file)) for name, file in nodes.items() if file is not None}
        return {"data_dir": Path(self.data_dir), **self._files, **of_nodes}

    def webhook_secrets(self) -> dict[str, str]:
        """Name → secret of those that may sign a webhook now."""
        pairs = {"current": self.webhook_secret, "previous": self.webhook_secret_previous}
        return {name: secret.reveal() for name, secret in pairs.items() if secret is not None}


def load(environment: Mapping[str, str], config: Path | None = None) -> Settings:
    """Read the settings. Raises UsageError for an unknown or unfit one, naming the setting and the nearest that exists."""
    named = config or (Path(environment["BITONG_CONFIG"]) if environment.get("BITONG_CONFIG") else None)
    given: dict[str, Any] = {}
    files: dict[str, Path] = {}
    if named is not None:
        files["BITONG_CONFIG"] = named
        given |= _named(_parsed(named), lambda name: name, files)
    given |= _from_environment(environment, files)
    read = {name: _read(_BY_NAME[name], value) for name, value in given.items()}
    if "public_url" not in read and "port" in read:
        read["public_url"] = f"http://127.0.0.1:{read['port']}"
    return Settings(read, files)


# Where tokens go besides gatekeepers: the address's setting, those of its tokens, and the operator's leave. The client's
# secret is one of them, and signing in fetches people's tokens with it.
_PLACES: Final = (
    ("repository_url", ("repository_token",), "repository_insecure"),
    ("forgejo_url", ("forgejo_token", "forgejo_tools_token", "oauth_client_secret"), "forgejo_insecure"),
    ("hlpd_api_url", ("hlpd_api_token",), "hlpd_api_insecure"),
    ("embeddings_url", ("embeddings_token",), "embeddings_insecure"),
    ("anchor_repository_url", ("anchor_repository_token",), "anchor_repository_insecure"),
)


def refuse_unsafe(settings: Settings) -> None:
    """Refuse what `serve` must not start with: bearer tokens over plain http off this host (cases.md R16)."""
    for name, node in settings.nodes.items():
        if node.token is not None and not node.insecure and not _is_safe(node.url):
            raise _unsafe(f"gatekeepers.{name}", "insecure")
    for url, tokens, insecure in _PLACES:
        holds = any(getattr(settings, token) is not None for token in tokens)
        if holds and not getattr(settings, insecure) and not _is_safe(getattr(settings, url) or ""):
            raise _unsafe(url, insecure)
    if settings.database_url is not None:
        raise UsageError(
            Message(
                "database_url：目前只支持 data_dir 中的 SQLite；请删去此设置。",
                "database_url: only the SQLite in data_dir is supported so far; remove the setting.",
            )
        )
    _refuse_anchors_on_the_tracked_branch(settings)
    if not (settings.forgejo_url or "/api/v1").endswith("/api/v1"):
        raise _bad("forgejo_url", "the address of the forge's API, ending in /api/v1")
    if settings.gatekeeper_default is not None and settings.gatekeeper_default not in settings.nodes:
        raise _bad("gatekeeper_default", "one of the names in gatekeepers")


def _refuse_anchors_on_the_tracked_branch(settings: Settings) -> None:
    """Bitong never writes the branch that it reads tools from (design.md, What the mission says)."""
    place, tracked = (
        (url or "").rstrip("/").removesuffix(".git")
        for url in (settings.anchor_repository_url, settings.repository_url)
    )
    if place and place == tracked and settings.anchor_branch == settings.repository_branch:
        raise UsageError(
            Message(
                "anchor_branch：检查点不能提交到登记工具的分支；请换一个分支。",
                "anchor_branch: checkpoints never go to the tracked branch; name another one.",
            )
        )


def refuse_open_file(path: Path) -> None:
    """Refuse a configuration that others can write, or that holds secrets and others can read (cases.md R17)."""
    mode = path.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            Message(
                f"配置文件 {path} 可被他人写入；请执行 chmod go-w。",
                f"The configuration {path} can be written by others; chmod go-w it.",
            )
        )
    content = _parsed(path)
    nodes = content.get("gatekeepers", {})
    holds_secrets = any(_BY_NAME[name].secret for name in content if name in _BY_NAME and name != "gatekeepers") or any(
        isinstance(node, dict) and "token" in node for node in nodes.values()
    )
    if holds_secrets and mode & (stat.S_IRGRP | stat.S_IROTH):
        raise UsageError(
            Message(
                f"配置文件 {path} 含有密钥且他人可读；请执行 chmod 600，或改用 <名称>_file。",
                f"The configuration {path} holds secrets and others can read it; chmod 600 it, or use <name>_file.",
            )
        )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise UsageError(
            Message(
                f"读不到配置文件 {path}：{os.strerror(error.errno or 0)}",
                f"Cannot read the configuration {path}: {os.strerror(error.errno or 0)}",
            )
        ) from None
    except UnicodeDecodeError:
        raise UsageError(Message(f"配置文件 {path} 不是 UTF-8。", f"The configuration {path} is not UTF-8.")) from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line \d+", str(error))
        where = line.group() if line else "somewhere"
        raise UsageError(
            Message(
                f"配置文件 {path} 不是有效的 TOML（{where}）。", f"The configuration {path} is no valid TOML ({where})."
            )
        ) from None
    return content


def _from_environment(environment: Mapping[str, str], files: dict[str, Path]) -> dict[str, Any]:
    found = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and name not in NOT_SETTINGS
    }
    return _named(found, lambda name: PREFIX + name.upper(), files)


def _named(content: Mapping[str, Any], shown: Callable[[str], str], files: dict[str, Path]) -> dict[str, Any]:
    """Only known names; `<secret>_file` is replaced by what the file holds, and the file's path goes to `files`."""
    result: dict[str, Any] = {}
    for name, value in content.items():
        plain = name.removesuffix("_file")
        if name in _BY_NAME:
            result[name] = value
        elif plain != name and plain in _BY_NAME and _BY_NAME[plain].secret:
            result[plain] = _content_of(shown(name), value)
            files[shown(name)] = Path(str(value))
        else:
            raise _unknown(name, shown)
    return result


def _content_of(shown: str, value: Any) -> str:
    try:
        return Path(str(value)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(
            Message(f"{shown} 所指的文件读不到：{reason}", f"{shown}: cannot read the file it names: {reason}")
        ) from None


def _unknown(name: str, shown: Callable[[str], str]) -> UsageError:
    near = difflib.get_close_matches(name, [*_BY_NAME], n=1, cutoff=0.5)
    zh = f"；是否想写 {shown(near[0])}？" if near else "。"
    en = f"; did you mean {shown(near[0])}?" if near else "."
    return UsageError(Message(f"没有这个设置：{shown(name)}{zh}", f"There is no setting {shown(name)}{en}"))


def _read(setting: Setting, value: Any) -> Any:
    try:
        return setting.read(value)
    except (ValueError, TypeError) as error:
        raise _bad(setting.name, str(error)) from None


def _bad(name: str, wants: str) -> UsageError:
    return UsageError(
        Message(f"设置 {name} 的值不合适，应为：{wants}", f"The setting {name} has an unfit value; it takes {wants}.")
    )


def _unsafe(name: str, insecure: str) -> UsageError:
    return UsageError(
        Message(
            f"设置 {name}：令牌只能经 https 或本机回环地址发送。请改用 https，或写明 {insecure} = true。",
            f"The setting {name}: a bearer token goes over https or loopback only. Use https, or say {insecure} = true.",
        )
    )


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme != "http" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: an address of 127.0.0.0/8, ::1, or localhost. A name that only begins so is not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _nodes(table: Mapping[str, Any]) -> Mapping[str, Node]:
    return {name: _node(f"gatekeepers.{name}", value) for name, value in table.items()}


_NODE_KEYS: Final = ("url", "token", "token_file", "answer", "argv", "cmd", "insecure")


def _node(name: str, value: Any) -> Node:
    if not isinstance(value, dict):
        raise _bad(name, "a table with url and token")
    for key in value:
        if key not in _NODE_KEYS:
            raise _unknown_key(name, key)
    flags = {key: value.get(key, default) for key, default in (("argv", True), ("cmd", True), ("insecure", False))}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise _bad(name, "true or false for argv, cmd and insecure")
    answer = value.get("answer", {})
    if not isinstance(answer, dict):
        raise _bad(f"{name}.answer", "a table of field names")
    token = value.get("token")
    if token is not None and not isinstance(token, str):
        raise _bad(f"{name}.token", "text")
    if "token_file" in value:
        token = _content_of(f"{name}.token_file", value["token_file"])
    try:
        url = values.url(value.get("url"))
    except ValueError as error:
        raise _bad(f"{name}.url", str(error)) from None
    return Node(
        url, Secret(values.text(token)) if token else None, answer, flags["argv"], flags["cmd"], flags["insecure"]
    )


def _unknown_key(name: str, key: str) -> UsageError:
    near = difflib.get_close_matches(key, _NODE_KEYS, n=1, cutoff=0.5)
    zh, en = (f"是否想写 {near[0]}？", f" Did you mean {near[0]}?") if near else ("", "")
    return UsageError(Message(f"{name} 中没有 {key} 这一项。{zh}", f"{name} has no key {key}.{en}"))

"""What the demo prints: lines to try, each to be pasted as it stands. All of it together is a shell script, too."""

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_RUNS_COMMANDS: Final = """HLDP://zhuyuan/tool/say-hello

name: say-hello
display: 打招呼
intent: 向一个人打招呼
method: exec
executor: gatekeeper
command: [echo, "你好，{who}！"]
params_schema:
  who: { type: string, required: false, description: "向谁", default: 世界, max_length: 40 }
constraints: {}
effect: read
author: ICE-GL-ZY001
created: 2026-05-31
why: 第一支自己写的笔，看它从推送到能用要多久。
"""
_READS_FILES: Final = """HLDP://zhuyuan/tool/read-me

name: read-me
display: 读说明
intent: 读出工作目录里的说明
method: file.read
executor: gatekeeper
params_schema:
  path: { type: string, required: false, description: "哪个文件", default: README.txt }
constraints: {}
effect: read
author: ICE-GL-ZY001
created: 2026-05-31
why: 第一支自己写的笔，看它从推送到能用要多久。
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything of a running demo is."""

    url: str
    sign_in: str
    token: str
    bare: Path
    clone: Path
    database: Path
    logs: Path
    runs_commands: bool

    @property
    def tool(self) -> tuple[str, str, dict[str, str]]:
        """The tool to write: its name, its text, parameters to call it with."""
        if self.runs_commands:
            return "say-hello", _RUNS_COMMANDS, {"who": "光之湖"}
        return "read-me", _READS_FILES, {}


def lines(place: Place) -> str:
    """The text, ended by a newline."""
    name, text, params = place.tool
    clone, q = shlex.quote(str(place.clone)), shlex.quote
    call = q(json.dumps({"tool": name, "params": params}, ensure_ascii=False))
    bearer = f'-H "Authorization: Bearer {place.token}"'
    git = f"git -C {clone}"
    who = "-c user.name=铸渊 -c user.email=zhuyuan@localhost -c commit.gpgsign=false"
    return f"""# 笔筒已就绪 Bitong is ready: {place.url}
# 网页，十分钟内打开，一次 the pages, once, within ten minutes: {place.sign_in}
#   再要一个 another one: BITONG_DATA_DIR={shlex.quote(str(place.database.parent))} {bitong()} login
# 令牌（read、exec） token (read, exec): {place.token}
# 日志 logs: {place.logs}   Ctrl-C 结束 ends it
# 在另一个终端里，逐段粘贴 · In another terminal, paste one part after the other:

# 1. 克隆 · clone
{_owner_line(place)}test -d {clone} || git clone --quiet {q(str(place.bare))} {clone}
{git} pull --quiet --ff-only origin main

# 2. 写一支新的笔 · write a new tool
mkdir -p {clone}/tools/{name}
cat > {clone}/tools/{name}/TOOL.hdlp <<'HDLP'
{text}HDLP
{bitong()} lint {clone}/tools/{name}

# 3. 提交、推送；登记只需一瞬 · commit and push; it is registered in a moment
{git} add tools/{name}
{git} {who} commit --quiet --allow-empty -m "新工具 {name}"
{git} push --quiet origin HEAD:main && sleep 1

# 4. 调用 · call it
curl -sS {bearer} -H 'Content-Type: application/json' -d {call} {place.url}/api/v1/exec; echo

# 5. 看运行记录 · list the runs
curl -sS {bearer} '{place.url}/api/v1/runs?limit=3'; echo
BITONG_URL={place.url} BITONG_TOKEN={place.token} {bitong()} runs list

# 6. 核对记录，不需要服务 · verify the record, without the service
{bitong()} audit verify --database {q(str(place.database))}
"""


def bitong() -> str:
    """How this command was started, so that it is found from anywhere."""
    script = Path(sys.argv[0]).absolute()
    if script.name == "bitong" and script.is_file():
        return shlex.quote(str(script))
    return shlex.join([sys.executable, "-m", "service"])


def _owner_line(place: Place) -> str:
    """For git, which refuses repositories of another account; needed only where a container gave the folder to one."""
    if place.bare.stat().st_uid == os.geteuid():
        return ""
    return f"git config --global --add safe.directory {shlex.quote(str(place.bare))}\n"

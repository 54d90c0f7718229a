"""`python -m service.verify FILE`, for an auditor who has this package, Python and the file."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from service.verify import Report, VerifyError, lines, verify_database


def main(arguments: Sequence[str]) -> int:
    """`python -m service.verify FILE`: exit 0 when it verifies, 1 when not or not readable, 2 when used wrongly."""
    options = _options(arguments)
    try:
        report = verify_database(
            options.file,
            keys=options.key,
            checkpoints=options.checkpoint,
            clone=options.clone,
            tools_path=options.tools_path,
        )
    except VerifyError as error:
        if options.json:
            sys.stdout.write(json.dumps({"ok": False, "error": {"zh": error.zh, "en": error.en}}) + "\n")
        sys.stderr.write(f"{error.zh}\n{error.en}\n")
        return 1
    sys.stdout.write(json.dumps(as_json(report)) + "\n" if options.json else "\n".join(lines(report)) + "\n")
    return 1 if report.findings else 0


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON; `ok` first."""
    shape = asdict(report)
    shape["notes"] = [{"zh": zh, "en": en} for zh, en in report.notes]
    return {"ok": not report.findings} | shape


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m service.verify", description="核对数据库。 Verify a database.")
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--key", action="append", default=[], metavar="VKEY", help="公钥，可重复 / a key, repeatable")
    parser.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="别处保存的检查点 / one kept elsewhere",
    )
    parser.add_argument("--clone", type=Path, metavar="DIR", help="仓库的克隆 / a clone of the repository")
    parser.add_argument(
        "--tools-path", default="tools", metavar="PATH", help="工具在仓库中的路径 / where its tools stand"
    )
    parser.add_argument("--json", action="store_true", help="输出 JSON / print JSON")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

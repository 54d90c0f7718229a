"""Lays the JSON on standard input out anew. Only the space between its signs changes; what is wrong is named by its place."""

import json
import re
import sys

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def laid_out(text: str, indent: int) -> str:
    """The same tokens, one member a line; on one line without an indent."""
    lines, depth = [""], 0
    tokens = TOKEN.findall(text)
    for before, sign, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        empty = sign + after in ("{}", "[]") or before + sign in ("{}", "[]")
        if sign in "}]" and not empty:
            depth -= 1
            lines.append(" " * indent * depth)
        lines[-1] += sign + (" " if sign == ":" else "")
        if sign in "{[" and not empty:
            depth += 1
            lines.append(" " * indent * depth)
        elif sign == ",":
            lines.append(" " * indent * depth)
    return "\n".join(lines) if indent else "".join(lines)


def refuse(name: str) -> None:
    """JSON has no NaN and no Infinity."""
    raise ValueError(f"JSON 里没有 {name} / JSON has no {name}")


def main() -> int:
    """Exit 0 with the JSON, or 1 with what is wrong with it."""
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
        json.loads(text, parse_constant=refuse)
    except UnicodeDecodeError as error:
        problem = f"第 {error.start + 1} 个字节不是 UTF-8 / byte {error.start + 1} is not UTF-8"
    except json.JSONDecodeError as error:
        problem = f"第 {error.lineno} 行第 {error.colno} 列 / line {error.lineno}, column {error.colno}: {error.msg}"
    except RecursionError:
        problem = "嵌套太深 / nested too deep"
    except ValueError as error:
        problem = str(error)
    else:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(laid_out(text, int(sys.argv[1])) + "\n")
        return 0
    sys.stderr.write(problem + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

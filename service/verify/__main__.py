"""`python -m service.verify FILE`, for an auditor who has this package, Python and the file."""

import sys
from collections.abc import Sequence

from service.verify import VerifyError, lines, verify_database


def main(arguments: Sequence[str]) -> int:
    """`python -m service.verify FILE`: exit 0 when it verifies, 1 when not or not readable, 2 when used wrongly."""
    if len(arguments) != 1:
        sys.stderr.write("用法 / usage: python -m service.verify FILE\n")
        return 2
    try:
        report = verify_database(arguments[0])
    except VerifyError as error:
        sys.stderr.write(f"{error.zh}\n{error.en}\n")
        return 1
    sys.stdout.write("\n".join(lines(report)) + "\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

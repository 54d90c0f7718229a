"""The command line, one file a group of commands."""

import sys


def main() -> int:
    """The `bitong` command; its exit code: 0 done, 1 not well, 2 used wrongly, 3 something cannot be reached.

    A push waits for `hook post-receive`, so that one starts without the libraries that the others need.
    """
    arguments = sys.argv[1:]
    if arguments[:2] == ["hook", "post-receive"]:
        from service.cli import hook  # noqa: PLC0415 - each way imports what it needs

        return hook.main(arguments[2:])
    from service.cli import program  # noqa: PLC0415

    return program.run(arguments)

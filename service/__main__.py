"""`python -m service …` is the `bitong` command."""

import sys

from service.cli import main

if __name__ == "__main__":
    sys.exit(main())

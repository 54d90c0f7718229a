"""Runs code of the checkout as an ordinary user, with the system's Python, since ours may lie where nobody can read."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BECOME = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def as_nobody(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`code`, with the checkout on its path; skips where nobody can be become, or cannot read the checkout."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None or not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("needs root to become someone else, setpriv and a Python under /usr")
    python = [*BECOME, "/usr/bin/python3", "-B", "-c"]
    if subprocess.run([*python, f"import os; os.listdir({str(ROOT)!r})"], capture_output=True).returncode != 0:
        pytest.skip("the checkout cannot be read by another user")
    code = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{code}"
    return subprocess.run([*python, code, *arguments], capture_output=True, text=True, cwd="/")

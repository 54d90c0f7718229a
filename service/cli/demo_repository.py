"""The demo's native-repo: a plain bare repository that starts with the shipped tools and tells of its pushes."""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import service
from service.cli.processes import own
from service.errors import Message, Unavailable

AUTHOR: Final = ("笔筒 Bitong", "bitong@localhost")
GIT_S: Final = 60.0


def make(bare: Path) -> bool:
    """Make the repository with one commit, whole or not at all; False where it stands already."""
    if bare.exists():
        return False
    with tempfile.TemporaryDirectory(prefix=".native-repo-", dir=bare.parent) as folder:
        seed, fresh = Path(folder, "seed"), Path(folder, "fresh.git")
        _git("init", "--quiet", "--template=", "--initial-branch=main", str(seed))
        shutil.copytree(shipped_tools(), seed / "tools")
        _git("-C", str(seed), "add", "--all")
        _git("-C", str(seed), "commit", "--quiet", "-m", "起步的一套工具")
        _git("init", "--quiet", "--template=", "--bare", "--initial-branch=main", str(fresh))
        _git("-C", str(seed), "push", "--quiet", str(fresh), "HEAD:refs/heads/main")
        fresh.rename(bare)
    return True


def install_hook(bare: Path, *, url: str, secret_file: Path) -> None:
    """The post-receive hook, written anew: port and interpreter may be others than last time."""
    command = own("service", "hook", "post-receive", "--url", url, "--secret-file", str(secret_file))
    hook = bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    fresh = hook.with_suffix(".new")
    fresh.write_text(f"#!/bin/sh\n# bitong demo\nexec {shlex.join(command)}\n", "utf-8")
    fresh.chmod(0o755)
    fresh.replace(hook)


def shipped_tools() -> Path:
    """Where the shipped definitions stand: beside the package in a checkout, inside it when installed from a wheel."""
    package = Path(service.__file__).resolve().parent
    shipped = package / "_shipped" / "tools"
    return shipped if shipped.is_dir() else package.parent / "tools"


def _git(*arguments: str) -> None:
    """Run git with no configuration but the repository's own, and an identity of ours. Raises Unavailable."""
    name, address = AUTHOR
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
        "LC_ALL": "C.UTF-8",
    }
    try:
        # The folder may belong to another account, as in a container; it is ours all the same.
        command = ["git", "-c", "safe.directory=*", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=GIT_S, check=False)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Unavailable(
            Message(f"运行不了 git（{reason}）；请先安装它。", f"git cannot be run ({reason}); install it first.")
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise Unavailable(Message(f"git {arguments[0]} 失败：{last}", f"git {arguments[0]} failed: {last}"))

"""`python -m service.intake.anchors.commit`: one checkpoint committed to a branch, or what stands there told.

Asked in JSON on standard input: {url, branch, username, token, note, message, parent}. Answers on standard output, one of

- `{"commit": id}`: the branch had `parent` (null: it was not there) as its tip, and has this commit on top of it now;
- `{"tip": id, "held": text or null}`: its tip is another; `held` is the file `checkpoint` there;
- `{"failed": code, "cause": text}`: it could not be done; codes as mirror/git_remote.py's, and `rejected`.

dulwich asks without a limit in time: who starts this process ends it.
"""

import json
import resource
import sys
import time
from typing import Any, Final

from dulwich.client import LocalGitClient, Urllib3HttpGitClient
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.pack import pack_objects_to_data
from dulwich.repo import MemoryRepo, Repo

from service.intake.mirror.git_remote import Address, Unreachable, _Pool, _translated, local_path

FILE: Final = b"checkpoint"
WHO: Final = b"Bitong <bitong@bitong.invalid>"
MOST_BYTES: Final = 1024 * 1024 * 1024  # of memory
MOST_NOTE: Final = 65_536


def run(asked: dict[str, Any]) -> dict[str, Any]:
    """One request, as the module says. Raises Unreachable."""
    ref = b"refs/heads/" + asked["branch"].encode()
    client, path = _client(asked)
    parent = None if asked["parent"] is None else ObjectID(asked["parent"].encode())
    with _translated_or_local(client):
        tip = client.get_refs(path, ref_prefix=[ref]).refs.get(ref)
        if tip is not None and tip != parent:
            return {"tip": tip.decode("ascii"), "held": _held(client, path, ref, tip)}
        if tip is None and parent is not None:
            return {"tip": None, "held": None}
        commit = _push(client, path, ref, tip, asked)
    return {"commit": commit.decode("ascii")}


def _client(asked: dict[str, Any]) -> tuple[Any, str]:
    local = local_path(asked["url"])
    if local is not None:
        if not local.is_dir():
            raise Unreachable("repository-not-found", "there is no such folder")
        return LocalGitClient(), str(local)
    address = Address.parse(asked["url"], asked["username"], asked["token"])
    username = address.username if address.password else None
    pool = _Pool(address.origin)
    client = Urllib3HttpGitClient(
        address.origin, pool_manager=pool, quiet=True, username=username, password=address.password
    )
    return client, address.path


def _translated_or_local(client: Any) -> Any:
    if isinstance(client, LocalGitClient):
        client.dumb = False  # type: ignore[attr-defined]
    return _translated(client)


def _held(client: Any, path: str, ref: bytes, tip: bytes) -> str | None:
    """The text of the checkpoint at the branch's tip; None where there is no such file."""
    if isinstance(client, LocalGitClient):
        with Repo(path) as repository:
            return _file_of(repository, tip)
    memory = MemoryRepo()
    client.fetch(path, memory, determine_wants=lambda *_, **__: [ObjectID(tip)], depth=1, ref_prefix=[ref])
    return _file_of(memory, tip)


def _file_of(repository: Any, tip: bytes) -> str | None:
    commit = repository[tip]
    if not isinstance(commit, Commit):
        return None
    tree = repository[commit.tree]
    if not isinstance(tree, Tree) or FILE not in tree:
        return None
    blob = repository[tree[FILE][1]]
    if not isinstance(blob, Blob) or blob.raw_length() > MOST_NOTE:
        return None
    return blob.data.decode("utf-8", "replace")


def _push(client: Any, path: str, ref: bytes, tip: bytes | None, asked: dict[str, Any]) -> bytes:
    objects = _objects(asked, tip)
    commit = objects[0].id

    def update(refs: dict[Any, Any]) -> dict[Any, Any]:
        if refs.get(ref) != tip:
            raise Unreachable("rejected", "the branch moved meanwhile")
        return {ref: commit}

    done = client.send_pack(path, update, lambda *_, **__: pack_objects_to_data([(one, None) for one in objects]))
    refused = (done.ref_status or {}).get(ref)
    if refused:
        raise Unreachable("rejected", "the repository refused the commit")
    return bytes(commit)


def _objects(asked: dict[str, Any], tip: bytes | None) -> list[ShaFile]:
    """A commit, its tree of one file, and the file."""
    blob = Blob.from_string(asked["note"].encode())
    tree = Tree()
    tree.add(FILE, 0o100644, blob.id)
    commit = Commit()
    commit.tree = tree.id
    commit.parents = [] if tip is None else [ObjectID(tip)]
    commit.author = commit.committer = WHO
    commit.author_time = commit.commit_time = int(time.time())
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = asked["message"].encode()
    return [commit, tree, blob]


def main() -> int:
    """The process's entry; see the module's docstring."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    try:
        answer = run(json.load(sys.stdin))
    except Unreachable as error:
        answer = {"failed": error.code, "cause": error.cause}
    except Exception as error:  # noqa: BLE001 - the service shows its kind
        answer = {"failed": "repository-unreachable", "cause": type(error).__name__}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())

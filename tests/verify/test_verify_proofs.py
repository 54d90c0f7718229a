"""The file that proves one run: whole ones, and forged ones of every kind (contract/audit.md, Receipts)."""

import base64
import copy
import json
import random

import pytest

from service.domain.merkle import TiledLog, inclusion_ranges, root_of
from service.verify import VerifyError, verify_proof
from tests.verify.builder import Signer, change, mth, note_of, read, sha, signed_example

FORGERIES = 200


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """A log, its keys, and the proofs of a run that ended, of one that was refused, and of one that somebody approved."""
    log, signers, notes = signed_example(tmp_path_factory.mktemp("proofs") / "bitong.db")
    log.close()
    runs = {run: proof(log, run, notes[-1], signers) for run in ("r-ended", "r-refused", "r-asked-2")}
    return runs, [signer.vkey for signer in signers], log


def proof(log, run, note, signers):
    """As `GET /runs/{id}/proof` answers it."""
    size = int(note.split(b"\n")[1])
    tree = TiledLog()
    nodes: dict[int, list[bytes]] = {0: log.leaves}
    for leaf in log.leaves:
        tree, tiles = tree.append(leaf)
        for tile in tiles:
            nodes.setdefault(tile.level, []).append(tile.hash)

    def ask(level, first, count):
        return nodes[level][first : first + count]

    entries = []
    for index in range(size):
        content = read(log.path, f"SELECT entry FROM log_entries WHERE idx = {index}")  # noqa: S608 - SQL of our own
        shape = json.loads(content)
        if shape["facts"].get("run") != run:
            continue
        path = [root_of(one, ask).hex() for one in inclusion_ranges(index, size)]
        said = {"index": index, "type": shape["type"], "leaf": log.leaves[index].hex(), "path": path}
        entries.append(said | {"entry_b64": base64.b64encode(content).decode()})
    started = next(
        (json.loads(base64.b64decode(one["entry_b64"])) for one in entries if one["type"] == "run.started"), None
    )
    names = ("tool", "version", "commit", "tree", "blob", "sha256")
    definition = None if started is None else {name: started["facts"][name] for name in names}
    keys = [signer.vkey for signer in signers]
    shape = {"format": "bitong-run-proof/1", "run": run, "definition": definition, "keys": keys}
    return shape | {"checkpoint": note.decode(), "entries": entries}


def holds(shape, keys) -> bool:
    try:
        verify_proof(json.dumps(shape).encode(), keys)
    except VerifyError:
        return False
    return True


@pytest.mark.parametrize("run", ["r-ended", "r-refused", "r-asked-2"])
def test_a_proof_holds_with_the_logs_key_and_says_what_happened(proved, run):
    runs, keys, _ = proved

    said = verify_proof(json.dumps(runs[run]).encode(), keys)

    assert said["run"] == run
    assert said["notes"] == []
    assert [entry["facts"]["run"] for entry in said["entries"]] == [run] * len(said["entries"])


def test_without_a_key_it_says_that_the_files_own_was_used(proved):
    runs, _, _ = proved

    assert any(
        "file itself names" in note["en"] for note in verify_proof(json.dumps(runs["r-ended"]).encode(), [])["notes"]
    )


def test_two_hundred_forged_proofs_are_all_refused(proved):
    """One thing changed in each: a letter of the note, a node, an entry's bytes, an index, the order, the definition."""
    runs, keys, _ = proved
    chance = random.Random(11)  # noqa: S311 - the same forgeries each time
    passed = []
    for number in range(FORGERIES):
        shape = copy.deepcopy(runs[chance.choice(sorted(runs))])
        how = chance.choice(FORGERS)
        if how(shape, chance) is not False and holds(shape, keys):
            passed.append((number, how.__name__))

    assert passed == []


def change_note(shape, chance):
    at = chance.randrange(len(shape["checkpoint"]))
    letter = chance.choice("abcXYZ019+/=\n ")
    if shape["checkpoint"][at] == letter:
        return False
    shape["checkpoint"] = shape["checkpoint"][:at] + letter + shape["checkpoint"][at + 1 :]
    return None


def change_path(shape, chance):
    path = chance.choice(shape["entries"])["path"]
    at = chance.randrange(len(path))
    node = bytearray(bytes.fromhex(path[at]))
    node[chance.randrange(32)] ^= 1 << chance.randrange(8)
    path[at] = node.hex()


def cut_path(shape, chance):
    path = chance.choice(shape["entries"])["path"]
    del path[chance.randrange(len(path))]


def lengthen_path(shape, chance):
    path = chance.choice(shape["entries"])["path"]
    path.insert(chance.randrange(len(path) + 1), sha(b"more").hex())


def change_bytes(shape, chance):
    entry = chance.choice(shape["entries"])
    content = bytearray(base64.b64decode(entry["entry_b64"]))
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    entry["entry_b64"] = base64.b64encode(content).decode()
    if chance.random() < 0.5:
        entry["leaf"] = sha(b"\0" + bytes(content)).hex()


def change_index(shape, chance):
    entry = chance.choice(shape["entries"])
    entry["index"] += chance.choice([-1, 1, 2, 256])


def change_leaf(shape, chance):
    chance.choice(shape["entries"])["leaf"] = sha(b"another").hex()


def drop_entry(shape, chance):
    steps = [entry for entry in shape["entries"] if entry["type"].startswith("run.")]
    shape["entries"].remove(chance.choice(steps))


def double_entry(shape, chance):
    shape["entries"].insert(0, copy.deepcopy(chance.choice(shape["entries"])))


def change_run(shape, chance):
    shape["run"] = chance.choice(["r-0001", "r-ended ", "", None])


def change_definition(shape, chance):
    if shape["definition"] is None:
        shape["definition"] = {"tool": "text-stats"}
        return
    name = chance.choice(sorted(shape["definition"]))
    shape["definition"][name] = chance.choice([None, 99, "00" * 20])


def change_type(shape, chance):
    chance.choice(shape["entries"])["type"] = "run.refused " + str(chance.random())


def sign_anew(shape, chance):
    """Another tree, signed by a key of the forger's own under the log's name."""
    note = note_of(400, mth([sha(b"x")]), Signer(bytes([chance.randrange(256)] * 32)))
    shape["checkpoint"] = note.decode()


FORGERS = [change_note, change_path, cut_path, lengthen_path, change_bytes, change_index, change_leaf, drop_entry]
FORGERS += [double_entry, change_run, change_definition, change_type, sign_anew]


def test_a_forger_with_a_key_of_his_own_proves_nothing_to_who_has_the_logs(proved, tmp_path):
    """The whole log written anew and signed: it holds by the file's own key, and not by the one from elsewhere."""
    _, keys, _ = proved
    forger = Signer(b"f" * 32)
    log, _, _ = signed_example(tmp_path / "bitong.db", runs=0)
    log.close()
    forged = proof(log, "r-ended", note_of(len(log.leaves), mth(log.leaves), forger), [forger])

    assert holds(forged, [])
    assert not holds(forged, keys)


def test_a_run_that_has_not_ended_proves_nothing(proved, tmp_path):
    log, signers, _ = signed_example(tmp_path / "bitong.db", runs=0)
    log.close()
    shape = proof(log, "r-open", note_of(len(log.leaves), mth(log.leaves), signers[0]), signers)

    assert not holds(shape, [signers[0].vkey])


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b'{"format":"other"}', b"\xff", b"[" * 5000, b'{"format":"bitong-run-proof/1"}'],
)
def test_what_is_no_proof_is_said_in_a_sentence(content):
    with pytest.raises(VerifyError, match="Not a proof"):
        verify_proof(content, [])


def test_nothing_here_touches_the_database(proved):
    """The fixture's file is gone for who has only the proof."""
    runs, keys, log = proved
    change(log.path, "DELETE FROM log_entries")

    assert holds(runs["r-ended"], keys)

"""Signed notes and keys, against C2SP's and Go's published examples."""

import base64
import subprocess
import sys

import pytest

from service.domain.notes import Checkpoint, VerifierKey, read_checkpoint, read_key, signed
from service.store.signing import is_signed_by, pair, sign
from service.verify import notes as verifier

# golang.org/x/mod/sumdb/note, whose format C2SP signed-note is.
GO_VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_SIGNATURE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
# The example of C2SP signed-note.
C2SP_VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
C2SP_NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
HEAD = Checkpoint("bitong/test", 7, bytes(range(32)))


def test_the_note_is_byte_for_byte_that_of_go():
    """Ed25519 is deterministic: the same key and text give the same bytes."""
    known = pair(GO_SEED, "PeterNeumann")

    assert str(known.public) == GO_VKEY
    assert sign(GO_TEXT, [known]) == f"{GO_TEXT}\n— PeterNeumann {GO_SIGNATURE}\n"


def test_the_example_of_c2sp_verifies_and_no_other_text_does():
    key = read_key(C2SP_VKEY)

    assert str(key) == C2SP_VKEY
    assert is_signed_by(C2SP_NOTE, key)
    assert not is_signed_by(C2SP_NOTE.replace("example message", "exemple message"), key)
    assert not is_signed_by(C2SP_NOTE, read_key(GO_VKEY))


def test_a_checkpoint_is_three_lines_that_both_readers_read():
    known = pair(bytes(32), "bitong/test")
    note = sign(HEAD.text(), [known])

    assert HEAD.text().split("\n") == ["bitong/test", "7", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", ""]
    assert read_checkpoint(note) == HEAD
    read = verifier.read_note(note.encode())
    assert (read.origin, read.size, read.root) == (HEAD.origin, HEAD.size, HEAD.root)
    assert verifier.is_signed(read, [verifier.read_key(str(known.public))])


@pytest.mark.parametrize(
    "vkey",
    [
        "",
        "name",
        "name+00000000+" + GO_VKEY.rpartition("+")[2],
        GO_VKEY.replace("PeterNeumann", "Peter Neumann"),
        GO_VKEY.replace("c74f20a3", "C74F20A3"),
        GO_VKEY.replace("ARpc", "AhpC"),
        GO_VKEY[:-4],
        GO_VKEY + "====",
    ],
)
def test_what_is_no_key_is_refused_by_both(vkey):
    for read in (read_key, verifier.read_key):
        with pytest.raises(ValueError, match=r"."):
            read(vkey)


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda note: note.replace("7\n", "07\n"),
        lambda note: note.replace("7\n", "-7\n"),
        lambda note: note.replace("\n\n", "\n"),
        lambda note: note.replace("bitong/test\n7", "\n7"),
        lambda note: note.replace("Hh8=", "Hg=="),
        lambda note: note[:-1],
        lambda note: note.replace("— ", "- "),
        lambda note: note.partition("\n\n")[0] + "\n\n",
        lambda _: "",
    ],
)
def test_what_is_no_checkpoint_is_refused(spoiled):
    note = spoiled(sign(HEAD.text(), [pair(bytes(32), "bitong/test")]))

    with pytest.raises(ValueError, match=r"."):
        verifier.read_note(note.encode())


def test_a_wrong_signature_of_a_known_key_refuses_the_note_whatever_else_signed_it():
    """C2SP signed-note: one of an unknown key says nothing, a wrong one of a known key is an attack."""
    first, second = pair(bytes(32), "bitong/test"), pair(bytes([1] * 32), "bitong/test")
    wrong = signed(HEAD.text(), [(first.public, bytes(64))])
    both = sign(HEAD.text(), [second]) + wrong.partition("\n\n")[2]
    read = verifier.read_note(both.encode())
    keys = [verifier.read_key(str(one.public)) for one in (first, second)]

    assert verifier.is_signed(read, keys[1:])
    assert not verifier.is_signed(read, keys)
    assert not verifier.is_signed(read, [])


def test_a_private_key_does_not_show_itself():
    known = pair(GO_SEED, "PeterNeumann")

    assert "\\x" not in repr(known)
    assert GO_SEED.hex() not in repr(known)
    assert isinstance(known.public, VerifierKey)


def test_the_signing_library_is_loaded_by_who_signs_alone():
    """Eight megabytes that commands without a log do without."""
    program = "import sys, service.store.signing, service.store.checkpointing; sys.exit('cryptography' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program]).returncode == 0

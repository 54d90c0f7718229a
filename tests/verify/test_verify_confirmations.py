"""Confirmations and idempotency keys, whole and tampered with."""

import pytest

from service.verify import verify_database
from tests.verify.builder import BIT_COLUMNS, change, example, flipped, read

COLUMNS = ("state", "run", "tool", "version", "params_digest", "actor", "asked_at", "answered_by", "answered_at")
COLUMNS += ("ask_index", "answer_index", "version_id", "commit_id", "sha256", "id")


@pytest.mark.parametrize("column", COLUMNS)
def test_one_bit_of_a_confirmation_is_found_and_its_row_named(record, column):
    """S5: who was asked what, and who answered."""
    value = read(record, f"SELECT {column} FROM confirmations WHERE id = 'c-2'")  # noqa: S608 - SQL of our own
    change(record, (f"UPDATE confirmations SET {column} = ? WHERE id = 'c-2'", (flipped(value),)))  # noqa: S608

    wheres = [one.where for one in verify_database(record).findings]

    assert any(where.startswith("confirmations") and "c-2" in where for where in wheres), wheres


def test_an_answer_that_nobody_gave_is_found(record):
    change(record, "UPDATE confirmations SET state = 'approved', answered_by = 'token:t1' WHERE id = 'c-1'")

    wheres = {one.where for one in verify_database(record).findings}

    assert wheres == {f"confirmations.{name} of c-1" for name in ("state", "answered_by", "params")}


def test_parameters_kept_after_the_answer_are_found(record):
    change(record, "UPDATE confirmations SET params = X'7b7d' WHERE id = 'c-4'")

    assert {one.where for one in verify_database(record).findings} == {"confirmations.params of c-4"}


def test_a_row_gone_and_a_row_too_many_are_found(record):
    change(record, "UPDATE confirmations SET id = 'c-9' WHERE id = 'c-3'")

    found = {(one.what, one.where) for one in verify_database(record).findings}

    assert found == {("row-missing", "confirmations.id of c-3"), ("row-unlogged", "confirmations.id of c-9")}


@pytest.mark.parametrize(
    "more",
    [
        {"answerer": "token:t9"},
        {"self": True},
        {"run": "r-else"},
        {"version": 1},
        {"asker": "token:t2"},
        {"confirmation": "c-never"},
    ],
)
def test_an_answer_that_does_not_fit_its_question_is_found(tmp_path, more):
    log = example(tmp_path / "bitong.db")
    log.confirmation(1, "rejected", answerer="token:t2", said=more)
    last = len(log.leaves) - 1
    log.close()

    assert (last, "answered-wrongly") in [(one.index, one.what) for one in verify_database(log.path).findings]


def test_a_second_answer_and_a_second_question_are_found(tmp_path):
    log = example(tmp_path / "bitong.db")
    log.confirmation(1, "rejected", answerer="token:t2")
    at = len(log.leaves)
    facts = {"confirmation": "c-1", "run": "r-asked-1", "tool": "text-stats", "version": 2, "params_digest": "00" * 32}
    log.append("confirmation.expired", "bitong", **facts, asker="token:t1", answerer=None, self=None)
    log.append("confirmation.requested", "token:t1", **facts, asker="token:t1", answerer=None, self=None)
    log.close()

    found = [(one.index, one.what) for one in verify_database(log.path).findings]

    assert (at, "answered-wrongly") in found
    assert (at + 1, "asked-twice") in found


def test_a_run_that_waited_may_be_refused_and_its_row_stays_one(tmp_path):
    """A confirmation that expired ends the run that waited for it with an entry of its own."""
    log = example(tmp_path / "bitong.db")
    log.confirmation(1, "expired", waits=False)
    log.refused("r-asked-1")
    log.close()

    assert verify_database(log.path).findings == ()


@pytest.mark.parametrize("column", BIT_COLUMNS["idempotency_keys"])
def test_an_idempotency_key_that_no_run_knows_is_found(record, column):
    """It would hand one actor the answer of another's call."""
    value = read(record, f"SELECT {column} FROM idempotency_keys")  # noqa: S608 - SQL of our own
    change(record, (f"UPDATE idempotency_keys SET {column} = ?", (flipped(value),)))  # noqa: S608 - SQL of our own

    assert any(one.where.startswith("idempotency_keys") for one in verify_database(record).findings)

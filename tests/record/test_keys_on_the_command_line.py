"""`bitong audit key` beside a data folder that no service holds."""

from service.verify import verify_database
from service.verify.notes import read_key
from tests.harness.service import bitong, environment


def test_a_key_is_rotated_while_no_service_runs_and_both_are_told(tmp_path):
    """contract/audit.md: one a line, the last one in use."""
    env = environment({"data_dir": str(tmp_path / "data"), "log_origin": "bitong/keys"})

    nothing = bitong("audit", "key", env=env, cwd=tmp_path)
    rotated = bitong("audit", "key", "--rotate", env=env, cwd=tmp_path)
    told = bitong("audit", "key", env=env, cwd=tmp_path)

    assert (nothing.returncode, nothing.stdout) == (3, "")
    assert (rotated.returncode, rotated.stdout) == (0, told.stdout)
    first, second = told.stdout.splitlines()
    assert read_key(first).name == read_key(second).name == "bitong/keys"
    assert verify_database(tmp_path / "data" / "bitong.db", keys=[first, second]).findings == ()

"""The tree and its proofs: RFC 6962's vectors, and every proof of small logs by the checker that shares no code with them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.merkle import (
    EMPTY_ROOT,
    TILE,
    TiledLog,
    consistency_ranges,
    inclusion_ranges,
    leaf_hash,
    root_of,
)
from service.verify.proofs import extends, includes
from tests.verify.builder import mth, sha

# The test vectors of Certificate Transparency's reference implementation (merkle_tree_test, tree_hasher_test).
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
PATHS = {  # (leaf, size): the first bytes of each node
    (0, 1): [],
    (0, 8): ["96a296d2", "5f083f0a", "6b47aaf2"],
    (5, 8): ["bc1a0643", "ca854ea1", "d37ee418"],
    (2, 3): ["fac54203"],
    (1, 5): ["6e340b9c", "5f083f0a", "bc1a0643"],
}
GROWTHS = {
    (1, 1): [],
    (1, 8): ["96a296d2", "5f083f0a", "6b47aaf2"],
    (6, 8): ["0ebc5d34", "ca854ea1", "d37ee418"],
    (2, 5): ["5f083f0a", "bc1a0643"],
}


class Kept:
    """A log whose leaves and tiles can be asked for, as the store keeps them."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.nodes = {0: leaves}
        self.log = TiledLog()
        for leaf in leaves:
            self.log, tiles = self.log.append(leaf)
            for tile in tiles:
                self.nodes.setdefault(tile.level, []).append(tile.hash)
        self.most = 0

    def read(self, level: int, first: int, count: int) -> list[bytes]:
        self.most = max(self.most, count)
        return self.nodes.get(level, [])[first : first + count]

    def roots(self, ranges):
        return [root_of(one, self.read) for one in ranges]


@pytest.fixture(scope="module")
def vectors():
    return Kept([leaf_hash(bytes.fromhex(one)) for one in INPUTS])


@pytest.fixture(scope="module")
def long():
    """Longer than a tile of tiles."""
    return Kept([sha(b"%d" % number) for number in range(TILE * TILE + 700)])


@pytest.mark.parametrize("size", range(9))
def test_the_root_is_that_of_the_reference(vectors, size):
    log = TiledLog()
    for leaf in vectors.nodes[0][:size]:
        log, _ = log.append(leaf)

    assert log.root().hex() == root_of((0, size), vectors.read).hex() == ROOTS[size]


@pytest.mark.parametrize(("index", "size"), PATHS)
def test_a_path_is_that_of_the_reference(vectors, index, size):
    path = vectors.roots(inclusion_ranges(index, size))

    assert [node.hex()[:8] for node in path] == PATHS[index, size]


@pytest.mark.parametrize(("older", "newer"), GROWTHS)
def test_a_proof_of_growth_is_that_of_the_reference(vectors, older, newer):
    path = vectors.roots(consistency_ranges(older, newer))

    assert [node.hex()[:8] for node in path] == GROWTHS[older, newer]


def test_every_proof_of_a_small_log_holds_and_for_nothing_else():
    """Each leaf in each size up to 40, and each pair of sizes; not for the next leaf, the next size, another root."""
    leaves = [sha(b"%d" % number) for number in range(41)]
    kept = Kept(leaves)
    roots = [mth(leaves[:size]) for size in range(42)]
    for size in range(1, 41):
        for index in range(size):
            path = kept.roots(inclusion_ranges(index, size))
            assert includes(index, size, leaves[index], path, roots[size])
            assert not includes(index, size, leaves[index + 1], path, roots[size])
            assert not includes(index, size, leaves[index], path, roots[size + 1])
            assert not includes(index, size, leaves[index], [*path, leaves[0]], roots[size])
        for older in range(1, size + 1):
            path = kept.roots(consistency_ranges(older, size))
            assert extends(older, size, roots[older], roots[size], path)
            assert not extends(older, size, roots[older], roots[size + 1], path)
            assert not extends(older, size, roots[older + 1], roots[size], path)
    assert extends(0, 5, roots[0], roots[5], [])
    assert not extends(0, 5, roots[1], roots[5], [])
    assert roots[0] == EMPTY_ROOT


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_proof_of_a_long_log_holds(long, data):
    """Through tiles of tiles, reading at most 255 nodes a level."""
    size = data.draw(st.integers(1, len(long.nodes[0])))
    index = data.draw(st.integers(0, size - 1))
    older = data.draw(st.integers(0, size))
    long.most = 0

    root = root_of((0, size), long.read)

    path = long.roots(inclusion_ranges(index, size))
    growth = long.roots(consistency_ranges(older, size))
    assert includes(index, size, long.nodes[0][index], path, root)
    assert extends(older, size, root_of((0, older), long.read), root, growth)
    assert long.most < TILE


def test_the_root_of_a_long_log_is_that_of_the_growing_tree(long):
    size = len(long.nodes[0])

    assert root_of((0, size), long.read) == long.log.root() == mth(long.nodes[0])


def test_a_node_that_is_missing_is_said_and_nothing_is_proved(vectors):
    with pytest.raises(LookupError):
        root_of((0, 9), vectors.read)

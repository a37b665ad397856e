"""Which beams go on: a model of chances, told by the seed."""

from collections import Counter

import pytest

from workloads import BeamModel, WorkloadError


def test_without_switching_every_beam_goes_on_from_itself():
    assert BeamModel(0, seed=3).parents(7, 5, 4) == [0, 1, 2, 3]


def test_parents_are_drawn_from_all_beams_alike():
    """4,000 draws of each of three beams: a third each, within four standard deviations."""
    parents = [BeamModel(1, seed=3).parents(7, n, 3) for n in range(4000)]
    for beam in range(3):
        counts = Counter(drawn[beam] for drawn in parents)
        assert all(
            abs(counts[parent] - 4000 / 3) < 4 * (4000 * 2 / 9) ** 0.5 for parent in range(3)
        )


def test_share_of_beams_that_switch():
    """With two beams half of those that switch draw themselves: 0.4 / 2 of 4,000 move."""
    moved = [BeamModel(0.4, seed=1).parents(0, n, 2)[0] for n in range(4000)]
    assert abs(sum(moved) - 800) < 4 * (4000 * 0.2 * 0.8) ** 0.5


def test_two_beams_meet_as_wright_and_fisher_say():
    """Any two of four beams have the same parent in the last step with probability 1/4."""
    parents = [BeamModel(1, seed=5).parents("r", n, 4) for n in range(4000)]
    met = sum(drawn[1] == drawn[3] for drawn in parents)
    assert abs(met - 1000) < 4 * (4000 * 3 / 16) ** 0.5


def test_draws_depend_on_seed_request_and_token_alone():
    drawn = BeamModel(1, seed=2).parents(1, 2, 8)
    assert drawn == BeamModel(1, seed=2).parents(1, 2, 8)
    others = [
        BeamModel(1, seed=3).parents(1, 2, 8),
        BeamModel(1, seed=2).parents(2, 2, 8),
        BeamModel(1, seed=2).parents(1, 3, 8),
    ]
    assert drawn not in others


@pytest.mark.parametrize("switch", [-0.1, 1.1, float("nan")])
def test_a_probability_is_expected(switch):
    with pytest.raises(WorkloadError, match=r"switch: got .*, expected a number from 0 to 1"):
        BeamModel(switch, seed=0)

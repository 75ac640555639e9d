"""Who sees whom: the full view, and the ring with its size estimate, its routes and its bias."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from hogshare.simulation import Drawn, Membership, Overlay, Window, ring

# -- the full view --------------------------------------------------------------------------------


def test_every_set_of_others_is_as_likely():
    everybody = Membership(6, seed=3)
    sets = dict.fromkeys(itertools.combinations([0, 1, 3, 4, 5], 3), 0)
    for _ in range(6000):
        sets[tuple(sorted(everybody.sample(2, 3).tolist()))] += 1
    assert chisquare(list(sets.values())).pvalue > 1e-3


def test_members_join_and_leave():
    everybody = Membership(4, seed=0)
    everybody.leave(1)
    assert everybody.join() == 4 and everybody.join(1) == 1 and everybody.join(9) == 9
    everybody.leave(9)
    everybody.leave(0)
    assert everybody.join() == 10
    assert everybody.workers.tolist() == [1, 2, 3, 4, 10] and everybody.n_workers == 5
    assert sorted(everybody.sample(10, 4).tolist()) == [1, 2, 3, 4]
    assert everybody.sample(2, 0).tolist() == []


# -- the ring -------------------------------------------------------------------------------------


def walk(identifiers, bits, start, point):
    """A message's way, worker by worker, each looking at all of its fingers."""
    size = 1 << bits
    owner = next((k for k, i in enumerate(identifiers) if i >= point), 0)
    at, hops = start, 0
    while at != owner:
        fingers = set()
        for power in range(bits):
            reach = (identifiers[at] + 2**power) % size
            fingers.add(next((k for k, i in enumerate(identifiers) if i >= reach), 0))
        goal = (point - identifiers[at]) % size
        short = {k: (identifiers[k] - identifiers[at]) % size for k in fingers}
        short = {k: ahead for k, ahead in short.items() if 0 < ahead < goal}
        at = max(short, key=short.get) if short else (at + 1) % len(identifiers)
        hops += 1
    return hops


@pytest.mark.parametrize(("n", "bits"), [(1, 3), (2, 3), (5, 4), (8, 3), (16, 10), (40, 62)])
def test_routes_are_those_of_a_walk_by_fingers(n, bits):
    rng = np.random.default_rng(n)
    overlay = Overlay(n, bits=bits, seed=n)
    identifiers = overlay.identifiers.tolist()
    assert sorted(set(identifiers)) == identifiers and max(identifiers) < 1 << bits
    points = np.append(rng.integers(1 << bits, size=60), identifiers)
    senders = rng.integers(n, size=len(points))
    expected = [walk(identifiers, bits, *pair) for pair in zip(senders, points, strict=True)]
    assert overlay.hops(overlay.workers[senders], points).tolist() == expected


def test_the_picture_of_the_ring():
    overlay = Overlay([13, 0, 9, 3, 11], bits=4)
    assert overlay.workers.tolist() == [1, 3, 2, 4, 0]
    assert overlay.owners([10, 11, 12, 14, 0, 2]).tolist() == [4, 4, 0, 1, 1, 3]
    assert overlay.zones.tolist() == [3, 3, 6, 2, 2]
    assert overlay.hops(2, [2, 10, 9, 5]).tolist() == [3, 1, 0, 0]
    assert Overlay([5], bits=4).zones.tolist() == [16]


def test_arcs_are_counted():
    overlay = Overlay(50, bits=8, seed=2)
    identifiers = overlay.identifiers
    starts = np.arange(256)
    for length in (0, 1, 7, 100, 255, 256):
        inside = [((identifiers - start) % 256 < length).sum() for start in starts]
        assert ring.inhabitants(identifiers, 8, starts, length).tolist() == inside


def test_hops_grow_with_the_logarithm():
    """One half of log2(n) to the point's predecessor, for ways from anywhere."""
    rng = np.random.default_rng(5)
    logs, means = np.arange(6, 15), []
    for log in logs:
        overlay = Overlay(2 ** int(log), seed=int(log))
        senders = rng.integers(overlay.n_workers, size=20_000)
        means.append(overlay.hops(senders, rng.integers(1 << 62, size=20_000)).mean())
    slope, _ = np.polyfit(logs, means, 1)
    assert slope == pytest.approx(0.5, abs=0.02)
    assert np.abs(np.polyval(np.polyfit(logs, means, 1), logs) - means).max() < 0.1


# -- size -----------------------------------------------------------------------------------------


def test_size_is_right_on_average_over_prefixes():
    """Exactly: zones count everybody once."""
    overlay = Overlay(1000, seed=1)
    for bits in (0, 1, 5, 8):
        sizes = [overlay.estimate_size(bits, prefix=p).size for p in range(2**bits)]
        assert np.mean(sizes) == 1000.0
    assert overlay.estimate_size(0).relative_sd == 0.0


def test_size_spreads_as_predicted():
    n, bits, rings = 300, 4, 1500
    estimates = [Overlay(n, seed=seed).estimate_size(bits) for seed in range(rings)]
    sizes = np.array([estimate.size for estimate in estimates])
    predicted = n * math.sqrt((2**bits - 1) / n)
    assert abs(sizes.mean() - n) < 4.0 * predicted / math.sqrt(rings)
    assert sizes.std() == pytest.approx(predicted, rel=4.0 / math.sqrt(2 * rings))
    told = [estimate.relative_sd for estimate in estimates]
    assert np.median(told) == pytest.approx(predicted / n, rel=0.05)


def test_the_own_zone_is_not_any_zone():
    """By k 2^l it would be 2^l - 1 too many: the asker is in it."""
    n, bits, rings = 300, 4, 1500
    estimates = [Overlay(n, seed=seed).estimate_size(bits, me=7) for seed in range(rings)]
    error = math.sqrt(n * (2**bits - 1) / rings)
    assert abs(np.mean([estimate.size for estimate in estimates]) - n) < 4.0 * error
    naive = np.mean([estimate.seen * 2**bits for estimate in estimates])
    assert abs(naive - n - 15) < 4.0 * error < 15


def test_an_empty_zone_says_nothing():
    estimate = Overlay([0], bits=4).estimate_size(1, prefix=1)
    assert (estimate.size, estimate.seen, estimate.relative_sd) == (0.0, 0, math.inf)


# -- draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 200, 1000])
def test_draws_are_uniform_only_when_corrected(n):
    overlay = Overlay(n, seed=4)
    assert overlay.crowd(overlay.window()) <= overlay.window().most  # so it is exact
    draws = 200 * n
    uniform = overlay.draw(draws, me=0)
    assert uniform.crowded == 0
    assert chisquare(np.bincount(uniform.workers, minlength=n)).pvalue > 1e-3
    biased = np.bincount(overlay.draw(draws, me=0, method="point").workers, minlength=n)
    assert chisquare(biased).pvalue < 1e-12
    # and it is the zones' bias
    chances = np.empty(n)
    chances[overlay.workers] = overlay.zones / 2.0**62
    assert chisquare(biased, chances * draws).pvalue > 1e-3


def test_the_bias_is_as_large_as_was_derived():
    """n sum p^2 is 2 and the luckiest comes some ln(n) times too often: zones are exponential."""
    shares = np.array([Overlay(1000, seed=s).zones / 2.0**62 for s in range(50)])
    assert (1000 * (shares**2).sum(axis=1)).mean() == pytest.approx(2.0, abs=0.05)
    expected = math.log(1000) + 0.577
    assert (1000 * shares.max(axis=1)).mean() == pytest.approx(expected, abs=0.7)


@pytest.mark.parametrize(("n", "bits"), [(1, 1), (2, 1), (3, 62), (7, 3), (8, 3)])
def test_small_and_full_rings(n, bits):
    overlay = Overlay(n, bits=bits, seed=1)
    drawn = overlay.draw(4000, me=n - 1)
    assert set(drawn.workers.tolist()) == set(range(n))
    if n > 1:
        assert chisquare(np.bincount(drawn.workers, minlength=n)).pvalue > 1e-3
        assert sorted(overlay.sample(0, n - 1).workers.tolist()) == list(range(1, n))


def test_draws_are_uniform_with_an_estimated_size():
    """Any size will do, if it is not so small that arcs are crowded."""
    overlay = Overlay(500, seed=6)
    for size in (300, 497.5, 900):
        assert overlay.crowd(overlay.window(size)) <= overlay.window(size).most
        counts = np.bincount(overlay.draw(100_000, me=0, size=size).workers, minlength=500)
        assert chisquare(counts).pvalue > 1e-3


def test_a_size_far_too_small_is_noticed():
    overlay = Overlay(2000, seed=6)
    assert overlay.crowd(overlay.window(50)) > overlay.window(50).most
    drawn = overlay.draw(200_000, me=0, size=50)
    assert drawn.crowded > 0
    assert chisquare(np.bincount(drawn.workers, minlength=2000)).pvalue < 1e-6


def test_hops_of_draws_are_those_of_their_messages():
    """A try is a route to the point and the walk behind it, and no more than that."""
    overlay = Overlay([0, 3, 9, 11, 13], bits=4, seed=0)
    drawn = overlay.draw(1000, me=2, method="point")
    assert (drawn.tries == 1).all()
    zones = dict(zip(overlay.workers.tolist(), overlay.identifiers.tolist(), strict=True))
    points = [zones[worker] for worker in drawn.workers.tolist()]
    assert drawn.hops.tolist() == overlay.hops(2, points).tolist()
    window = overlay.window()
    corrected = overlay.draw(50_000, me=2)
    accepted = 5 * window.length / (16 * window.most)
    assert corrected.tries.mean() == pytest.approx(1.0 / accepted, rel=0.03)
    starts = np.arange(16)
    inside = ring.inhabitants(overlay.identifiers, 4, starts, window.length)
    walks = [np.minimum(np.arange(window.most), max(k - 1, 0)).mean() for k in inside]
    each = overlay.hops(2, starts).mean() + np.mean(walks)
    assert (corrected.hops.sum() / corrected.tries.sum()) == pytest.approx(each, rel=0.03)


@pytest.mark.parametrize(("method", "least", "most"), [("point", 0.4, 0.6), ("uniform", 2.0, 6.0)])
def test_messages_of_a_check_grow_as_the_sample_times_log_n(method, least, most):
    samples, logs = np.array([1, 4, 10]), np.arange(6, 15, 2)
    found = np.empty((len(samples), len(logs)))
    for j, log in enumerate(logs):
        overlay = Overlay(2 ** int(log), seed=int(log))
        for i, sample in enumerate(samples):
            checks = 600 // sample
            # the same asker: samples of one are draws
            found[i, j] = np.mean(
                [
                    overlay.sample(k % 64, int(sample), method=method).hops.sum()
                    for k in range(checks)
                ]
            )
    per_draw = found / samples[:, None]
    # a sample of ten costs ten times one; of the 64 some are drawn twice, in vain
    assert per_draw[2, 1:] == pytest.approx(per_draw[0, 1:], rel=0.15)
    slope, start = np.polyfit(logs, per_draw.mean(axis=0), 1)
    assert least < slope < most
    assert start + slope * logs == pytest.approx(per_draw.mean(axis=0), rel=0.06)


def test_samples_are_others_without_replacement():
    overlay = Overlay(6, seed=2)
    sets = dict.fromkeys(itertools.combinations([0, 1, 3, 4, 5], 3), 0)
    for _ in range(2000):
        drawn = overlay.sample(2, 3)
        assert len(drawn.hops) == len(drawn.tries) == 3
        sets[tuple(sorted(drawn.workers.tolist()))] += 1
    assert chisquare(list(sets.values())).pvalue > 1e-3
    empty = overlay.sample(2, 0)
    assert isinstance(empty, Drawn) and empty.workers.shape == empty.hops.shape == (0,)


def test_tries_made_at_once_do_not_show(monkeypatch):
    """A few at a time, or far more than are needed: uniform, and only what was needed is paid."""
    monkeypatch.setattr("hogshare.simulation.overlay.MOST_AT_ONCE", 7)
    overlay = Overlay(20, seed=9)
    few = overlay.draw(5000, me=3)
    monkeypatch.undo()
    many = overlay.draw(50_000, me=3)
    for drawn in (few, many):
        assert chisquare(np.bincount(drawn.workers, minlength=20)).pvalue > 1e-3
        assert drawn.tries.min() == 1 and drawn.hops.min() >= 0
    error = few.tries.std() / math.sqrt(5000)
    assert abs(few.tries.mean() - many.tries.mean()) < 5.0 * error
    one = [overlay.draw(1, me=3).hops.sum() for _ in range(1000)]
    assert abs(np.mean(one) - many.hops.mean()) < 5.0 * many.hops.std() / math.sqrt(1000)


def test_seeds_repeat():
    def run(seed):
        overlay = Overlay(100, seed=seed)
        drawn = overlay.draw(50, me=0)
        return [*overlay.identifiers, *drawn.workers, *drawn.hops, *overlay.sample(3, 5).workers]

    assert run(1) == run(1) != run(2)
    assert (
        Membership(50, seed=1).sample(0, 9).tolist() == Membership(50, seed=1).sample(0, 9).tolist()
    )
    assert (
        Membership(50, seed=1).sample(0, 9).tolist() != Membership(50, seed=2).sample(0, 9).tolist()
    )


def test_workers_join_and_leave():
    overlay = Overlay(60, bits=30, seed=5)
    for worker in range(0, 60, 2):
        overlay.leave(worker)
    assert [overlay.join() for _ in range(10)] == list(range(60, 70))
    assert overlay.join(4, identifier=0 if 0 not in overlay.identifiers else 1) == 4
    assert overlay.n_workers == 41 and overlay.zones.sum() == 1 << 30
    there = sorted([4, *range(1, 60, 2), *range(60, 70)])
    assert sorted(overlay.workers.tolist()) == there
    assert (np.diff(overlay.identifiers) > 0).all()
    identifiers, workers = overlay.identifiers, overlay.workers
    assert (overlay.owners(identifiers) == workers).all()
    counts = np.bincount(overlay.draw(40_000, me=69).workers, minlength=70)
    assert chisquare(counts[there]).pvalue > 1e-3 and counts.sum() == counts[there].sum()
    size = [overlay.estimate_size(2, prefix=p).size for p in range(4)]
    assert np.mean(size) == 41.0


def test_a_zone_goes_to_the_successor():
    overlay = Overlay([0, 3, 9, 11, 13], bits=4)
    overlay.leave(2)
    assert overlay.owners([5, 9]).tolist() == [3, 3]
    assert overlay.join(identifier=6) == 5
    assert overlay.owners([5, 9]).tolist() == [5, 3]


# -- bad input ------------------------------------------------------------------------------------


def small():
    return Overlay([0, 3, 9, 11, 13], bits=4)


BAD = {
    "workers must be a whole number, at least 1; got 0": lambda: Overlay(0),
    "workers must be the number of workers, or a list": lambda: Overlay([]),
    "workers must be the number of workers, or": lambda: Overlay([[1, 2]]),
    "points must be whole numbers": lambda: Overlay([0.5]),
    "identifiers must all be different": lambda: Overlay([1, 1]),
    "on the ring, from 0 to 2\\^4 - 1": lambda: Overlay([16], bits=4),
    "on the ring": lambda: Overlay([-1], bits=4),
    "9 workers need as many points, but bits=3 gives 8": lambda: Overlay(9, bits=3),
    "bits must be at most 62; got 63": lambda: Overlay(9, bits=63),
    "bits must be a whole number, at least 1": lambda: Overlay(9, bits=0),
    "seed must be a whole number": lambda: Overlay(9, seed=-1),
    "worker 5 is not a member": lambda: small().draw(1, me=5),
    "worker -1 is not a member": lambda: small().hops(-1, [0]),
    r"worker 0\.5 is not a member": lambda: small().sample(0.5, 1),
    "n_draws must be a whole number": lambda: small().draw(-1, me=0),
    "method must be one of uniform, point; got 'ring'": lambda: small().draw(
        1, me=0, method="ring"
    ),
    "A sample of 5 cannot be drawn .* 4 others": lambda: small().sample(0, 5),
    "size must be a whole number": lambda: small().sample(0, -1),
    "size must be a finite number, at least 1": lambda: small().window(0.5),
    "too far above the overlay's 5 workers": lambda: small().draw(1, me=0, size=1e9),
    "prefix_bits must be at most 4; got 5": lambda: small().estimate_size(5),
    "prefix must be below 4 with prefix_bits=2; got 4": lambda: small().estimate_size(2, 4),
    "prefix_bits must be a whole number": lambda: small().estimate_size(-1),
    "Give prefix or me, not both": lambda: small().estimate_size(2, 1, me=0),
    r"the worker must be one number; got \[0, 1\]": lambda: small().draw(1, me=[0, 1]),
    "worker 7 is not a member": lambda: small().leave(7),
    "worker 2 is a member already": lambda: small().join(2),
    "identifier 9 is taken": lambda: small().join(identifier=9),
    "from 0 to 2\\^4": lambda: small().join(identifier=16),
    "worker 0 is the only one left": lambda: Overlay(1).leave(0),
    "17 workers need": lambda: Overlay(16, bits=4).join(),
    "n_workers must be a whole number, at least 1": lambda: Membership(0),
    "worker 3 is a member already": lambda: Membership(4).join(3),
    "worker 4 is not a member": lambda: Membership(4).leave(4),
    "worker 6 is not a member": lambda: Membership(4).sample(6, 1),
    "from 3 others": lambda: Membership(4).sample(0, 4),
    "worker 0 is the only one": lambda: Membership(1).leave(0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_told_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_the_window_is_what_its_bound_says():
    """The least K that arcs exceed with a chance below one in 10^9, by the Poisson law."""
    window = Overlay(1000, seed=0).window()
    mean = math.log2(1000)
    assert isinstance(window, Window)
    assert window.length == pytest.approx(mean / 1000 * 2.0**62)

    def beyond(k):
        return 1.0 - math.fsum(math.exp(-mean) * mean**j / math.factorial(j) for j in range(k))

    term = math.exp(-mean) * mean**window.most / math.factorial(window.most)
    assert 1000 * term < 1e-9  # the tail is about its first term
    assert 1000 * beyond(window.most - 8) > 1e-9

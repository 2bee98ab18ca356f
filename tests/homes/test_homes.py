"""The home test: a program means the same wherever its values live and however it is run.

Every function of the zoo and of the random generators that takes tensors, with its tensors as arguments (of known and unknown
sizes), constants, captured tensors, variables, items and attributes (`homes.py`), eagerly, compiled with tapes outside and
inside, mapped over examples and in forward mode (`modes.py`): values and derivatives of order 1 and 2 are those of eager code,
or a documented refusal says why not (`refusals.py`). The product is large: in eager code all of it is run; of the rest a fixed
sample, in which every home meets every mode, and more of it with `--programs`.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.ops import generator, random_state
from tests.harness.seeds import counted, everything, in_sample, seed_of
from tests.harness.tolerances import NATIVE_ULPS
from tests.homes.cases import Case, of_entry, of_text
from tests.homes.compare import TooSlowError, check, in_last_places, shortened, watchdog
from tests.homes.generated import GENERATORS
from tests.homes.homes import ARGUMENT, CONSTANT, HOMES
from tests.homes.modes import COMPILED, EAGER, MODES, NATIVE, reference
from tests.homes.refusals import REFUSALS, refusal
from tests.zoo.registry import Instance
from tests.zoo.test_zoo import ENTRIES

CASES = [of_entry(entry) for entry in ENTRIES.values() if of_entry(entry).arrays()]
PAIRS = list(itertools.product(HOMES, COMPILED))
PARTS = 20
NATIVELY = 12  # one case in so many runs as machine code, as compiling takes longest
OTHER_MEANING = {  # in eager code too
    "builtin_isinstance_and_hasattr": "it asks whether its argument is a tensor; a variable is none",
    "watched_tensor_has_another_name_at_first": "it watches one name of its argument; each read of a variable is another value",
}


def chosen(case: Case, place: int, runs: int):
    """Homes and modes for a case: the zoo's cases go through all pairs one after the other."""
    pairs = [PAIRS[(place * runs + k) % len(PAIRS)] for k in range(runs)]
    if in_sample(case.name, NATIVELY):
        pairs.append((HOMES[place % len(HOMES)], NATIVE[place % len(NATIVE)]))
    return pairs


def draws(case: Case) -> bool:
    """Whether a case draws random numbers: then each example has its own, and one run is all that can be compared."""
    drawn: list[object] = []
    draw = random_state.next_key
    with pytest.MonkeyPatch.context() as patch:
        for module in (random_state, generator):
            patch.setattr(module, "next_key", lambda source: drawn.append(source) or draw(source))
        reference(case, [ARGUMENT] * len(case.arrays()))
    return bool(drawn)


def checked(case: Case, homes, mode) -> bool:
    """Whether the case ran: False for a documented refusal."""
    try:
        check(case, homes, mode)
    except AssertionError as error:
        if error.__cause__ is not None and refusal(error.__cause__) is not None:
            return False
        raise
    return True


@pytest.mark.parametrize("case", CASES, ids=str)
def test_homes_in_eager_code(case):
    expected = reference(case, [ARGUMENT] * len(case.arrays()))
    for home in HOMES:
        if not (case.name in OTHER_MEANING and "variable" in home.name):
            check(case, [home] * len(case.arrays()), EAGER, expected)


@pytest.mark.parametrize("place", range(len(CASES)), ids=[case.name for case in CASES])
def test_homes_of_the_zoo(place):
    case = CASES[place]
    for home, mode in chosen(case, place, 12 if everything() else 1):
        if not (mode.count > 1 and draws(case)):
            checked(case, [home] * len(case.arrays()), mode)


def test_every_home_meets_every_mode():
    met = {(home.name, mode.name) for place, case in enumerate(CASES) for home, mode in chosen(case, place, 1)}
    assert met >= {(home.name, mode.name) for home in HOMES for mode in MODES if mode is not EAGER}


def drawn(case: Case, seed: int):
    """Homes and a mode for a random case: half of them have one home for all tensors, the others one for each."""
    draw = random.Random(seed)
    count = len(case.arrays())
    homes = [draw.choice(HOMES)] * count if draw.random() < 0.5 else [draw.choice(HOMES) for _ in range(count)]
    return homes, draw.choice(NATIVE if draw.randrange(NATIVELY) == 0 else COMPILED)


def shares(programs: int) -> dict[str, int]:
    """How many cases of each generator: 250 in all where 100 programs are asked for, 3,000 where 1,000 are."""
    total = programs * 5 // 2 + max(0, programs - 200) * 5 // 8
    tenths = sum(share for _, share in GENERATORS.values())
    return {name: -(-total * share // tenths) for name, (_, share) in GENERATORS.items()}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("generator", GENERATORS)
def test_homes_of_random_programs(generator, part, request):
    make, count = GENERATORS[generator][0], shares(request.config.getoption("--programs"))[generator]
    first = seed_of(request, 0)
    seeds = range(first + part, first + count, PARTS)
    refused = 0
    for seed in seeds:
        case = make(seed)
        refused += not checked(case, *drawn(case, seed))
    assert refused <= 2 + len(seeds) // 5, f"{refused} of {len(seeds)} programs are refused"
    counted(request, len(seeds))


def test_the_numbers_of_programs():
    assert sum(shares(100).values()) >= 250
    assert sum(shares(200).values()) >= 500
    assert sum(shares(1000).values()) >= 3000


def test_what_draws_is_known():
    cases = {case.name: case for case in CASES}
    names = ("reparameterised_normal", "monte_carlo_in_a_branch", "generator_object", "stateless_random")
    assert [draws(cases[name]) for name in names] == [True, True, True, False]


# -- the test of the test --------------------------------------------------------------------------------------------------


WRONG = """\
import gradtape as gt


def program(x):
    a = x * 2.0
    b = gt.sin(x)
    if not gt.executing_eagerly():
        b = b * 1.001
    return [
        a,
        b,
    ]
"""


def test_what_differs_is_found_and_shown_in_few_lines():
    case = of_text("wrong", WRONG, (np.array([0.3, 0.4]),))
    with pytest.raises(AssertionError) as caught:
        check(case, [CONSTANT], MODES[2])
    assert "homes [constant], mode 'tape inside, interpreted'" in str(caught.value)
    assert str(caught.value).count("\n    ") <= 6
    assert "b = b * 1.001" in str(caught.value)


def sines(x):
    for i in range(20):
        x = x + gt.sin(0.1 * i)
    return x


def test_machine_code_may_differ_from_numpy_in_the_last_places_of_what_it_computes():
    single = Case("single", lambda: Instance(sines), (np.array(0.4),), 2)
    double = Case("double", lambda: Instance(lambda x: gt.sin(x)), (np.array(0.4),), 2)
    assert in_last_places(single, [ARGUMENT]) == 20 * NATIVE_ULPS * np.finfo(np.float32).eps
    assert in_last_places(double, [ARGUMENT]) == NATIVE_ULPS * np.finfo(np.float64).eps


def test_shortened_keeps_what_is_needed():
    text = "a\nb\n    c\n    d\ne\n"
    assert shortened(text, lambda t: "d" in t) == "b\n    d\n"


def test_a_slow_case_is_stopped():
    def spin():
        with watchdog(1):
            while True:
                pass

    with pytest.raises(TooSlowError, match="processor time"):
        spin()


@pytest.mark.parametrize("place", range(len(REFUSALS)))
def test_refusals_are_documented(place):
    page = " ".join((Path(__file__).parents[2] / REFUSALS[place].page).read_text().split())
    assert REFUSALS[place].explained in page


@pytest.mark.parametrize("place", range(len(REFUSALS)))
def test_refusals_are_exact(place):
    one = REFUSALS[place]
    said = one.message.replace("…", "program:32")
    assert refusal(one.error(said)) is one
    others = (one.error(said + " x"), one.error(said[: len(said) // 2]), one.error("shapes"), RuntimeError(said))
    assert [refusal(other) for other in others] == [None] * 4
    assert refusal(type("Other", (one.error,), {})(said)) is None


def test_a_case_without_tensors_has_no_home():
    assert Case("none", lambda: Instance(lambda: 1.0), (), 0).arrays() == []
    assert gt.executing_eagerly()

"""A small version of the simulation that lab/benchmarks/gate.py runs over thousands of pairs."""

import importlib.util
from pathlib import Path

import pytest

PAIRS = 200


@pytest.fixture(scope="module")
def simulation():
    path = Path(__file__).parents[2] / "lab" / "benchmarks" / "gate.py"
    spec = importlib.util.spec_from_file_location("gate_simulation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_false_passes_false_alarms_and_power(simulation):
    """With 200 pairs a rate of 5 % is between 1 % and 10.5 % in 999 of 1,000 simulations (binomial)."""
    pool = simulation.pools(600)
    counts = {case: simulation.verdicts(pool, 300, 0.5, p, PAIRS, samples=200) for case, p in simulation.CASES.items()}
    for key in pool:
        assert 0.01 <= counts["at the margin"][key]["pass"] / PAIRS <= 0.105, key
        assert counts["equal"][key]["worse"] / PAIRS <= 0.02, key
        assert counts["three margins"][key]["pass"] / PAIRS <= 0.02, key
    together = {case: found[simulation.ALL] for case, found in counts.items()}
    assert together["at the margin"]["pass"] / PAIRS <= 0.105 and together["at the margin"]["worse"] / PAIRS <= 0.105
    assert counts["three margins"]["cider"]["worse"] / PAIRS >= 0.9

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from captious.models.hub import ModelRegistry


def test_the_least_recently_used_model_goes_and_is_loaded_again_when_asked_for():
    registry, loads = ModelRegistry(limit=2), []

    def get(name):
        return registry.get(name, lambda: loads.append(name) or name.upper())

    assert [get(name) for name in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert loads == ["a", "b", "c", "b"]  # c drove b out, for a was used later; b then drove c out
    assert len(registry) == 2 and "a" in registry and "c" not in registry


def test_a_load_that_fails_leaves_nothing_behind():
    registry = ModelRegistry(limit=1)
    registry.get("good", lambda: 1)
    with pytest.raises(ZeroDivisionError):
        registry.get("bad", lambda: 1 / 0)
    assert "good" in registry and "bad" not in registry


def test_threads_load_a_model_once():
    registry, loads, start = ModelRegistry(limit=2), [], threading.Barrier(4)

    def load():
        loads.append(1)
        time.sleep(0.02)
        return object()

    def get(_):
        start.wait()
        return registry.get("model", load)

    with ThreadPoolExecutor(4) as pool:
        models = set(pool.map(get, range(4)))
    assert len(models) == len(loads) == 1


def test_every_module_that_keeps_models_loaded_bounds_them():
    pytest.importorskip("torch")
    from captious.models import crossencoders as saving
    from captious.models import hidden_states, loading, painters
    from captious.models import language as contextual

    kept = (loading._LOADED, contextual._LOADED, saving._LOADED, hidden_states._TORCH_MINI, painters._LOADED)
    assert all(isinstance(one, ModelRegistry) and one.limit <= 4 for one in kept)

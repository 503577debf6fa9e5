"""A chat model for the tests of judges."""

import pytest
from tests.models.chat.stub import StubModel


@pytest.fixture
def model(monkeypatch):
    """Makes the chat model of a test: ``model(lambda body: "text")``; it returns the `StubModel`."""
    return lambda answer: StubModel(answer).install(monkeypatch)

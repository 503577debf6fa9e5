"""The port of a server."""

import socket

import pytest

from captious.errors import InputError
from captious.studio.listening import listen


def test_small_answers_are_sent_at_once():
    """Asyncio sets TCP_NODELAY only on sockets that say they are TCP."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP and listener.getsockname()[1] > 0


def test_a_port_that_is_taken_is_refused_in_one_line():
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match=rf"127.0.0.1:{port} cannot be listened on .*pass port=0"):
            listen("127.0.0.1", port)

"""A port to listen on, taken before the server starts, so that its links are known."""

from __future__ import annotations

import socket

from captious.errors import InputError


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 is any free one.

    It says that it is TCP: asyncio sends small answers at once (TCP_NODELAY) only where it knows that, and a browser
    would wait 40 ms for each otherwise.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)  # who is early waits until the server answers
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise InputError(f"{host}:{port} cannot be listened on ({reason}): pass port=0 for a free one") from error
    return listener

"""A chat server that answers every request at once with the same reply: what is left of a call is its client.

    python -m lab.benchmarks.instant_server      # prints its address, and ends with its standard input

The reply has one token with five probabilities, as a judge asks for it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Log-probabilities by token.
TOKENS = {token: -1.0 - number for number, token in enumerate("98765")}


def answer() -> bytes:
    """A whole HTTP response."""
    alternatives = [{"token": token, "bytes": [ord(token)], "logprob": value} for token, value in TOKENS.items()]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "9"},
        "logprobs": {"content": [{**alternatives[0], "top_logprobs": alternatives}]},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21}
    body = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


class Instant(asyncio.Protocol):
    """One connection. It answers when the body of a request is whole; requests do not overlap."""

    reply = answer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what replies are written to."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.received = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer a whole request."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].split(None, 1)[0]):
            self.received = b""
            self.transport.write(self.reply)


@contextmanager
def instant_server() -> Iterator[str]:
    """The address of the server, which runs in a process of its own."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


async def main() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Instant, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())

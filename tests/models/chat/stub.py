"""Stand-ins for a chat model: a server whose behavior a test writes down, and one without a network."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Seconds after which a server looks whether it is to end; by default 0.5, for which hundreds of tests would wait.
POLL = 0.01


def response(text, model="stub", logprobs=None, finish="stop", prompt_tokens=10, reply_tokens=5):
    """What a server sends for a text; ``logprobs`` is a list of (token, {alternative: logprob})."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    if logprobs is not None:
        choice["logprobs"] = {
            "content": [
                {
                    "token": token,
                    "bytes": list(token.encode()),
                    "logprob": max(others.values()),
                    "top_logprobs": [
                        {"token": other, "bytes": list(other.encode()), "logprob": value}
                        for other, value in others.items()
                    ],
                }
                for token, others in logprobs
            ]
        }
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": reply_tokens}
    return {"model": model, "choices": [choice], "usage": usage}


class StubServer:
    """Answers by ``behave(number, body, headers)``: (status, headers, content), or None to cut the connection.

    ``busiest`` is the largest number of requests that were under way at a time.
    """

    def __init__(self):
        self.bodies, self.headers = [], []
        self.behave = lambda number, body, headers: (200, {}, response("ok"))
        self.under_way = self.busiest = 0
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with stub._lock:
                    stub.bodies.append(body)
                    stub.headers.append(dict(self.headers))
                    number = len(stub.bodies)
                    stub.under_way += 1
                    stub.busiest = max(stub.busiest, stub.under_way)
                try:
                    answer = stub.behave(number, body, self.headers)
                finally:
                    with stub._lock:
                        stub.under_way -= 1
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, headers, content = answer
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args):
                pass

        self._make_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._make_server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._make_server.serve_forever, args=(POLL,), daemon=True)
        self._thread.start()

    def close(self):
        self._make_server.shutdown()
        self._make_server.server_close()


class StubModel:
    """A chat model in this process: ``answer(body)`` gives the text of each reply, or a whole response.

    An exception such as ``Unanswered("why")`` may be raised or returned. ``bodies`` are the requests that were sent.
    """

    def __init__(self, answer):
        self.answer, self.bodies = answer, []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass

    async def complete(self, body):
        self.bodies.append(body)
        reply = self.answer(body)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, dict) else response(reply, model=body["model"])

    def install(self, monkeypatch):
        """Every model at an endpoint is this one, until the test ends."""
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setattr("captious.models.chat.judge.Endpoint", lambda *arguments: self)
        return self


def asked(body):
    """The text of the last message, without its images."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def pictures(body):
    """The data URLs of the images in all messages."""
    lists = [message["content"] for message in body["messages"] if not isinstance(message["content"], str)]
    return [part["image_url"]["url"] for parts in lists for part in parts if part["type"] == "image_url"]

"""A server on loopback that speaks the chat-completions protocol and answers from the request."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ChatServer:
    """Answers with ``answer(body)``, after the faults in ``faults``, which are used up in order.

    A fault is a function of the handler: it replies and returns True, or returns False to let the
    ordinary answer follow. ``seen`` holds the path, the headers and the body of every request.
    """

    def __init__(self, answer):
        self.answer, self.faults, self.seen = answer, [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append((self.path, self.headers, body))
                if outer.faults and outer.faults.pop(0)(self):
                    return
                if self.path != "/v1/chat/completions":
                    reply(self, 404, {"error": {"message": f"no such path: {self.path}"}})
                    return
                reply(self, 200, completion(body["model"], outer.answer(body)))

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def completion(model, content, finish="stop"):
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }


def reply(handler, status, body, kind="application/json"):
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(data)))
    handler.send_header("retry-after-ms", "5")  # the client's pauses would be half a second
    handler.end_headers()
    handler.wfile.write(data)
    return True


def refuse(status, message="no"):
    return lambda handler: reply(handler, status, {"error": {"message": message}})


def say(body, kind="application/json"):
    return lambda handler: reply(handler, 200, body, kind)


def sleep(seconds):
    return lambda _: bool(time.sleep(seconds))

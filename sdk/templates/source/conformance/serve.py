"""An API to try the plugin on: two collections of 100 items, in pages, behind a token.

The first line it prints says where it listens. It ends when its standard input does.
"""
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

COLLECTIONS = {name: [{"id": n, "name": f"{name} {n}", "amount": n / 4} for n in range(100)] for name in ["orders", "returns"]}
asked = 0


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        items = COLLECTIONS.get(url.path.strip("/"))
        if self.headers["Authorization"] != "Bearer sesame":
            self.answer(401, {"error": "who are you?"})
        elif asked % 10 == 0:
            # Servers are busy now and then.
            self.answer(503, {"error": "busy"}, {"Retry-After": "0"})
        elif items is None:
            self.answer(404, {"error": "there is no such collection"})
        else:
            start, limit = int(query.get("cursor", 0)), int(query["limit"])
            end = start + limit
            self.answer(200, {"items": items[start:end], "next": str(end) if end < len(items) else None})

    def answer(self, status, content, headers={}):
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Api)
print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)

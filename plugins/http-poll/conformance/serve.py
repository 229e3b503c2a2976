"""An API of 150 rows in pages of 20, one of which is no row. It is busy now and then.

The first line printed says where it listens. It ends when its standard input does.
"""
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ROWS = [{"n": n, "in": {"s": f"x{n}"}} for n in range(150)]
ROWS[70] = "no row"
PAGE = 20
asked = 0


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        if asked % 10 == 0:
            return self.answer(503, {"error": "busy"}, {"Retry-After": "0"})
        start = int(parse_qs(urlsplit(self.path).query).get("after", ["0"])[0])
        end = start + PAGE
        self.answer(200, {"items": ROWS[start:end], "next": end if end < len(ROWS) else None})

    def answer(self, status, content, headers={}):
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)

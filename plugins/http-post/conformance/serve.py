"""A server that keeps what is posted in target/conformance/rows.jsonl, and of each `Idempotency-Key` the first request only.

The first line printed says where it listens. It ends when its standard input does. It holds nothing in memory, so removing the
folder empties it.
"""
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = "target/conformance"
asked = 0
one_at_a_time = threading.Lock()


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        global asked
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with one_at_a_time:
            asked += 1
            busy = asked % 10 == 0
            if not busy:
                self.keep(body, self.headers["Idempotency-Key"])
        self.send_response(503 if busy else 200)
        if busy:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def keep(self, body, key):
        os.makedirs(f"{FOLDER}/keys", exist_ok=True)
        if key is not None:
            if os.path.exists(f"{FOLDER}/keys/{key}"):
                return
            open(f"{FOLDER}/keys/{key}", "w").close()
        with open(f"{FOLDER}/rows.jsonl", "ab") as rows:
            rows.write(body.rstrip(b"\n") + b"\n")

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)

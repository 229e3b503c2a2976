"""Two servers that send 250 lines to whoever connects, one of them no text, and then close the connection.

The first line printed says where they listen. They end when standard input does.
"""
import json
import os
import socketserver
import sys
import threading


class Feed(socketserver.BaseRequestHandler):
    def handle(self):
        lines = [b"line %d of %d\n" % (n, self.server.server_address[1]) for n in range(250)]
        lines[99] = b"\xff\xfe\n"
        try:
            self.request.sendall(b"".join(lines))
        except OSError:
            pass  # Whoever connected has gone.


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


servers = [Server(("127.0.0.1", 0), Feed) for _ in range(2)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
first, second = (f"127.0.0.1:{server.server_address[1]}" for server in servers)
print(json.dumps({"first": first, "second": second}), flush=True)
sys.stdin.read()
os._exit(0)

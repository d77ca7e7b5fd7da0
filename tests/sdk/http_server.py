# SPDX-License-Identifier: MIT
"""A web server on loopback with the faults that downloads meet.

    http_server.py FOLDER

Prints its port, serves FOLDER's files under /MODE/NAME until its standard input ends, and writes a line for each request into
FOLDER/requests.log: mode, name, first byte asked for.

ok        as it should be, Range included
missing   404
cut       the first answer breaks off in the middle, later ones do not
norange   the same, and Range is ignored
stall     the first answer stops in the middle and the connection stays open
silent    no answer at all
wrong     the right length, other bytes
endless   never stops sending
"""
import http.server
import os
import sys
import threading
import time

folder = sys.argv[1]
lock = threading.Lock()
seen = set()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        mode, name = self.path.strip("/").split("/")
        first = int(self.headers.get("Range", "bytes=0-").split("=")[1].split("-")[0])
        with lock:
            is_first = self.path not in seen
            seen.add(self.path)
            with open(os.path.join(folder, "requests.log"), "a") as log:
                log.write(f"{mode} {name} {first}\n")
        self.answer(mode, name, 0 if mode == "norange" else first, is_first)

    def answer(self, mode, name, first, is_first):
        path = os.path.join(folder, name)
        if mode == "missing" or not os.path.isfile(path):
            return self.send_error(404)
        if mode == "silent":
            time.sleep(60)
        with open(path, "rb") as file:
            data = file.read()
        if mode == "wrong":
            data = bytes(255 - byte for byte in data)
        if first >= len(data) > 0 and first > 0:
            return self.send_error(416)
        self.send_start(mode, first, len(data))
        breaks = is_first and mode in ("cut", "norange", "stall")
        self.wfile.write(data[first : len(data) // 2] if breaks else data[first:])
        self.wfile.flush()
        if breaks and mode == "stall":
            time.sleep(60)
        while mode == "endless":
            self.wfile.write(data)

    def send_start(self, mode, first, size):
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        if mode != "endless":
            self.send_header("Content-Length", str(size - first))
        self.end_headers()

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that hang up are what this is about


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdout.write(f"{server.server_port}\n")
sys.stdout.flush()
sys.stdin.read()

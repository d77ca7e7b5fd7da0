# SPDX-License-Identifier: MIT
"""A secret reaches the plugin that it is for, and nothing that is written, printed or sent."""

import http.server
import json
import threading
import unittest

from command import DDPRUN, SMALL, CommandTest

SECRET, ANOTHER = "tangerine-4711", "pomegranate-0815"
ANSWER = {"experiment": {"experiment_id": "1", "lifecycle_stage": "active"},
          "run": {"info": {"experiment_id": "1", "run_id": "r", "artifact_uri": "mlflow-artifacts:/1/r"}}}


class FakeMlflow(http.server.BaseHTTPRequestHandler):
    """Has one answer for all requests, with what any of them is about, and keeps what it gets."""

    received = []

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.received.append(f"{self.path}\n{self.headers}".encode() + body)
        answer = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *words):
        pass


class Secrets(CommandTest):
    def start_server(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeMlflow)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def assert_in_no_file(self):
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        found = [str(path.relative_to(self.folder)) for path in files
                 if any(secret.encode() in path.read_bytes() for secret in (SECRET, ANOTHER))]
        self.assertEqual(found, ["home/secret.txt"])

    def test_a_run_of_two_nodes_with_a_secret_each_keeps_both(self):
        sink = "https://u:${secret:DDPRUN_SINK}@host"
        loggers = f"[console, csv, jsonl, tensorboard, {{plugin: mlflow, uri: '{self.start_server()}'}}, " \
                  f"{{plugin: brittle_logger, sink: '{sink}'}}]"
        words = [*SMALL, "model=mlp", "trainer.max_epochs=1", "run.dir=run", f"loggers={loggers}",
                 f"plugin_path=[{DDPRUN.parent.parent}/tests/fault_plugins]"]
        file = self.folder / "home" / "secret.txt"
        file.write_text(ANOTHER + "\n")
        kept = [{"DDPRUN_SINK": SECRET}, {"DDPRUN_SINK_FILE": str(file)}]
        nodes = self.start_nodes(2, 1, *words, env=kept)
        for node, code in zip(nodes, (1, 0)):  # the first tells of rows that a logger has lost
            self.assertEqual(node.wait(), code, node.text())
        self.assertIn(f"cannot send to {sink}", nodes[0].err())
        self.ddprun("evaluate", "run", env=kept[1])
        self.assertIn(sink, (self.folder / "run/config.yaml").read_text())
        self.assertTrue(any(sink.encode() in request for request in FakeMlflow.received))
        for secret in (SECRET, ANOTHER):
            self.assertFalse([request for request in FakeMlflow.received if secret.encode() in request])
        self.assert_in_no_file()
        refused = self.ddprun("resume", "run", code=2).err()
        self.assertRegex(refused, r"run/config\.yaml:\d+:\d+: loggers\[5\]\.sink: the environment has no DDPRUN_SINK; export it")


if __name__ == "__main__":
    unittest.main()

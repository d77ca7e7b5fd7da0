# SPDX-License-Identifier: MIT
"""A secret reaches the plugin that it is for, and nothing that is written or printed."""

import unittest

from command import DDPRUN, SMALL, CommandTest

SECRET, ANOTHER = "tangerine-4711", "pomegranate-0815"


class Secrets(CommandTest):
    def assert_in_no_file(self):
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        found = [str(path.relative_to(self.folder)) for path in files
                 if any(secret.encode() in path.read_bytes() for secret in (SECRET, ANOTHER))]
        self.assertEqual(found, ["home/secret.txt"])

    def test_a_run_of_two_nodes_with_a_secret_each_keeps_both(self):
        sink = "https://u:${secret:DDPRUN_SINK}@host"
        loggers = f"[console, csv, jsonl, tensorboard, {{plugin: brittle_logger, sink: '{sink}'}}]"
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
        self.assert_in_no_file()
        refused = self.ddprun("resume", "run", code=2).err()
        self.assertRegex(refused, r"run/config\.yaml:\d+:\d+: loggers\[4\]\.sink: the environment has no DDPRUN_SINK; export it")


if __name__ == "__main__":
    unittest.main()

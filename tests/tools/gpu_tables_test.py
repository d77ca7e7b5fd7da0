# SPDX-License-Identifier: MIT
"""What the tables of a GPU tell, without one: fast paths with a made ddprun, images that are random where there are none."""

import os
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/dev"))

from measure import data  # noqa: E402
from measure.bench import Bench  # noqa: E402
from measure.comparisons import wide_resnet  # noqa: E402
from measure.rounds import Share  # noqa: E402

# Steps of 10 ms, without CUDA graphs of 20 ms, by its rows; on several GPUs of as many less.
MADE_DDPRUN = """\
    import json, pathlib, sys
    words = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    if words["trainer.precision"] == "fp32":
        sys.exit("it broke")
    run = pathlib.Path(words["run.dir"])
    run.mkdir()
    (run / "config.yaml").write_text("name: made\\n")
    graphs = words.get("trainer.cuda_graph") != "off"
    seconds, every = (0.01 if graphs else 0.02) / int(words["launch.workers"]), int(words["trainer.log_every"])
    rows = [{"split": "train", "step": step, "time": step * seconds, "loss": 2.0}
            for step in range(every, int(words["trainer.max_steps"]) + 1, every)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    (run / "summary.json").write_text(json.dumps({"status": "completed", "replayed_steps": 90 if graphs else 0, "wait_seconds": 0.288}))
"""


class TablesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-tables-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        environment = mock.patch.dict(os.environ, DDPRUN_DATA=folder.name, XDG_CACHE_HOME=folder.name)
        environment.start()
        self.addCleanup(environment.stop)
        program = self.folder / "ddprun"
        program.write_text(f"#!{sys.executable}\n{textwrap.dedent(MADE_DDPRUN)}")
        program.chmod(0o755)
        self.bench = Bench(str(program), self.folder, "cuda", pairs=2)

    def measure(self, name):
        small = wide_resnet.Sizes(images=8, precisions=("fp32",))
        with mock.patch.object(wide_resnet, "sizes_of", lambda _: small), mock.patch("builtins.print"):
            return self.bench.measure(name, Share(1000, 1000))

    def test_fast_paths_are_compared_with_all_of_them_on_and_it_is_told_that_images_were_random(self):
        made = self.measure("fast_paths_wide_resnet")
        self.assertIn("WRN-16-4 on CIFAR-100, batch 1024", made.text)
        self.assertIn("RANDOM", made.text)
        self.assertIn("| as it is, bf16 | 102,400 (102,400 .. 102,400) | 90 (90 .. 90) |", made.text)
        self.assertIn("| trainer.cuda_graph=off | as it is, bf16 | images/s | 0.50 (0.50 .. 0.50) |  |", made.text)
        self.assertTrue(made.failed())
        self.assertIn("Not measured: trainer.precision=fp32:", made.markdown())
        self.assertIn("it broke", made.missing()["trainer.precision=fp32"])

    def test_more_workers_are_measured_on_as_many_gpus_and_those_without_one_are_told(self):
        with mock.patch("measure.report.gpus", lambda: [{}, {}]):
            made = self.measure("scaling")
        self.assertIn("| wide_resnet: 2 workers | 204,800 (204,800 .. 204,800) | 2.00 (2.00 .. 2.00) |", made.text)
        self.assertIn("| wide_resnet: 2 workers | 1 worker | images/s | 2.00 (2.00 .. 2.00) |", made.text)
        self.assertEqual(made.missing(), {"wide_resnet: 4 workers": "2 GPUs here", "wide_resnet: 8 workers": "2 GPUs here"})
        self.assertFalse(made.failed())

    def test_random_images_have_the_form_of_the_true_ones(self):
        self.assertFalse(data.lay_out_cifar100(self.folder / "images", images=150))
        train = (self.folder / "images/cifar-100-binary/train.bin").read_bytes()
        self.assertEqual(len(train), 150 * data.CIFAR100_RECORD_BYTES)
        self.assertEqual(set(train[1 :: data.CIFAR100_RECORD_BYTES]), set(range(100)))
        self.assertLess(max(train[:: data.CIFAR100_RECORD_BYTES]), 20)


if __name__ == "__main__":
    unittest.main()

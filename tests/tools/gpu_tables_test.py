# SPDX-License-Identifier: MIT
"""What the tables of tools/gpu_check compute and tell, without a GPU: rooflines, more GPUs, tables with a made ddprun."""

import argparse
import os
import pathlib
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/dev"))

from measure import data, table  # noqa: E402
from measure.gpu import bench, calculation, tables  # noqa: E402
from measure.gpu.bench import Sizes  # noqa: E402
from measure.rounds import Budget, OutOfTime, Rounds, Share  # noqa: E402
from measure.table import Case, Made  # noqa: E402
from measure.trainings import Ddprun  # noqa: E402

BY_NAME = {one.name: one for one in tables.TABLES}


def measured(images_per_second, loss=1.0, **summary):
    return {"images_per_second": images_per_second, "loss": loss, "summary": summary}


class NetworkCostTest(unittest.TestCase):
    """Against counts made by hand and by torch's own modules."""

    def test_parameters_of_wide_residual_networks(self):
        self.assertEqual(calculation.wide_resnet(28, 10, classes=10).parameters, 36_479_194)
        self.assertEqual(calculation.wide_resnet(16, 4, classes=10).parameters, 2_748_890)

    def test_operations_and_traffic_of_an_image(self):
        for size, operations, megabytes in (((28, 10), 31.5, 104.6), ((16, 4), 2.36, 22.1), ((40, 2), 1.97, 31.6)):
            cost = calculation.wide_resnet(*size, classes=10)
            self.assertAlmostEqual(cost.training_operations / 1e9, operations, delta=0.005 * operations)
            self.assertAlmostEqual(cost.traffic_bytes() / 1e6, megabytes, delta=0.05)


class CalculationTest(unittest.TestCase):
    def test_the_roofline_of_a_large_network(self):
        limit = calculation.roofline(calculation.wide_resnet(28, 10, classes=10), 790e12, 4.8e12)
        self.assertAlmostEqual(limit.compute, 25.1e3, delta=50)
        self.assertAlmostEqual(limit.memory, 45.9e3, delta=50)
        self.assertAlmostEqual(limit.both, 16.2e3, delta=50)

    def test_a_ring_sends_every_byte_almost_twice(self):
        self.assertEqual(calculation.all_reduce_seconds(1000, 2, 1000), 1.0)
        self.assertEqual(calculation.all_reduce_seconds(1000, 8, 1000), 1.75)

    def test_buckets_hold_all_gradients_the_first_one_being_small(self):
        cost = calculation.wide_resnet(28, 10)
        filled = calculation.buckets(cost.layers)
        self.assertEqual(sum(one.gradient_bytes for one in filled), 4 * cost.parameters)
        self.assertTrue(all(one.gradient_bytes >= 25 << 20 for one in filled[1:-1]))
        self.assertLess(filled[0].gradient_bytes, 25 << 20)
        self.assertEqual(filled[-1].ready, 1.0)
        self.assertEqual([one.ready for one in filled], sorted(one.ready for one in filled))

    def test_the_last_bucket_cannot_be_hidden(self):
        filled = [calculation.Bucket(100, 0.5), calculation.Bucket(100, 1.0)]
        one = calculation.exchange(filled, 2, 1000, backward_seconds=1.0, step_seconds=1.9)
        self.assertAlmostEqual(one.total_seconds, 0.2)
        self.assertAlmostEqual(one.shown_seconds, 0.1)
        self.assertAlmostEqual(one.efficiency, 0.95)

    def test_on_a_slow_bus_buckets_wait_for_each_other(self):
        filled = [calculation.Bucket(1000, 0.5), calculation.Bucket(1000, 1.0)]
        one = calculation.exchange(filled, 2, 1000, backward_seconds=1.0, step_seconds=2.0)
        self.assertAlmostEqual(one.shown_seconds, 1.5)

    def test_backward_is_taken_from_runs_whose_phases_are_told_apart(self):
        graphs = [measured(100, backward_seconds=1.0, graph_seconds=8.0, step_seconds=10.0)]
        eager = [measured(50, backward_seconds=5.0, graph_seconds=0.0, step_seconds=10.0)]
        self.assertEqual(tables.step_times([graphs, [], eager], batch=100), (2.0, 1.0))
        self.assertIsNone(tables.step_times([graphs, []], batch=100))


class LossesTest(unittest.TestCase):
    def test_losses_that_differ_are_told(self):
        for loss, told in ((2.4, "are alike"), (2.6, "are NOT alike")):
            made = Made("", cases=[(Case([], ()), Rounds(1, 1, {"a": [measured(1, loss=2.0)], "b": [measured(1, loss=loss)]}))])
            tables.compare_losses(None, made)
            self.assertIn(told, made.text)


class ImagesTest(unittest.TestCase):
    def test_random_images_have_the_form_of_the_true_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, DDPRUN_DATA=folder, XDG_CACHE_HOME=folder):
                self.assertFalse(data.lay_out_cifar10(pathlib.Path(folder, "images"), records=30))
            for name in data.CIFAR10_FILES:
                content = pathlib.Path(folder, "images", data.CIFAR10_FOLDER, name).read_bytes()
                self.assertEqual(len(content), 30 * 3073)
                self.assertLess(max(content[::3073]), 10)


# Steps of 10 ms, without CUDA graphs of 20 ms, by its rows.
MADE_DDPRUN = """\
    import json, pathlib, sys
    words = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    if words["trainer.precision"] == "fp32":
        sys.exit("it broke")
    run = pathlib.Path(words["run.dir"])
    run.mkdir()
    (run / "config.yaml").write_text("name: made\\n")
    graphs = words.get("trainer.cuda_graph") != "off"
    seconds, every = 0.01 if graphs else 0.02, int(words["trainer.log_every"])
    rows = [{"split": "train", "step": step, "time": step * seconds, "loss": 2.0}
            for step in range(every, int(words["trainer.max_steps"]) + 1, every)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    phases = {"graph_seconds": 8.0 if graphs else 0.0, "backward_seconds": 5.0, "step_seconds": 10.0}
    (run / "summary.json").write_text(json.dumps({"status": "completed", "first_step_seconds": 0.5, "replayed_steps": 90 if graphs else 0, **phases}))
"""


class TablesTest(unittest.TestCase):
    """Tables of ddprun alone, with a made one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-tables-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        program = self.folder / "ddprun"
        program.write_text(f"#!{sys.executable}\n{textwrap.dedent(MADE_DDPRUN)}")
        program.chmod(0o755)
        peaks = {"operations_per_second": 790e12, "bytes_per_second": 4.8e12}
        self.bench = bench.Bench(Ddprun(program, self.folder), "cuda", sys.executable, self.folder, self.folder, Sizes(), 2, 1, {}, peaks=peaks)

    def measure(self, name):
        with mock.patch("builtins.print"):
            made = self.bench.made[name] = table.measure(BY_NAME[name], self.bench, Share(1000, 1000))
        return made

    def test_fast_paths_are_compared_with_all_of_them_on(self):
        made = self.measure("fast_paths_convnet")
        self.assertIn("| as it is, bf16 | 10,000 (10,000 .. 10,000) | 90 (90 .. 90) |", made.text)
        self.assertIn("| trainer.cuda_graph=off | as it is, bf16 | images/s | 0.50 (0.50 .. 0.50) |  |", made.text)
        self.assertTrue(made.failed())
        self.assertIn("Not measured: trainer.precision=fp32:", made.markdown())
        self.assertIn("it broke", made.missing()["trainer.precision=fp32"])

    def test_the_words_of_the_fast_paths_say_what_was_trained_and_whether_the_images_were_true(self):
        self.assertEqual(BY_NAME["fast_paths_convnet"].words(self.bench), "MNIST. Batch 100, 3000 steps, measured after 600.")
        self.bench.real_cifar100 = False
        self.assertIn("RANDOM", BY_NAME["fast_paths_wide_resnet"].words(self.bench))

    def test_the_speed_of_a_large_network_is_a_share_of_the_roofline(self):
        made = self.measure("roofline")
        self.assertFalse(made.failed())
        share = 51_200 / made.more["roofline"]["both"]
        for value in made.targets[0].values:
            self.assertAlmostEqual(value, share)
        more = self.measure("scaling").more
        self.assertEqual(more["WRN-28-10"]["step_seconds"], 0.02)
        self.assertEqual(more["WRN-28-10"]["backward_seconds"], 0.01)
        self.assertEqual(len(more["WRN-28-10"]["rows"]), 6)


class MissingTest(unittest.TestCase):
    def test_without_cifar100_its_tables_are_made_with_random_images_and_say_so(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, DDPRUN_DATA=folder, XDG_CACHE_HOME=folder):
            self.assertFalse(data.lay_out_cifar100(pathlib.Path(folder, "data"), images=150))
            train = pathlib.Path(folder, "data/cifar-100-binary/train.bin").read_bytes()
        self.assertEqual(len(train), 150 * data.CIFAR100_RECORD_BYTES)
        self.assertEqual(set(train[1 :: data.CIFAR100_RECORD_BYTES]), set(range(100)))
        self.assertIn("RANDOM", tables.training_images(argparse.Namespace(sizes=Sizes(), real_cifar100=False)))
        self.assertNotIn("RANDOM", tables.training_images(argparse.Namespace(sizes=Sizes(), real_cifar100=True)))

    def test_a_table_whose_images_are_missing_is_skipped_with_the_reason(self):
        folder = pathlib.Path("/nowhere")
        one = bench.Bench(None, "cpu", sys.executable, folder, folder, Sizes(), 5, 1, {}, missing={"mnist": "set DDPRUN_DATA"})
        budget = Budget(time.monotonic() + 100, {name: made.weight for name, made in BY_NAME.items()})
        for made in tables.TABLES:
            if made.needs == "mnist":
                self.assertEqual(bench.measure_one(one, made, budget), (None, "SKIP", "set DDPRUN_DATA"))

    def test_more_gpus_are_not_calculated_from_nothing(self):
        with self.assertRaisesRegex(OutOfTime, "no table above"):
            tables.scaling(argparse.Namespace(sizes=Sizes(), made={}), Made(""))


if __name__ == "__main__":
    unittest.main()

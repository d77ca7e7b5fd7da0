# SPDX-License-Identifier: MIT
"""What the tables of tools/gpu_check compute and tell, without a GPU: rooflines, more GPUs, tables with a made ddprun, the report."""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/dev"), str(ROOT / "tools/dev/bench")]

from gpu_check import bench, bench_report, calculation, network_cost  # noqa: E402
from gpu_check.budget import Budget, OutOfTime, Share  # noqa: E402
from gpu_check.rounds import Rounds  # noqa: E402
from gpu_check.sizes import Sizes  # noqa: E402
from gpu_check.table import Comparison, Table, Target, factors  # noqa: E402
from gpu_check.tables import scaling, wide_resnet  # noqa: E402
from gpu_check.tables.fast_paths import FastPaths  # noqa: E402
from gpu_check.tables.roofline import Roofline  # noqa: E402
from gpu_check.trainings import Job, Measured, Trainer, speed  # noqa: E402
from suite import cifar10_data, cifar_data  # noqa: E402


def measured(images_per_second, loss=1.0, **summary):
    return Measured(images_per_second, {10: loss}, 1.0, summary=summary)


class NetworkCostTest(unittest.TestCase):
    """Against counts made by hand and by torch's own modules."""

    def test_parameters_of_wide_residual_networks(self):
        self.assertEqual(network_cost.wide_resnet(28, 10, classes=10).parameters, 36_479_194)
        self.assertEqual(network_cost.wide_resnet(16, 4, classes=10).parameters, 2_748_890)

    def test_operations_and_traffic_of_an_image(self):
        for size, operations, megabytes in (((28, 10), 31.5, 104.6), ((16, 4), 2.36, 22.1), ((40, 2), 1.97, 31.6)):
            cost = network_cost.wide_resnet(*size, classes=10)
            self.assertAlmostEqual(cost.training_operations / 1e9, operations, delta=0.005 * operations)
            self.assertAlmostEqual(cost.traffic_bytes() / 1e6, megabytes, delta=0.05)


class CalculationTest(unittest.TestCase):
    def test_the_roofline_of_a_large_network(self):
        limit = calculation.roofline(network_cost.wide_resnet(28, 10, classes=10), 790e12, 4.8e12)
        self.assertAlmostEqual(limit.compute, 25.1e3, delta=50)
        self.assertAlmostEqual(limit.memory, 45.9e3, delta=50)
        self.assertAlmostEqual(limit.both, 16.2e3, delta=50)

    def test_a_ring_sends_every_byte_almost_twice(self):
        self.assertEqual(calculation.all_reduce_seconds(1000, 2, 1000), 1.0)
        self.assertEqual(calculation.all_reduce_seconds(1000, 8, 1000), 1.75)

    def test_buckets_hold_all_gradients_the_first_one_being_small(self):
        cost = network_cost.wide_resnet(28, 10)
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
        self.assertEqual(scaling.step_times([graphs, [], eager], batch=100), (2.0, 1.0))
        self.assertIsNone(scaling.step_times([graphs, []], batch=100))


class TrainingsTest(unittest.TestCase):
    def test_the_speed_is_that_after_the_warm_up(self):
        job = Job(batch=10, steps=40, warm_up=20, experiment="mnist")
        self.assertEqual(speed({20: 100.0, 40: 102.0}, job), 100.0)

    def test_overrides_of_a_job_come_last(self):
        job = Job(8, 4, 2, "mnist", ("trainer.eval_every=1ep",))
        command = Trainer("ddprun", "cpu", "/tmp", threads=1).command(job, "/run")
        self.assertEqual(command[:2], ["ddprun", "experiments/mnist.yaml"])
        self.assertEqual(command[-1], "trainer.eval_every=1ep")
        self.assertIn("launch.threads=1", command)


class ReportTest(unittest.TestCase):
    def setUp(self):
        rounds = Rounds(5, 2, {"ddprun": [measured(20), measured(30)], "plain": [measured(10), measured(10)]}, {}, {"x": "not here"})
        rows, targets = factors(rounds, [Comparison("ddprun", "plain", 3.0), Comparison("ddprun", "gone", 1.0)])
        self.assertEqual(rows, [["ddprun", "plain", "2.50 (2.00 .. 3.00)", "at least 3: not reached"]])
        self.table = Table("A table", "text", {"speeds": [1.0, float("nan")]}, rounds, targets)
        self.options = argparse.Namespace(rehearse=True, minutes=9)

    def test_json_has_what_a_figure_needs_to_be_understood(self):
        rows = [("table t", "PASS", "seen", "1.0")]
        found = json.loads(bench_report.as_json(bench_report.facts(self.options), rows, None, {"t": self.table}))
        expected = {"format", "date", "command", "rehearsal", "minutes", "machine", "versions", "peaks", "results", "tables"}
        self.assertEqual(found.keys(), expected)
        self.assertLessEqual({"cpu", "cores", "gpus", "load_at_start"}, found["machine"].keys())
        self.assertEqual(found["results"], [{"name": "table t", "outcome": "PASS", "detail": "seen", "seconds": "1.0"}])
        table = found["tables"]["t"]
        self.assertEqual((table["rounds"], table["rounds_wanted"], table["calculated"]), (2, 5, False))
        self.assertEqual(table["missing"], {"x": "not here"})
        self.assertEqual(table["figures"], {"speeds": [1.0, None]})
        self.assertEqual(table["targets"], [{"what": "ddprun over plain", "at_least": 3.0, "reached": False, "median": 2.5,
                                             "min": 2.0, "max": 3.0, "values": [2.0, 3.0]}])  # fmt: skip

    def test_markdown_says_what_is_missing_and_that_it_was_a_rehearsal(self):
        text = bench_report.markdown(bench_report.facts(self.options), "| checks |", None, {"t": self.table})
        for part in ("REHEARSAL", "| checks |", "### A table", "Not measured: x: not here"):
            self.assertIn(part, text)

    def test_a_target_is_about_the_median(self):
        self.assertTrue(Target("it", [0.9, 1.0, 5.0], 1.0).reached)
        self.assertFalse(Target("it", [0.9, 0.99, 5.0], 1.0).reached)

    def test_losses_that_differ_are_told(self):
        alike = Rounds(1, 1, {"a": [measured(1, loss=2.0)], "b": [measured(1, loss=2.4)]})
        self.assertIn("are alike", wide_resnet.losses(alike))
        alike.results["b"] = [measured(1, loss=2.6)]
        self.assertIn("NOT alike", wide_resnet.losses(alike))


class ImagesTest(unittest.TestCase):
    def test_random_images_have_the_form_of_the_true_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            cifar10_data.make_random(pathlib.Path(folder, "images"), records=30)
            for name in [*cifar10_data.TRAIN, cifar10_data.TEST]:
                content = pathlib.Path(folder, "images", name).read_bytes()
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
    (run / "summary.json").write_text(json.dumps({"first_step_seconds": 0.5, "replayed_steps": 90 if graphs else 0, **phases}))
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
        trainer = Trainer(program, "cuda", self.folder, threads=0)
        peaks = {"operations_per_second": 790e12, "bytes_per_second": 4.8e12}
        self.bench = bench.Bench(trainer, "cuda", sys.executable, self.folder, self.folder, Sizes(), 2, 1, {},
                                 {"trainer.cuda_graph"}, peaks=peaks)  # fmt: skip
        self.share = Share(1000, 1000)

    def test_fast_paths_are_compared_with_all_of_them_on(self):
        table = FastPaths("convnet").measure(self.bench, self.share)
        self.assertIn("| as it is, bf16 | 10,000 (10,000 .. 10,000) |  | 90 |", table.text)
        self.assertIn("| trainer.cuda_graph=off | 5,000 (5,000 .. 5,000) | 0.50 (0.50 .. 0.50) | 0 |", table.text)
        self.assertTrue(table.failed())
        self.assertIn("Not measured: trainer.precision=fp32:", table.markdown())
        self.assertIn("it broke", table.missing()["trainer.precision=fp32"])

    def test_the_speed_of_a_large_network_is_a_share_of_the_roofline(self):
        table = Roofline().measure(self.bench, self.share)
        self.assertFalse(table.failed())
        share = 51_200 / table.figures["roofline"]["both"]
        for value in table.targets[0].values:
            self.assertAlmostEqual(value, share)
        more = scaling.Scaling().measure(self.bench, self.share)
        self.assertEqual(more.figures["WRN-28-10"]["step_seconds"], 0.02)
        self.assertEqual(more.figures["WRN-28-10"]["backward_seconds"], 0.01)
        self.assertEqual(len(more.figures["WRN-28-10"]["rows"]), 6)


class MissingTest(unittest.TestCase):
    def test_without_cifar100_its_tables_are_made_with_random_images_and_say_so(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, DDPRUN_DATA=folder):
            self.assertFalse(cifar_data.lay_out_binary(pathlib.Path(folder, "data"), images=150))
            train = pathlib.Path(folder, "data/cifar-100-binary/train.bin").read_bytes()
        self.assertEqual(len(train), 150 * cifar_data.RECORD_BYTES)
        self.assertEqual(set(train[1 :: cifar_data.RECORD_BYTES]), set(range(100)))
        self.assertIn("RANDOM", wide_resnet.training_images(argparse.Namespace(sizes=Sizes(), real_cifar100=False)))
        self.assertNotIn("RANDOM", wide_resnet.training_images(argparse.Namespace(sizes=Sizes(), real_cifar100=True)))

    def test_a_table_whose_images_are_missing_is_skipped_with_the_reason(self):
        folder = pathlib.Path("/nowhere")
        one = bench.Bench(None, "cpu", sys.executable, folder, folder, Sizes(), 5, 1, {}, missing={"mnist": "set DDPRUN_DATA"})
        budget = Budget(time.monotonic() + 100, {table.name: table.weight for table in bench.TABLES})
        for table in bench.TABLES:
            if table.needs == "mnist":
                self.assertEqual(bench.measure_one(one, table, budget), (None, "SKIP", "set DDPRUN_DATA"))

    def test_more_gpus_are_not_calculated_from_nothing(self):
        with self.assertRaisesRegex(OutOfTime, "no table above"):
            scaling.Scaling().measure(argparse.Namespace(sizes=Sizes(), found={}), None)


if __name__ == "__main__":
    unittest.main()

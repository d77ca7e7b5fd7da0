# SPDX-License-Identifier: MIT
"""What ddprun itself adds to a training step on a GPU, beside the model's and the optimizer's operators: little, and nothing that waits."""

import collections
import os
import pathlib
import tempfile
import unittest

from step_counts import DDPRUN, NETWORKS, QUIET, summed, reported, training

# The batch is gathered, what may not be finite is looked at, the correct are counted, and all numbers are brought together for the host.
OWN = {"make_images_float", "aten::_foreach_norm.Scalar", "count_correct_float", "pack_numbers"}


class StepCounts(unittest.TestCase):
    def counts(self, graph, network="convnet_bn"):
        os.environ["PRETEND_SCHEDULE"] = "sync"  # a host that waits has not looked whether it must
        with tempfile.TemporaryDirectory() as folder:
            return training(NETWORKS[network], graph, pathlib.Path(folder) / graph)

    def assert_nothing_waits(self, counts):
        self.assertEqual(summed(counts, "host_wait"), 0)
        self.assertEqual(summed(counts, "copy", "pageable"), 0)
        self.assertEqual(summed(counts, "allocate"), 0)

    def test_an_ordinary_step(self):
        counts = self.counts("off")
        self.assert_nothing_waits(counts)
        self.assertEqual({name: counts["launch", name] for name in OWN}, dict.fromkeys(OWN, 1))
        others = {name for kind, name in counts if kind == "launch"} - OWN
        self.assertFalse(others & {"aten::cat", "aten::stack", "aten::eq.Tensor", "aten::max.dim", "aten::add.Tensor", "aten::zero_"}, others)

    def test_an_ordinary_step_in_which_symbols_count(self):
        """A loss of nothing is set to 0, once. What counts and what is counted is the model's to say, and the host multiplies."""
        counts = self.counts("off", "transformer")
        self.assert_nothing_waits(counts)
        self.assertEqual(counts["launch", "aten::gt.Scalar"], 1)
        self.assertEqual(counts["launch", "pack_numbers"], 1)
        self.assertEqual(counts["launch", "aten::mul.Tensor"], 1)  # the model's perplexity

    def test_a_replayed_step(self):
        counts = self.counts("on")
        self.assert_nothing_waits(counts)
        self.assertEqual(summed(counts, "graph"), 1)
        self.assertEqual({name for kind, name in counts if kind == "launch"}, set())  # the batch is made in the graph
        self.assertEqual(counts["replay", "make_images_float"], 1)
        self.assertEqual(summed(counts, "copy"), 2)  # the samples' numbers there, the results back

    def test_batches_of_the_host_are_copied_beside_the_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            reported([DDPRUN, *NETWORKS["transformer"], *QUIET, "trainer.max_steps=20", f"run.dir={folder}/run"], trace, folder)
            lines = [line.split("\t") for file in pathlib.Path(folder).glob("trace.*") for line in file.read_text().splitlines()]
        of_steps, _ = collections.Counter(line[3] for line in lines if line[0] == "launch").most_common(1)[0]
        beside = [line for line in lines if line[0] == "copy" and line[1] == "pinned" and line[3] != of_steps]
        self.assertGreaterEqual(len(beside), 2 * 20)  # input and target of each step


if __name__ == "__main__":
    unittest.main()

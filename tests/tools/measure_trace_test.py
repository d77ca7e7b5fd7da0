# SPDX-License-Identifier: MIT
"""What tables take from traces: the hidden share of the exchange, the time of each operation."""

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))

from measure import trace  # noqa: E402


def event(name, begin, end, cat="cpu_op", **args):
    return {"ph": "X", "name": name, "cat": cat, "ts": begin, "dur": end - begin, "args": args}


def exchange(begin, end, numbers):
    return event("gloo:all_reduce", begin, end, **{"Input Dims": [[numbers]]})


def kernel(name, begin, end, **args):
    return event(name, begin, end, cat="kernel", **args)


class HiddenShare(unittest.TestCase):
    def test_is_the_part_of_the_exchange_within_backward(self):
        events = [event("backward", 0, 100), exchange(80, 120, 50_000), exchange(90, 110, 50_000)]
        self.assertAlmostEqual(trace.hidden_share(events), 0.5)

    def test_leaves_out_the_flags_that_ranks_agree_on(self):
        events = [event("backward", 0, 100), exchange(90, 110, 50_000), exchange(10, 60, 3)]
        self.assertAlmostEqual(trace.hidden_share(events), 0.5)

    def test_on_a_gpu_it_is_where_other_kernels_run(self):
        nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        events = [
            event("backward", 0, 1000),
            kernel("conv_wgrad", 0, 100),
            kernel("fused_sgd", 130, 200),
            kernel(nccl, 60, 140, **{"In msg nelems": 50_000}),
            kernel(nccl, 180, 190, **{"In msg nelems": 1}),
        ]
        self.assertAlmostEqual(trace.hidden_share(events), 50 / 80)

    def test_a_kernel_of_unknown_size_counts(self):
        events = [kernel("conv_wgrad", 0, 100), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 90, 110)]
        self.assertAlmostEqual(trace.hidden_share(events), 0.5)

    def test_without_an_exchange_nothing_is_hidden(self):
        self.assertEqual(trace.hidden_share([event("backward", 0, 100)]), 0)


class Operations(unittest.TestCase):
    def test_have_their_time_without_that_of_the_operations_they_call(self):
        events = [event("conv", 0, 4000), event("mkldnn", 1000, 3000), event("fill", 1500, 2000), event("conv", 5000, 6000)]
        events = [{**one, "tid": 1} for one in events] + [{**event("fill", 0, 9000), "tid": 2}, event("backward", 0, 9000, cat="user_annotation")]
        self.assertEqual(trace.operations(events, steps=2), {"fill": 4.75, "conv": 1.5, "mkldnn": 0.75})


if __name__ == "__main__":
    unittest.main()

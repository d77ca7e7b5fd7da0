# SPDX-License-Identifier: MIT
"""What tools/dev/bench says of sides that end with different accuracies."""

import pathlib
import sys
import types
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev/bench"))

from suite import comparison  # noqa: E402


def sides_with(**correct):
    return {name: [types.SimpleNamespace(test_correct=one) for one in ones] for name, ones in correct.items()}


class Accuracy(unittest.TestCase):
    def test_alike_within_a_point_and_a_half_is_nothing_to_tell(self):
        self.assertEqual(comparison.of_other_accuracy(sides_with(ddprun=[9800, 9803], plain=[9700, 9701], expert=[9940])), "")

    def test_a_side_that_learnt_less_is_named_and_the_others_are_not(self):
        text = comparison.of_other_accuracy(sides_with(ddprun=[9803, 9803, 100], plain=[9805], expert=[9000, 9100, 9900]))
        self.assertIn("**Not the same accuracy**: ddprun 98.03 %, expert 91.00 %", text)
        self.assertNotIn("plain", text)


if __name__ == "__main__":
    unittest.main()

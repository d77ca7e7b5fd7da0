"""What the scripts for CIFAR-100 share: their words on the command line, and its binary files. ../peer_worker.py has the rest."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))  # for peer_worker

import peer_worker  # noqa: E402
import torch  # noqa: E402
from peer_worker import Networks, Record, add_compile, channels_last, compiles, main  # noqa: E402, F401

MEAN, STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)  # of CIFAR-100's pixels, 0 .. 1
SIDE, PADDING = 32, 4


def make_parser(text):
    parser = peer_worker.make_parser(text)
    parser.set_defaults(lr=0.04, momentum=0.9, global_batch=1024)
    add = parser.add_argument
    add("--data", required=True, help="folder that holds cifar-100-binary")
    add("--weight-decay", type=float, default=5e-4)
    add("--depth", type=int, default=16)
    add("--widen-factor", type=int, default=4)
    return parser


def read_training_images(root):
    """[N, 3, 32, 32] and [N], bytes: records of a coarse label, a fine one, and planes of red, green and blue."""
    path = pathlib.Path(root) / "cifar-100-binary/train.bin"
    records = torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8).view(-1, 2 + 3 * SIDE * SIDE)
    return records[:, 2:].view(-1, 3, SIDE, SIDE), records[:, 1]

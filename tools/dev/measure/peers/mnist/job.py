"""What the scripts for MNIST share: their words on the command line, and torchvision's MNIST. ../peer_worker.py has the rest."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))  # for peer_worker

import peer_worker  # noqa: E402
import torch  # noqa: E402
from networks import NAMES  # noqa: E402
from peer_worker import Networks, Record, add_compile, channels_last, compiles, leave, main, runs_on_gpu, stopwatch  # noqa: E402, F401

MEAN, STD = 0.1307, 0.3081  # of MNIST's pixels


def make_parser(text):
    parser = peer_worker.make_parser(text)
    add = parser.add_argument
    add("--data", required=True, help="folder that holds MNIST/raw")
    add("--model", choices=NAMES, default="convnet_bn")
    add("--hidden", type=int, default=128, help="units of mlp")
    add("--evaluations", type=int, default=1, help="number of final evaluations of the test images")
    return parser


def add_precision(parser):
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")


def mnist(root, train):
    """As the guides have it; without torchvision the same numbers by a data set of tensors, image by image, too."""
    try:
        from torchvision import datasets, transforms  # here: not all scripts pay for it
    except ImportError:
        return TensorMnist(root, train)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])
    return datasets.MNIST(root, train=train, transform=transform)


class TensorMnist(torch.utils.data.Dataset):
    def __init__(self, root, train):
        self.images, self.labels = read_mnist(root, "train" if train else "t10k")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].unsqueeze(0).to(torch.float32).div_(255)
        return image.sub_(MEAN).div_(STD), int(self.labels[index])


def read_mnist(root, part):
    """[N, 28, 28] and [N], bytes."""
    images, labels = (
        mapped(pathlib.Path(root) / f"MNIST/raw/{part}-{kind}-ubyte")[head:]
        for kind, head in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return images.view(-1, 28, 28), labels


def mapped(path):
    return torch.from_file(str(path), size=path.stat().st_size, dtype=torch.uint8)

"""What the scripts for MNIST share: their words on the command line, torchvision's MNIST, and the networks of ddprun's plugins.
../peer_worker.py has the rest."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))  # for peer_worker

import peer_worker  # noqa: E402
import torch  # noqa: E402
from peer_worker import Networks, Record, add_compile, channels_last, compiles, leave, main, runs_on_gpu, stopwatch  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

MEAN, STD = 0.1307, 0.3081  # of MNIST's pixels


def make_parser(text):
    parser = peer_worker.make_parser(text)
    add = parser.add_argument
    add("--data", required=True, help="folder that holds MNIST/raw")
    add("--model", choices=NETWORKS, default="convnet_bn")
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


class ConvNetBn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(16, 32, kernel_size=5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.fc = nn.Linear(7 * 7 * 32, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(x))
        return self.fc(x.flatten(1))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64 * 12 * 12, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = self.dropout1(functional.max_pool2d(x, 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc2(self.dropout2(x))


class Mlp(nn.Sequential):
    def __init__(self, hidden=128):
        super().__init__(nn.Flatten(), nn.Linear(28 * 28, hidden), nn.ReLU(), nn.Linear(hidden, 10))


NETWORKS = {"convnet_bn": ConvNetBn, "convnet": ConvNet, "mlp": Mlp}


def make_network(args):
    return Mlp(args.hidden) if args.model == "mlp" else NETWORKS[args.model]()

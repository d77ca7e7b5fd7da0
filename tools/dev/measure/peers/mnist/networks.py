"""The networks of ddprun's plugins of the same names, for MNIST."""

from torch import nn
from torch.nn import functional


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


NAMES = ["convnet_bn", "convnet", "mlp"]


def make_network(args):
    if args.model == "mlp":
        return Mlp(args.hidden)
    return {"convnet_bn": ConvNetBn, "convnet": ConvNet}[args.model]()

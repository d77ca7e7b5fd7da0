"""The same script with Hydra: `-m lr=0.1,0.2` is one run after the other, in this process or in joblib's."""

import dataclasses

import hydra
import step
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclasses.dataclass
class Settings:
    data: str = MISSING
    lr: float = 0.1
    momentum: float = 0.9


ConfigStore.instance().store(name="settings", node=Settings)


@hydra.main(version_base=None, config_name="settings")
def main(settings):
    return step.train(settings.data, settings.lr, settings.momentum)


if __name__ == "__main__":
    main()

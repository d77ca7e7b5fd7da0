# SPDX-License-Identifier: MIT
"""Comet. Without a network its client keeps a session in one archive, which is whole only when the session ends."""

import os

import comet_ml

from ddprun.config import flat
from follow.trackers import KINDS
from follow.trackers.base import Base

QUIET = {  # what it would log of this process, which is not the run's
    "log_code": False, "log_graph": False, "parse_args": False, "log_git_metadata": False, "log_git_patch": False,
    "log_env_details": False, "auto_output_logging": False, "auto_param_logging": False, "auto_metric_logging": False,
    "auto_log_co2": False, "display_summary_level": 0,
}  # fmt: skip


class Tracker(Base):
    one_by_one = True
    errors = (comet_ml.exceptions.CometException, ValueError, OSError)
    advice = KINDS["comet"].advice

    def open(self, header):
        key = header.get("id") or self.word
        self.offline = self.options.offline
        config = QUIET | {"name": self.options.name if header else self.name, "tags": self.options.tags}
        kept = {"project_name": header.get("project", self.project), "workspace": self.options.entity}
        os.environ["COMET_LOGGING_CONSOLE"] = "WARNING"
        self.sink = comet_ml.start(
            experiment_key=key, mode="get_or_create", online=not self.offline, **kept,
            experiment_config=comet_ml.ExperimentConfig(**config, offline_directory=str(self.own_folder())))  # fmt: skip
        if not header:
            self.sink.log_parameters(flat(self.run.config))
        return header or {"id": key, "project": kept["project_name"], "entity": kept["workspace"]}

    def send(self, number, item):
        step, epoch = item.step, item.epoch
        if item.numbers:
            self.sink.log_metrics(item.numbers, step=step, epoch=epoch)
        for name, (classes, counts) in item.confusions.items():
            self.sink.log_confusion_matrix(matrix=counts, labels=classes, title=name, step=step, epoch=epoch,
                                           file_name=f"{name.replace('/', '_')}_{step}.json")  # fmt: skip
        for name, table in item.tables.items():
            self.sink.log_table(f"{name.replace('/', '_')}_{step}.csv", tabular_data=table.plain_rows(), headers=table.columns)
        for name, file in item.pictures():
            self.sink.log_image(str(file), name=name, step=step)

    def flush(self):
        return self.sink.flush() and not self.offline

    def finish(self, status, summary):
        self.sink.log_others(flat(self.result(status, summary)))
        for file in self.files():
            self.sink.log_asset(str(file), file_name=file.name)
        self.sink.end()

    def leave(self):
        self.sink.end()

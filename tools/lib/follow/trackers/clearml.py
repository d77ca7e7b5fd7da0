# SPDX-License-Identifier: MIT
"""ClearML. Without a network each call leaves a session's folder, which Task.import_offline_session() sends."""

import json
import math
import os
import pathlib

from clearml import Task

from ddprun.files_below import open_below
from follow.trackers.base import ENDED_WELL, Base, split_name


class Tracker(Base):
    one_by_one = True
    errors = (ValueError, OSError)
    advice = "run `clearml-init` once, or set CLEARML_API_ACCESS_KEY and CLEARML_API_SECRET_KEY; --offline needs neither"

    def open(self, header):
        if self.options.offline:
            os.environ.setdefault("CLEARML_CACHE_DIR", str(self.own_folder()))
            Task.set_offline(True)
        project = header.get("project", self.project)
        self.task = Task.init(
            project_name=project, task_name=self.name, tags=self.options.tags, reuse_last_task_id=False,
            continue_last_task=header["id"] if header and not self.options.offline else False, auto_connect_arg_parser=False,
            auto_connect_frameworks={"detect_repository": False}, auto_resource_monitoring=False, auto_connect_streams=False)  # fmt: skip
        self.task.set_initial_iteration(0)  # steps are the run's own, when it resumes, too
        self.task.set_parameters_as_dict({"experiment": self.run.config})
        self.logger = self.task.get_logger()
        self.seen = seen_values(pathlib.Path(self.task.get_offline_mode_folder()).parent) if self.options.offline else ()
        return header or {"id": self.task.id, "project": project}

    def send(self, number, item):
        step, logger = item.step, self.logger
        for name, value in item.numbers.items():
            split, metric = split_name(name)
            if math.isfinite(value) and (metric, split, step, value) not in self.seen:  # others it would turn into 0
                logger.report_scalar(title=metric, series=split, value=value, iteration=step)
        for name, (classes, counts) in item.confusions.items():
            split, what = split_name(name)
            logger.report_confusion_matrix(what, split, counts, iteration=step, xlabels=classes, ylabels=classes,
                                           xaxis="guess", yaxis="truth", yaxis_reversed=True)  # fmt: skip
        for name, table in item.tables.items():
            split, what = split_name(name)
            rows = [list(map(str, row)) for row in table.plain_rows()]
            logger.report_table(what, split, iteration=step, table_plot=[table.columns, *rows])
        for name, file in item.pictures():
            split, what = split_name(name)
            logger.report_image(split, what, iteration=step, local_path=str(file))

    def flush(self):
        self.task.flush(wait_for_uploads=True)
        return True

    def finish(self, status, summary):
        self.task.set_parameter("run/status", status)
        for file in self.files():
            self.task.upload_artifact(file.name, artifact_object=str(file))
        if status not in ENDED_WELL and not self.options.offline:
            self.task.mark_failed(status_reason=str(summary.get("stop_reason", status)))
        self.task.close()  # completed, if it has not failed

    def leave(self):
        self.task.close()


def seen_values(folder):
    """Returns (metric, split, step, value) of every number in the sessions below a folder."""
    values = set()
    for file in folder.glob("*/metrics.jsonl"):
        with open_below(file.parent, file.name) as lines:
            for line in lines:
                try:
                    events = json.loads(line)
                except ValueError:  # torn, by a kill
                    continue
                values |= {tuple(event.get(key) for key in ("metric", "variant", "iter", "value")) for event in events}
    return values

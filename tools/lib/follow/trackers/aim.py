# SPDX-License-Identifier: MIT
"""Aim: a repository in a folder (--uri, or .aim here), or a server (aim://host:port). A sequence has one value for each step,
so that what is sent again is not doubled."""

import aim

from follow.trackers.base import ENDED_WELL, Base, split_name


class Tracker(Base):
    errors = (OSError, RuntimeError)

    def open(self, header):
        self.uri = str(self.options.uri or header.get("uri") or "")
        self.sink = aim.Run(
            run_hash=header.get("id"), repo=self.uri or None, experiment=header.get("project", self.project),
            force_resume=bool(header), system_tracking_interval=None, capture_terminal_logs=False)  # fmt: skip
        if not header:
            self.sink.name = self.name
            self.sink["hparams"] = self.run.config
            for tag in self.options.tags or ():
                self.sink.add_tag(tag)
        return header or {"id": self.sink.hash, "uri": self.options.uri, "project": self.project}

    def send(self, number, item):
        for name, value in item.numbers.items():
            split, metric = split_name(name)
            self.sink.track(float(value), name=metric, step=item.step, epoch=item.epoch, context={"subset": split})
        for name, (counts, edges) in item.histograms.items():
            split, tensor = split_name(name)
            value = aim.Distribution(hist=counts, bin_range=(edges[0], edges[-1]))
            self.sink.track(value, name=tensor, step=item.step, epoch=item.epoch, context={"subset": split})
        pictures = {}
        for name, file in item.pictures():
            pictures.setdefault(name.rpartition("/")[0], []).append(aim.Image(str(file), caption=file.stem))
        for name, images in pictures.items():
            self.sink.track(images, name=name, step=item.step, epoch=item.epoch)

    def flush(self):
        """A server gets what waits in the client's queue, which ends with the run."""
        return not self.uri.startswith("aim://")

    def finish(self, status, summary):
        self.sink["summary"] = self.result(status, summary)
        if status not in ENDED_WELL:
            self.sink.add_tag(status)
        self.sink.close()

    def leave(self):
        self.sink.close()

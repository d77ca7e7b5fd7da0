# SPDX-License-Identifier: MIT
import os
import secrets
import time

from ddprun.config import flat
from ddprun.errors import UserError
from ddprun.rows import read_lines
from wandb_follow.items import Items
from wandb_follow.journal import FILES, Journal
from wandb_follow.wandb_file import next_step

QUIET_SECONDS = 600  # without a new line, and without a sign of whoever runs it: then the run is taken for dead
SETTINGS = {  # about this process and machine, which are not the run's
    "console": "off", "disable_code": True, "disable_git": True, "disable_job_creation": True, "quiet": True,
    "x_disable_machine_info": True, "x_disable_meta": True, "x_disable_stats": True, "x_save_requirements": False,
}  # fmt: skip


class Follower:
    """A run and its counterpart in W&B."""

    def __init__(self, wandb, run, options):
        self.wandb, self.run, self.options = wandb, run, options
        self.journal = Journal(run)
        self.items = Items(wandb, run.path)
        self.data = os.environ.get("WANDB_DATA_DIR") or str(run.path / "wandb/data")  # pictures, until they are sent
        self.sink = None
        self.sent = 0
        self.last_news = time.monotonic()

    # What there is to be sent

    def is_over(self):
        """Returns whether nothing more will come. Asked before the last lines are read."""
        held = self.run.is_held()
        if held or self.run.summary:
            return not held
        was_killed = held is False and self.run.was_started_here()
        return was_killed or time.monotonic() - self.last_news > QUIET_SECONDS

    def new_ends(self):
        reached = self.journal.reached()
        return {name: read_lines(self.run.path / name, reached.get(name, 0))[1] for name in FILES}

    def is_done(self):
        """Returns whether an earlier call has sent everything."""
        return self.journal.is_complete(self.ending()) and self.new_ends() == self.journal.reached()

    def ending(self):
        return {"attempt": self.run.attempt, "status": self.status()}

    def status(self):
        """Returns the status in summary.json; "killed" if the run could not write one."""
        summary = self.run.summary
        return summary.get("status", "failed") if summary else "killed"

    # Sending it

    def begin(self):
        """Opens the W&B run, and sends what was noted but never arrived."""
        header = self.journal.header or {"id": secrets.token_hex(4), "name": self.run.name}
        self.require_same_place(header)
        self.sink = self.open(header)
        if not self.journal.header:
            self.journal.begin(header | {"project": self.sink.project, "entity": self.sink.entity})
        self.sink.define_metric("step")
        self.sink.define_metric("*", step_metric="step")
        for name in ("epoch", "samples", "attempt"):
            self.sink.define_metric(name, hidden=True)
        arrived = next_step(self.run.path / "wandb", header["id"]) if self.sink.offline else self.sink.starting_step
        self.step = 0
        for batch in self.journal.from_step(arrived):
            self.send(batch, arrived)

    def require_same_place(self, header):
        for key in ("project", "entity"):
            asked, known = getattr(self.options, key), header.get(key)
            if asked and known and asked != known:
                raise UserError(
                    f"{self.run.path} belongs to the W&B {key} {known}, not {asked}; without --{key} it goes on there"
                )

    def open(self, header):
        options, environment = self.options, os.environ
        default = {
            "WANDB_PROJECT": header.get("project") or str(self.run.config.get("name", "ddprun")),
            "WANDB_ENTITY": header.get("entity"),
            "WANDB_NAME": header["name"],
        }
        project, entity, name = (None if variable in environment else value for variable, value in default.items())
        offline = options.offline or environment.get("WANDB_MODE") == "offline"
        settings = {key: value for key, value in SETTINGS.items() if key in self.wandb.Settings.model_fields}
        return self.wandb.init(
            dir=str(self.run.path), id=header["id"], resume=None if offline else "allow", reinit="create_new",
            mode="offline" if offline else None, project=options.project or project, entity=options.entity or entity,
            name=options.name or name, group=options.group, tags=options.tags, config=self.run.config,
            settings=self.wandb.Settings(**settings))  # fmt: skip

    def send(self, batch, arrived=0):
        os.environ["WANDB_DATA_DIR"] = self.data
        items = self.items.of(batch)
        for step, item in enumerate(items, batch.step):
            if step >= arrived:
                self.sink.log(item, step=step, commit=True)
                self.sent += 1
        self.step = batch.step + len(items)

    def poll(self):
        ends = self.new_ends()
        if ends != self.journal.reached():
            self.last_news = time.monotonic()
            self.send(self.journal.add(self.step, ends))

    # Its end

    def finish(self):
        """Ends the W&B run, like the run itself."""
        summary, status = self.run.summary, self.status()
        self.sink.summary.update(
            {"status": status} | flat({key: value for key, value in summary.items() if key != "metrics"})
        )
        if status == "preempted":
            self.sink.mark_preempting()
        self.sink.finish(exit_code=0 if status in ("completed", "stopped_early") else 1)
        self.journal.end(self.ending())
        self.journal.close()

    def leave(self):
        """Detaches from a run that continues and may be followed again."""
        self.sink.finish(exit_code=0)
        self.journal.close()

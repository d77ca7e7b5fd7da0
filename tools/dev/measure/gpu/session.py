"""One call: finds a program, makes the checks, then the tables. All of it ends by its deadline."""

import concurrent.futures
import dataclasses
import pathlib
import subprocess
import sys
import time
import traceback

from measure.bench import Bench
from measure.gpu import program
from measure.gpu.checks.context import Context, Skip
from measure.gpu.plan import CHECKS
from measure.runs import Hung
from measure.process import kill_processes_with
from measure.rounds import Share

LEAST_SECONDS = 10  # what a check or a table is begun with
MARK = "GPU_CHECK"  # in the environment of all that a check starts
RUN_SECONDS = 240  # the most that one side of a table may take: torch.compile does
TABLES = ("scaling", "fast_paths_wide_resnet", "wide_resnet")


@dataclasses.dataclass(frozen=True)
class Outcome:
    word: str  # PASS, FAIL or SKIP
    detail: str
    hung: bool = False


class Session:
    def __init__(self, options, gpus, folder, results, clock=time.monotonic):
        self.options = options
        self.results = results
        self._gpus = gpus
        self._folder = pathlib.Path(folder)
        self._clock = clock
        self._program = None
        self._hung = set()  # names of checks

    def run(self):
        try:
            self._program = program.find(self.options, self._folder)
        except (program.Unusable, subprocess.SubprocessError, OSError) as error:
            self.results.add("program", "FAIL", str(error), 0)
            return
        if 1 in self.options.part:
            self.check([CHECKS[name] for name in CHECKS if name in self.options.only], self._clock() + 60 * self.options.minutes)
        if 2 in self.options.part:
            self.measure([name for name in TABLES if name in self.options.table], self._clock() + 60 * self.options.minutes)

    # --- checks ------------------------------------------------------------------------------------------------------

    def check(self, checks, end):
        """Makes them, `--at-once` at a time."""
        running = {}
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            try:
                for check in checks:
                    self.make_room(check, running)
                    left = end - self._clock()
                    if left < LEAST_SECONDS:
                        self.results.add(check.name, "SKIP", "the time for it is used up; --minutes allows more", 0)
                    elif check.after in self._hung:
                        self.results.add(check.name, "SKIP", f"{check.after} hung: this would, too", 0)
                    else:
                        running[pool.submit(self.attempt, check, min(self.limit_of(check), left))] = check
                self.collect(running, 0)
            except BaseException:
                for check in running.values():
                    kill_processes_with(MARK, self._folder / check.name)
                raise

    def make_room(self, check, running):
        """Waits for what this check must not run beside."""
        names = {other.name for other in running.values()}
        held_up = check.alone or check.after in names or any(other.alone for other in running.values())
        self.collect(running, 0 if held_up else self.options.at_once - 1)

    def collect(self, running, most):
        """Takes the results of those that end until at most so many are left."""
        while len(running) > most:
            ended, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                self.add_one(running.pop(future), *future.result())

    def limit_of(self, check):
        """Several at once are slower."""
        return check.seconds * (1 if self.options.at_once == 1 or check.alone else 2)

    def attempt(self, check, seconds):
        """Returns its outcome, and the seconds that it was given and took. Whatever it does hides no other check, and what
        it has started is ended. Its waits end by themselves: those for a run by the Context's deadline."""
        folder, began = self._folder / check.name, self._clock()
        folder.mkdir()
        environment = {**self._program.environment, MARK: str(folder)}
        try:
            outcome = outcome_of(check.run, Context(folder, self._program.ddprun, self._program.gpu_test, environment, self._gpus,
                                                    self.options.rehearse, program.python_of(self.options), seconds))  # fmt: skip
        finally:
            kill_processes_with(MARK, folder)
        return outcome, seconds, self._clock() - began

    def add_one(self, check, outcome, seconds, took):
        if outcome.hung and seconds < self.limit_of(check):
            outcome = Outcome("SKIP", f"the time was used up after {seconds:.0f} s; --minutes allows more")
        elif outcome.hung:
            self._hung.add(check.name)
        self.results.add(check.name, outcome.word, outcome.detail, took, self._folder / check.name)

    # --- tables ------------------------------------------------------------------------------------------------------

    def measure(self, names, end):
        """Each table gets an equal share of what is left, so that a slow one takes nothing from later ones."""
        bench = Bench(self._program.ddprun, self._folder, "cuda" if self._gpus else "cpu", program.python_of(self.options),
                      self._program.environment, self.options.rehearse, self.options.pairs, RUN_SECONDS)  # fmt: skip
        for number, name in enumerate(names):
            began = self._clock()
            left = end - began
            if left < LEAST_SECONDS:
                self.results.add(name, "SKIP", "the time for it is used up; --minutes allows more", 0)
                continue
            made = None
            try:
                made = bench.measure(name, Share(left / (len(names) - number), left))
                word, detail = "FAIL" if made.failed() else "PASS", made.in_words()
            except Exception as error:  # whatever it is, it must not cost the other tables
                traceback.print_exc(file=sys.stderr)
                word, detail = "FAIL", f"{type(error).__name__}: {error}"
            self.results.add(name, word, detail, self._clock() - began, table=made)


def outcome_of(check, context):
    try:
        return Outcome("PASS", check(context))
    except Skip as reason:
        return Outcome("SKIP", str(reason))
    except Exception as error:  # whatever it is
        traceback.print_exc(file=sys.stderr)
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return Outcome("FAIL", f"{kind}{error}", isinstance(error, Hung))


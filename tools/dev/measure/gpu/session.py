"""One call: finds a program, then makes the checks and tables of its parts. All of it ends by the deadline."""

import concurrent.futures
import pathlib
import time
import traceback

from measure.gpu import attempt, bench, build, plan
from measure.process import kill_processes_with

BESIDE_PEERS_SECONDS = 80  # of checks, while the scripts of the peers start and compile
LEAST_SECONDS = 10  # what a check is begun with
CARRIED, BUILD = "carried_program", "build"


class Session:
    def __init__(self, options, gpus, folder, results, clock=time.monotonic):
        self.options = options
        self.results = results
        self._gpus = gpus
        self._folder = pathlib.Path(folder)
        self._clock = clock
        self._began = clock()
        self._program = None
        self._hung = set()  # names of checks

    def run(self):
        self._program = self.find_program(self._began + 60 * self.options.minutes)
        if self._program is None:
            return
        for number, part in enumerate(self.options.part):
            end = self._began + 60 * self.options.minutes * (number + 1)
            self.run_part(part, end)

    def find_program(self, deadline):
        if self.options.program:
            return build.Program(pathlib.Path(self.options.program).resolve())
        if self.options.packed and not self.options.rebuild:
            found = self.timed(CARRIED, lambda: build.carried(self.options), "SKIP", "{}; it is built here")
            if found:
                return found
        return self.timed(BUILD, lambda: build.prepare(self.options, deadline), "FAIL", "{}")

    def timed(self, name, find, word, text):
        """Returns the program, or None if it cannot be had; then `word` says why."""
        began = self._clock()
        logs = [pathlib.Path(self.options.build) / "configure.log", pathlib.Path(self.options.build) / "build.log"]
        try:
            found = find()
        except Exception as error:
            self.results.add(name, word, text.format(error), self._clock() - began, logs)
            return None
        self.results.add(name, "PASS", str(found.ddprun), self._clock() - began)
        return found

    def run_part(self, part, end):
        waiting = [check for check in plan.PARTS[part] if check.name in self.options.only]
        tables = self.options.table if part == plan.TABLES_PART else []
        try:
            if tables:  # the peers start and compile beside the checks
                self.guarded("peers", self.start_bench)
                waiting = self.check(waiting, min(end, self._clock() + BESIDE_PEERS_SECONDS))
                self.measure(tables, end)
            for check in self.check(waiting, end):
                self.results.add(check.name, "SKIP", "the time for it is used up; --minutes allows more", 0)
        finally:
            if self.results.bench:
                self.results.bench.stop_peers()

    def check(self, checks, end):
        """Makes them, `--at-once` at a time. Returns those for which there was no time."""
        left_out, running = [], {}
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            try:
                for check in checks:
                    self.make_room(check, running)
                    left = end - self._clock()
                    if left < LEAST_SECONDS:
                        left_out.append(check)
                    elif check.after in self._hung:
                        self.results.add(check.name, "SKIP", f"{check.after} hung: this would, too", 0)
                    else:
                        running[pool.submit(self.attempt_one, check, min(self.limit_of(check), left))] = check
                self.collect(running, 0)
            except BaseException:
                for check in running.values():
                    kill_processes_with(attempt.MARK, self._folder / check.name)
                raise
        return left_out

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

    def attempt_one(self, check, seconds):
        began = self._clock()
        outcome = attempt.attempt(check.name, self._folder / check.name, self.settings(), seconds)
        return outcome, seconds, self._clock() - began

    def add_one(self, check, outcome, seconds, took):
        if outcome.hung and seconds < self.limit_of(check):
            outcome = attempt.Outcome("SKIP", f"the time was used up after {seconds:.0f} s; --minutes allows more")
        elif outcome.hung:
            self._hung.add(check.name)
        self.results.add(check.name, outcome.word, outcome.detail, took, [self._folder / check.name])

    def settings(self):
        """Returns what a measure.gpu.checks.context.Context is made from."""
        return {"program": str(self._program.ddprun), "gpu_test": str(self._program.gpu_test), "gpus": self._gpus,
                "environment": self._program.environment, "rehearse": self.options.rehearse,
                "python": self.options.python or build.own_python()}  # fmt: skip

    def guarded(self, name, action):
        """Runs a step of the tables. Its failures must not cost the checks."""
        began = self._clock()
        try:
            word, detail = "PASS", action()
        except Exception as error:
            traceback.print_exc()
            word, detail = "FAIL", f"{type(error).__name__}: {error}"
        self.results.add(name, word, detail, self._clock() - began, [self._folder / "bench"])

    def start_bench(self):
        device = "cuda" if self._gpus else "cpu"
        made = bench.make(self._program, device, self._folder / "bench", self.options)
        self.results.bench = made
        made.start_peers()
        return f"{len(made.standing)} scripts start with {made.python}"

    def measure(self, tables, end):
        made = self.results.bench
        if made is None:
            return
        self.guarded("peaks", lambda: self.find_peaks(end))
        if made.peaks:
            for name, outcome, detail, seconds, table in bench.measure(made, tables, end):
                self.results.add(f"table {name}", outcome, detail, seconds, [self._folder / "bench"], table)

    def find_peaks(self, end):
        made = self.results.bench
        made.wait_for_peers(max(1, min(bench.READY_SECONDS, (end - self._clock()) / 2)))
        made.find_peaks()
        peaks = made.peaks
        return (f"{peaks['operations_per_second'] / 1e12:.3g} TFLOP/s in bf16, {peaks['bytes_per_second'] / 1e12:.3g} TB/s, measured when "
                "all peers had started and compiled")  # fmt: skip


def list_all(options, gpus):
    print(f"GPUs: {', '.join(gpus) or 'none'}")
    for part in options.part:
        print(f"part {part}:")
        for check in plan.PARTS[part]:
            if check.name in options.only:
                print(f"  {check.name}: {check.help}")
        for table in bench.TABLES if part == plan.TABLES_PART else []:
            if table.name in options.table:
                print(f"  table {table.name}: {table.help}")

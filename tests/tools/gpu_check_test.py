# SPDX-License-Identifier: MIT
"""How tools/gpu_check goes through its checks: nothing that one of them does hides another, and what it carries is complete."""

import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/dev"))

from measure.gpu import attempt, bench, build, pack, plan, session, tables  # noqa: E402
from measure.gpu.__main__ import parse_arguments  # noqa: E402
from measure.gpu.attempt import Outcome  # noqa: E402
from measure.gpu.checks import bits, context, machine  # noqa: E402
from measure.gpu.results import Results  # noqa: E402
from measure.gpu.runs import Hung  # noqa: E402
from measure.process import processes_with  # noqa: E402


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        file.chmod(0o755)
        return file


def system_headers():
    """What a compiler brings along, as it is included."""
    files = [file for package in ("libc6-dev", "linux-libc-dev") for file in pack.files_of(package)]
    found = {re.sub(r"^/usr/include/([a-z0-9_]+-linux-gnu/)?", "", str(file)) for file in files}
    folders = [*pathlib.Path("/usr/include/c++").glob("*"), *pathlib.Path("/usr/lib/gcc").glob("*/*/include")]
    return found | {str(file.relative_to(folder)) for folder in folders for file in folder.rglob("*")}


class PackTest(FolderTest):
    def test_it_has_every_header_that_the_tree_includes_and_libraries_by_the_names_that_programs_ask_for(self):
        try:
            pack.collect_dependencies(self.folder)
        except (SystemExit, FileNotFoundError) as reason:
            self.skipTest(f"the libraries are not Debian's packages here: {reason}")
        torch = pack.torch_folder()
        usr = self.folder / "usr/include"
        machine_folder = next((path.name for path in (self.folder / "usr/lib").iterdir() if path.name.endswith("-linux-gnu")), "")
        places = [usr, usr / machine_folder, self.folder / "spdlog/include", self.folder / "cuda/include", torch / "include",
                  torch / "include/torch/csrc/api/include", torch.parent / "nvidia/cu13/include",
                  torch.parent / "nvidia/nccl/include"]  # fmt: skip
        own = {file.name for name in pack.SOURCES for file in (ROOT / name).rglob("*.h")}
        included = pack.included_headers() - system_headers() - own
        others = {header for header in included if not header.startswith("ddprun/")}
        self.assertEqual([header for header in sorted(others) if not any((place / header).exists() for place in places)], [])
        boost = [header for header in others if header.startswith("boost/")]
        self.assertIn("boost/asio/ip/tcp.hpp", boost)
        there = pack.closure(boost, [*pack.BOOST_FLAGS, f"-I{usr}"])
        self.assertEqual([str(file) for file in there if str(file).startswith("/usr/include/boost/")], [])

        self.check_cuda(self.folder / "cuda/include")
        libraries = list(self.folder.glob("*/lib/*/*.so"))
        self.assertGreater(len(libraries), 5)
        self.assertEqual([library for library in libraries if not library.with_name(pack.soname(library)).exists()], [])

    def check_cuda(self, packed):
        """With the wheels that torch needs, and no other, the compiler finds all of CUDA's headers."""
        wheels = pack.torch_folder().parent / pack.CUDA_INCLUDE
        others = {file.relative_to(wheels).parts[0] for file in pack.files_of_other_wheels() if file.is_relative_to(wheels)}
        self.assertIn("crt", others)
        there = self.folder / "wheels"
        there.mkdir()
        for entry in wheels.iterdir():
            if entry.name not in others:
                (there / entry.name).symlink_to(entry)
        headers, flags = pack.cuda_headers()
        pack.closure(headers, [*flags, f"-I{there}", "-idirafter", str(packed)])

    def test_more_than_may_travel_is_refused(self):
        pack.check_size({"pack": 55 << 20, "the tree": 4 << 20})
        with self.assertRaisesRegex(SystemExit, "60 MiB"):
            pack.check_size({"pack": 55 << 20, "the tree": 6 << 20})


class PlanTest(unittest.TestCase):
    def test_the_parts_have_each_check_once_and_what_a_check_comes_after_is_before_it(self):
        names = [check.name for checks in plan.PARTS.values() for check in checks]
        self.assertEqual(sorted(names), sorted(set(names)))
        for checks in plan.PARTS.values():
            names = [check.name for check in checks]
            for check in checks:
                self.assertIn(check.after, ["", *names[: names.index(check.name)]])

    def test_the_page_on_benchmarks_names_every_check_and_table(self):
        page = (ROOT / "docs/benchmarks.md").read_text()
        names = [*plan.CHECKS, *(table.name for table in tables.TABLES)]
        self.assertEqual([name for name in names if f"`{name}`" not in page], [])


# Starts a process of a session of its own, which nobody waits for.
HANGS = """
    import subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    print("it goes on and on", flush=True)
    time.sleep(1000)
"""
CRASHES = """
    import os, signal
    print("a last word", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
"""


class AttemptTest(FolderTest):
    def run_script(self, text, seconds):
        return attempt.run([self.script("check.py", text)], self.folder / "made", {}, seconds)

    def test_a_check_that_hangs_is_killed_with_all_that_it_started(self):
        outcome = self.run_script(HANGS, 2)
        self.assertTrue(outcome.hung)
        self.assertEqual(outcome.word, "FAIL")
        self.assertIn("it goes on and on", outcome.detail)
        self.assertEqual(processes_with(attempt.MARK, self.folder / "made"), {})

    def test_a_check_that_crashes_fails_with_its_last_words(self):
        outcome = self.run_script(CRASHES, 60)
        self.assertEqual((outcome.word, outcome.hung), ("FAIL", False))
        self.assertIn("-11: a last word", outcome.detail)

    def test_whatever_a_check_throws_is_a_failure(self):
        def failing(error):
            def check(_):
                raise error

            return check

        with mock.patch("traceback.print_exc"):
            self.assertEqual(attempt.outcome_of(failing(IndexError("no row")), None), Outcome("FAIL", "IndexError: no row"))
            self.assertEqual(attempt.outcome_of(failing(AssertionError("3 rows")), None), Outcome("FAIL", "3 rows"))
            self.assertEqual(attempt.outcome_of(failing(Hung("no end")), None), Outcome("FAIL", "no end", hung=True))
        self.assertEqual(attempt.outcome_of(failing(context.Skip("no GPU")), None), Outcome("SKIP", "no GPU"))


class SessionTest(FolderTest):
    """With made checks, which take so long by a stand-in clock: {name: (seconds, Outcome)}; others pass at once."""

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.takes = {}
        self.begun = []
        self.saved = []  # what was in results.json when each began
        for patch in (mock.patch.object(attempt, "attempt", self.attempt), mock.patch("builtins.print")):
            patch.start()
            self.addCleanup(patch.stop)

    def attempt(self, name, folder, settings, seconds):
        self.begun.append(name)
        results = self.folder / "kept/results.json"
        self.saved.append([row["name"] for row in json.loads(results.read_text())["results"]] if results.exists() else [])
        folder.mkdir(parents=True)
        (folder / "check.log").write_text(f"the log of {name}\n")
        takes, outcome = self.takes.get(name, (0, Outcome("PASS", "seen")))
        self.now += min(takes, seconds)
        return outcome if takes <= seconds else Outcome("FAIL", "no end", hung=True)

    def run_session(self, *words):
        options = parse_arguments(["--rehearse", f"--keep={self.folder / 'kept'}", f"--build={self.folder}", "--at-once=1", *words])
        self.results = Results(options, self.folder)
        session.Session(options, [], self.folder, self.results, lambda: self.now).run()
        rows = json.loads((self.folder / "kept/results.json").read_text())["results"]
        return {row["name"]: (row["outcome"], row["detail"]) for row in rows}

    def test_failures_hide_no_other_check_and_results_are_saved_after_each(self):
        self.takes = {"backend_loads": (1, Outcome("FAIL", "broken")), "gpu_tests": (10_000, None)}
        rows = self.run_session("--program=x", "--part=1")
        self.assertEqual(self.begun, [check.name for check in plan.PARTS[1]])
        self.assertEqual([row[0] for row in rows.values()], ["FAIL", "FAIL", *["PASS"] * (len(rows) - 2)])
        self.assertEqual(self.saved, [self.begun[:number] for number in range(len(self.begun))])
        with tarfile.open(self.folder / "kept/failures.tar.gz") as logs:
            self.assertEqual(logs.getnames(), ["backend_loads/check.log", "gpu_tests/check.log"])
            self.assertEqual(logs.extractfile("gpu_tests/check.log").read(), b"the log of gpu_tests\n")

    def test_where_the_first_ranks_hang_those_after_it_are_skipped_with_the_reason(self):
        self.takes = {plan.NCCL: (61, None)}
        rows = self.run_session("--program=x", "--part=1")
        for check in plan.PARTS[1]:
            expected = "FAIL" if check.name == plan.NCCL else "SKIP" if check.after == plan.NCCL else "PASS"
            self.assertEqual(rows[check.name][0], expected, check.name)
            self.assertEqual(f"{plan.NCCL} hung" in rows[check.name][1], expected == "SKIP")

    def test_checks_run_at_once_but_none_beside_one_that_fills_the_memory_or_that_it_comes_after(self):
        lock, running, beside = threading.Lock(), set(), {}
        first_two = threading.Barrier(2, timeout=60)

        def run(name, folder, _settings, _seconds):
            with lock:
                running.add(name)
                beside[name] = running - {name}
            if name in ("backend_loads", "gpu_tests"):
                first_two.wait()  # raises where the other does not run meanwhile
            with lock:
                running.remove(name)
            folder.mkdir(parents=True)
            return Outcome("PASS", "seen")

        with mock.patch.object(attempt, "attempt", run):
            rows = self.run_session("--program=x", "--part=1", "--at-once=2")
        self.assertEqual({outcome for outcome, _ in rows.values()}, {"PASS"})
        alone = {check.name for check in plan.PARTS[1] if check.alone}
        self.assertTrue(alone)
        for check in plan.PARTS[1]:
            self.assertFalse(beside[check.name] & {*alone, check.after}, check.name)
            self.assertFalse(check.alone and beside[check.name], check.name)

    def test_all_ends_by_the_deadline_and_what_does_not_fit_is_no_failure(self):
        self.takes = {check.name: (check.seconds, Outcome("PASS", "seen")) for check in plan.PARTS[1]}
        rows = self.run_session("--program=x", "--part=1", "--minutes=5")
        self.assertLessEqual(self.now, 1000 + 300)
        self.assertEqual({outcome for outcome, _ in rows.values()}, {"PASS", "SKIP"})
        self.assertEqual(list(rows), [check.name for check in plan.PARTS[1]])

    def test_checks_that_do_not_fit_beside_the_peers_come_after_the_tables(self):
        made = types.SimpleNamespace(start_peers=lambda: None, stop_peers=lambda: None, wait_for_peers=lambda _: None, standing={},
                                     find_peaks=lambda: None, python="", versions={},
                                     peaks={"operations_per_second": 1.0, "bytes_per_second": 1.0})  # fmt: skip

        def measure(*_):
            self.begun.append("tables")
            yield "wide_resnet", "PASS", "", 1.0, None

        checks = [check.name for check in plan.PARTS[2]]
        self.takes = {checks[0]: (30, Outcome("PASS", "")), checks[1]: (45, Outcome("PASS", ""))}
        with mock.patch.object(bench, "make", lambda *_: made), mock.patch.object(bench, "measure", measure):
            rows = self.run_session("--program=x", "--part=2")
        self.assertEqual(self.begun, [*checks[:2], "tables", *checks[2:]])
        self.assertEqual(rows["table wide_resnet"][0], "PASS")

    def test_a_carried_program_that_does_not_start_is_told_and_another_is_built(self):
        self.script("made/bin/ddprun", "import sys; sys.exit('a library is missing')")
        (self.folder / "made/lib/ddprun").mkdir(parents=True)
        (self.folder / "pack").mkdir()
        with tarfile.open(self.folder / "pack/program.tar.xz", "w:xz") as archive:
            archive.add(self.folder / "made", ".")
        python = self.script("python", f"print({str(self.folder)!r})")
        built = build.Program(self.folder / "built/bin/ddprun")
        with mock.patch.object(build, "prepare", lambda *_: built):
            rows = self.run_session(f"--packed={self.folder / 'pack'}", f"--python={python}", "--only=backend_loads")
        self.assertEqual(rows[session.CARRIED][0], "SKIP")
        self.assertIn("a library is missing", rows[session.CARRIED][1])
        self.assertEqual(rows[session.BUILD], ("PASS", str(built.ddprun)))
        self.assertEqual(rows["backend_loads"][0], "PASS")


# Suite A's first test passes, its second crashes, and with it the suite; suite B's test fails.
MADE_TESTS = """
    import json, os, signal, sys
    words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
    if "--gtest_list_tests" in sys.argv:
        print("A.\\n  Passes\\n  Crashes\\nForms/B.\\n  Fails/one  # GetParam() = 1")
        sys.exit()
    wanted = words["gtest_filter"]
    if wanted in ("A.*", "A.Crashes"):
        os.kill(os.getpid(), signal.SIGSEGV)
    suite, name, failures = ("A", "Passes", []) if wanted == "A.Passes" else ("Forms/B", "Fails/one", [{"failure": "1 is not 2"}])
    test = {"name": name, "classname": suite, "status": "RUN", "result": "COMPLETED", **({"failures": failures} if failures else {})}
    with open(words["gtest_output"].removeprefix("json:"), "w") as file:
        json.dump({"testsuites": [{"testsuite": [test]}]}, file)
"""
# Pays no heed to what is to kill it.
MADE_DDPRUN = """
    import json, pathlib, sys
    words = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
    run = pathlib.Path(words["run.dir"])
    (run / "checkpoints/step_1").mkdir(parents=True)
    (run / "checkpoints/step_1/model.safetensors").write_text("")
    rows = [{"split": "train", "step": step, "loss": 1.0} for step in range(1, 151)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""


class ChecksTest(FolderTest):
    def context(self, program, gpu_test="x"):
        return context.Context(self.folder, program, gpu_test, {}, [], True, "", 60)

    def test_a_crash_of_one_of_the_gpus_tests_hides_no_other(self):
        made = self.context("x", self.script("gpu_test", MADE_TESTS))
        with self.assertRaises(AssertionError) as failed:
            machine.gpu_tests(made)
        for part in ("Forms/B.Fails/one: 1 is not 2", "A.Crashes: crashed"):
            self.assertIn(part, str(failed.exception))
        self.assertNotIn("A.Passes", str(failed.exception))

    def test_a_run_that_was_to_be_killed_and_was_not_is_a_failure(self):
        made = self.context(self.script("ddprun", MADE_DDPRUN))
        with self.assertRaisesRegex(AssertionError, "was to be killed"):
            bits.same_bits_after_a_kill(made, "run", [])


class CommandTest(unittest.TestCase):
    def run_it(self, *words):
        return subprocess.run([ROOT / "tools/gpu_check", *words], capture_output=True, text=True, timeout=100)

    def test_it_lists_what_each_part_would_do(self):
        for part, others in ((1, 2), (2, 1)):
            shown = self.run_it(f"--part={part}", "--rehearse", "--dry-run")
            self.assertEqual(shown.returncode, 0, shown.stderr)
            for check in plan.PARTS[part]:
                self.assertIn(f"  {check.name}: ", shown.stdout)
            for check in plan.PARTS[others]:
                self.assertNotIn(f"  {check.name}: ", shown.stdout)
            self.assertEqual("table wide_resnet:" in shown.stdout, part == plan.TABLES_PART)

    def test_words_that_make_no_sense_are_refused(self):
        for words in (["--part", "3"], ["--table", "nothing"], ["--only", "nothing"], ["--pairs", "0"], ["--at-once", "0"], ["--packed", "x"]):
            self.assertEqual(self.run_it(*words).returncode, 2, words)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Searches for bytes that a reader of foreign bytes fails on: `fuzz_test.py [SECONDS [TARGET...]]`, a minute for each target where nothing
is said; in 0 seconds a target takes its corpus, and no more. Builds the preset fuzz first. Inputs that reach new code are kept in
build/fuzz/found, those that fail in build/fuzz/failed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
OPTIONS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-print_final_stats=1", "-close_fd_mask=1"]
LAST_STATUS = re.compile(r"#(\d+)\t.*cov: (\d+) ft: (\d+)")
SECONDS = os.environ.get("DDPRUN_FUZZ_SECONDS", "60")
TARGETS = sorted(folder.name for folder in CORPUS.iterdir())


def build():
    if not shutil.which("clang++"):
        raise unittest.SkipTest("no clang++, which has libFuzzer: install clang and libclang-rt-dev")
    environment = dict(os.environ, PATH=f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}")
    for step in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz"]):
        done = subprocess.run(step, cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(step)} fails:\n{done.stdout[-6000:]}")


def search(target):
    """The failing input's file, or None."""
    found, failed = BUILD / "found" / target, BUILD / "failed"
    found.mkdir(parents=True, exist_ok=True)
    failed.mkdir(exist_ok=True)
    limit = "-runs=0" if SECONDS == "0" else f"-max_total_time={SECONDS}"
    command = [BUILD / "fuzz" / target, limit, f"-artifact_prefix={failed}/{target}-", *OPTIONS]
    done = subprocess.run([*command, found, CORPUS / target], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    text = done.stderr.decode(errors="replace")
    executions, edges, features = LAST_STATUS.findall(text)[-1] if LAST_STATUS.search(text) else (0, 0, 0)
    print(f"{target:12} {executions:>10} executions {edges:>6} edges {features:>6} features", flush=True)
    if done.returncode == 0:
        return None
    print(text[-6000:])
    kept = re.search(r"Test unit written to (\S+)", text)
    return kept[1] if kept else f"{target} itself: exit code {done.returncode}"


class FuzzTest(unittest.TestCase):
    def test_no_input_fails(self):
        if SECONDS == "0" and "DDPRUN_FUZZ" not in os.environ:
            self.skipTest("building the fuzz targets takes minutes: DDPRUN_FUZZ=1 asks for it")
        build()
        failures = [failure for failure in map(search, TARGETS) if failure]
        self.assertEqual(failures, [], "inputs to mend a reader for, and to keep in tests/fuzz/corpus/<target> then")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    SECONDS, TARGETS = (words or [SECONDS])[0], words[1:] or TARGETS
    unittest.main(argv=sys.argv[:1], verbosity=2)

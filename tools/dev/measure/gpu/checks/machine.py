"""Checks of what the machine gives: the tests for a GPU, the rules of CUDA, what is measured."""

import json
import subprocess
import time

from measure.gpu.checks.context import SMALL, Skip

SUITE_SECONDS = 90
PRETENDED = "Pretend GPU"  # has no CUPTI (tests/pretend_gpu)
RULES = "Documented/CudaRules"  # the suite of what CUDA's documentation says


def gpu_tests(context):
    """the C++ tests that need a GPU, each suite in a process of its own: one that crashes or hangs hides no other"""
    if not context.gpu_test.is_file():
        raise Skip("gpu_test was not built")
    suites = {suite: tests for suite, tests in tests_of(context).items() if suite != RULES}
    context.at_once({suite: lambda suite=suite: run_tests(context, f"{suite}.*", suite) for suite in suites}, 3)
    lost = [test for suite, tests in suites.items() for test in tests if test not in outcomes(context, suite)]
    for test in lost:  # of suites that ended early
        run_tests(context, test, test)
    found = {}
    for name in [*suites, *lost]:
        found.update(outcomes(context, name))
    failures = {test: why for test, why in found.items() if why not in ("", "skipped")}
    failures.update({test: f"crashed or hung, see {test}.txt" for test in lost if test not in found})
    skipped = [test for test, why in found.items() if why == "skipped"]
    assert not failures, "; ".join(f"{test}: {' '.join(why.split())[:300]}" for test, why in failures.items())
    assert context.rehearse or not skipped, f"no GPU was found by {', '.join(skipped)}: cuInit() or cuDeviceGetCount() fails"
    return f"{len(found) - len(skipped)} tests passed, {len(skipped)} skipped, in {len(suites)} suites"


def cuda_rules(context):
    """captures, events and errors are what CUDA's documentation says, from which the pretend GPUs have them: each difference is reported"""
    context.require_gpu()
    tests = tests_of(context).get(RULES, [])
    run_tests(context, f"{RULES}.*", RULES)
    found = outcomes(context, RULES)
    differences = {test.rpartition("/")[2]: why for test, why in found.items() if why}
    assert tests and len(found) == len(tests), f"only {len(found)} of {len(tests)} rules were asked for, see {RULES.replace('/', '_')}.txt"
    assert not differences, "; ".join(f"{rule}: {' '.join(why.split())}" for rule, why in differences.items())
    return f"{len(found)} rules hold"


def tests_of(context):
    """{suite: [Suite.Test]}"""
    listed = subprocess.run([context.gpu_test, "--gtest_list_tests"], capture_output=True, text=True, timeout=60, check=True,
                            env=context.environment()).stdout  # fmt: skip
    suites, suite = {}, ""
    for line in listed.splitlines():
        if line.startswith(" "):
            suites[suite].append(suite + "." + line.split("#")[0].strip())
        elif line.split("#")[0].strip().endswith("."):
            suite = line.split("#")[0].strip()[:-1]
            suites[suite] = []
    return suites


def run_tests(context, pattern, name):
    seconds = max(1, min(SUITE_SECONDS, context.deadline - time.monotonic()))
    file = context.folder / f"{name.replace('/', '_')}.json"
    command = [context.gpu_test, f"--gtest_filter={pattern}", f"--gtest_output=json:{file}"]
    with open(file.with_suffix(".txt"), "wb") as output:
        try:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=seconds, env=context.environment(), check=False)
        except subprocess.TimeoutExpired:
            output.write(f"\nkilled after {seconds:.0f} s\n".encode())


def outcomes(context, name):
    """{Suite.Test: ""}, "skipped", or how it failed; empty where the process did not get to its end."""
    try:
        report = json.loads((context.folder / f"{name.replace('/', '_')}.json").read_text())
    except (OSError, ValueError):
        return {}
    tests = [test for suite in report["testsuites"] for test in suite["testsuite"] if test["status"] == "RUN"]
    why = {"SKIPPED": "skipped", "COMPLETED": ""}
    return {f"{test['classname']}.{test['name']}": " ".join(one["failure"] for one in test.get("failures", [])) or why[test["result"]]
            for test in tests}  # fmt: skip


def measures(context):
    """the phases of a step have their times, the GPU its memory and load, and a trace its kernels"""
    steps = 200 if context.rehearse else 4000  # some seconds
    words = [f"trainer.max_steps={steps}", "trainer.max_epochs=1000", "trainer.system_metrics_seconds=0.5", "+profile={steps: 20..30}",
             "trainer.cuda_graph=off", "~early_stopping", *SMALL]  # fmt: skip
    run = context.train("measures", words)
    rows = run.rows("system")
    assert rows, "there is no row of measures"
    row = rows[-1]
    phases = {name: row[f"{name}_seconds"] for name in ("data", "forward", "backward", "optimizer")}
    assert all(0 <= seconds <= row["step_seconds"] for seconds in phases.values()), f"{phases} of {row['step_seconds']}"
    assert phases["forward"] > 0 and phases["backward"] > 0, f"{phases}"
    events = json.loads((run.folder / "profile/rank_0_steps_20_30.json").read_text())["traceEvents"]
    assert sum(event["name"] == "forward" for event in events if event.get("cat") == "user_annotation") == 11
    text = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in phases.items())
    text += f"; {run.summary()['peak_rss_bytes'] / 1e6:,.0f} MB resident"
    if not context.gpus:
        return text
    assert context.gpus[0] == PRETENDED or any(event.get("cat") == "kernel" for event in events), "the trace has no kernel"
    assert row["gpu_memory_bytes"] > 1e6, f"{row}"
    assert 0 <= row["gpu_percent"] <= 100, f"{row}"
    return f"{text}; {row['gpu_memory_bytes'] / 1e6:.0f} MB on the GPU, {row['gpu_percent']:.0f} % busy"

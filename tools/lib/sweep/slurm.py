# SPDX-License-Identifier: MIT
"""Runs a sweep as a Slurm job array: each job is a tools/sweep, and all share one storage."""

import json
import shlex
import shutil
import subprocess
import sys

from ddprun.errors import UserError
from ddprun.terminal import has_control
from sweep.storage import holds_password, parse
from tooling.durable import write_file
from tooling.place import ROOT

TOOL = ROOT / "tools/sweep"
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --output={output}
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
{options}
# Two minutes before the time is up the trials save, and the sweep ends with 75: whoever has time left takes them over,
# and this job resumes when its turn comes again.
{command} &
sweep=$!
trap 'kill -TERM $sweep' TERM
wait $sweep; code=$?
if [ $code -gt 128 ]; then wait $sweep; code=$?; fi  # the signal has only interrupted the first
if [ $code -eq 75 ]; then scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"; fi
exit $code
"""


def check_script(folder, options):
    """Refuses what the script cannot or should not contain."""
    if has_control(str(folder)):
        raise UserError(f"--out: expected a folder without control characters, found {json.dumps(str(folder))}")
    for option in options.sbatch:
        if not option.startswith("-") or has_control(option):
            raise UserError(f"--sbatch: expected one option of sbatch, as --sbatch=--time=4:00:00, found {json.dumps(option)}")
    if holds_password(parse(options.storage)):
        raise UserError(
            "--storage: the script and the list of processes would show the password to others: leave it out of the URL,"
            " and put it into ~/.pgpass, or into PGPASSWORD"
        )


def quoted(option):
    """Quotes a word for sbatch: --comment='two words'."""
    name, equals, value = option.partition("=")
    return name + equals + shlex.quote(value) if option.startswith("--") and equals else shlex.quote(option)


def submit_array(sweep, folder, name, program, options):
    command = [sys.executable, "-B", TOOL, sweep.file.resolve(), "--storage", options.storage, "--name", name]
    command += ["--out", folder, "--ddprun", program.path, "--grace", f"{options.grace:g}"]
    command += ["--jobs", options.jobs] if options.jobs else []
    command += ["--gpus", ",".join(options.gpus)] if options.gpus else []
    script = SCRIPT.format(
        name=shlex.quote(name), last=options.tasks - 1,
        output=shlex.quote(str(folder).replace("%", "%%")) + "/slurm-%A_%a.out",  # sbatch replaces %j and the like
        options="".join(f"#SBATCH {quoted(option)}\n" for option in options.sbatch),
        command=shlex.join(map(str, [*command, *options.overrides])))  # fmt: skip
    if options.dry_run:
        print(script, end="")
        return 0
    file = folder / "array.sbatch"
    write_file(file, script, mode=0o600)  # overrides are nobody else's business
    if not shutil.which("sbatch"):
        raise UserError(f"--slurm: there is no sbatch here; {file} is written, and can be submitted where there is one")
    done = subprocess.run(["sbatch", file], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"sbatch: {done.stderr.strip()}")
    print(done.stdout.strip())
    return 0

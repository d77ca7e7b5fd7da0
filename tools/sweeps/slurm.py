# SPDX-License-Identifier: MIT
"""A sweep as an array of Slurm: each of its jobs is a tools/sweep, and all of them share one storage."""

import shlex
import shutil
import subprocess
import sys

from ddprun.errors import UserError
from tooling.place import ROOT

TOOL = ROOT / "tools/sweep"
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --output={folder}/slurm-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
{options}
# Two minutes before the time is up the trials save, and the sweep ends with 75: whoever has time left takes them over,
# and this job goes on when its turn comes again.
{command} &
sweep=$!
trap 'kill -TERM $sweep' TERM
wait $sweep; code=$?
if [ $code -gt 128 ]; then wait $sweep; code=$?; fi  # the signal has only interrupted the first
if [ $code -eq 75 ]; then scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"; fi
exit $code
"""


def submit_array(sweep, folder, name, program, options):
    command = [sys.executable, "-B", TOOL, sweep.file.resolve(), "--storage", options.storage, "--name", name]
    command += ["--out", folder, "--ddprun", program.path, "--grace", f"{options.grace:g}"]
    command += ["--jobs", options.jobs] if options.jobs else []
    command += ["--gpus", ",".join(options.gpus)] if options.gpus else []
    script = SCRIPT.format(
        name=shlex.quote(name), last=options.tasks - 1, folder=folder,
        options="".join(f"#SBATCH {option}\n" for option in options.sbatch),
        command=shlex.join(map(str, [*command, *options.overrides])))  # fmt: skip
    if options.dry_run:
        print(script, end="")
        return 0
    file = folder / "array.sbatch"
    file.write_text(script)
    if not shutil.which("sbatch"):
        raise UserError(f"--slurm: there is no sbatch here; {file} is written, and can be submitted where there is one")
    done = subprocess.run(["sbatch", file], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"sbatch: {done.stderr.strip()}")
    print(done.stdout.strip())
    return 0

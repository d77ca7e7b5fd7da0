# SPDX-License-Identifier: MIT
"""A clone in which only the program is built: that under test, with a tools/build that puts the parts in place which it is asked for."""

import shutil

from command import DDPRUN

PREFIX = DDPRUN.parents[1]
PARTS = sorted(str(file.relative_to(PREFIX)) for folder in ("plugins/*", "backends") for file in PREFIX.glob(f"lib/ddprun/{folder}/*.so"))

BUILD = """#!/usr/bin/env bash
exec 9>"{clone}/lock"
flock 9
echo "$@" >>"{clone}/calls"
[[ ! -e "{clone}/broken" ]] || {{ echo "x.cpp:1: error: broken" >&2; exit 1; }}
[[ ! -e "{clone}/slow" ]] || {{ echo "compiling" >&2; exec sleep 60; }}
echo "a line of the build"
for part; do ln -sfn "{real}/$part" "{prefix}/$part"; done
"""


def named(*names):
    """The parts of these names: "models/mlp"."""
    return {f"lib/ddprun/plugins/{name}.so" for name in names}


class PartialClone:
    def __init__(self, folder):
        self.folder = folder
        self.prefix = folder / "build/release"
        self.program = self.prefix / "bin/ddprun"
        for name in {"bin", "share/ddprun"} | {part.rpartition("/")[0] for part in PARTS}:
            (self.prefix / name).mkdir(parents=True)
        (folder / "tools").mkdir()
        for file in ("bin/ddprun", "lib/ddprun/program.so"):
            shutil.copy2(PREFIX / file, self.prefix / file)
        for name in ("lib/libddprun_sdk.so", "lib/libddprun_download.so", "lib/ddprun/libtorch", "share/ddprun/configs", "share/ddprun/tools", "share/doc"):
            (self.prefix / name).symlink_to(PREFIX / name)
        (self.prefix / "share/ddprun/on_demand").write_text("".join(f"{part}\n" for part in PARTS))
        self.build = folder / "tools/build"
        self.build.write_text(BUILD.format(clone=folder, real=PREFIX, prefix=self.prefix))
        self.build.chmod(0o755)

    def calls(self):
        """What tools/build was asked for since the last look: a set of parts for each call."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [set(line.split()) for line in lines]

    def put(self, *names):
        """Plugins that are built already, and no others."""
        for part in PARTS:
            (self.prefix / part).unlink(missing_ok=True)
        for part in named(*names):
            (self.prefix / part).symlink_to(PREFIX / part)

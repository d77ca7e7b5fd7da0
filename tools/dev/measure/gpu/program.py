"""The ddprun to check: the one that is named, the one that --pack has brought along, or one that is built here. A pack is

  program.tar.xz   the program as it is built here, with gpu_test and the libraries that it needs beside LibTorch
  data/cifar100/   where it is here ($DDPRUN_DATA), and fits
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

from measure import data
from measure.trainings import ROOT

TARGETS = ["all", "gpu_test"]
LIBRARIES = "lib/carried"  # of a carried program: what it needs beside LibTorch
# glibc and the compiler's libraries: the machine's own, never another version of them
FROM_THE_SYSTEM = (
    *("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "libutil.so", "ld-linux"),
    *("libgcc_s.so", "libstdc++.so"),
)
LIMIT_MIB = 60  # of the pack and the tree together; the machine takes 64


class Unusable(Exception):
    """The program does not start here; the text says why."""


@dataclasses.dataclass(frozen=True)
class Program:
    ddprun: pathlib.Path
    environment: dict = dataclasses.field(default_factory=dict)  # of its runs

    @property
    def gpu_test(self):
        """Returns the libraries installed beside it, or in the build tree."""
        beside = self.ddprun.with_name("gpu_test")
        return beside if beside.exists() else self.ddprun.parents[1] / "tests/gpu_test"


def find(options, folder):
    if options.program:
        return Program(pathlib.Path(options.program).resolve())
    if options.packed:
        return carried(pathlib.Path(options.packed).resolve(), options.python, folder / "carried")
    subprocess.run([ROOT / "tools/build", *TARGETS], check=True)
    return Program(ROOT / "build/release/bin/ddprun")


def carried(pack, python, prefix):
    """Unpacks it. It uses the LibTorch of this Python."""
    archive = pack / "program.tar.xz"
    if not archive.exists():
        raise Unusable(f"{archive} is not there: tools/gpu_check --pack makes it")
    data.extract(archive, prefix)
    link = prefix / "lib/ddprun/libtorch"
    link.unlink(missing_ok=True)
    code = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('torch').origin).parents[1])"
    link.symlink_to(output_of([python, "-c", code]).strip())
    program = Program(prefix / "bin/ddprun", {"LD_LIBRARY_PATH": str(prefix / LIBRARIES)})
    for words in ([program.ddprun, "--version"], [program.gpu_test, "--gtest_list_tests"],
                  [python, "-c", f"import ctypes; ctypes.CDLL('{prefix}/lib/ddprun/backends/cuda.so')"]):  # fmt: skip
        output_of(words, program.environment)
    return program


def python_of(options):
    """Returns a Python with torch: the given one, or that of tools/build; empty if there is none."""
    own = ROOT / ".venv/bin/python"
    return options.python or (str(own) if own.exists() else "")


def output_of(words, environment=None):
    ran = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                         env={**os.environ, **(environment or {})})  # fmt: skip
    if ran.returncode != 0:
        raise Unusable(f"{pathlib.Path(words[0]).name} does not start: {ran.stderr.strip()[-300:] or ran.returncode}")
    return ran.stdout


# --- what is carried -------------------------------------------------------------------------------------------------


def pack(folder):
    folder = pathlib.Path(folder).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    subprocess.run([ROOT / "tools/build", *TARGETS], check=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ddprun-program-") as made:
        collect_program(pathlib.Path(made))
        with tarfile.open(folder / "program.tar.xz", "w:xz") as archive:
            archive.add(made, ".")
    sizes = {"program.tar.xz": (folder / "program.tar.xz").stat().st_size, "the tree": tree_bytes()}
    images = data.find_cifar100()
    if images and sum(sizes.values()) + images.stat().st_size <= LIMIT_MIB << 20:
        (folder / "data/cifar100").mkdir(parents=True)
        shutil.copyfile(images, folder / "data/cifar100" / data.CIFAR100_ARCHIVE)
        sizes["data/cifar100"] = images.stat().st_size
    else:
        print("CIFAR-100 is left out, since it is not here or too large: its tables have random images")
    check_size(sizes)


def check_size(sizes):
    """`sizes` are bytes of all that travels."""
    whole = sum(sizes.values()) / 2**20
    for name, size in sizes.items():
        print(f"{size / 2**20:8.1f} MiB  {name}")
    print(f"{whole:8.1f} MiB  together")
    if whole > LIMIT_MIB:
        raise SystemExit(f"that is more than the {LIMIT_MIB} MiB that may travel")


def tree_bytes():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            text=True, check=True)  # fmt: skip
    return sum((ROOT / name).lstat().st_size for name in listed.stdout.split("\0") if name and (ROOT / name).exists())


def collect_program(folder):
    """Packs it as installed, without what only users need. Its run paths are relative; LibTorch is linked there."""
    build = ROOT / "build/release"
    options = [f"-DCMAKE_INSTALL_PREFIX={folder}", "-DCMAKE_INSTALL_DO_STRIP=1"]
    for component, script in {"runtime": "cmake_install.cmake", "gpu_check": "tests/gpu/cmake_install.cmake"}.items():
        command = [ROOT / ".venv/bin/cmake", *options, f"-DCMAKE_INSTALL_COMPONENT={component}", "-P", build / script]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name in ("share/doc", "share/ddprun/tools"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "lib/ddprun/libtorch").unlink(missing_ok=True)
    built = [build / "bin/ddprun", build / "lib/ddprun/program.so", build / "tests/gpu_test", *build.glob("lib/ddprun/*/*.so"),
             *build.glob("lib/ddprun/plugins/*/*.so")]  # fmt: skip
    copy_needed(built, folder / LIBRARIES)


def copy_needed(binaries, folder):
    """Copies the system's libraries that these need, and theirs in turn, by the names that they ask for."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=True, env={"LD_LIBRARY_PATH": ""})
    for line in listed.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        path = path.split(" (")[0]
        of_the_system = path.startswith(("/lib/", "/usr/lib/", "/lib64/")) and not name.startswith(FROM_THE_SYSTEM)
        if of_the_system and not (folder / name).exists():
            shutil.copy2(pathlib.Path(path).resolve(), folder / name)

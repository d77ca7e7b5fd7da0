"""Finds the ddprun to check: the one that is named, the one that --pack has brought along, or one that is built here."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sysconfig
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[4]
TARGETS = ["all", "gpu_test"]
LIBRARIES = "lib/carried"  # of a carried program: what it needs beside LibTorch


class BuildFailed(Exception):
    """Unpacking, configuring or compiling failed; the text says where the log is."""


@dataclasses.dataclass(frozen=True)
class Program:
    ddprun: pathlib.Path
    environment: dict = dataclasses.field(default_factory=dict)  # of its runs

    @property
    def gpu_test(self):
        """Returns the libraries installed beside it, or in the build tree."""
        beside = self.ddprun.with_name("gpu_test")
        return beside if beside.exists() else self.ddprun.parents[1] / "tests/gpu_test"


def carried_folder(options):
    return pathlib.Path(options.build).resolve() / "carried"


def own_python():
    """Returns the program that tools/build has made; empty if there is none."""
    python = ROOT / ".venv/bin/python"
    return str(python) if python.exists() else ""


def carried(options):
    """Returns the program of --packed if it starts here."""
    prefix = carried_folder(options)
    unpack(options, "program", prefix)
    link = prefix / "lib/ddprun/libtorch"
    link.unlink(missing_ok=True)
    code = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('torch').origin).parents[1])"
    link.symlink_to(output_of([options.python, "-c", code]).strip())
    program = Program(prefix / "bin/ddprun", {"LD_LIBRARY_PATH": str(prefix / LIBRARIES)})
    for words in ([program.ddprun, "--version"], [program.gpu_test, "--gtest_list_tests"],
                  [options.python, "-c", f"import ctypes; ctypes.CDLL('{prefix}/lib/ddprun/backends/cuda.so')"]):  # fmt: skip
        output_of(words, program.environment)
    return program


def output_of(words, environment=None):
    ran = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                         env={**os.environ, **(environment or {})})  # fmt: skip
    if ran.returncode != 0:
        raise BuildFailed(f"{pathlib.Path(words[0]).name} does not start: {ran.stderr.strip()[-300:] or ran.returncode}")
    return ran.stdout


def unpack(options, name, folder):
    """Unpacks DIR/NAME.tar.xz afresh."""
    archive = pathlib.Path(options.packed).resolve() / f"{name}.tar.xz"
    if not archive.exists():
        raise BuildFailed(f"{archive} is not there: tools/gpu_check --pack makes it")
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python has none
        packed.extractall(folder)


def prepare(options, deadline):
    """Builds it until the deadline. Without --python everything is set up by tools/build."""
    if not options.python:
        call([ROOT / "tools/build", *TARGETS], ROOT / "build/gpu_check_build.log", deadline)
        return Program(ROOT / "build/release/bin/ddprun")
    build = pathlib.Path(options.build).resolve()
    deps = build / "deps" if options.packed else None
    if deps:
        unpack(options, "deps", deps)  # with the times of the files: what is compiled already stays so
    tools = {"PATH": f"{pathlib.Path(real_python(options.python)).parent}:{os.environ['PATH']}"}
    call(configure_command(options, build, deps), build / "configure.log", deadline, tools)
    words = ["cmake", "--build", build, "-j", str(os.cpu_count()), "--target", *TARGETS]
    call(words, build / "build.log", deadline, tools)
    return Program(build / "bin/ddprun")


def real_python(python):
    """Returns its own folder: if cmake and ninja come from wheels, they are there."""
    return output_of([python, "-c", "import sys; print(sys.executable)"]).strip()


def configure_command(options, build, deps):
    command = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DDDPRUN_BUILD_TESTS=ON"]
    return [*command, f"-DDDPRUN_PYTHON={real_python(options.python)}", *(dependency_options(deps) if deps else [])]


def dependency_options(deps):
    """Headers come after all others, as those in /usr/include do, lest an old one shadow one of torch's; libraries are
    found at run time by an rpath that serves libraries of libraries, too."""
    usr, spdlog = deps / "usr", deps / "spdlog"
    machine = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    include = [usr / "include", usr / "include" / machine, deps / "cuda/include"]
    flags = " ".join(f"-idirafter {folder}" for folder in include)
    folders = [prefix / "lib" / machine for prefix in (usr, spdlog)]
    links = "-Wl,--disable-new-dtags " + " ".join(f"-Wl,-rpath,{folder} -Wl,-rpath-link,{folder}" for folder in folders)
    return [
        f"-DCMAKE_PREFIX_PATH={usr};{spdlog}",
        f"-DOPENSSL_ROOT_DIR={usr}",
        f"-DOPENSSL_CRYPTO_LIBRARY={folders[0] / 'libcrypto.so'}",
        f"-DOPENSSL_SSL_LIBRARY={folders[0] / 'libssl.so'}",
        f"-DCMAKE_CXX_FLAGS={flags}",
        f"-DCMAKE_EXE_LINKER_FLAGS={links}",
        f"-DCMAKE_SHARED_LINKER_FLAGS={links}",
        f"-DCMAKE_MODULE_LINKER_FLAGS={links}",
    ]


def call(command, log, deadline, environment=None):
    """Builds. If time is too short, what it compiled is kept: the next call continues from there."""
    log.parent.mkdir(parents=True, exist_ok=True)
    name = pathlib.Path(str(command[0])).name
    with open(log, "wb") as file:
        process = subprocess.Popen(list(map(str, command)), stdout=file, stderr=file, env={**os.environ, **(environment or {})},
                                   start_new_session=True)  # fmt: skip
        try:
            status = process.wait(max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = "no end in the time for it"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if status != 0:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if re.search(r"\berror:|FAILED|CMake Error", line)][:10]
        raise BuildFailed(f"{name}: {status}; see {log}\n" + "\n".join(errors + lines[-5:]))

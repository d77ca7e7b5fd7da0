"""Configures and builds ddprun for the checks."""

import os
import pathlib
import subprocess
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["all", "gpu_test"]


class BuildFailed(Exception):
    """Configuring or compiling failed; the text says where the log is."""


def prepare(options):
    """Returns the program and the build folder. Without --python everything is set up by tools/build."""
    if not options.python:
        call([ROOT / "tools/build", *TARGETS], ROOT / "build/gpu_check_build.log")
        return ROOT / "build/release/bin/ddprun", ROOT / "build/release"
    build = pathlib.Path(options.build).resolve()
    build.mkdir(parents=True, exist_ok=True)
    tools = {"PATH": f"{pathlib.Path(real_python(options.python)).parent}:{os.environ['PATH']}"}
    call(configure_command(options, build), build / "configure.log", tools)
    call(["cmake", "--build", build, "-j", str(os.cpu_count()), "--target", *TARGETS], build / "build.log", tools)
    return build / "bin/ddprun", build


def real_python(python):
    """Where it lies itself: cmake and ninja, where they come from wheels, lie beside it."""
    code = "import sys; print(sys.executable)"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def configure_command(options, build):
    command = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DDDPRUN_BUILD_TESTS=ON"]
    command += [f"-DDDPRUN_PYTHON={real_python(options.python)}"]
    return command + (dependency_options(pathlib.Path(options.deps).resolve()) if options.deps else [])


def dependency_options(deps):
    """Headers come after all others, as those in /usr/include do, lest an old one shadow one of torch's; libraries are
    found at run time by an rpath that serves libraries of libraries, too."""
    usr, spdlog = deps / "usr", deps / "spdlog"
    machine = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    include = [usr / "include", usr / "include" / machine, pathlib.Path("/usr/local/cuda/include")]
    flags = " ".join(f"-idirafter {folder}" for folder in include if folder.is_dir())
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


def call(command, log, environment=None):
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as file:
        status = subprocess.run(
            list(map(str, command)),
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            check=False,
        ).returncode
    if status != 0:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower() or "FAILED" in line][:10]
        raise BuildFailed(f"{pathlib.Path(str(command[0])).name} failed; see {log}\n" + "\n".join(errors + lines[-5:]))

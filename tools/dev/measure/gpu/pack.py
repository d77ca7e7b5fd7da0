"""Packs what ddprun needs on a machine where nothing can be installed: DIR gets

  program.tar.xz   the program as it is built here, with gpu_test and the libraries that it needs beside LibTorch; in python/, where
                   tools/dev/measure/setup has installed it, what the benchmarks are compared with
  deps.tar.xz      what it is built from, should that program not start there:
                     usr/ and spdlog/   headers and libraries of this machine's packages; spdlog and its fmt apart, because
                                        torch's headers bring another fmt and must not find this one
                     cuda/              headers that CUDA's own include, and that the wheels there may lack
  data/mnist/      where it is here ($DDPRUN_DATA)
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from measure.gpu.build import LIBRARIES, ROOT
from measure import data

PACKAGES = {
    "usr": ["libyaml-cpp-dev", "libcli11-dev", "nlohmann-json3-dev", "libcurl4-openssl-dev", "libssl-dev", "zlib1g-dev",
            "libarchive-dev", "libjpeg62-turbo-dev", "libpng-dev", "libwebp-dev", "libgloo-dev", "libgtest-dev", "libgmock-dev", "libjs-dygraphs"],
    "spdlog": ["libspdlog-dev", "libfmt-dev"],
}  # fmt: skip
LEFT_OUT = (
    *("/share/", "/bin/", "/src/", "/pkgconfig/", "/include/fmt/"),
    *("libssl.a", "libcrypto.a", "libcurl.a", "libspdlog.a", "libarchive.so", "libjpeg.a", "libpng16.a", "libpng.a"),
)
KEPT = ("/share/cmake", "/dygraphs/dygraph.min.js", "/dygraphs/dygraph.min.css")  # of what is left out
# glibc, the compiler's libraries and those of wheels: the machine's own, never another version of them
FROM_THE_SYSTEM = (
    *("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "libutil.so", "ld-linux"),
    *("libgcc_s.so", "libstdc++.so"),
)
BOOST_FLAGS = ["-DBOOST_DLL_USE_STD_FS"]  # as the program is compiled: Boost's own filesystem is not needed then
CUDA_INCLUDE = "nvidia/cu13/include"  # in site-packages
OTHER_WHEELS = ("nvidia_cuda_crt", "nvidia_cuda_cccl")
SOURCES = ("runner", "sdk", "plugins", "tests", "tools")
PYTHON_PACKAGES = ["airbench"]  # without compiled parts
BENCH_PYTHON = ROOT / ".venv-bench"
LIMIT_MIB = 60  # of the pack and the tree together; the machine takes 64


def pack(folder):
    folder = pathlib.Path(folder).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    subprocess.run([ROOT / "tools/build", "all", "gpu_test"], check=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, collect in {"deps": collect_dependencies, "program": collect_program}.items():
        with tempfile.TemporaryDirectory(prefix=f"ddprun-{name}-") as made:
            collect(pathlib.Path(made))
            with tarfile.open(folder / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(made, ".")
    copy_mnist(folder / "data/mnist")
    sizes = {**{str(file.relative_to(folder)): file.stat().st_size for file in sorted(folder.rglob("*")) if file.is_file()},
             "the tree": tree_bytes()}  # fmt: skip
    for name, size in sizes.items():
        print(f"{size / 2**20:8.1f} MiB  {name}")
    check_size(sizes)


def check_size(sizes):
    """`sizes` are bytes of all that travels."""
    whole = sum(sizes.values()) / 2**20
    print(f"{whole:8.1f} MiB  together")
    if whole > LIMIT_MIB:
        raise SystemExit(f"that is more than the {LIMIT_MIB} MiB that may travel")


def tree_bytes():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            text=True, check=True)  # fmt: skip
    return sum((ROOT / name).lstat().st_size for name in listed.stdout.split("\0") if name and (ROOT / name).exists())


# --- what it is built from -------------------------------------------------------------------------------------------


def collect_dependencies(folder):
    for prefix, packages in PACKAGES.items():
        for package in packages:
            copy_package(package, folder / prefix, with_fmt=prefix == "spdlog")
        libraries = next(path for path in (folder / prefix / "lib").iterdir() if path.name.endswith("-linux-gnu"))
        for library in sorted(libraries.glob("*.so")):
            if not (libraries / soname(library)).exists():  # the name by which programs ask for it
                (libraries / soname(library)).symlink_to(library.resolve().name)
        copy_needed(sorted(libraries.glob("*.so")), libraries)
    copy_boost(folder / "usr")
    copy_cuda_headers(folder / "cuda")

def soname(library):
    listed = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    return re.search(r"SONAME\s+(\S+)", listed).group(1)


def included_headers():
    """Returns what the tree's sources include in angle brackets."""
    found = set()
    for name in SOURCES:
        for file in (ROOT / name).rglob("*"):
            if file.suffix in (".h", ".hpp", ".cpp", ".cu", ".in"):
                found.update(re.findall(r"^\s*#\s*include\s*<([^>]+)>", file.read_text(errors="replace"), re.MULTILINE))
    return found


def closure(headers, flags=()):
    """Returns the paths of these headers and of all that they include, as the compiler reports them."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write("".join(f"#include <{header}>\n" for header in sorted(headers)))
        source.flush()
        command = ["c++", "-std=c++20", *flags, "-M", source.name]
        rule = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(word) for word in rule.replace("\\\n", " ").split()[2:]]


def files_of(package):
    listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise SystemExit(f"{package} is not installed here: tools/setup installs it")
    return [pathlib.Path(line) for line in listed.stdout.splitlines() if line.startswith("/usr/")]


def copy_package(package, prefix, with_fmt):
    for file in files_of(package):
        left_out = any(part in str(file) for part in LEFT_OUT if not (with_fmt and part == "/include/fmt/"))
        kept = any(part in str(file) for part in KEPT) and file.suffix != ".map"
        if left_out and not kept:
            continue
        copy_file(file, prefix)


def copy_file(file, prefix):
    """/usr/include/x.h becomes prefix/include/x.h; a link to a library is followed by copying what it names, too."""
    target = prefix / file.relative_to("/usr")
    if file.is_dir() and not file.is_symlink() or target.exists() or not file.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.is_symlink() and file.resolve().parent == file.parent.resolve():
        target.symlink_to(file.resolve().name)
        copy_file(file.resolve(), prefix)
    else:
        shutil.copy2(file.resolve(), target)


def copy_needed(binaries, folder):
    """Returns the system's libraries that these need, and theirs in turn, by the names that they ask for."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=True, env={"LD_LIBRARY_PATH": ""})
    for line in listed.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        path = path.split(" (")[0]
        of_the_system = path.startswith(("/lib/", "/usr/lib/", "/lib64/")) and not name.startswith(FROM_THE_SYSTEM)
        if of_the_system and not (folder / name).exists():
            shutil.copy2(pathlib.Path(path).resolve(), folder / name)


def copy_boost(prefix):
    """Packs those of Boost's 150 MB of headers that ours include, and the files by which CMake finds it."""
    ours = {header for header in included_headers() if header.startswith("boost/")}
    for header in closure({*ours, "boost/version.hpp"}, BOOST_FLAGS):
        if str(header).startswith("/usr/include/boost/"):
            copy_file(header, prefix)
    for pattern in ("Boost-*", "BoostDetectToolset-*", "boost_headers-*"):
        for folder in pathlib.Path("/usr/lib").glob(f"*-linux-gnu/cmake/{pattern}"):
            for file in folder.rglob("*"):
                copy_file(file, prefix)


def torch_folder():
    found = next(ROOT.glob(".venv/lib/python3*/site-packages/torch"), None)
    return found or sys.exit(".venv has no torch: tools/setup makes it")


def cuda_headers():
    """What the tree includes of CUDA, and the options with which the compiler finds it."""
    torch = torch_folder()
    folders = [torch / "include", torch / "include/torch/csrc/api/include", torch.parent / "nvidia/nccl/include"]
    ours = [header for header in included_headers() if re.match(r"(c10|ATen)/cuda/|cuda|nvrtc|nccl|.*NCCL", header)]
    return ours, ["-DUSE_C10D_NCCL", "-DUSE_DISTRIBUTED", *(f"-I{folder}" for folder in folders)]


def files_of_other_wheels():
    """The files of those that hold some of CUDA's headers, and that torch does not need to run."""
    records = [record for wheel in OTHER_WHEELS for record in torch_folder().parent.glob(f"{wheel}-*.dist-info/RECORD")]
    return {torch_folder().parent / line.split(",")[0] for record in records for line in record.read_text().splitlines()}


def copy_cuda_headers(prefix):
    headers, flags = cuda_headers()
    wheels = torch_folder().parent / CUDA_INCLUDE
    for header in files_of_other_wheels().intersection(closure(headers, [*flags, f"-I{wheels}"])):
        target = prefix / "include" / header.relative_to(wheels)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(header, target)


# --- what is carried ready-made --------------------------------------------------------------------------------------


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
    built = [build / "bin/ddprun", build / "lib/ddprun/program.so", build / "tests/gpu_test", *build.glob("lib/ddprun/*/*.so"), *build.glob("lib/ddprun/plugins/*/*.so")]
    copy_needed(built, folder / LIBRARIES)
    copy_python_packages(folder / "python")


def copy_mnist(target):
    try:
        source = data.find_mnist()
    except SystemExit as reason:
        print(f"MNIST is left out: {reason}; without it three tables are missing")
        return
    target.mkdir(parents=True)
    for name in data.MNIST:
        shutil.copyfile(source / f"{name}.gz", target / f"{name}.gz")


def copy_python_packages(target):
    for name in PYTHON_PACKAGES:
        found = next(BENCH_PYTHON.glob(f"lib/python3*/site-packages/{name}"), None)
        if found is None:
            print(f"{name} is left out: tools/dev/measure/setup installs it; without it one column of the benchmarks is missing")
            continue
        shutil.copytree(found, target / name, ignore=shutil.ignore_patterns("__pycache__"))

"""Packs the system libraries that ddprun is built with, for machines where none can be installed.

They are copied from this machine's packages, into two prefixes in the folder:
  usr/       most of them
  spdlog/    spdlog and its fmt, apart, because torch's headers bring another fmt and must not find this one
and, where tools/bench/setup has installed it, into
  python/    what the benchmarks are compared with and a Python with torch and torchvision may lack
"""

import pathlib
import shutil
import subprocess
import tempfile

PACKAGES = {
    "usr": ["libyaml-cpp-dev", "libcli11-dev", "nlohmann-json3-dev", "libcurl4-openssl-dev", "libssl-dev", "zlib1g-dev",
            "libarchive-dev", "libjpeg62-turbo-dev", "libpng-dev", "libgloo-dev", "libgtest-dev", "libgmock-dev", "libjs-dygraphs"],
    "spdlog": ["libspdlog-dev", "libfmt-dev"],
}  # fmt: skip
BOOST_HEADERS = ["boost/dll/shared_library.hpp", "boost/dll/runtime_symbol_info.hpp", "boost/dll/library_info.hpp"]
LEFT_OUT = (
    "/share/",
    "/bin/",
    "/src/",
    "/pkgconfig/",
    "/include/fmt/",
    "libssl.a",
    "libcrypto.a",
    "libcurl.a",
    "libspdlog.a",
    "libarchive.so",
    "libjpeg.a",
    "libpng16.a",
    "libpng.a",
)
# glibc and the compiler's libraries: the machine's own, never another version of them
FROM_THE_SYSTEM = (
    *("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "libutil.so", "ld-linux"),
    *("libgcc_s.so", "libstdc++.so"),
)
KEPT = ("/share/cmake", "/dygraphs/dygraph.min.js", "/dygraphs/dygraph.min.css")  # of what is left out
PYTHON_PACKAGES = ["airbench"]  # without compiled parts
BENCH_PYTHON = pathlib.Path(__file__).resolve().parents[2] / ".venv-bench"
LIMIT_MIB = 30


def pack(folder):
    folder = pathlib.Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    for prefix, packages in PACKAGES.items():
        for package in packages:
            copy_package(package, folder / prefix, with_fmt=prefix == "spdlog")
        copy_runtime_libraries(folder / prefix)
    copy_boost(folder / "usr")
    copy_python_packages(folder / "python")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 2**20
    print(f"{folder}: {size:.1f} MiB")
    if size > LIMIT_MIB:
        raise SystemExit(f"that is more than the {LIMIT_MIB} MiB that were planned for it")


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


def copy_runtime_libraries(prefix):
    """What the libraries need in turn, under the names by which they ask for it."""
    folder = next(path for path in (prefix / "lib").iterdir() if path.name.endswith("-linux-gnu"))
    for library in sorted(folder.glob("*.so")):
        listed = subprocess.run(
            ["ldd", library], capture_output=True, text=True, check=True, env={"LD_LIBRARY_PATH": ""}
        )
        for line in listed.stdout.splitlines():
            name, _, path = line.strip().partition(" => ")
            path = path.split(" (")[0]
            if path.startswith("/") and not name.startswith(FROM_THE_SYSTEM) and not (folder / name).exists():
                shutil.copy2(pathlib.Path(path).resolve(), folder / name)


def copy_boost(prefix):
    """Of Boost's 150 MB the headers that ours include, found by the compiler, and the files by which CMake finds it."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write("#define BOOST_DLL_USE_STD_FS\n" + "".join(f"#include <{header}>\n" for header in BOOST_HEADERS))
        source.flush()
        command = ["c++", "-std=c++20", "-M", source.name]
        rule = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    headers = [
        pathlib.Path(word) for word in rule.replace("\\\n", " ").split() if word.startswith("/usr/include/boost/")
    ]
    for header in [*headers, pathlib.Path("/usr/include/boost/version.hpp")]:
        copy_file(header, prefix)
    for pattern in ("Boost-*", "BoostDetectToolset-*", "boost_headers-*"):
        for folder in pathlib.Path("/usr/lib").glob(f"*-linux-gnu/cmake/{pattern}"):
            for file in folder.rglob("*"):
                copy_file(file, prefix)


def copy_python_packages(target):
    for name in PYTHON_PACKAGES:
        found = next(BENCH_PYTHON.glob(f"lib/python3*/site-packages/{name}"), None)
        if found is None:
            print(f"{name} is left out: tools/bench/setup installs it; without it one column of the benchmarks is missing")
            continue
        shutil.copytree(found, target / name, ignore=shutil.ignore_patterns("__pycache__"))

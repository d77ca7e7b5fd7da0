# SPDX-License-Identifier: MIT
"""The commands that the wheel installs. Each becomes its program after checking what that needs to start, because the
dynamic linker would only name a symbol or a file. Imports nothing that Python has not loaded anyway, but beside_torch.py."""

import os
import sys

from ddprun.beside_torch import lines_of, mending, misfits, torch_in

PREFIX = os.path.dirname(os.path.abspath(__file__))
SITE_PACKAGES = os.path.dirname(PREFIX)

REINSTALL = "--force-reinstall --no-deps ddprun-*.whl"

# Where certificates of authorities lie, on the distributions that the bundled libcurl was not made for; then pip's.
CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, and libcurl's own
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    os.path.join(SITE_PACKAGES, "certifi/cacert.pem"),
    os.path.join(SITE_PACKAGES, "pip/_vendor/certifi/cacert.pem"),
)


def ddprun():
    require_libraries()
    name_certificates()
    os.environ.setdefault("DDPRUN_PYTHON", sys.executable)  # `ddprun export` has torch write .pt2 and .onnx
    become("ddprun")


def convert_weights():
    run_tool("convert_weights")


def export_model():
    require_libraries()  # ddprun reads what its own torch has exported
    run_tool("export_model")


def new_plugin():
    become("ddprun-new-plugin")


def sweep():
    run_tool("sweep")


def require_libraries():
    """Exits if the program could not be loaded: the wheel is incomplete, or the torch beside it is the wrong one."""
    info = installed_info()
    if info:
        require_whole(info)
        require_torch(wanted_torch(info))


def installed_info():
    """Returns ddprun-*.dist-info, written by pip; None if the package was installed by other means."""
    for name in os.listdir(SITE_PACKAGES):
        if name.startswith("ddprun-") and name.endswith(".dist-info"):
            return os.path.join(SITE_PACKAGES, name)
    return None


def require_whole(info):
    for line in lines_of(os.path.join(info, "RECORD")):
        file = os.path.join(SITE_PACKAGES, line.split(",", 1)[0])
        if line.startswith(("ddprun/bin/", "ddprun/lib/", "ddprun.libs/")) and not os.path.exists(file):
            give_up(f"this installation is not whole: {file} is missing", pip(REINSTALL))


def wanted_torch(info):
    """Returns "2.11" for the wheel's "Requires-Dist: torch==2.11.*"."""
    for line in lines_of(os.path.join(info, "METADATA")):
        if line.startswith("Requires-Dist: torch=="):
            return line.removeprefix("Requires-Dist: torch==").strip().removesuffix(".*")
    return ""


def require_torch(wanted):
    folder = os.path.join(SITE_PACKAGES, "torch")
    found = torch_in(SITE_PACKAGES)
    if not found:
        give_up(f"there is no torch in {SITE_PACKAGES}, where ddprun looks for it", mending(SITE_PACKAGES, f"{wanted}.*", "--ignore-installed"))
    if not found.startswith(f"{wanted}."):
        give_up(f"this ddprun is made for torch {wanted}, and {folder} is torch {found}", mending(SITE_PACKAGES, f"{wanted}.*"))
    for library in ("libtorch_cpu.so", "libc10.so"):
        file = os.path.join(folder, "lib", library)
        if not os.path.exists(file):
            give_up(f"torch {found} is not whole: {file} is missing", pip(f"--force-reinstall 'torch=={wanted}.*'"))
    warn_of_misfits(found, wanted)


def warn_of_misfits(found, wanted):
    """ddprun needs none of them, but Python files that it is given may."""
    problems = misfits(SITE_PACKAGES)
    if problems:
        problem = f"{', '.join(problems)}, and torch here is {found}: what imports {'this' if len(problems) == 1 else 'these'} fails"
        print(f"ddprun: warning: {problem}. To fix it: {mending(SITE_PACKAGES, f'{wanted}.*')}", file=sys.stderr)


def pip(arguments):
    return f"{sys.executable} -m pip install {arguments}"


def give_up(problem, command):
    print(f"ddprun: error: {problem}. To fix it: {command}", file=sys.stderr)
    sys.exit(2)


def name_certificates():
    """Sets SSL_CERT_FILE, since libcurl only knows Debian's place."""
    if "SSL_CERT_FILE" not in os.environ and not os.path.exists(CERTIFICATES[0]):
        for file in CERTIFICATES[1:]:
            if os.path.exists(file):
                os.environ["SSL_CERT_FILE"] = file
                return


def become(name):
    import signal

    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and then by what it becomes
        signal.signal(ignored, signal.SIG_DFL)
    program = os.path.join(PREFIX, "bin", name)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        give_up(f"{program} cannot be started: {error.strerror}", pip(REINSTALL))


def run_tool(name):
    import runpy

    folder = os.path.join(PREFIX, "share/ddprun/tools")
    sys.path[0] = folder
    sys.argv[0] = os.path.join(folder, name)
    runpy.run_path(sys.argv[0], run_name="__main__")

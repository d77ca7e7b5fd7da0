# SPDX-License-Identifier: MIT
"""add_licenses.py WHEEL: adds the terms of the libraries that auditwheel has put into it, as Debian's packages state them."""

import pathlib
import re
import shutil
import subprocess
import sys

from auditwheel.wheeltools import InWheelCtx


def package_of(library):
    """libldap-2-062bb940.5.so.0.1.8 is libldap-2.5.so.0.1.8, of the package libldap-2.5-0."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library.name)
    found = subprocess.run(["dpkg-query", "-S", f"*/{name}"], capture_output=True, text=True, check=True).stdout
    return found.split(":")[0]


wheel = pathlib.Path(sys.argv[1])
with InWheelCtx(wheel, wheel) as context:
    (info,) = pathlib.Path(context.path).glob("*.dist-info")
    terms = info / "licenses/bundled"
    terms.mkdir(parents=True)
    for library in pathlib.Path(context.path, "ddprun.libs").iterdir():
        package = package_of(library)
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", terms / package)

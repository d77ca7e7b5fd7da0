# SPDX-License-Identifier: MIT
"""Writes train.safetensors of a .csv, .tsv or .parquet file, for the dataset `tensors`: `input`, float32, and `target`. Names of classes
stand in classes.json."""

import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
if __name__ == "__main__":
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from tooling.durable import sync, sync_folder  # noqa: E402
from tooling.start import run_tool, use_clones_python  # noqa: E402
from ddprun import UserError  # noqa: E402

TOOL = "ddprun init"


def parse_arguments():
    parser = argparse.ArgumentParser(prog=TOOL, description=__doc__)
    add = parser.add_argument
    add("--table", required=True, type=pathlib.Path, metavar="FILE")
    add("--out", required=True, type=pathlib.Path, metavar="FOLDER", help="is not there yet")
    add("--target", metavar="COLUMN", help="what is to be learned, by default target, label, class or y, or else the last column")
    add("--task", choices=("classification", "regression"), help="by default, whole numbers from 0 on and names are classes")
    add("--drop-missing", action="store_true", help="leave out rows with an empty value, nan or inf, and count them")
    add("--input", type=lambda text: text.split(","), metavar="A,B", help="by default all other columns")
    return parser.parse_args()


def write(arrays, classes, folder):
    """Makes the folder, when all that is in it is whole and on the disk."""
    from safetensors.numpy import save_file

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as beside:
        made = pathlib.Path(beside, folder.name)
        made.mkdir()
        save_file(arrays, made / "train.safetensors")
        if classes:
            (made / "classes.json").write_text(json.dumps(classes, ensure_ascii=False) + "\n", encoding="utf-8")
        for file in made.iterdir():
            sync(file)
        sync_folder(made)
        os.rename(made, folder)
    sync_folder(folder.parent)


def main():
    options = parse_arguments()
    try:
        from table_arrays.rows import arrays_of

        arrays, classes, account = arrays_of(options)
        write(arrays, classes, options.out)
    except ImportError as error:
        if error.name in ("numpy", "safetensors"):
            use_clones_python()
        raise UserError(f"{error}: {sys.executable} -m pip install {error.name}") from None
    except OSError as error:
        raise UserError(f"{error.filename or options.out}: {error.strerror or error}") from error
    print(account)
    return 0


if __name__ == "__main__":
    run_tool(main, TOOL)

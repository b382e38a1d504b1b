"""pythons.py BUILD: an environment with cffi, BUILD/venv-3.N, for each Python from 3.11 on that this machine has beside the one that runs this: one on
the PATH, or one that pyenv keeps. BUILD/venv-3.Nt is that of a Python without a GIL, and has what builds the package. The package is tried with them."""

import os
import pathlib
import shutil
import subprocess
import sys

OLDEST, NEWEST, WITHOUT_GIL = 11, 19, 13
TESTS = pathlib.Path(__file__).parent


def runs(python, minor, kind):
    """A shim of pyenv may be there without the Python that it is for."""
    check = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}) or sys.abiflags != '{kind}')"
    return subprocess.run([python, "-c", check], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def find(minor, kind=""):
    """The newest of its releases. ``kind``: "t" has no GIL."""
    name, pyenv = f"python3.{minor}{kind}", pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    kept = sorted(pyenv.glob(f"versions/3.{minor}.*{kind}/bin/{name}"), key=lambda path: [len(str(path)), path], reverse=True)
    return next((str(python) for python in (shutil.which(name), *kept) if python and runs(python, minor, kind)), None)


def main():
    for minor in range(OLDEST, NEWEST + 1):
        python = find(minor) if minor != sys.version_info.minor else None
        if python:
            subprocess.run([python, TESTS / "venv.py", pathlib.Path(sys.argv[1]) / f"venv-3.{minor}", TESTS / "requirements-pythons.txt"], check=True)
        python = find(minor, "t") if minor >= WITHOUT_GIL else None
        if python:
            subprocess.run([python, TESTS / "venv.py", pathlib.Path(sys.argv[1]) / f"venv-3.{minor}t", TESTS / "requirements-without-gil.txt"], check=True)


main()

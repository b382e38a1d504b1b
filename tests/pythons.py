"""pythons.py BUILD: an environment with cffi, BUILD/venv-3.N, for each Python from 3.11 on that this machine has beside the one that runs this: one on
the PATH, or one that pyenv keeps. The package is tried with them."""

import os
import pathlib
import shutil
import subprocess
import sys

OLDEST, NEWEST = 11, 19
TESTS = pathlib.Path(__file__).parent


def runs(python, minor):
    """A shim of pyenv may be there without the Python that it is for."""
    check = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
    return subprocess.run([python, "-c", check], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def find(minor):
    """The newest of its releases."""
    name, pyenv = f"python3.{minor}", pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    kept = sorted(pyenv.glob(f"versions/3.{minor}.*/bin/{name}"), key=lambda path: [len(str(path)), path], reverse=True)
    return next((str(python) for python in (shutil.which(name), *kept) if python and runs(python, minor)), None)


def main():
    for minor in range(OLDEST, NEWEST + 1):
        python = find(minor) if minor != sys.version_info.minor else None
        if python:
            subprocess.run([python, TESTS / "venv.py", pathlib.Path(sys.argv[1]) / f"venv-3.{minor}", TESTS / "requirements-pythons.txt"], check=True)


main()

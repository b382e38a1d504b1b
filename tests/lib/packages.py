"""Tests that need packages of tests/requirements.txt: packages.need("numpy") before they are imported."""

import importlib
import os
import sys


def need(*modules):
    """Goes on in the Python that has them; where there is none, ends the program as skipped, with the reason."""
    python = os.environ.get("CKPT_PYTHON")
    if not python:
        print(os.environ.get("CKPT_PYTHON_WHY", "CKPT_PYTHON is not set"))
        sys.exit(77)
    if not os.path.exists(python):
        print(f"{python} is missing: scripts/test makes it")
        sys.exit(77)
    if sys.executable != python and "CKPT_TEST_CHILD" not in os.environ:
        os.environ["CKPT_TEST_CHILD"] = "1"
        os.execv(python, [python, *sys.argv])
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"{python}: {error}")
            sys.exit(77)

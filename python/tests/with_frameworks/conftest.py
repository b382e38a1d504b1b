"""Tests with frameworks around PyTorch, on the host. A framework that is not installed is a skip with that reason."""

import importlib.util
import pathlib
import sys

WITH_TORCH = pathlib.Path(__file__).parents[1] / "with_torch"
sys.path.insert(0, str(WITH_TORCH))
_spec = importlib.util.spec_from_file_location("with_torch_conftest", WITH_TORCH / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
service = _module.service

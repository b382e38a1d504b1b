"""A machine that tells ckptd what the test wants: the kernel's counts of memory errors, and one GPU (tests/fake/nvml_fake.c)."""

import pathlib
import tempfile

from tap import BIN


class PlayedMachine:
    def __init__(self, top=None, gpu=""):
        self.sysfs = pathlib.Path(tempfile.mkdtemp(dir=top))
        self.variables = {"CKPT_SYSFS": str(self.sysfs), "CKPT_NVML_LIBRARY": str(BIN / "nvml_fake.so"), "NVML_FAKE": gpu}
        self.controller = self.sysfs / "devices/system/edac/mc/mc0"
        self.controller.mkdir(parents=True)
        self.memory()

    def memory(self, corrected=0, uncorrected=0):
        """Errors that the kernel has counted."""
        for name, count in (("ce_count", corrected), ("ue_count", uncorrected)):
            beside = self.controller / "next"
            beside.write_text(f"{count}\n")
            beside.rename(self.controller / name)

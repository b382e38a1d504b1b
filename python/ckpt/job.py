"""Which job a process belongs to, where the launcher says it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def job_name(job: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The job's name, as the library finds it. ValueError: torchrun's is another one at each start, so that a job would never find its checkpoints
    again."""
    if job or environ.get("CKPT_JOB"):
        return job or environ["CKPT_JOB"]
    if environ.get("SLURM_JOB_ID"):
        return f"slurm-{environ['SLURM_JOB_ID']}"
    run = environ.get("TORCHELASTIC_RUN_ID")
    if run is None:
        return "default"
    if run in ("", "none") or _UUID.fullmatch(run):
        raise ValueError(f"the job has no name that stays: torchrun's run id is {run or 'empty'} (--standalone makes a new one at each start), so the next "
                         "start would not find its checkpoints. Give job=NAME, or set CKPT_JOB, or start torchrun with --rdzv-id NAME")
    return f"torch-{run}"

"""The name of a job is that of the library, or a refusal."""

import pytest

from ckpt.job import job_name

UUID = "1b4e28ba-2fa1-4d1c-883f-0016d3cca427"


@pytest.mark.parametrize("environ, name", [({}, "default"), ({"CKPT_JOB": "a", "SLURM_JOB_ID": "3"}, "a"), ({"SLURM_JOB_ID": "3"}, "slurm-3"),
                                           ({"TORCHELASTIC_RUN_ID": "gpt"}, "torch-gpt"), ({"CKPT_JOB": "a", "TORCHELASTIC_RUN_ID": UUID}, "a")])
def test_the_first_that_names_it_counts(environ, name):
    assert job_name(None, environ) == name
    assert job_name("mine", environ) == "mine"


@pytest.mark.parametrize("run", [UUID, "none", ""])
def test_a_name_that_does_not_stay_is_refused(run):
    with pytest.raises(ValueError, match="no name that stays.*--rdzv-id NAME"):
        job_name(None, {"TORCHELASTIC_RUN_ID": run})
    assert job_name("mine", {"TORCHELASTIC_RUN_ID": run}) == "mine"

"""Brings what torch.save, torch.distributed.checkpoint, Megatron-Core (torch_dist) and DeepSpeed (universal) wrote into a store, and writes a checkpoint of a
store as they do.

    python -m ckpt.convert FILE.pt|DIRECTORY --repo STORE --job JOB [--step STEP]
    python -m ckpt.convert --repo STORE --job JOB [--step STEP] --to FILE.pt|DIRECTORY [--format FORMAT]

A :class:`ckpt.torch.Checkpointer` restores it whose parts have the names of the outermost keys. What others wrote is read without running any code
of its author."""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import sys
from pathlib import Path

from .errors import Error
from .torch.convert_in import bring_in
from .torch.convert_out import write_out


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new or "." in new:
        raise argparse.ArgumentTypeError(f"{text!r} is not OLD=NEW, with a NEW without dots")
    return old, new


def _arguments(words: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser("python -m ckpt.convert", description="Brings checkpoints of PyTorch into a store, or out of one.")
    p.add_argument("source", nargs="?", type=Path, metavar="SOURCE", help="a file of torch.save, or a directory of torch.distributed.checkpoint, of "
                   "Megatron-Core (torch_dist) or of DeepSpeed (universal)")
    p.add_argument("--repo", type=Path, default=os.environ.get("CKPT_REPO"), metavar="STORE", help="the store; default CKPT_REPO")
    p.add_argument("--job", default=os.environ.get("CKPT_JOB"), help="the job; default CKPT_JOB")
    p.add_argument("--step", help="in: the step that it becomes, default 0. Out: a step, latest or healthy; default latest")
    p.add_argument("--to", type=Path, metavar="TARGET", help="out of the store: a file FILE.pt, or a new directory of torch.distributed.checkpoint")
    p.add_argument("--format", choices=("torch", "megatron", "deepspeed"), default="", help="out: as what; default megatron for what Megatron-Core saved, else torch")
    p.add_argument("--common", type=Path, metavar="FILE", help="out, of Megatron-Core: the common.pt of that step")
    p.add_argument("--only", action="append", default=[], metavar="PART", help="only this outermost key; may be repeated")
    p.add_argument("--rename", action="append", default=[], type=_pair, metavar="OLD=NEW", help="gives an outermost key another name; may be repeated")
    p.add_argument("--part", default="model", help="where the source is a single state_dict: the name of the part that it becomes; default model")
    a = p.parse_args(words)
    if (a.source is None) == (a.to is None):
        p.error("give a SOURCE to bring into the store, or --to TARGET to write out of it")
    for name in ("repo", "job"):
        if not getattr(a, name):
            p.error(f"--{name} is missing")
    if a.source is not None and a.step is not None and not a.step.isdigit():
        p.error(f"--step {a.step}: a number is wanted")
    return a


def main(words: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 with a sentence on stderr."""
    a = _arguments(words)
    program = shutil.which("ckpt")
    try:
        if a.to is not None:
            print(write_out(Path(a.repo), a.job, a.step or "latest", a.to, a.only, dict(a.rename), a.format, a.common))
        elif program is None:
            raise FileNotFoundError("there is no program ckpt on the PATH: its import writes the store")
        else:
            print(bring_in(program, a.source, Path(a.repo), a.job, int(a.step or 0), a.only, dict(a.rename), a.part))
    except (OSError, ValueError, TypeError, pickle.UnpicklingError) as e:
        print(f"ckpt.convert: {e.strerror if isinstance(e, Error) else e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A folder that is written while it is looked at: directories get their names, and what is old goes."""

import contextlib
import os
import pathlib


def stats(top):
    """(path, os.stat_result) of the folder, and of what in it is still there when it is asked for."""
    yield pathlib.Path(top), os.stat(top)
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            with contextlib.suppress(FileNotFoundError):
                yield (path := pathlib.Path(folder, name)), os.stat(path)

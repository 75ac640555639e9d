"""What goes wrong where a run writes its checkpoints: the folder goes, the disk is full."""

import errno
import functools
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from event import REFUSALS, Late
from seams import Seams

from hogshare import Checkpoint

FULL = "/dev/full"  # whatever is written there finds no space


class Saving(Late):
    """A run with a checkpoint at every epoch, in a folder of its own."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp())
        self.checkpoint = Checkpoint(self.folder / "run.npz")
        self.settings["checkpoint"] = self.checkpoint
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        shutil.rmtree(self.folder, ignore_errors=True)


class LostFolder(Saving):
    """The folder goes: a warning, and the run goes on."""

    may_raise = (FileNotFoundError, *REFUSALS)

    def happen(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def explains(self, error):
        return isinstance(error, FileNotFoundError)  # it had gone before the run began


class FullDisk(Saving):
    """The disk is full: the run says so and goes on, and the checkpoint before is whole.

    A file in the making is opened on a device that takes nothing; later there may be room again.
    """

    def __enter__(self):
        self.refused, self.seams = 0, Seams(pytest.MonkeyPatch())
        return super().__enter__()

    def happen(self):
        opened = self.seams.files
        opened.plain = functools.partial(self._open, opened.plain)
        opened.private = functools.partial(self._open, opened.private)
        if self.rng.random() < 0.3:
            self.over.wait(self.rng.uniform(0.0, 0.1))
            self.seams.undo()

    def _open(self, before, path, flags):
        if Path(path).parent != self.folder:  # somebody else's file
            return before(path, flags)
        self.refused += 1
        return os.open(FULL, os.O_WRONLY)

    def check(self, report):
        told = [note for note in report.notes if os.strerror(errno.ENOSPC) in note]
        assert bool(told) == bool(self.refused), f"{self.refused} refused, told: {report.notes}"

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()
        self.seams.undo()
        names = os.listdir(self.folder)
        try:
            assert not [name for name in names if name.endswith(".tmp")], names
            if names:
                self.checkpoint.model()
        finally:
            super().__exit__(*error)

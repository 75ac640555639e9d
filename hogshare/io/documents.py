"""Documents that can be written as JSON: reports of all kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hogshare.system import files


class Document:
    """Base of an object whose `to_dict` is plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model, as data for JSON."""
        raise NotImplementedError

    def to_json(self, path: str | Path | None = None, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text, and write it to a file if one is named.

        Parameters
        ----------
        path : str or Path, default=None
            File to write.
        indent : int or None, default=2
            As in :func:`json.dumps`.

        Returns
        -------
        str

        Raises
        ------
        OSError
            If the file cannot be written; an existing file is then unchanged. (The file is replaced
            as a whole, so its folder must be writable.)
        """
        text = json.dumps(self.to_dict(), indent=indent, allow_nan=False)
        if path is not None:
            files.replace(Path(path), f"{text}\n".encode())
        return text

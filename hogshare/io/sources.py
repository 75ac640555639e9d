"""Sources of rows: files, pipes and standard input, compressed or not.

A source is opened once and read from front to back. It is read once, and nothing is written to the
disk, unless the caller asks to read it again. Its first bytes determine its compression, so a pipe
needs no name. Text is read in blocks of whole lines with their line numbers; everything else is
read as a whole. Both ways check the free memory.
"""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import lzma
import os
import select
import stat
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from hogshare.system import memory
from hogshare.system.callers import users_line
from hogshare.system.messages import escaped

STDIN = "/dev/stdin"

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# bzip2's magic: three letters, a level, and the mark of a block or of the end. The letters alone do
# not suffice, since text may begin with them.
BZIP2 = [b"BZh%d%b" % (level, mark) for level in range(1, 10) for mark in (b"1A", b"\x17\x72")]
MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", **dict.fromkeys(BZIP2, ".bz2")}
ZSTD = b"\x28\xb5\x2f\xfd"
LONGEST_MAGIC = 6  # bytes

# errors of decompressors for a file that is cut off or of another format
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)

PIECE = 1 << 20  # bytes of one read
BLOCK = 1 << 20  # bytes of text that are parsed at a time, approximately
BEGINNING = 1 << 16  # bytes from which the kind of text is inferred, rounded up to whole pieces
CHECK_BYTES = 1 << 25  # bytes to read between two checks of the free memory
SMALL = 1 << 22  # bytes of the copy of a pipe that stay in memory; a longer copy is in a file


class Source:
    """An open file, pipe or standard input; a context manager that closes it.

    ``/dev/stdin`` is the standard input of this process, from its present position.

    again : whether the source may be read again (`rewind`). In this case, anything but a file is
        copied while it is read. A long copy is in the folder of temporary files; it is deleted when
        the source is closed.

    Attributes
    ----------
    name : str
        Name of the source in messages, on one line.
    size : int or None
        Bytes of a file, before decompression; None for anything that is not a file.
    packed : str
        The suffix of its compression; "" if it is not compressed.
    """

    def __init__(self, path: str | Path, again: bool = False) -> None:
        self._again = again
        self.name = escaped(str(path))
        self._raw: Any = _opened(str(path))
        try:
            status = os.fstat(self._raw.fileno())
            whole = stat.S_ISREG(status.st_mode) and self.name != STDIN
            self.size = status.st_size if whole else None
            first = self._first(LONGEST_MAGIC)
            self.packed = next((MAGIC[m] for m in MAGIC if first.startswith(m)), "")
            if first.startswith(ZSTD):
                raise ValueError(
                    f"{self.name}: compressed by zstd, which hogshare does not read; unpack it: "
                    "zstd -dc FILE | hogshare ..."
                )
            suffix = Path(self.name).suffix
            if suffix in OPENERS and not self.packed and first:
                raise ValueError(f"{self.name}: not a {suffix} file, whatever its name says")
            self._raw = self._rewound(first)
            self._stream = OPENERS[self.packed](self._raw) if self.packed else self._raw
        except BaseException:
            self._raw.close()
            raise
        self._ahead = b""  # bytes that `head` has read
        self._content = bytearray()
        self._offset = 0
        self._next_check = CHECK_BYTES
        self._at_first = memory.free()
        self._number = 1  # of the first line
        self._left: int | None = None  # remaining bytes of a section

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._raw.close()

    @property
    def is_empty(self) -> bool:
        """Whether the source had no bytes; known after reading."""
        return not self._offset

    @property
    def length(self) -> int:
        """Bytes of the file; for other sources, the bytes read so far."""
        return self._offset if self.size is None else self.size

    @property
    def is_plain_file(self) -> bool:
        """Whether this is an uncompressed file, which can be read at any place."""
        return self.size is not None and not self.packed

    def rewind(self) -> None:
        """Return to the beginning; the source must be a file, or opened with ``again=True``."""
        self._raw.seek(0)
        self._stream = OPENERS[self.packed](self._raw) if self.packed else self._raw
        self._ahead, self._content = b"", bytearray()
        self._offset, self._next_check, self._number = 0, CHECK_BYTES, 1

    def only_once(self) -> None:
        """Stop copying a pipe: it will not be rewound."""
        if isinstance(self._raw, _RereadStream):
            self._raw.only_once()

    def head(self, enough: Callable[[bytes, bool], Any], most: int = BEGINNING) -> Any:
        """Return the result of `enough` for the beginning, without consuming it.

        ``enough(first_bytes, done)`` returns a result, or None to request more bytes. `done` is
        True at the end of the source, or after `most` bytes. Bytes that `enough` does not request
        are neither read nor awaited.
        """
        while True:
            done = len(self._ahead) >= most
            if self._ahead and (made := enough(self._ahead, done)) is not None:
                return made
            more = b"" if done else self._read(PIECE, True)
            if not more:
                return enough(self._ahead, True)
            self._ahead += more

    def read(self, n: int, now: bool = False) -> bytes:
        """Read some bytes; return b"" at the end.

        Bytes that `head` has read are returned first, all at once. With `now`, available bytes are
        returned without waiting for `n` bytes.
        """
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        return self._read(n, now)

    def narrow(self, place: int, of: int) -> None:
        """Restrict the source to one section of a plain file.

        A line belongs to the section in which it begins. Each of several readers of a large text
        thus reads and parses only its own section. Lines are still numbered from the file's start.

        place : place of the section, from 0
        of : number of sections
        """
        if not self.is_plain_file:
            raise ValueError(f"{self.name}: only a plain file is read in sections")
        size = cast(int, self.size)
        begin, end = (self._line_from(size * k // of) for k in (place, place + 1))
        at = 0
        while at < begin and (piece := self._from(at, begin - at)):
            self._number, at = self._number + piece.count(b"\n"), at + len(piece)
        self._raw.seek(begin)
        self._ahead, self._left = b"", end - begin

    def _line_from(self, offset: int) -> int:
        """Return the offset at which the first line at or after `offset` begins."""
        at = offset - 1
        while offset and (piece := self._from(at)):
            if (found := piece.find(b"\n")) >= 0:
                return at + found + 1
            at += len(piece)
        return at if offset else 0

    def _from(self, offset: int, most: int = PIECE) -> bytes:
        self._raw.seek(offset)
        return bytes(self._raw.read(min(PIECE, most)))

    def lines(self, now: bool = False) -> Iterator[Lines]:
        """Iterate over the text in blocks of whole lines; with `now`, as soon as lines arrive.

        Raises
        ------
        ValueError
            If the text is in another encoding, or its lines end in CR alone.
        """
        number, size = self._number, 0
        pieces: list[bytes] = []
        more, begun = True, False
        while more:
            piece = self.read(PIECE, now)
            pieces.append(piece)
            size += len(piece)
            more = bool(piece)
            if more and not (b"\n" in piece and (size >= BLOCK or now)):
                continue  # no whole line yet, or too few for a block
            text = b"".join(pieces)
            if not begun:
                text, begun = self._decoded(text), True
            end = text.rfind(b"\n") + 1 if more else len(text)
            pieces, size = [text[end:]], len(text) - end
            if end:
                lines = Lines(text[:end], number, self.name, self.packed)
                _check_text(lines)
                yield lines
            number += text.count(b"\n", 0, end)

    def _decoded(self, text: bytes) -> bytes:
        """Remove the byte order mark from the beginning of a text."""
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(
                f"{self.name}: text in UTF-16, but only UTF-8 is read; convert it: "
                "iconv -f UTF-16 -t UTF-8 FILE"
            )
        return text.removeprefix(codecs.BOM_UTF8)

    def whole(self) -> tuple[BinaryIO, int]:
        """Return a seekable stream of all bytes, and their number.

        The stream of a plain file is the source's own. Anything else is read into memory, where it
        stays for further calls. If memory does not suffice, a MemoryError is raised.
        """
        if self.is_plain_file:
            if self._stream is self._raw:
                self._stream = io.BufferedReader(self._raw)
            self._stream.seek(0)
            return self._stream, cast(int, self.size)
        try:
            while piece := self.read(PIECE):
                self._content += piece
        except MemoryError as error:
            raise self._out_of_memory(error) from error
        return io.BytesIO(self._content), len(self._content)

    def _read(self, n: int, now: bool) -> bytes:
        if self._offset >= self._next_check:
            self._check_memory()
        try:
            piece = self._piece(n, now)
        except DAMAGE as error:
            raise ValueError(
                f"{self.name}: truncated or damaged {self.packed} file ({error})"
            ) from error
        except OSError as error:
            if error.errno is not None:
                raise OSError(error.errno, os.strerror(error.errno), self.name) from error
            raise ValueError(f"{self.name}: not a {self.packed} file ({error})") from error
        self._offset += len(piece)
        return piece

    def _piece(self, n: int, now: bool) -> bytes:
        if self.packed:
            return bytes(self._stream.read1(n) if now else self._stream.read(n))
        if self._left is not None:
            n = min(n, self._left)
        piece = bytes(self._stream.read(n))  # a pipe returns the available bytes
        if self._left is not None:
            self._left -= len(piece)
        if self.size is not None or not piece:
            return piece  # a file returns fewer bytes only at its end
        pieces, size = [piece], len(piece)
        while size < n and (not now or _is_ready(self._raw)):
            piece = bytes(self._stream.read(n - size))
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def _check_memory(self) -> None:
        """Raise MemoryError if the rows will not fit into memory.

        Raise ValueError if a compressed file expands more than any ordinary file.
        """
        self._next_check = self._offset + CHECK_BYTES
        if self.size is not None and self._offset > max(memory.PLENTY, memory.FOLD * self.size):
            raise ValueError(
                f"{self.name}: {memory.amount(self.size)} that are more than "
                f"{memory.amount(self._offset)} of text: the file was made to fill the memory"
            )
        left = memory.free()
        if left is None or self._at_first is None:
            return
        # after reading, a fit or a conversion may need half as many bytes again
        if left < (self._at_first - left) // 2:
            raise self._out_of_memory()

    def _out_of_memory(self, error: MemoryError | None = None) -> MemoryError:
        if error is not None and str(error).startswith(self.name):
            return error
        had = (
            "" if self._at_first is None else f", of which {memory.amount(self._at_first)} was free"
        )
        return MemoryError(f"{self.name}: the rows do not fit into memory{had}")

    def _first(self, n: int) -> bytes:
        first = b""
        try:
            while len(first) < n and (more := self._raw.read(n - len(first))):
                first += more
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.name) from error
        return first

    def _rewound(self, first: bytes) -> Any:
        """Return the raw stream from its beginning, given the bytes already read."""
        if self.size is not None:
            self._raw.seek(0)
            return self._raw
        return _RereadStream(first, self._raw, self._again)


@dataclass(frozen=True)
class Lines:
    """Some lines of a text."""

    text: bytes
    number: int  # of the first line, from 1
    name: str  # of the text, in messages
    packed: str = ""  # the suffix of its compression

    def place(self, position: int) -> str:
        """Name the line at a position, for messages."""
        number = self.number + self.text.count(b"\n", 0, position)
        return f"{self.name}, line {number}"

    def before(self, position: int) -> tuple[int, bytes]:
        """Return (start, line) of the line that ends at a position; it begins at `start`."""
        begin = self.text.rfind(b"\n", 0, max(0, position - 1)) + 1
        return begin, self.text[begin:position]

    def until(self, position: int) -> Lines:
        """Return the lines before a position, which must be the start of a line."""
        return replace(self, text=self.text[:position])

    def after(self, position: int) -> Lines:
        """Return the lines from a position on, which must be the start of a line."""
        number = self.number + self.text.count(b"\n", 0, position)
        return replace(self, text=self.text[position:], number=number)

    def followed_by(self, others: Lines) -> Lines:
        """Return these lines with the next ones appended."""
        return replace(self, text=self.text + others.text)

    def place_of_row(self, row: int, is_row: Callable[[bytes], object]) -> str:
        """Name the line of a row, counted from 0 in these lines; not every line is a row."""
        for number, line in enumerate(io.BytesIO(self.text), self.number):
            if is_row(line):
                if not row:
                    return f"{self.name}, line {number}"
                row -= 1
        raise AssertionError("there are fewer rows")

    def doubt_end(self) -> None:
        """Warn if the last line of uncompressed text has no end."""
        # a decompressor would have noticed a file that is cut off
        if self.text and not self.text.endswith(b"\n") and not self.packed:
            warnings.warn(
                f"{self.name}: the last line has no end; if the file was cut off, its last number "
                "may have been, too",
                stacklevel=users_line(),
            )


def _check_text(lines: Lines) -> None:
    """Refuse a text whose lines end in CR alone, since it would be a single line."""
    is_single = not any(mark in lines.text for mark in (b"\n", b"\0"))
    if is_single and b"\r" in lines.text.rstrip(b"\r"):
        raise ValueError(
            f"{lines.name}: its lines end in CR alone; convert them: tr '\\r' '\\n' < FILE"
        )


class _RereadStream(io.RawIOBase):
    """A stream that returns its first bytes, which were read before, once more.

    If `copied`, `seek` returns to the start, and all bytes can be read again.
    """

    def __init__(self, first: bytes, raw: Any, copied: bool) -> None:
        self._first, self._under = first, raw
        # closed by `close`, or by `only_once`
        self._copy: Any = tempfile.SpooledTemporaryFile(SMALL) if copied else None  # noqa: SIM115
        self._at = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Return to the beginning of a copied stream; other seeks raise."""
        if offset or whence != os.SEEK_SET or self._copy is None:
            raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))
        self._at = 0
        return 0

    def only_once(self) -> None:
        """Stop copying; bytes of the copy that were not read yet are still returned."""
        if self._copy is not None:
            self._copy.seek(self._at)
            self._first = self._copy.read() + self._first
            self._copy.close()
            self._copy = None

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._under.fileno())

    def readinto(self, buffer: Any) -> int:
        piece = b""
        if self._copy is not None:
            self._copy.seek(self._at)
            piece = self._copy.read(len(buffer))
        if not piece:
            piece = self._first[: len(buffer)] or self._under.read(len(buffer))
            self._first = self._first[len(buffer) :]
            if self._copy is not None:
                self._copy.write(piece)
        self._at += len(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
        self._under.close()
        super().close()


def _opened(name: str) -> io.FileIO:
    if name != STDIN:
        return open(name, "rb", buffering=0)
    closed = OSError(errno.EBADF, "standard input is closed", name)
    if sys.stdin is None:  # closed when Python started; descriptor 0 may now be another file
        raise closed
    try:
        # not by name: a socket, or another user's file, cannot be opened by its name
        return io.FileIO(os.dup(0))
    except OSError as error:
        raise closed from error


def _is_ready(raw: Any) -> bool:
    """Whether bytes can be read at once."""
    try:
        return bool(select.select([raw], [], [], 0)[0])
    except (OSError, ValueError):  # select does not support this stream
        return False

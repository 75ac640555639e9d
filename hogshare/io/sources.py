"""Where the bytes of rows come from: files, pipes and standard input, compressed or not.

A source is opened once and read once, front to back, and nothing is written to the disk. Its first
bytes say how it is compressed, so that a pipe needs no name. Text comes in blocks of whole
lines, each of which knows where it stands; everything else is read as a whole. Both watch the
memory that is left.
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
# bzip2's are three letters, which text may begin with, a level, and a block's or the end's mark
BZIP2 = [b"BZh%d%b" % (level, mark) for level in range(1, 10) for mark in (b"1A", b"\x17\x72")]
MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", **dict.fromkeys(BZIP2, ".bz2")}
ZSTD = b"\x28\xb5\x2f\xfd"
LONGEST_MAGIC = 6  # bytes

# what decompressors raise for a file that is cut off or is not theirs
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)

PIECE = 1 << 20  # bytes of one read
BLOCK = 1 << 20  # bytes of text that are parsed at a time, about
BEGINNING = 1 << 16  # bytes that say what kind of text it is, at most but for a piece
CHECK_BYTES = 1 << 25  # that are read between two checks of the memory that is left
SMALL = 1 << 22  # bytes of a pipe that is read again up to which they stay in memory


class Source:
    """An open file, pipe or standard input; a context manager that closes it.

    ``/dev/stdin`` is what this process was given as its standard input, from where that stands.

    again : whether it may be read once more (`rewind`); of what is no file a copy is then made in
        the folder of temporary files, from where it is deleted when the source is closed

    Attributes
    ----------
    name : str
        What errors call it, on one line.
    size : int or None
        Bytes of a file, before they are decompressed; None of anything that is not a file.
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
                    f"{self.name}: compressed by zstd, which is not read here; unpack it: "
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
        self._ahead = b""  # what was read for the sake of `head`
        self._content = bytearray()
        self._offset = 0
        self._next_check = CHECK_BYTES
        self._at_first = memory.free()
        self._number = 1  # of the first line
        self._left: int | None = None  # bytes of a section

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._raw.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing came, now that all has been read."""
        return not self._offset

    @property
    def length(self) -> int:
        """Bytes of the file; of what is none, those that were read so far."""
        return self._offset if self.size is None else self.size

    @property
    def is_plain_file(self) -> bool:
        """Whether its bytes are those of a file, which can be read at any place."""
        return self.size is not None and not self.packed

    def rewind(self) -> None:
        """Begin again, if the source was opened to be read `again`."""
        self._raw.seek(0)
        self._stream = OPENERS[self.packed](self._raw) if self.packed else self._raw
        self._ahead, self._content = b"", bytearray()
        self._offset, self._next_check, self._number = 0, CHECK_BYTES, 1

    def only_once(self) -> None:
        """Make no copy of a pipe any more: it is read once."""
        if isinstance(self._raw, _RereadStream):
            self._raw.only_once()

    def head(self, enough: Callable[[bytes, bool], Any], most: int = BEGINNING) -> Any:
        """Return what is made of the beginning, which stays to be read.

        `enough` is given the first bytes and whether those are all, and returns what it makes of
        them; None asks for more, up to `most`. It does not wait for bytes that it does not want.
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
        """Read some bytes; b"" at the end. With `now`, do not wait for more than there is."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        return self._read(n, now)

    def narrow(self, place: int, of: int) -> None:
        """Have the text be one of several sections of a plain file, by its place from 0.

        A line is in the section in which it begins. So each reader of a large text has to read,
        and to parse, its own part only.
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
        """Where the first line begins that does so at an offset or later."""
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
        """Iterate over the text, in blocks of whole lines; with `now` as soon as they are there.

        Raises
        ------
        ValueError
            If it is text of another encoding, or its lines end in CR alone.
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
                continue
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
        """The beginning of a text without its byte order mark."""
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(
                f"{self.name}: text in UTF-16, and UTF-8 is read; "
                "iconv -f UTF-16 -t UTF-8 FILE makes it of the other"
            )
        return text.removeprefix(codecs.BOM_UTF8)

    def whole(self) -> tuple[BinaryIO, int]:
        """A stream of all bytes that can be read at any place, and how many they are.

        What is no plain file stays in memory, so that it can be asked for again, or is a
        MemoryError.
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
        piece = bytes(self._stream.read(n))  # of a pipe: what is there
        if self._left is not None:
            self._left -= len(piece)
        if self.size is not None or not piece:
            return piece
        pieces, size = [piece], len(piece)
        while size < n and (not now or _is_ready(self._raw)):
            piece = bytes(self._stream.read(n - size))
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def _check_memory(self) -> None:
        """End what would not fit when it is done, or is more than a file of its size can mean."""
        self._next_check = self._offset + CHECK_BYTES
        if self.size is not None and self._offset > max(memory.PLENTY, memory.FOLD * self.size):
            raise ValueError(
                f"{self.name}: {memory.amount(self.size)} that are more than "
                f"{memory.amount(self._offset)} of text: made to fill the memory"
            )
        left = memory.free()
        if left is None or self._at_first is None:
            return
        # when all is read, a fit or a conversion may want half as many bytes again
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
        """The raw stream, from its beginning again."""
        if self.size is not None:
            self._raw.seek(0)
            return self._raw
        return _RereadStream(first, self._raw, self._again)


@dataclass(frozen=True)
class Lines:
    """Some lines of a text."""

    text: bytes
    number: int  # of the first line, from 1
    name: str  # by which errors call the text
    packed: str = ""  # the suffix of its compression

    def place(self, position: int) -> str:
        """Name the line that begins at a position, in words."""
        number = self.number + self.text.count(b"\n", 0, position)
        return f"{self.name}, line {number}"

    def before(self, position: int) -> tuple[int, bytes]:
        """Where the line begins that ends at a position, and that line."""
        begin = self.text.rfind(b"\n", 0, max(0, position - 1)) + 1
        return begin, self.text[begin:position]

    def until(self, position: int) -> Lines:
        """The lines before a position, where one begins."""
        return replace(self, text=self.text[:position])

    def after(self, position: int) -> Lines:
        """The lines from a position on, where one begins."""
        number = self.number + self.text.count(b"\n", 0, position)
        return replace(self, text=self.text[position:], number=number)

    def followed_by(self, others: Lines) -> Lines:
        """These lines and those that come next."""
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
        """Warn if the last line has no end, and nobody vouches for it."""
        # a decompressor knows the end of its file
        if self.text and not self.text.endswith(b"\n") and not self.packed:
            warnings.warn(
                f"{self.name}: the last line has no end; if the file was cut off, its last number "
                "may have been, too",
                stacklevel=users_line(),
            )


def _check_text(lines: Lines) -> None:
    """Refuse a text that would be a single line."""
    is_single = not any(mark in lines.text for mark in (b"\n", b"\0"))
    if is_single and b"\r" in lines.text.rstrip(b"\r"):
        raise ValueError(
            f"{lines.name}: its lines end in CR alone; tr '\\r' '\\n' < FILE makes newlines of them"
        )


class _RereadStream(io.RawIOBase):
    """A stream of which the first bytes, already read, come again; or all, if they are copied."""

    def __init__(self, first: bytes, raw: Any, copied: bool) -> None:
        self._first, self._under = first, raw
        # closed by `close`, or by `only_once`
        self._copy: Any = tempfile.SpooledTemporaryFile(SMALL) if copied else None  # noqa: SIM115
        self._at = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Only back to the beginning, of a stream that is copied."""
        if offset or whence != os.SEEK_SET or self._copy is None:
            raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))
        self._at = 0
        return 0

    def only_once(self) -> None:
        """Copy no more; what has been read in part is read on."""
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
    if sys.stdin is None:  # as Python began, so that descriptor 0 leads nowhere since
        raise closed
    try:
        # its name cannot be opened where it is a socket, or another user's
        return io.FileIO(os.dup(0))
    except OSError as error:
        raise closed from error


def _is_ready(raw: Any) -> bool:
    """Whether bytes can be read at once."""
    try:
        return bool(select.select([raw], [], [], 0)[0])
    except (OSError, ValueError):  # nothing that can be asked
        return False

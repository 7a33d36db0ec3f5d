"""A connected file system and its files."""

from __future__ import annotations

import errno
import io
import os
import stat as _stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeVar

from . import _causeway

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
T = TypeVar("T")

# Bytes that a buffered file asks for at a time.
BUFFER = 1 << 20
# A file of fewer bytes lies beside its metadata.
SMALL = 16 << 10
LONGEST_PATH = 4096
# The largest size of a file.
_LARGEST = (1 << 63) - 1
# What says that nothing has this name.
_NONE_SUCH = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def to_bytes(path: Path) -> bytes:
    """A path as servers store it: any bytes but NUL."""
    path = os.fspath(path)
    if isinstance(path, str):
        path = path.encode("utf-8", "surrogateescape")
    if b"\0" in path:
        raise ValueError("a path with a NUL in it")
    if not path:
        raise FileNotFoundError(errno.ENOENT, "the path is empty")
    if len(path) > LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, f"the path has {len(path)} bytes; at most {LONGEST_PATH} are possible")
    return path


def to_str(name: bytes) -> str:
    """A name as Python shows it; ``to_bytes`` gives the same bytes back."""
    return name.decode("utf-8", "surrogateescape")


class _Naming:
    """Exceptions of the block name these paths, as the caller wrote them, in ``filename`` and ``filename2``."""

    __slots__ = ("_paths",)

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError):
            _name(error, *self._paths)


def _name(error: OSError, path: Path, second: Path | None = None) -> None:
    error.filename = os.fspath(path)
    if second is not None:
        error.filename2 = os.fspath(second)


class Stat(NamedTuple):
    """Attributes, under the names that ``os.stat`` has for them."""

    st_mode: int
    st_ino: int
    st_size: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int
    # Units of 512 bytes that are stored: holes are not. None in listings.
    st_blocks: int | None = None

    @property
    def st_atime(self) -> float:
        return self.st_atime_ns / 1e9

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9

    @property
    def st_ctime(self) -> float:
        return self.st_ctime_ns / 1e9

    def is_dir(self) -> bool:
        return _stat.S_ISDIR(self.st_mode)

    def is_file(self) -> bool:
        return _stat.S_ISREG(self.st_mode)

    def is_symlink(self) -> bool:
        return _stat.S_ISLNK(self.st_mode)


# Flags of Linux's fallocate.
_KEEP_SIZE = 1
_PUNCH_HOLE = 2


class LockHolder(NamedTuple):
    """A lock of another owner."""

    exclusive: bool
    first: int
    #: In bytes; 0 if it has no end.
    length: int
    #: As its host numbers processes.
    pid: int


class RawFile(io.RawIOBase):
    """An open file without a buffer. Threads may share it; ``pread`` and its likes leave the position alone."""

    def __init__(self, file: _causeway.File, name: Path, mode: str) -> None:
        super().__init__()
        self._file = file
        self.name = name
        self.mode = mode

    def readable(self) -> bool:
        return self._file.readable

    def writable(self) -> bool:
        return self._file.writable

    def seekable(self) -> bool:
        self._file.readable  # noqa: B018 - raises if it is closed
        return True

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        try:
            return self._file.read(size)
        except OSError as error:
            raise _unsupported(error) from None

    def readall(self) -> bytes:
        parts = []
        if self._file.known_size < SMALL:
            # Probably unchanged: then one request suffices.
            parts.append(self.read(SMALL))
            if len(parts[0]) < SMALL:
                return parts[0]
        # As long as it grows.
        try:
            while part := self._file.read_rest():
                parts.append(part)
        except OSError as error:
            raise _unsupported(error) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        try:
            return self._file.readinto(buffer)
        except OSError as error:
            raise _unsupported(error) from None

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise _unsupported(error) from None

    def pread(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes from an offset on."""
        return self._file.pread(size, offset)

    def preadinto(self, buffer: Any, offset: int) -> int:
        """Reads into memory such as an array's."""
        return self._file.readinto(buffer, offset)

    def pwrite(self, data: Any, offset: int) -> int:
        """Writes at an offset."""
        return self._file.write(data, offset)

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Ranges, each from a first byte to one behind the last, cut at the end of the file, with one request to each server for all of them."""
        return self._file.read_ranges(list(ranges))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Also to the next data or hole from an offset on (``os.SEEK_DATA``, ``os.SEEK_HOLE``)."""
        return self._file.seek(offset, whence)

    def allocate(self, offset: int, length: int, *, keep_size: bool = False) -> None:
        """Reserves space on the servers' disks, and extends the file that far unless ``keep_size`` is set."""
        self._file.fallocate(_KEEP_SIZE if keep_size else 0, offset, length)

    def punch_hole(self, offset: int, length: int) -> None:
        """Makes a range read as zeros and frees its space."""
        self._file.fallocate(_PUNCH_HOLE | _KEEP_SIZE, offset, length)

    def tell(self) -> int:
        return self._file.seek(0, 1)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        try:
            self._file.truncate(size)
        except OSError as error:
            raise _unsupported(error) from None
        return size

    def fsync(self) -> None:
        """Makes content and size durable."""
        self._file.fsync()

    def lock(
        self, exclusive: bool = True, *, wait: bool = True, range: tuple[int, int] | None = None
    ) -> bool:
        """Locks the whole file, or a range: its first byte, and the number of bytes (0: all behind it).

        Excludes every other open file, of any process on any host; a lock that is not exclusive excludes exclusive ones alone. Locks
        of ranges and of whole files do not exclude each other. Returns False if another owner has it and it does not ``wait``.
        The lock ends with ``unlock``, ``close`` or the process.
        """
        return self._file.lock(exclusive, wait, range)

    def unlock(self, range: tuple[int, int] | None = None) -> None:
        """Releases the lock of the whole file, or those of a range."""
        self._file.unlock(range)

    def lock_holder(
        self, exclusive: bool = True, *, range: tuple[int, int] | None = None
    ) -> LockHolder | None:
        """A lock that conflicts with this one, if there is any."""
        holder = self._file.lock_holder(exclusive, range)
        return LockHolder(*holder) if holder else None

    def stat(self) -> Stat:
        return Stat._make(self._file.stat())

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()


def _unsupported(error: OSError) -> OSError:
    # The text of Python's own files.
    return io.UnsupportedOperation(str(error)) if error.errno == errno.EBADF else error


class Client:
    """A connected file system. Threads share it; after a fork, the child makes one of its own.

    ``config`` names the configuration file; without it, ``$CAUSEWAY_CONFIG`` does, or it is ``causeway.toml`` or
    ``causeway-dev/causeway.toml``. As many calls as ``clients`` are carried out at the same time. ``timeout`` in seconds
    takes the place of the configuration's.
    """

    def __init__(
        self, config: str | os.PathLike[str] | None = None, *, clients: int = 4, timeout: float | None = None
    ) -> None:
        # The path stays valid if the working directory changes.
        self.config = os.path.abspath(config) if config is not None else None
        self._options: dict[str, Any] = {"clients": clients, "timeout": timeout}
        self._client = _causeway.Client(self.config, clients, timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return _connect, (self.config, self._options)

    def __repr__(self) -> str:
        return f"causeway.Client({self.config!r})"

    def open(
        self,
        path: Path,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o644,
        sync: bool = False,
    ) -> IO[Any]:
        """Opens a file as the built-in ``open`` does. ``sync`` makes every write durable before it returns."""
        is_binary = "b" in mode
        if is_binary and ("t" in mode or encoding or errors or newline is not None):
            raise ValueError("a binary file has neither encoding nor newlines")
        if buffering == 0 and not is_binary:
            raise ValueError("a text file cannot be without a buffer")
        raw = self.open_raw(path, mode, permissions=permissions, sync=sync)
        if buffering == 0:
            return raw  # type: ignore[return-value]
        size = buffering if buffering > 1 else BUFFER
        buffered: io.BufferedRandom | io.BufferedReader | io.BufferedWriter
        if "+" in mode:
            buffered = io.BufferedRandom(raw, size)
        elif "r" in mode:
            buffered = io.BufferedReader(raw, size)
        else:
            buffered = io.BufferedWriter(raw, size)
        if is_binary:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text

    def open_raw(self, path: Path, mode: str = "rb", *, permissions: int = 0o644, sync: bool = False) -> RawFile:
        """Opens a file in bytes, without a buffer, as `open` does with `buffering=0`."""
        letters = set(mode)
        if len(letters) != len(mode) or letters - set("rwxab+t") or len(letters & set("rwxa")) != 1:
            raise ValueError(f"invalid mode: {mode!r}")
        updates = "+" in mode
        with _Naming(path):
            file = self._client.open(
                to_bytes(path),
                read="r" in mode or updates,
                write="r" not in mode or updates,
                create="r" not in mode,
                exclusive="x" in mode,
                truncate="w" in mode,
                append="a" in mode,
                sync=sync,
                mode=permissions,
            )
        raw = RawFile(file, path, mode)
        if "a" in mode:
            raw.seek(0, 2)
        return raw

    def read(self, path: Path) -> bytes:
        """A file's whole content."""
        content = self.read_many([path])[0]
        if isinstance(content, bytes):
            return content
        raise content

    def write(self, path: Path, data: Any) -> None:
        """Gives a file this content; it is made if it does not exist."""
        error = self.write_many({path: data})[0]
        if error is not None:
            raise error

    def read_many(self, paths: Sequence[Path]) -> list[bytes | OSError]:
        """The content of many files, or the exception of each; many requests are under way at the same time."""
        paths = list(paths)
        return _named(paths, self._client.read_many(_all_bytes(paths)))

    def read_ranges_many(self, files: Mapping[Any, Iterable[tuple[int, int]]]) -> list[list[bytes] | OSError]:
        """Ranges of many files, as ``RawFile.read_ranges`` has them, or the exception of each file. Negative numbers count from the end of the file."""
        ranges = [[(_within(first), _within(last)) for first, last in each] for each in files.values()]
        return _named(files, self._client.read_ranges_many(list(zip(_all_bytes(files), ranges))))

    def write_many(self, files: Mapping[Any, Any]) -> list[OSError | None]:
        """Gives files their contents, by path; returns the exception of each, or ``None``."""
        # A join takes any memory, also of types that a memoryview has no letter for, such as numpy's times.
        contents = [b"".join((data,)) for data in files.values()]
        return _named(files, self._client.write_many(list(zip(_all_bytes(files), contents)), 0o644))

    def stat(self, path: Path, *, follow_symlinks: bool = True) -> Stat:
        with _Naming(path):
            return Stat._make(self._client.stat(to_bytes(path), follow_symlinks))

    def exists(self, path: Path, *, follow_symlinks: bool = True) -> bool:
        try:
            self.stat(path, follow_symlinks=follow_symlinks)
        except OSError as error:
            if error.errno in _NONE_SUCH:
                return False
            raise
        return True

    def scandir(self, path: Path = "/") -> Iterator[tuple[str, Stat]]:
        """Names of a directory with their attributes."""
        with _Naming(path):
            listed = self._client.list(to_bytes(path))
        return ((to_str(name), Stat._make(attributes)) for name, attributes in listed)

    def listdir(self, path: Path = "/") -> list[str]:
        return [name for name, _ in self.scandir(path)]

    def mkdir(self, path: Path, mode: int = 0o755) -> None:
        with _Naming(path):
            self._client.mkdir(to_bytes(path), mode)

    def makedirs(self, path: Path, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Makes a directory, and those above it that do not exist."""
        shown: Any = bytes if isinstance(os.fspath(path), bytes) else to_str
        with _Naming(path):
            # The directories to make, each above the one before it.
            wanted = [to_bytes(path).rstrip(b"/") or b"/"]
        while wanted:
            try:
                self.mkdir(shown(wanted[-1]), mode)
            except FileExistsError:
                # One above may have been made by another program meanwhile.
                is_expected = exist_ok or len(wanted) > 1
                if not is_expected or not self.stat(wanted[-1]).is_dir():
                    raise
            except FileNotFoundError:
                parent = wanted[-1].rpartition(b"/")[0].rstrip(b"/")
                if not parent:
                    raise
                wanted.append(parent)
                continue
            wanted.pop()

    def rmdir(self, path: Path) -> None:
        with _Naming(path):
            self._client.rmdir(to_bytes(path))

    def remove(self, path: Path) -> None:
        with _Naming(path):
            self._client.unlink(to_bytes(path))

    unlink = remove

    def rename(self, source: Path, target: Path, *, replace: bool = True) -> None:
        """Renames at once, replacing an object of the new name unless ``replace`` is false."""
        with _Naming(source, target):
            self._client.rename(to_bytes(source), to_bytes(target), replace)

    def link(self, existing: Path, path: Path) -> None:
        with _Naming(existing, path):
            self._client.link(to_bytes(existing), to_bytes(path))

    def mknod(self, path: Path, mode: int = 0o600 | _stat.S_IFIFO, device: int = 0) -> None:
        """Makes a pipe, a socket or a device, which the programs of a mount can use."""
        with _Naming(path):
            self._client.mknod(to_bytes(path), mode, device)

    def device(self, path: Path) -> int:
        """The number of a device, as ``os.stat`` has it in ``st_rdev``; 0 for other objects."""
        with _Naming(path):
            return self._client.device(to_bytes(path))

    def symlink(self, target: Path, path: Path) -> None:
        with _Naming(target, path):
            self._client.symlink(to_bytes(target), to_bytes(path))

    def readlink(self, path: Path) -> str:
        with _Naming(path):
            return to_str(self._client.readlink(to_bytes(path)))

    def chmod(self, path: Path, mode: int) -> None:
        with _Naming(path):
            self._client.set_attributes(to_bytes(path), mode=mode)

    def chown(self, path: Path, uid: int | None = None, gid: int | None = None, *, follow_symlinks: bool = True) -> None:
        with _Naming(path):
            self._client.set_attributes(to_bytes(path), uid=uid, gid=gid, follow=follow_symlinks)

    def utime(self, path: Path, ns: tuple[int, int] | None = None, *, follow_symlinks: bool = True) -> None:
        """Sets the times of the last access and of the last change of content; both to now if none are given."""
        with _Naming(path):
            self._client.set_attributes(to_bytes(path), times=ns, now=ns is None, follow=follow_symlinks)

    def setxattr(self, path: Path, name: Path, value: bytes, flags: int = 0) -> None:
        """Gives a file or directory an extended attribute, as ``os.setxattr`` does."""
        with _Naming(path):
            self._client.setxattr(to_bytes(path), to_bytes(name), bytes(value), flags)

    def getxattr(self, path: Path, name: Path) -> bytes:
        with _Naming(path):
            return self._client.getxattr(to_bytes(path), to_bytes(name))

    def listxattr(self, path: Path) -> list[str]:
        with _Naming(path):
            return [to_str(name) for name in self._client.listxattr(to_bytes(path))]

    def removexattr(self, path: Path, name: Path) -> None:
        with _Naming(path):
            self._client.removexattr(to_bytes(path), to_bytes(name))

    def truncate(self, path: Path, size: int) -> None:
        with _Naming(path):
            self._client.truncate(to_bytes(path), size)

    def statfs(self) -> tuple[int, int, int]:
        """Bytes in all, bytes that are free, files and directories."""
        return self._client.statfs()

    def sync(self) -> None:
        """Makes changes of names durable; they are already, unless the file system is `relaxed`."""
        self._client.sync()


def _within(offset: int) -> int:
    # No file has a byte behind this one, or that many before its end.
    return max(-_LARGEST, min(offset, _LARGEST))


def _all_bytes(paths: Iterable[Path]) -> list[bytes]:
    found = []
    for path in paths:
        with _Naming(path):
            found.append(to_bytes(path))
    return found


def _named(paths: Iterable[Path], results: list[T]) -> list[T]:
    """The results of a call on many files, where each exception names its file."""
    for path, result in zip(paths, results):
        if isinstance(result, OSError):
            _name(result, path)
    return results


def _connect(config: str | None, options: dict[str, Any]) -> Client:
    return Client(config, **options)



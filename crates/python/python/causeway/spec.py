"""The file system for fsspec: URLs such as ``causeway:///data/table.parquet``."""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from typing import IO, Any, TypeVar, cast

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from ._client import BUFFER, Client, RawFile, Stat, to_bytes, to_str

T = TypeVar("T")

# Bytes that go from one file to another at a time.
PIECE = 4 << 20


class CausewayFile(io.IOBase):
    """An open file in bytes. One that belongs to a transaction has another name until ``commit``."""

    def __init__(
        self, fs: CausewayFileSystem, path: str, mode: str, block_size: int | None, autocommit: bool
    ) -> None:
        super().__init__()
        self.fs, self.path, self.mode, self.autocommit = fs, path, mode, autocommit
        self._temporary: str | None = None
        name = path
        if not autocommit and mode != "rb":
            parent, _, last = path.rpartition("/")
            # Names have at most 255 bytes.
            front = to_str(to_bytes(last)[:200])
            name = self._temporary = f"{parent}/.{front}.{uuid.uuid4().hex}"
            if "a" in mode and fs.exists(path):
                fs.cp_file(path, name)
        self._buffered: IO[bytes] = fs._making(name, mode, lambda: fs.client.open(name, mode, block_size or BUFFER))

    def commit(self) -> None:
        """Gives it its name."""
        if self._temporary is not None:
            self.fs.client.rename(self._temporary, self.path, replace="x" not in self.mode)
            self._temporary = None

    def discard(self) -> None:
        """Removes the written file."""
        if self._temporary is not None:
            self.fs.client.remove(self._temporary)
            self._temporary = None

    @property
    def raw(self) -> RawFile:
        """The file without its buffer."""
        return cast(RawFile, cast(io.BufferedReader, self._buffered).raw)

    @property
    def name(self) -> str:
        return self.path

    @property
    def size(self) -> int:
        self.flush()
        return self.raw.stat().st_size

    def __len__(self) -> int:
        return self.size

    def info(self) -> dict[str, Any]:
        return self.fs.info(self._temporary or self.path)

    def readable(self) -> bool:
        return self._buffered.readable()

    def writable(self) -> bool:
        return self._buffered.writable()

    def seekable(self) -> bool:
        return self._buffered.seekable()

    def read(self, size: int | None = -1) -> bytes:
        return self._buffered.read(-1 if size is None else size)

    def read1(self, size: int = -1) -> bytes:
        return cast(io.BufferedReader, self._buffered).read1(size)

    def readinto(self, buffer: Any) -> int:
        return cast(io.BufferedReader, self._buffered).readinto(buffer)

    readinto1 = readinto

    def readline(self, size: int | None = -1) -> bytes:
        return self._buffered.readline(-1 if size is None else size)

    def write(self, data: Any) -> int:
        return self._buffered.write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._buffered.seek(offset, whence)

    def tell(self) -> int:
        return self._buffered.tell()

    def truncate(self, size: int | None = None) -> int:
        return self._buffered.truncate(size)

    def flush(self, force: bool = False) -> None:
        if not self._buffered.closed and self._buffered.writable():
            self._buffered.flush()

    def close(self) -> None:
        if not self.closed:
            try:
                self._buffered.close()
            finally:
                super().close()


class CausewayFileSystem(AbstractFileSystem):
    """``config`` names the configuration file; without it, it is found as ``causeway.Client`` finds it.

    Directories above a new file are made, unless ``auto_mkdir`` is false: programs that know object stores expect that.
    Threads share it, it can be pickled, and a forked process makes a connection of its own.
    """

    protocol = "causeway"
    root_marker = "/"
    local_file = False

    def __init__(
        self,
        config: str | os.PathLike[str] | None = None,
        clients: int = 4,
        timeout: float | None = None,
        auto_mkdir: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.auto_mkdir = auto_mkdir
        self._arguments: dict[str, Any] = {"config": config, "clients": clients, "timeout": timeout}
        self._clients: dict[int, Client] = {}
        self.client  # noqa: B018 - a wrong configuration is found here

    @property
    def client(self) -> Client:
        """This process's client."""
        found = self._clients.get(os.getpid())
        if found is None:
            # A lock that another thread of the parent held at the fork would never be free: so none is held.
            found = self._clients.setdefault(os.getpid(), Client(**self._arguments))
        return found

    def _with_parents(self, path: str, make: Callable[[], T]) -> T:
        """Makes something, and again once the directories above it exist."""
        try:
            return make()
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
            self.makedirs(self._parent(path), exist_ok=True)
            return make()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = stringify_path(path)
        for front in ("causeway://", "causeway::"):
            path = path.removeprefix(front)
        # Without redundant slashes.
        return "/" + "/".join(part for part in path.split("/") if part)

    def unstrip_protocol(self, name: str) -> str:
        return "causeway://" + self._strip_protocol(name)

    @classmethod
    def _parent(cls, path: str) -> str:
        return cls._strip_protocol(path).rpartition("/")[0] or "/"

    def _describe(self, path: str, at: Stat) -> dict[str, Any]:
        kind = "directory" if at.is_dir() else "file" if at.is_file() else "other"
        return {
            "name": path,
            "size": at.st_size if kind != "directory" else 0,
            "type": kind,
            "created": at.st_ctime,
            "mtime": at.st_mtime,
            "mode": at.st_mode,
            "uid": at.st_uid,
            "gid": at.st_gid,
            "ino": at.st_ino,
            "nlink": at.st_nlink,
        }

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        at = self.client.stat(path, follow_symlinks=False)
        if not at.is_symlink():
            return self._describe(path, at)
        # A link is shown as its target, as in the local file system of fsspec.
        return self._describe(path, self.client.stat(path)) | self._link(path)

    def _link(self, path: str) -> dict[str, Any]:
        return {"islink": True, "destination": self.client.readlink(path)}

    def _listed(self, path: str, at: Stat) -> dict[str, Any]:
        if not at.is_symlink():
            return self._describe(path, at)
        # A link to a file is listed as the file. One to a directory is no directory here, or walks would descend through it.
        try:
            target = self.client.stat(path)
        except OSError:
            target = at
        return self._describe(path, target if target.is_file() else at) | self._link(path)

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            listed = list(self.client.scandir(path))
        except NotADirectoryError:
            return [self.info(path) if detail else path]
        front = path.rstrip("/")
        if not detail:
            return [f"{front}/{name}" for name, _ in listed]
        found = []
        for name, at in listed:
            # A link may have been removed since.
            with contextlib.suppress(FileNotFoundError):
                found.append(self._listed(f"{front}/{name}", at))
        return found

    def exists(self, path: str, **options: Any) -> bool:
        return self.client.exists(self._strip_protocol(path))

    def lexists(self, path: str, **options: Any) -> bool:
        return self.client.exists(self._strip_protocol(path), follow_symlinks=False)

    def created(self, path: str) -> datetime.datetime:
        return self._time(self.info(path)["created"])

    def modified(self, path: str) -> datetime.datetime:
        return self._time(self.info(path)["mtime"])

    @staticmethod
    def _time(seconds: float) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)

    def ukey(self, path: str) -> str:
        at = self.client.stat(self._strip_protocol(path))
        return f"{at.st_ino}-{at.st_size}-{at.st_ctime_ns}"

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        self.client.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if path != "/":
            self.client.makedirs(path, exist_ok=exist_ok)
        elif not exist_ok:
            raise FileExistsError(errno.EEXIST, "the root directory exists", path)

    def rmdir(self, path: str) -> None:
        self.client.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.client.remove(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for each in path if isinstance(path, (list, tuple)) else [path]:
            each = self._strip_protocol(each)
            paths = self.expand_path(each, recursive=recursive, maxdepth=maxdepth) if self.has_magic(each) else [each]
            for found in paths:
                self._remove(found, recursive, maxdepth)

    @staticmethod
    def has_magic(path: str) -> bool:
        return any(sign in path for sign in "*?[")

    def _remove(self, path: str, recursive: bool, depth: int | None) -> None:
        if not self.client.stat(path, follow_symlinks=False).is_dir():
            self.client.remove(path)
            return
        # Those below a directory come behind it, while the list is walked.
        directories = [(path, depth)]
        for each, left in directories:
            if not recursive or left == 1:
                continue
            for name, at in self.client.scandir(each):
                found = f"{each.rstrip('/')}/{name}"
                if at.is_dir():
                    directories.append((found, None if left is None else left - 1))
                else:
                    self.client.remove(found)
        for each, _ in reversed(directories):
            if each != "/":
                self.client.rmdir(each)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        if isinstance(path1, str) and isinstance(path2, str) and not self.has_magic(path1):
            source, target = self._strip_protocol(path1), self._strip_protocol(path2)
            if path2.endswith("/") or self.isdir(target):
                target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
            self.client.rename(source, target)
        elif path1 != path2:
            self._check_outside(path1, path2)
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)

    def _check_outside(self, path1: Any, path2: Any) -> None:
        # The copies would be removed together with what they were made of.
        targets = [self._strip_protocol(each) for each in ([path2] if isinstance(path2, str) else path2)]
        for source in self.expand_path(path1):
            for target in targets:
                if f"{target}/".startswith(f"{source.rstrip('/')}/") and self.isdir(source):
                    raise shutil.Error(f"{source!r} cannot be moved into itself, to {target!r}")

    def mv_file(self, path1: str, path2: str, **options: Any) -> None:
        self.client.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.makedirs(target, exist_ok=True)
            return
        with self.client.open_raw(source) as reader:
            # Opening the target removes its content.
            at = self._stat(target)
            if at is not None and at.st_ino == reader.stat().st_ino:
                raise _same(source, target)
            with self._writer(target) as writer:
                self._copy(reader, writer, DEFAULT_CALLBACK)

    def _stat(self, path: str) -> Stat | None:
        try:
            return self.client.stat(path)
        except FileNotFoundError:
            return None

    def _making(self, path: str, mode: str, make: Callable[[], T]) -> T:
        return make() if "r" in mode else self._with_parents(path, make)

    def _writer(self, path: str, mode: str = "wb") -> RawFile:
        return self._with_parents(path, lambda: self.client.open_raw(path, mode))

    @staticmethod
    def _copy(reader: Any, writer: Any, callback: Any) -> None:
        while piece := reader.read(PIECE):
            rest = memoryview(piece)
            while rest:
                rest = rest[writer.write(rest) :]
            callback.relative_update(len(piece))

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        path = self._strip_protocol(path)
        with self._writer(path, "wb" if truncate else "ab"):
            pass
        self.client.utime(path)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> CausewayFile:
        return CausewayFile(self, self._strip_protocol(path), mode, block_size, autocommit)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.client.read(path)
        found = self.client.read_ranges_many({path: [_range(start, end)]})[0]
        if isinstance(found, OSError):
            raise found
        return found[0]

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        paths = self.expand_path(path, recursive=recursive) if self._is_pattern(path, recursive) else path
        if isinstance(paths, str):
            return self.cat_file(paths, **options)
        paths = [self._strip_protocol(each) for each in paths]
        if options:
            return super().cat(paths, on_error=on_error, **options)
        if recursive or self._is_pattern(path, recursive):
            paths = [each for each in paths if not self.isdir(each)]
        found: dict[str, Any] = {}
        for each, content in zip(paths, self.client.read_many(paths)):
            if not isinstance(content, Exception):
                found[each] = content
            elif on_error == "raise":
                raise content
            elif on_error == "return":
                found[each] = content
        return found

    def _is_pattern(self, path: Any, recursive: bool) -> bool:
        paths = [path] if isinstance(path, str) else path
        return recursive or any(self.has_magic(each) for each in paths)

    def cat_ranges(
        self, paths: Sequence[str], starts: Any, ends: Any, max_gap: int | None = None, on_error: str = "return", **options: Any
    ) -> list[Any]:
        """The ranges of each file with one request to each server, and one time-out for all."""
        if not isinstance(paths, (list, tuple)):
            raise TypeError("paths is no list")
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends differ in length")
        by_path: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            by_path.setdefault(self._strip_protocol(path), []).append(index)
        results: list[Any] = [None] * len(paths)
        ranges = {path: [_range(starts[index], ends[index]) for index in indices] for path, indices in by_path.items()}
        for indices, found in zip(by_path.values(), self.client.read_ranges_many(ranges)):
            if on_error == "raise" and isinstance(found, OSError):
                raise found
            parts = [found] * len(indices) if isinstance(found, OSError) else found
            for index, part in zip(indices, parts):
                results[index] = part
        return results

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create":
            with self.open(path, "xb") as file:
                file.write(value)
        else:
            self._with_parents(path, lambda: self.client.write(path, value))

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        if isinstance(path, str):
            self.pipe_file(path, value, **options)
            return
        if options:
            super().pipe(path, value, **options)
            return
        files = {self._strip_protocol(each): content for each, content in path.items()}
        for name, error in zip(list(files), self.client.write_many(files)):
            if isinstance(error, FileNotFoundError):
                self.pipe_file(name, files[name])
            elif error is not None:
                raise error

    def put_file(self, lpath: str, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **options: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        self.makedirs(self._parent(rpath), exist_ok=True)
        with open(lpath, "rb", 0) as reader:
            local = os.fstat(reader.fileno())
            if _is_mounted(local, self._stat(rpath)):
                raise _same(lpath, rpath)
            callback.set_size(local.st_size)
            with self.open(rpath, "xb" if mode == "create" else "wb") as writer:
                self._copy(reader, writer, callback)

    def get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **options: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if outfile is None and self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        with self.client.open_raw(rpath) as reader:
            at = reader.stat()
            callback.set_size(at.st_size)
            if outfile is not None:
                self._copy(reader, outfile, callback)
                return
            if parent := os.path.dirname(os.fspath(lpath)):
                os.makedirs(parent, exist_ok=True)
            if os.path.exists(lpath) and _is_mounted(os.stat(lpath), at):
                raise _same(rpath, lpath)
            with open(lpath, "wb", 0) as writer:
                self._copy(reader, writer, callback)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Does nothing, as nothing is cached."""


def _same(source: Any, target: Any) -> shutil.SameFileError:
    return shutil.SameFileError(f"{source!r} and {target!r} are the same file")


def _is_mounted(local: os.stat_result, at: Stat | None) -> bool:
    """Whether a local file is this one, which a mount shows with its number, size and time."""
    return at is not None and (local.st_ino, local.st_size, local.st_mtime_ns) == (at.st_ino, at.st_size, at.st_mtime_ns)


def _range(start: int | None, end: int | None) -> tuple[int, int]:
    return 0 if start is None else start, (1 << 63) - 1 if end is None else end

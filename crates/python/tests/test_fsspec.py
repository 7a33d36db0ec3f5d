"""The file system for fsspec."""

import asyncio
import multiprocessing
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest
from fsspec.callbacks import Callback

import causeway
from causeway.spec import CausewayFileSystem


def test_urls_lead_to_it(dev, place):
    fs, path = fsspec.core.url_to_fs(f"causeway://{place}/x", config=dev.config)
    assert isinstance(fs, CausewayFileSystem) and path == place + "/x"
    with fsspec.open(f"causeway://{place}/x", "wt", config=dev.config) as file:
        file.write("by its URL")
    with fsspec.open(f"causeway://{place}/x", config=dev.config) as file:
        assert file.read() == b"by its URL"
    assert fs.unstrip_protocol(path) == f"causeway://{place}/x"


def test_listings_and_names(fs, place):
    fs.makedirs(place + "/a/b")
    fs.pipe({place + "/a/x.csv": b"1", place + "/a/b/y.csv": b"22", place + "/a/z.txt": b""})
    assert fs.ls(place + "/a", detail=False) == [place + "/a/b", place + "/a/x.csv", place + "/a/z.txt"]
    assert [each["type"] for each in fs.ls(place + "/a")] == ["directory", "file", "file"]
    assert fs.ls(place + "/a/x.csv", detail=False) == [place + "/a/x.csv"]
    assert fs.info(place + "/a/b/y.csv")["size"] == 2
    assert fs.find(place) == [place + "/a/b/y.csv", place + "/a/x.csv", place + "/a/z.txt"]
    assert fs.glob(place + "/**/*.csv") == [place + "/a/b/y.csv", place + "/a/x.csv"]
    assert fs.isdir(place + "/a") and fs.isfile(place + "/a/x.csv") and not fs.exists(place + "/none")
    assert fs.du(place) == 3
    fs.mv(place + "/a/x.csv", place + "/a/b/")
    assert fs.cat(place + "/a/b/x.csv") == b"1"
    fs.mv(place + "/a/b", place + "/c", recursive=True)
    fs.copy(place + "/c", place + "/d", recursive=True)
    assert fs.find(place + "/d") == [place + "/d/x.csv", place + "/d/y.csv"]
    assert fs.cat(place + "/d", recursive=True) == {place + "/d/x.csv": b"1", place + "/d/y.csv": b"22"}
    assert fs.cat(place + "/d/*.csv") == fs.cat(place + "/d", recursive=True)
    with pytest.raises(OSError):
        fs.rm(place + "/d")
    fs.rm(place + "/d", recursive=True)
    fs.rm([place + "/c/x.csv", place + "/c/y.csv"])
    fs.rmdir(place + "/c")
    assert fs.find(place) == [place + "/a/z.txt"]
    with pytest.raises(FileNotFoundError):
        fs.ls(place + "/none")
    fs.touch(place + "/a/z.txt")
    assert fs.modified(place + "/a/z.txt").year >= 2024
    fs.client.symlink("z.txt", place + "/a/link")
    assert fs.info(place + "/a/link")["type"] == "file" and fs.info(place + "/a/link")["islink"]


def test_listings_show_links_and_do_not_descend_through_them(fs, place, tmp_path):
    """Names and kinds are those of the local file system of fsspec; links to files alone are listed as files, as pyarrow expects."""
    local = fsspec.filesystem("file")
    fs.makedirs(place + "/a/b")
    fs.pipe(place + "/a/b/file", b"content")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"content")
    # Twenty links to the directory itself: followed, they make 20^n paths of n components.
    links = {f"a/here{number}": "." for number in range(20)}
    links |= {"a/up": "..", "a/file": "b/file", "a/none": "missing", "a/itself": "itself", "other": "a/b"}
    for link, target in links.items():
        fs.client.symlink(target, f"{place}/{link}")
        os.symlink(target, tmp_path / link)

    def below(paths, root):
        return [path.removeprefix(str(root)) for path in paths]

    assert below(fs.find(place), place) == below(local.find(str(tmp_path)), tmp_path)
    assert below(fs.find(place + "/other"), place) == ["/other/file"]
    assert below(fs.glob(place + "/**"), place) == below(local.glob(str(tmp_path / "**")), tmp_path)
    kinds = {each["name"].rpartition("/")[2]: (each["type"], each.get("islink", False)) for each in fs.ls(place + "/a")}
    assert kinds.pop("b") == ("directory", False) and kinds.pop("file") == ("file", True)
    assert len(kinds) == 23 and set(kinds.values()) == {("other", True)}
    for asked in ["a/up", "a/file", "other", "a/b"]:
        shown, expected = fs.info(f"{place}/{asked}"), local.info(str(tmp_path / asked))
        assert shown["type"] == expected["type"] and shown.get("destination") == expected.get("destination")
    with pytest.raises(FileNotFoundError):
        fs.info(place + "/a/none")
    with pytest.raises(OSError):
        fs.info(place + "/a/itself")
    assert fs.isdir(place + "/other") and not fs.isdir(place + "/a/none") and not fs.isfile(place + "/a/none")
    fs.client.mknod(place + "/pipe")
    assert fs.info(place + "/pipe")["type"] == "other"


def test_ranges_and_errors(fs, place):
    data = os.urandom(300_000)
    fs.pipe(place + "/data", data)
    assert fs.cat_file(place + "/data", 10, 20) == data[10:20]
    assert fs.cat_file(place + "/data", -10) == data[-10:]
    assert fs.cat_file(place + "/data", 5, -5) == data[5:-5]
    assert fs.head(place + "/data", 7) == data[:7] and fs.tail(place + "/data", 7) == data[-7:]
    paths = [place + "/data"] * 3 + [place + "/none"]
    found = fs.cat_ranges(paths, [0, 100_000, 299_999, 0], [5, 200_000, 400_000, 5])
    assert found[:3] == [data[:5], data[100_000:200_000], data[-1:]]
    assert isinstance(found[3], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 5, on_error="raise")
    with pytest.raises(FileNotFoundError):
        fs.cat([place + "/data", place + "/none"])
    assert list(fs.cat([place + "/data", place + "/none"], on_error="omit")) == [place + "/data"]


def test_files(fs, place):
    with fs.open(place + "/file", "wb") as file:
        file.write(b"one\ntwo\n")
        assert file.size == 8
    with fs.open(place + "/file", "ab") as file:
        file.write(b"three")
    with fs.open(place + "/file") as file:
        assert list(file) == [b"one\n", b"two\n", b"three"]
        assert file.seek(-5, 2) == 8 and file.read() == b"three" and file.size == 13
    with fs.open(place + "/file", "r", encoding="ascii") as file:
        assert file.readline() == "one\n"
    with pytest.raises(FileExistsError):
        fs.open(place + "/file", "xb")
    with fs.open(place + "/new/directories/x", "wb") as file:
        file.write(b"x")
    fs.pipe({place + "/more/of/them": b"y", place + "/x": b"z"})
    assert fs.cat(place + "/new/directories/x") == b"x" and fs.cat(place + "/more/of/them") == b"y"
    strict = CausewayFileSystem(config=fs.storage_options["config"], auto_mkdir=False)
    with pytest.raises(FileNotFoundError):
        strict.open(place + "/none/x", "wb")
    with pytest.raises(FileNotFoundError):
        strict.pipe({place + "/none/x": b""})
    with pytest.raises(FileNotFoundError):
        fs.open(place + "/none/x", "rb")


def test_put_and_get_tell_their_progress(fs, place, tmp_path):
    class Told(Callback):
        pass

    data = os.urandom(9_000_000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "large").write_bytes(data)
    (tmp_path / "in" / "small").write_bytes(b"small")
    put, got = Told(), Told()
    fs.put_file(str(tmp_path / "in" / "large"), place + "/large", callback=put)
    fs.get_file(place + "/large", str(tmp_path / "back"), callback=got)
    assert (tmp_path / "back").read_bytes() == data
    assert (put.size, put.value, got.size, got.value) == (len(data),) * 4
    fs.put(str(tmp_path / "in"), place + "/tree", recursive=True)
    fs.get(place + "/tree", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out" / "small").read_bytes() == b"small"
    assert (tmp_path / "out" / "large").read_bytes() == data


def test_transactions(fs, place):
    fs.pipe(place + "/old", b"old")
    with fs.transaction:
        with fs.open(place + "/new", "wb") as file:
            file.write(b"new")
        with fs.open(place + "/old", "ab") as file:
            file.write(b"er")
        assert not fs.exists(place + "/new") and fs.cat(place + "/old") == b"old"
    assert fs.cat([place + "/new", place + "/old"]) == {place + "/new": b"new", place + "/old": b"older"}
    with pytest.raises(RuntimeError):
        with fs.transaction:
            with fs.open(place + "/never", "wb") as file:
                file.write(b"never")
            raise RuntimeError
    assert fs.ls(place, detail=False) == [place + "/new", place + "/old"]


def test_a_file_copied_onto_itself_keeps_its_content(fs, place, tmp_path):
    file, link, hard = place + "/file", place + "/link", place + "/hard"
    fs.makedirs(place + "/tree")
    fs.pipe({file: b"content", place + "/tree/x": b"x"})
    fs.client.symlink("file", link)
    fs.client.link(file, hard)
    for source, target in [(file, file), (file, link), (link, file), (file, hard)]:
        with pytest.raises(shutil.SameFileError):
            fs.cp_file(source, target)
    for target in [file, hard]:
        fs.mv(file, target)
    with pytest.raises(shutil.SameFileError):
        fs.copy(place + "/tree/", place + "/tree", recursive=True)
    for again in [lambda: fs.mv(place + "/fil*", place), lambda: fs.mv([file], [hard])]:
        with pytest.raises(shutil.SameFileError):
            again()
    with pytest.raises(shutil.Error):
        fs.mv(place + "/tre*", place + "/tree/inner", recursive=True)
    assert fs.cat([file, link, hard]) == {file: b"content", link: b"content", hard: b"content"}
    assert fs.cat(place + "/tree/x") == b"x"


def test_a_file_is_neither_put_nor_got_onto_itself(fs, place, tmp_path, monkeypatch):
    """A mount shows the same file as a local one, with its number, size and times."""
    path, local = place + "/file", str(tmp_path / "mounted")
    fs.pipe(path, b"content")
    with open(local, "wb") as file:
        file.write(b"content")
    os.utime(local, ns=(0, 1_700_000_000_123_456_789))
    seen = os.stat(local)

    def as_mounted(stat):
        return lambda *path, **options: stat(*path, **options)._replace(st_ino=seen.st_ino, st_mtime_ns=seen.st_mtime_ns)

    monkeypatch.setattr(causeway.Client, "stat", as_mounted(causeway.Client.stat))
    monkeypatch.setattr(causeway.RawFile, "stat", as_mounted(causeway.RawFile.stat))
    with pytest.raises(shutil.SameFileError):
        fs.put_file(local, path)
    with pytest.raises(shutil.SameFileError):
        fs.get_file(path, local)
    assert fs.cat(path) == b"content" and (tmp_path / "mounted").read_bytes() == b"content"
    os.utime(local)
    fs.put_file(local, path)
    fs.get_file(path, local)


def test_long_names_and_deep_directories(fs, place):
    # 240 bytes in 80 characters.
    path = place + "/" + "漢" * 80
    with fs.transaction:
        with fs.open(path, "wb") as file:
            file.write(b"content")
    assert fs.cat(path) == b"content"
    assert not fs.exists(place + "/" + "x" * 256) and not fs.lexists(place + "/" + "x" * 256)
    # More levels than Python's stack has.
    fs.makedirs(place + "/deep" + "/d" * 1500)
    fs.rm(place + "/deep", recursive=True)
    assert fs.ls(place, detail=False) == [path]


def _read(fs, path):
    return fs.cat(path)


def _check(fs, path):
    assert fs.cat(path) == b"x"


def test_other_processes_and_threads(fs, place):
    fs.pipe(place + "/x", b"x")
    assert _read(pickle.loads(pickle.dumps(fs)), place + "/x") == b"x"
    for way in ["fork", "spawn"]:
        with multiprocessing.get_context(way).Pool(2) as pool:
            assert pool.starmap(_read, [(fs, place + "/x")] * 4) == [b"x"] * 4
    # A fork takes the object along as it is.
    child = multiprocessing.get_context("fork").Process(target=_check, args=(fs, place + "/x"))
    child.start()
    child.join()
    assert child.exitcode == 0
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: fs.cat(place + "/x"), range(50))) == [b"x"] * 50


def test_asyncio(fs, place):
    fs.pipe(place + "/x", b"x")

    async def read():
        return await asyncio.gather(*(asyncio.to_thread(fs.cat, place + "/x") for _ in range(10)))

    assert asyncio.run(read()) == [b"x"] * 10
    asyn = pytest.importorskip("fsspec.implementations.asyn_wrapper")
    wrapped = asyn.AsyncFileSystemWrapper(fs, asynchronous=True)
    assert asyncio.run(wrapped._cat_file(place + "/x")) == b"x"

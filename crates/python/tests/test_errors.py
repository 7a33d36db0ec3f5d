"""Exceptions, as Python's own functions raise them."""

import errno
import os
import pathlib
import pickle

import pytest

import causeway
from causeway.spec import CausewayFileSystem


def raised(call, *arguments):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value


def described(error, root):
    """What a program can ask an exception for, with names as they are below a directory."""
    names = [name and name.removeprefix(str(root)) for name in (error.filename, error.filename2)]
    return type(error), error.errno, *names


CALLS = [
    ("open", "/none"),
    ("open", "/none", "rb"),
    ("open", "/file/below"),
    ("open", "/directory", "rb"),
    ("open", "/none/below", "w"),
    ("open", "/file", "x"),
    ("stat", "/none"),
    ("listdir", "/none"),
    ("scandir", "/file"),
    ("mkdir", "/directory"),
    ("makedirs", "/directory"),
    ("rmdir", "/above"),
    ("remove", "/none"),
    ("unlink", "/none"),
    ("rename", "/none", "/other"),
    ("rename", "/file", "/none/below"),
    ("link", "/none", "/other"),
    ("link", "/file", "/directory"),
    ("symlink", "/file", "/directory"),
    ("readlink", "/file"),
    ("chmod", "/none", 0o600),
    ("truncate", "/none", 0),
    ("listxattr", "/none"),
    ("getxattr", "/none", "user.colour"),
    ("setxattr", "/none", "user.colour", b"blue"),
    ("removexattr", "/none", "user.colour"),
    ("stat", "/" + "x" * 256),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}{len(call[1])}")
def test_exceptions_name_the_files_of_the_call(client, place, tmp_path, call):
    client.makedirs(place + "/directory")
    client.makedirs(place + "/above/below")
    client.write(place + "/file", b"content")
    (tmp_path / "directory").mkdir()
    (tmp_path / "above" / "below").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"content")

    def arguments(root):
        return [f"{root}{each}" if isinstance(each, str) and each.startswith("/") else each for each in call[1:]]

    own = raised(open if call[0] == "open" else getattr(os, call[0]), *arguments(tmp_path))
    error = raised(getattr(client, call[0]), *arguments(place))
    assert described(error, place) == described(own, tmp_path)
    if error.filename2 is None:
        assert str(error) == f"[Errno {error.errno}] {error.strerror}: {error.filename!r}"
    else:
        assert str(error) == f"[Errno {error.errno}] {error.strerror}: {error.filename!r} -> {error.filename2!r}"
    assert str(place) not in error.strerror


def test_exceptions_name_files_as_the_caller_does(client, place):
    path = place + "/none"
    for given, named in [(path, path), (os.fsencode(path), os.fsencode(path)), (pathlib.PurePosixPath(path), path)]:
        for call in [client.stat, client.open, client.read, client.unlink]:
            assert raised(call, given).filename == named
    assert raised(client.stat, "").filename == ""
    assert raised(client.makedirs, os.fsencode(place)).filename == os.fsencode(place)
    odd = os.fsdecode(os.fsencode(path) + b"\xff")
    assert raised(client.stat, odd).filename == odd
    again = pickle.loads(pickle.dumps(raised(client.rename, path, place + "/new")))
    assert (again.filename, again.filename2) == (path, place + "/new")


def test_exceptions_of_many_files_name_each(client, fs, place):
    paths = [f"{place}/none{number}" for number in range(3)]
    assert [error.filename for error in client.read_many(paths)] == paths
    assert [error.filename for error in client.read_many(iter(paths))] == paths
    below = [path + "/below" for path in paths]
    assert [error.filename for error in client.write_many(dict.fromkeys(below, b""))] == below
    assert raised(client.write, below[0], b"").filename == below[0]
    assert raised(client.read_many, [place, ""]).filename == ""
    assert raised(fs.cat, "causeway://" + paths[0]).filename == paths[0]
    assert [error.filename for error in fs.cat_ranges(paths, 0, 1)] == paths
    assert raised(fs.info, paths[0]).errno == errno.ENOENT


def test_a_configuration_that_cannot_be_read_raises_what_open_raises(dev, tmp_path, monkeypatch):
    missing = str(tmp_path / "none.toml")
    monkeypatch.setenv("CAUSEWAY_CONFIG", missing)
    for connect in [
        lambda: causeway.Client(missing),
        lambda: causeway.Client(tmp_path / "none.toml"),
        lambda: causeway.Client(),
        lambda: causeway.connect(),
        lambda: CausewayFileSystem(config=missing),
    ]:
        error = raised(connect)
        assert (type(error), error.errno, error.filename) == (FileNotFoundError, errno.ENOENT, missing)
        assert "causeway fs init" in error.strerror
    error = raised(causeway.Client, str(tmp_path))
    assert (type(error), error.errno, error.filename) == (IsADirectoryError, errno.EISDIR, str(tmp_path))
    monkeypatch.setenv("CAUSEWAY_CONFIG", "")
    monkeypatch.chdir(tmp_path)
    error = raised(causeway.Client)
    assert isinstance(error, FileNotFoundError) and error.filename == "causeway.toml" and "causeway fs dev" in error.strerror


def test_a_configuration_that_others_may_change_is_not_permitted(dev, tmp_path):
    file = tmp_path / "open.toml"
    file.write_bytes(pathlib.Path(dev.config).read_bytes())
    file.chmod(0o666)
    error = raised(causeway.Client, file)
    assert (type(error), error.filename) == (PermissionError, str(file)) and "chmod go-w" in error.strerror


def test_a_configuration_that_says_something_wrong_is_a_wrong_value(tmp_path):
    file = tmp_path / "wrong.toml"
    for text, line in [("a = 1\nb = = 2\n", 2), ("\n\nunknown = 1\n", 3)]:
        file.write_text(text)
        with pytest.raises(ValueError, match=f"wrong.toml:{line}: ") as caught:
            causeway.Client(file)
        assert (caught.value.filename, caught.value.lineno) == (str(file), line)

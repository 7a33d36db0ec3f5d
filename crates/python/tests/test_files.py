"""Plain functions, clients and files."""

import array
import ctypes
import errno
import io
import itertools
import multiprocessing
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

import causeway


def test_files_are_opened_as_the_built_in_function_opens_them(client, place):
    path = place + "/text"
    with client.open(path, "w", encoding="utf-8") as file:
        assert file.write("zwölf\nBoxkämpfer\n") == 17
    with client.open(path, encoding="utf-8") as file:
        assert list(file) == ["zwölf\n", "Boxkämpfer\n"]
    with client.open(path, "rb") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read(5) == "zwöl".encode()
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"fer\n"
    with client.open(path, "r+b") as file:
        file.write(b"ZW")
        file.seek(0)
        assert file.read(5) == "ZWöl".encode()
        file.truncate(2)
    with client.open(path, "ab") as file:
        assert file.tell() == 2
        file.write(b"end")
    assert client.read(path) == b"ZWend"
    with pytest.raises(FileExistsError):
        client.open(path, "x")
    for mode in ["", "rw", "b", "rr", "q", "rbt"]:
        with pytest.raises(ValueError):
            client.open(path, mode)


def test_an_open_file_outlives_its_name(client, place):
    path = place + "/removed"
    client.write(path, b"content")
    other = causeway.Client(client.config)
    with client.open(path, "r+b", 0) as file:
        other.unlink(path)
        other.write(path, b"another")
        assert file.write(b"CON") == 3
        file.seek(0)
        assert file.read() == b"CONtent"
        assert client.read(path) == b"another"


def test_locks_exclude_other_open_files_and_ctrl_c_ends_a_wait(client, place):
    path = place + "/locked"
    client.write(path, b"content")
    with client.open(path, "r+b", 0) as one, client.open(path, "r+b", 0) as other:
        assert one.lock()
        assert not other.lock(exclusive=False, wait=False)
        # Ranges are another matter.
        assert one.lock(range=(10, 5)) and other.lock(range=(0, 10))
        holder = other.lock_holder(range=(0, 0))
        assert holder == (True, 10, 5, os.getpid())
        assert other.lock_holder(False, range=(0, 10)) is None
        with pytest.raises(ValueError):
            one.lock(range=(2**64 - 1, 2))
        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            with pytest.raises(OSError) as raised:
                threading.Timer(0.3, signal.raise_signal, [signal.SIGUSR1]).start()
                other.lock()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert raised.value.args == ("interrupted",)
        waits = threading.Thread(target=other.lock)
        waits.start()
        one.unlock()
        waits.join()
        assert not one.lock(wait=False)
        other.close()
        assert one.lock(wait=False) and one.lock(range=(0, 0))


def test_a_lock_of_a_file_that_is_closed_meanwhile_is_none(client, place):
    path = place + "/closed"
    client.write(path, b"content")
    with client.open(path, "r+b", 0) as one, client.open(path, "r+b", 0) as other:
        assert one.lock()
        ends = []

        def wait():
            try:
                ends.append(other.lock())
            except ValueError as closed:
                ends.append(str(closed))

        waits = threading.Thread(target=wait)
        waits.start()
        time.sleep(0.2)
        other.close()
        # The lock is still another's, so the closing has ended the wait.
        waits.join()
        assert ends == ["I/O operation on closed file"]
        one.unlock()
        assert one.lock_holder() is None


def interrupt(number, frame):
    raise OSError("interrupted")


def test_extended_attributes(client, place):
    path = place + "/attributed"
    client.write(path, b"content")
    client.setxattr(path, "user.colour", b"blue", os.XATTR_CREATE)
    assert client.getxattr(path, "user.colour") == b"blue"
    assert client.listxattr(path) == ["user.colour"]
    with pytest.raises(FileExistsError):
        client.setxattr(path, "user.colour", b"red", os.XATTR_CREATE)
    client.removexattr(path, "user.colour")
    with pytest.raises(OSError):
        client.getxattr(path, "user.colour")


def test_holes_are_made_and_found(client, place):
    data = b"x" * (4 << 20)
    with client.open(place + "/holes", "w+b", 0) as file:
        file.write(data)
        assert file.seek(0, os.SEEK_HOLE) == len(data)
        assert file.stat().st_blocks == len(data) // 512
        file.punch_hole(1 << 20, 2 << 20)
        for at in (file.stat(), client.stat(place + "/holes")):
            assert (2 << 20) // 512 <= at.st_blocks < len(data) // 512
        assert file.seek(0, os.SEEK_HOLE) == 1 << 20
        assert file.seek(1 << 20, os.SEEK_DATA) == 3 << 20
        assert file.pread(2 << 20, 1 << 20) == bytes(2 << 20)
        file.allocate(len(data), 100, keep_size=True)
        assert file.stat().st_size == len(data)
        file.allocate(len(data), 100)
        assert file.stat().st_size == len(data) + 100
        with pytest.raises(OSError):
            file.seek(len(data) + 100, os.SEEK_DATA)


def test_pipes_are_made_and_shown(client, place):
    pipe = place + "/pipe"
    client.mknod(pipe, stat.S_IFIFO | 0o640)
    at = client.stat(pipe)
    assert stat.S_ISFIFO(at.st_mode) and at.st_mode & 0o777 == 0o640
    assert not at.is_file() and (at.st_size, at.st_blocks, client.device(pipe)) == (0, 0, 0)
    with pytest.raises(OSError) as refused:
        client.open(pipe, "rb")
    assert refused.value.errno == errno.ENXIO
    with pytest.raises(OSError):
        client.mknod(place + "/file", stat.S_IFREG | 0o640)
    client.unlink(pipe)


def test_raw_files(client, place):
    data = bytes(range(256)) * 40_000
    with client.open(place + "/raw", "w+b", 0) as file:
        assert isinstance(file, io.RawIOBase)
        assert file.write(data) == len(data)
        assert file.read() == b""
        assert file.seek(0) == 0
        assert file.read() == data
        assert file.pread(10, 256) == data[:10]
        assert file.pread(1 << 60, len(data) - 3) == data[-3:]
        assert file.tell() == len(data)
        assert file.pwrite(b"xyz", 1) == 3
        into = bytearray(5)
        assert file.preadinto(into, 0) == 5
        assert into == b"\0xyz\x04"
        assert file.read_ranges([(0, 2), (5, 5), (len(data) - 1, len(data) + 9), (1 << 40, 1 << 41), (9, 3)]) == [
            b"\0x",
            b"",
            data[-1:],
            b"",
            b"",
        ]
        file.fsync()
        assert file.stat().st_size == len(data)
        # Other memory than bytes.
        assert file.pwrite(memoryview(b"abcdefgh").cast("Q"), 0) == 8
        assert file.pwrite(array.array("d"), 0) == file.preadinto(array.array("d"), 0) == 0
        numbers = array.array("d", [0.0] * 4)
        assert file.pwrite(array.array("d", [1.0, 2.0, 3.0]), 0) == 24 and file.preadinto(numbers, 0) == 32
        assert numbers[:3] == array.array("d", [1.0, 2.0, 3.0])
        with pytest.raises(TypeError):
            file.preadinto(b"constant", 0)
    for call in [file.read, file.tell, file.fsync, lambda: file.pread(1, 0)]:
        with pytest.raises(ValueError):
            call()
    with client.open(place + "/raw", "rb", 0) as file:
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
        with pytest.raises((OverflowError, OSError)):
            file.seek(-1)
    with client.open(place + "/raw", "wb", 0) as file:
        with pytest.raises(io.UnsupportedOperation):
            file.read(1)
        with pytest.raises(OSError) as failed:
            file.pwrite(b"xx", (1 << 63) - 1)
        assert failed.value.errno == errno.EFBIG


def test_names_and_attributes(client, place):
    client.makedirs(place + "/a/b/c")
    with pytest.raises(FileExistsError):
        client.makedirs(place + "/a/b/c")
    client.makedirs(place + "/a/b/c", exist_ok=True)
    odd = os.fsdecode(bytes(range(1, 256)).replace(b"/", b""))
    client.write(place + "/a/" + odd, b"odd")
    assert sorted(client.listdir(place + "/a")) == sorted(["b", odd])
    client.symlink(odd, place + "/link")
    assert client.readlink(place + "/link") == odd
    assert client.stat(place + "/link", follow_symlinks=False).is_symlink()
    assert not client.exists(place + "/link")
    file = place + "/a/" + odd
    client.chmod(file, 0o600)
    client.utime(file, (-1, 1_700_000_000_123_456_789))
    at = client.stat(file)
    assert (at.st_mode & 0o7777, at.st_size, at.st_mtime_ns, at.st_atime_ns) == (0o600, 3, 1_700_000_000_123_456_789, -1)
    client.utime(file)
    assert client.stat(file).st_mtime > 1_700_000_001
    client.link(file, place + "/second")
    assert client.stat(file).st_nlink == 2
    with pytest.raises(FileExistsError):
        client.rename(place + "/second", file, replace=False)
    client.rename(place + "/second", place + "/third")
    client.truncate(place + "/third", 100)
    assert client.read(file) == b"odd" + bytes(97)
    client.remove(file)
    client.rmdir(place + "/a/b/c")
    total, free, objects = client.statfs()
    assert total >= free > 0 and objects > 0


def test_errors_are_those_of_the_system_and_say_what_to_do(client, place):
    with pytest.raises(FileNotFoundError) as failed:
        client.read(place + "/none")
    assert failed.value.errno == errno.ENOENT and "none" in str(failed.value)
    with pytest.raises(IsADirectoryError):
        client.open(place)
    with pytest.raises(NotADirectoryError):
        client.write(place + "/file", b"x")
        client.listdir(place + "/file")
    with pytest.raises(OSError) as failed:
        client.rmdir(place)
    assert failed.value.errno == errno.ENOTEMPTY and "causeway fs rm -r" in str(failed.value)
    with pytest.raises(OSError) as failed:
        client.stat("/" + "x" * 256)
    assert failed.value.errno == errno.ENAMETOOLONG
    for call in [lambda: client.stat("/" + "x/" * 4000), lambda: client.symlink("x" * 4097, place + "/link")]:
        with pytest.raises(OSError) as failed:
            call()
        assert failed.value.errno == errno.ENAMETOOLONG
    for wrong in [3, "text", None]:
        with pytest.raises(TypeError):
            client.write(place + "/wrong", wrong)
    with pytest.raises(ValueError):
        client.stat("/a\0b")
    with pytest.raises(FileNotFoundError):
        client.stat("")
    with pytest.raises(OSError, match="/nonexistent"):
        causeway.Client("/nonexistent/causeway.toml")
    for wrong in [{"clients": 0}, {"timeout": -1.0}, {"timeout": float("nan")}]:
        with pytest.raises(ValueError):
            causeway.Client(client.config, **wrong)


def test_names_that_nothing_can_have_do_not_exist(client, place):
    client.symlink("itself", place + "/itself")
    client.write(place + "/file", b"")
    for none in ["none", "itself", "file/below", "x" * 256, "x/" * 4000]:
        assert not client.exists(f"{place}/{none}")
    with pytest.raises(ValueError):
        client.exists("/a\0b")


def test_times_of_numpy_are_written_as_bytes(client, place):
    numpy = pytest.importorskip("numpy")
    times = numpy.array(["2020-01-01", "2021-02-03"], "M8[s]")
    client.write(place + "/times", times)
    assert client.read(place + "/times") == times.tobytes()


def test_unbuffered_files_use_memory_of_any_type(client, place):
    class Pair(ctypes.Structure):
        _fields_ = [("number", ctypes.c_int32), ("letter", ctypes.c_char)]

    pairs = (Pair * 3)((1, b"a"), (2, b"b"), (3, b"c"))
    given = [
        (memoryview(bytes(range(24))).cast("B", [4, 6]), bytearray(24)),
        (memoryview(bytearray(range(24))).cast("d"), memoryview(bytearray(24)).cast("I", [2, 3])),
        (array.array("u", "letters"), array.array("u", "another")),
        (pairs, (Pair * 3)()),
        ((ctypes.c_int64 * 4)(1, 2, 3, 4), (ctypes.c_int64 * 4)()),
        (array.array("d"), array.array("d")),
    ]
    with client.open(place + "/memory", "w+b", 0) as file:
        for source, target in given:
            data = bytes(source)
            file.truncate(0)
            assert file.pwrite(source, 0) == len(data)
            assert file.preadinto(target, 0) == len(data) and bytes(target) == data
            file.seek(0)
            assert file.write(source) == len(data)
            file.seek(0)
            assert file.readinto(target) == len(data) and bytes(target) == data
        for constant in [b"constant", memoryview(bytes(24)).cast("d")]:
            for read in [file.readinto, lambda into: file.preadinto(into, 0)]:
                with pytest.raises(TypeError, match="read-write bytes-like object"):
                    read(constant)
        for strided in [memoryview(bytearray(24))[::2], memoryview(bytearray(24)).cast("d")[::-1]]:
            for call in [file.write, file.readinto]:
                with pytest.raises(BufferError, match="not contiguous"):
                    call(strided)
        for wrong in ["text", 3, None, [1]]:
            for call in [file.write, file.readinto]:
                with pytest.raises(TypeError):
                    call(wrong)
        # The memory is released.
        resized = bytearray(24)
        file.preadinto(resized, 0)
        file.pwrite(resized, 0)
        resized.append(0)
        released = memoryview(resized)
        released.release()
        with pytest.raises(ValueError):
            file.write(released)


def test_unbuffered_files_use_arrays_of_numpy(client, place):
    numpy = pytest.importorskip("numpy")
    given = [
        numpy.array(["2020-01-01", "2021-02-03"], "M8[s]"),
        numpy.array([(1, 2.5, b"x"), (3, 4.5, b"y")], "i2,f8,S3"),
        numpy.arange(12, dtype=">i4").reshape(3, 4),
        numpy.array(5.0),
        numpy.zeros(0, "f8"),
    ]
    with client.open(place + "/memory", "w+b", 0) as file:
        for source in given:
            target = numpy.zeros_like(source)
            assert file.pwrite(source, 0) == file.preadinto(target, 0) == source.nbytes
            assert target.tobytes() == source.tobytes()
            file.truncate(0)
        for strided in [numpy.zeros((4, 4))[:, 1], numpy.zeros((4, 4), order="F"), numpy.zeros(9, "M8[s]")[::2]]:
            for call in [file.write, file.readinto]:
                with pytest.raises(BufferError, match="not contiguous"):
                    call(strided)
        constant = numpy.zeros(3)
        constant.flags.writeable = False
        with pytest.raises(TypeError, match="read-write bytes-like object"):
            file.readinto(constant)


def test_many_files_at_once(client, place):
    files = {f"{place}/{number}": b"%d" % number * (number % 50) for number in range(300)}
    files[place + "/large"] = os.urandom(3_000_000)
    files[place + "/empty"] = b""
    assert client.write_many(files) == [None] * len(files)
    # Again, with other contents of other sizes.
    files = {path: content[::-1] + b"!" for path, content in files.items()}
    assert client.write_many(files) == [None] * len(files)
    assert client.read_many(list(files)) == list(files.values())
    found = client.read_many([place + "/1", place + "/none", place])
    assert found[0] == files[place + "/1"]
    assert isinstance(found[1], FileNotFoundError) and isinstance(found[2], IsADirectoryError)
    failed = client.write_many({place + "/none/x": b"", place: b"x"})
    assert isinstance(failed[0], FileNotFoundError) and isinstance(failed[1], IsADirectoryError)


def test_a_file_for_which_there_is_no_memory_is_an_error(client, place):
    path = place + "/sparse"
    for size in [1 << 62, (1 << 63) - 1]:
        with client.open(path, "wb", 0) as file:
            file.truncate(size)
        with pytest.raises(OSError) as failed:
            client.read(path)
        assert failed.value.errno == errno.ENOMEM and "sparse" in str(failed.value)
        assert isinstance(client.read_many([path])[0], OSError)


def test_an_open_file_for_which_there_is_no_memory_is_a_memory_error(client, place):
    path = place + "/sparse"
    for size in [1 << 62, (1 << 63) - 1]:
        with client.open(path, "w+b", 0) as file:
            file.truncate(size)
            with pytest.raises(MemoryError, match=f"no memory for {size} bytes"):
                file.read()
            file.seek(-3, os.SEEK_END)
            assert file.read() == bytes(3) and file.read() == b""
        for mode in ["rb", "r+b", "r"]:
            with client.open(path, mode) as file, pytest.raises(MemoryError):
                file.read()


def test_a_file_that_is_replaced_is_read_as_it_was_or_is(dev, place):
    size, path = 3_000_000, place + "/replaced"
    writer, reader = dev.client(), dev.client()
    writer.write(path, bytes(size))
    ends = threading.Event()

    def replace():
        for number in itertools.cycle(range(250)):
            writer.write(place + "/new", bytes([number]) * size)
            writer.rename(place + "/new", path)
            if ends.is_set():
                return

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        # The files of one call are opened together, and the last one is read when it has been replaced.
        for _ in range(50):
            for content in reader.read_many([path] * 8):
                assert content == content[:1] * size
    finally:
        ends.set()
        replacing.join()


def test_a_file_that_is_replaced_while_it_is_written_has_the_content_of_one(dev, place):
    size, path = 300_000, place + "/replaced"
    writer, replacer = dev.client(), dev.client()
    ends = threading.Event()

    def replace():
        for number in itertools.count():
            name = f"{path}{number % 8}"
            # Also a name that nothing has meanwhile.
            if number % 3 and replacer.exists(name):
                replacer.unlink(name)
            replacer.write(place + "/new", b"n" * size)
            replacer.rename(place + "/new", name)
            if ends.is_set():
                return

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        # The files of one call are made together, and the last one is written when it has been replaced.
        for _ in range(60):
            assert writer.write_many({f"{path}{number}": b"w" * size for number in range(8)}) == [None] * 8
    finally:
        ends.set()
        replacing.join()
    assert all(content[:1] * size == content for content in writer.read_many([f"{path}{number}" for number in range(8)]))


def test_ranges_of_a_file_that_is_truncated_have_no_bytes_behind_its_end(dev, place):
    data, ranges = b"\xff" * 300_000, [(0, 9), (9, 9), (100_000, 300_000)]
    path = place + "/file"
    with dev.client().open(path, "w+b", 0) as file, dev.client().open(path, "r+b", 0) as other:
        for _ in range(300):
            file.pwrite(data, 0)
            truncation = threading.Thread(target=other.truncate, args=(50_000,))
            truncation.start()
            goes_on = True
            while goes_on:
                goes_on = truncation.is_alive()
                parts = file.read_ranges(ranges)
                assert parts[:2] == [data[:9], b""] and parts[2] == data[: len(parts[2])]
                assert len(parts[2]) in (0, 200_000)
            truncation.join()
            assert parts[2] == b""


def test_threads_share_a_client_and_a_file(client, place):
    piece, rounds, threads = 5000, 20, 4
    failures = []

    def work(number, file):
        try:
            for turn in range(rounds):
                data = bytes([number * rounds + turn]) * piece
                at = (number * rounds + turn) * piece
                assert file.pwrite(data, at) == piece
                assert file.pread(piece, at) == data
                client.write(f"{place}/own{number}", data)
                assert client.read(f"{place}/own{number}") == data
        except BaseException as failure:
            failures.append(failure)

    with client.open(place + "/shared", "w+b", 0) as file:
        running = [threading.Thread(target=work, args=(number, file)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert not failures
        assert file.stat().st_size == threads * rounds * piece


def test_a_waiting_call_lets_other_threads_run(place):
    """A stopped server keeps a call waiting; meanwhile another thread runs."""
    with causeway.dev(servers=1) as running:
        client = running.client(timeout=60)
        client.write("/large", bytes(1 << 20))
        pid = running.pids["io0"]
        _stop(pid)
        seen = []
        reader = threading.Thread(target=lambda: seen.append(client.read("/large")))
        try:
            reader.start()
            # If the reader kept Python's lock, this line would not be reached before the read has ended.
            assert not seen
        finally:
            os.kill(pid, signal.SIGCONT)
        reader.join()
        assert seen == [bytes(1 << 20)]


def _stop(pid):
    os.kill(pid, signal.SIGSTOP)
    # The process's threads run until the signal has reached them.
    while _state(pid) != "T":
        time.sleep(0.001)


@pytest.mark.parametrize("server", ["io0", "meta"])
def test_a_call_on_many_files_of_a_stopped_server_has_one_time_out(server):
    with causeway.dev(servers=1) as running:
        files = {f"/{number}": bytes(100_000) for number in range(150)}
        assert running.client().write_many(files) == [None] * len(files)
        client, fs = running.client(timeout=1), running.filesystem(timeout=1)
        calls = [
            lambda: client.read_many(list(files)),
            lambda: client.write_many(files),
            lambda: fs.cat(list(files), on_error="return").values(),
            lambda: fs.cat_ranges(list(files), 10, -10),
        ]
        for call in calls:
            call()
        pid = running.pids[server]
        _stop(pid)
        try:
            for call in calls:
                began = time.monotonic()
                failed = call()
                # Each alone would take a second, or each few dozen of them.
                assert time.monotonic() - began < 2
                assert all(isinstance(each, TimeoutError) for each in failed)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert client.write_many(files) == [None] * len(files)


def test_a_signal_is_handled_between_two_of_many_files(client, place):
    files = {f"{place}/{number}": bytes(1 << 20) for number in range(200)}

    def interrupt_soon():
        while not client.exists(f"{place}/0"):
            time.sleep(0.001)
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(OSError, match="interrupted"):
            waiting = threading.Thread(target=interrupt_soon)
            waiting.start()
            client.write_many(files)
    finally:
        signal.signal(signal.SIGUSR1, before)
    waiting.join()
    assert not client.exists(f"{place}/199")


def test_a_killed_server_is_an_error_in_time():
    with causeway.dev(servers=1) as running:
        client = running.client()
        client.write("/large", bytes(1 << 20))
        os.kill(running.pids["io0"], signal.SIGKILL)
        with pytest.raises((ConnectionError, TimeoutError, OSError)) as failed:
            running.client(timeout=0.5).read("/large")
        assert failed.value.errno in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.ECONNRESET)
        assert "causeway fs ping" in str(failed.value)
        assert client.exists("/large"), "the metadata server is still there"


def test_pickling(client, place):
    client.write(place + "/x", b"x")
    again = pickle.loads(pickle.dumps(client))
    assert again.read(place + "/x") == b"x"


def _child(client, path, results):
    try:
        client.read(path)
    except OSError as error:
        results.put(str(error))
    own = causeway.Client(client.config)
    results.put(own.read(path))


def test_a_forked_child_makes_a_client_of_its_own(client, place):
    client.write(place + "/x", b"x")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_child, args=(client, place + "/x", results))
    child.start()
    assert "after the fork" in results.get(timeout=60)
    assert results.get(timeout=60) == b"x"
    child.join()
    assert child.exitcode == 0
    assert client.read(place + "/x") == b"x"


def test_plain_functions(dev, place, monkeypatch):
    monkeypatch.setenv("CAUSEWAY_CONFIG", dev.config)
    causeway.makedirs(place + "/a")
    causeway.write(place + "/a/x", b"plain")
    assert causeway.exists(place + "/a/x") and causeway.listdir(place + "/a") == ["x"]
    assert causeway.read(place + "/a/x") == b"plain"
    causeway.rename(place + "/a/x", place + "/a/y")
    with causeway.open(place + "/a/y") as file:
        assert file.read() == "plain"
    assert causeway.stat(place + "/a/y").st_size == 5
    causeway.remove(place + "/a/y")
    assert causeway.connect(dev.config).listdir(place + "/a") == []


def _state(pid):
    """The letter by which the kernel names a process's state, if there is one."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def _is_running(pid):
    # An ended process stays until its parent waits for it.
    return _state(pid) not in (None, "Z")


def test_dev_ends_its_servers_and_says_why_it_does_not_start(tmp_path):
    with causeway.dev(servers=1, directory=tmp_path / "fs") as running:
        pids = list(running.pids.values())
        assert all(map(_is_running, pids))
        running.client().write("/kept", b"kept")
    assert not any(map(_is_running, pids))
    with causeway.dev(servers=1, directory=tmp_path / "fs") as running:
        assert running.client().read("/kept") == b"kept"
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="has not started: .*file"):
        with causeway.dev(directory=tmp_path / "file"):
            pass
    with pytest.raises(OSError, match="has not started"):
        with causeway.dev(command="/nonexistent/causeway"):
            pass


def test_dev_ends_with_a_process_that_is_killed():
    program = "import causeway\nwith causeway.dev(servers=1) as fs: print(*fs.pids.values(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        pids = [int(pid) for pid in child.stdout.readline().split()]
        assert len(pids) == 2 and all(map(_is_running, pids))
        child.kill()
    until = time.monotonic() + 60
    while any(map(_is_running, pids)):
        assert time.monotonic() < until
        time.sleep(0.01)

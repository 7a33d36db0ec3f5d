# Programs that write a file past the kernel's cache, by handles that were opened only to write, while others read, map, append to and lock it.
import fcntl, mmap, os, random, struct, sys

PAGE, SLOT = 4096, 512

def compare(path, seed, count):
    """Every read, by calls and of mapped pages, gives what was written before it."""
    pick = random.Random(seed)
    size = 3 << 20
    model = bytearray(pick.randbytes(size))
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    writer = os.open(path, os.O_WRONLY)
    assert os.pwrite(writer, model, 0) == size
    reader = os.open(path, os.O_RDONLY)
    shown = mmap.mmap(reader, size, prot=mmap.PROT_READ)
    for step in range(count):
        length = pick.choice([1, 100, PAGE, 3 * PAGE, 1 << 20, (1 << 20) + 77])
        offset = pick.randrange(size - length)
        if pick.random() < 0.5:
            offset -= offset % PAGE
        data = pick.randbytes(length)
        assert os.pwrite(writer, data, offset) == length
        model[offset:offset + length] = data
        start = max(0, offset - pick.randrange(2 * PAGE))
        end = min(size, offset + length + pick.randrange(2 * PAGE))
        assert os.pread(reader, end - start, start) == model[start:end], f'read at step {step}'
        assert shown[start:end] == model[start:end], f'mapped at step {step}'
    assert shown[:] == model
    # A write that fails leaves no old page, either.
    try:
        os.pwrite(writer, b'x', (1 << 63) - 1)
        assert False, 'there is no such byte'
    except OSError:
        pass
    assert os.pread(reader, size, 0) == model

def slots(path, count):
    """One program writes the even slots, another one stores into the odd slots of the same mapped pages."""
    pages = 8
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    writer = os.open(path, os.O_WRONLY)
    os.pwrite(writer, bytes(pages * PAGE), 0)
    # It is opened while the other handle goes past the cache.
    mapper = os.open(path, os.O_RDWR)
    child = os.fork()
    every = range(0, pages * PAGE, 2 * SLOT)
    if child == 0:
        for round in range(1, count + 1):
            for at in every:
                os.pwrite(writer, struct.pack('<Q', round) * (SLOT // 8), at)
        os._exit(0)
    mapped = mmap.mmap(mapper, pages * PAGE)
    round = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        round += 1
        for at in every:
            mapped[at + SLOT:at + 2 * SLOT] = struct.pack('<Q', round) * (SLOT // 8)
        if round % 3 == 0:
            mapped.flush()
    mapped.flush()
    mapped.close()
    for handle in (writer, mapper):
        os.close(handle)
    with open(path, 'rb') as file:
        found = file.read()
    for at in every:
        for at, expected in ((at, count), (at + SLOT, round)):
            stored = set(struct.unpack(f'<{SLOT // 8}Q', found[at:at + SLOT]))
            assert stored == {expected}, f'byte {at}: {stored} instead of {expected}'

def appends(path, number, count):
    """Appends to a file, the beginning of which is mapped and changed, and locks it."""
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
    mapped = mmap.mmap(file, PAGE)
    record = struct.pack('<Q', number) * 32
    for round in range(1, count + 1):
        mapped[number * 8:number * 8 + 8] = struct.pack('<Q', round)
        assert os.write(file, record) == len(record)
        fcntl.flock(file, fcntl.LOCK_EX)
        mapped[number * 8:number * 8 + 8] = struct.pack('<Q', round)
        fcntl.flock(file, fcntl.LOCK_UN)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
        fcntl.lockf(file, fcntl.LOCK_UN, 1, number)
    mapped.flush()

step, path, *numbers = sys.argv[1:]
{'compare': compare, 'slots': slots, 'appends': appends}[step](path, *map(int, numbers))

# Programs that write a file by handles that were opened only to write, while others read, map, append to and lock it.
import fcntl, mmap, os, random, re, struct, sys

PAGE, SLOT = 4096, 512
# Whether the kernel drops pages not only before it has a request past its cache carried out, but also afterwards.
DROPS_AFTER_WRITES = tuple(int(part) for part in re.findall(r'\d+', os.uname().release)[:3]) >= (6, 18, 44)

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

def slots(path, count):
    """One program writes the even slots of a page, another one stores into the odd slots of the same page, which it has mapped, all the time."""
    # As this one is open, the writes of the other one do not go past the cache.
    mapper = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    os.pwrite(mapper, bytes(PAGE), 0)
    writer, reader = os.open(path, os.O_WRONLY), os.open(path, os.O_RDONLY)
    filled = lambda round: struct.pack('<Q', round) * (SLOT // 8)
    every = range(0, PAGE, 2 * SLOT)
    child = os.fork()
    if child == 0:
        lost = 0
        for round in range(1, count + 1):
            for at in every:
                os.pwrite(writer, filled(round), at)
            for at in every:
                lost += os.pread(reader, SLOT, at) != filled(round)
        if lost:
            print(f'{lost} of {count * len(every)} writes were lost', file=sys.stderr, flush=True)
        os._exit(lost != 0)
    mapped = mmap.mmap(mapper, PAGE)
    round = 0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        for at in every:
            assert mapped[at + SLOT:at + 2 * SLOT] == filled(round), f'round {round} is lost'
        round += 1
        for at in every:
            mapped[at + SLOT:at + 2 * SLOT] = filled(round)
    assert status == 0
    mapped.flush()
    mapped.close()
    for handle in (writer, mapper, reader):
        os.close(handle)
    with open(path, 'rb') as file:
        found = file.read()
    for at in every:
        assert found[at:at + SLOT] == filled(count) and found[at + SLOT:at + 2 * SLOT] == filled(round)

def beside(path, count):
    """Programs read, by calls and of mapped pages, what another one writes past the cache all the time: each read begins with what was written last, or later."""
    writer = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    size = 64 * PAGE
    filled = lambda round: struct.pack('<Q', round) * (size // 8)
    assert os.pwrite(writer, filled(0), 0) == size
    said, heard = os.pipe()
    child = os.fork()
    if child == 0:
        for round in range(1, count + 1):
            assert os.pwrite(writer, filled(round), 0) == size
            os.write(heard, b'.')
        os._exit(0)
    os.close(heard)
    reader = os.open(path, os.O_RDONLY)
    shown = mmap.mmap(reader, size, prot=mmap.PROT_READ)
    written = 0
    while True:
        more = len(os.read(said, 1 << 16))
        written += more
        contents = [os.pread(reader, size, 0)]
        if DROPS_AFTER_WRITES:
            contents.append(shown[:])
        for content in contents:
            rounds = struct.unpack(f'<{size // 8}Q', content)
            assert min(rounds) >= written, f'{min(rounds)} was read after {written}'
        if not more:
            break
    assert written == count and os.waitpid(child, 0)[1] == 0

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
{'compare': compare, 'slots': slots, 'beside': beside, 'appends': appends}[step](path, *map(int, numbers))

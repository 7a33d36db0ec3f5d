# A program that copies parts of files by copy_file_range, and compares with a model what it reads, by calls and of mapped pages.
import errno, mmap, os, random, sys

SIZE, PAGE = 3 << 20, 4096

def copied(source, target, length, start, to):
    """The kernel and the mount may copy less at once."""
    done = 0
    while done < length:
        count = os.copy_file_range(source, target, length - done, start + done, to + done)
        if count == 0:
            break
        done += count
    return done

def compare(directory, other, seed, count):
    pick = random.Random(seed)
    paths = [f'{directory}/{name}-{seed}' for name in 'abc']
    models = [bytearray(pick.randbytes(SIZE)) for _ in paths]
    files, shown = [], []
    for path, model in zip(paths, models):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        assert os.pwrite(file, model, 0) == SIZE
        files.append(file)
        shown.append(mmap.mmap(file, SIZE))
    for step in range(count):
        one, two = pick.randrange(3), pick.randrange(3)
        length = pick.choice([1, 100, PAGE, 3 * PAGE, 1 << 18, (1 << 20) + 77])
        start, to = pick.randrange(SIZE - length), pick.randrange(SIZE - length)
        if pick.random() < 0.5:
            to = start
        if pick.random() < 0.3:
            start, to = start - start % PAGE, to - to % PAGE
        data = pick.randbytes(length)
        if pick.random() < 0.5:
            assert os.pwrite(files[one], data, start) == length
        else:
            # What was stored into mapped pages, and not written back yet, is copied as well.
            shown[one][start:start + length] = data
        models[one][start:start + length] = data
        if one == two and abs(start - to) < length:
            try:
                os.copy_file_range(files[one], files[two], length, start, to)
                assert False, 'parts of a file that overlap'
            except OSError as error:
                assert error.errno == errno.EINVAL, error
            continue
        assert copied(files[one], files[two], length, start, to) == length, f'step {step}'
        models[two][to:to + length] = models[one][start:start + length]
        begin = max(0, to - pick.randrange(2 * PAGE))
        end = min(SIZE, to + length + pick.randrange(2 * PAGE))
        assert os.pread(files[two], end - begin, begin) == models[two][begin:end], f'read at step {step}'
        assert shown[two][begin:end] == models[two][begin:end], f'mapped at step {step}'
        if step % 10 == 0:
            # Through the other mount, what was stored into pages is seen once it is written back.
            for pages in shown:
                pages.flush()
            with open(f'{other}/{os.path.basename(paths[two])}', 'rb') as file:
                assert file.read() == models[two], f'through the other mount at step {step}'
    for pages, file in zip(shown, files):
        pages.close()
        os.close(file)
    for path, model in zip(paths, models):
        for place in (directory, other):
            with open(f'{place}/{os.path.basename(path)}', 'rb') as file:
                assert file.read() == model

def ends(directory):
    """At the end of a file, behind it, and to a file that it makes longer."""
    source, target = f'{directory}/source', f'{directory}/target'
    with open(source, 'wb') as file:
        file.write(b'x' * 100_000)
    source = os.open(source, os.O_RDONLY)
    target = os.open(target, os.O_CREAT | os.O_RDWR)
    assert os.copy_file_range(source, target, 1 << 30, 99_990, 5) == 10
    assert os.copy_file_range(source, target, 10, 100_000, 0) == 0
    assert os.fstat(target).st_size == 15
    assert os.pread(target, 100, 0) == bytes(5) + b'x' * 10
    assert copied(source, target, 1 << 30, 0, 1 << 20) == 100_000
    assert os.fstat(target).st_size == (1 << 20) + 100_000
    assert os.pread(target, 5, (1 << 20) - 2) == b'\0\0xxx'

step, *arguments = sys.argv[1:]
globals()[step](*(int(each) if each.isdigit() else each for each in arguments))

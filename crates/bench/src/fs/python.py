"""A client of `causeway bench fs` in Python: reads what the benchmark has stored, and prints how long that took, as JSON.

Arguments: the configuration, the large file, a local file with the same content, bytes of a piece, and a directory of small files.
"""

import json
import sys
import time

from causeway.spec import CausewayFileSystem

config, large, source, piece, directory = sys.argv[1:]
piece = int(piece)
fs = CausewayFileSystem(config=config)
names = fs.ls(directory, detail=False)


def timed(act):
    begun = time.perf_counter()
    found = act()
    return time.perf_counter() - begun, found


def read(file):
    count = 0
    while part := file.read(piece):
        count += len(part)
    return count


def read_into(file):
    count, memory = 0, bytearray(piece)
    while got := file.readinto(memory):
        count += got
    return count


seconds = {}
with fs.open(large, "rb") as file, open(source, "rb") as wanted:
    size = file.size
    while expected := wanted.read(piece):
        if file.read(piece) != expected:
            sys.exit(f"{large} is not what was written")
    for what, act in {"read": read, "readinto": read_into}.items():
        file.seek(0)
        seconds[what], count = timed(lambda: act(file))
        if count != size:
            sys.exit(f"{what}: {count} bytes instead of {size}")
seconds["cat"], together = timed(lambda: fs.cat(names))
seconds["cat-one"], alone = timed(lambda: {name: fs.cat_file(name) for name in names})
if together != alone or len(together) != len(names):
    sys.exit("small files read together and one at a time differ")
print(json.dumps({"files": len(names), "seconds": seconds}))

"""The parallel file system Causeway, from Python.

    import causeway

    with causeway.dev() as fs:                      # a file system for tests, which ends with the block
        client = fs.client()                        # otherwise: causeway.Client("/etc/causeway.toml")
        with client.open("/results.txt", "w") as file:
            file.write("done\\n")
        print(client.read("/results.txt"))

For pandas, pyarrow, zarr and other users of fsspec, paths are URLs: ``causeway:///results.txt``.

Failures raise ``OSError`` (``FileNotFoundError``, ``TimeoutError``, ...) with ``errno`` and a text that names the remedy. No call
holds Python's lock while it waits.
"""

from __future__ import annotations

from ._client import Client, RawFile, Stat
from ._dev import Dev, dev
from ._plain import connect, exists, listdir, makedirs, open, read, remove, rename, stat, write

__all__ = [
    "Client",
    "Dev",
    "RawFile",
    "Stat",
    "connect",
    "dev",
    "exists",
    "listdir",
    "makedirs",
    "open",
    "read",
    "remove",
    "rename",
    "stat",
    "write",
]

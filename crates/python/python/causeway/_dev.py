"""A whole file system on this machine, for tests, started by `causeway fs dev`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from ._client import Client

# Ends the command when this process closes its end of the pipe, or ends.
_SCRIPT = '"$@" & child=$!; exec >&-; read -r _; kill -TERM "$child" 2>&-; wait "$child"'


class Dev:
    """A running file system: ``config`` is its configuration file, ``pids`` are its servers' processes by name."""

    def __init__(self, config: str, pids: dict[str, int]) -> None:
        self.config = config
        self.pids = pids

    def client(self, **options: Any) -> Client:
        """A client of it."""
        return Client(self.config, **options)

    def filesystem(self, **options: Any) -> Any:
        """An fsspec file system of it."""
        from .spec import CausewayFileSystem

        return CausewayFileSystem(config=self.config, **options)


def _command(named: str | None) -> str:
    command = named or os.environ.get("CAUSEWAY_COMMAND") or shutil.which("causeway")
    if command is None:
        raise FileNotFoundError(
            "the command `causeway` is not in $PATH: install it (`make install`), or name it with command=... or $CAUSEWAY_COMMAND"
        )
    return command


@contextlib.contextmanager
def dev(
    *, servers: int = 2, directory: str | os.PathLike[str] | None = None, synced: bool = False, command: str | None = None
) -> Iterator[Dev]:
    """Starts a file system with this number of I/O servers, and ends it with the block.

    Its data lie in a temporary directory, unless one is given, whose data stay. ``synced`` has changes survive a loss of power,
    which costs a sync of the disk each. ``command`` is the program ``causeway``.
    """
    program = _command(command)
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="causeway-"))
        errors = stack.enter_context(tempfile.TemporaryFile())
        durability = "synced" if synced else "relaxed"
        arguments = ["--servers", str(servers), "--dir", os.fspath(directory), "--durability", durability, "--json"]
        process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", program, "fs", "dev", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            told = json.loads(line) if line else {}
            if "config" not in told:
                _end(process)
                errors.seek(0)
                text = errors.read().decode(errors="replace").strip()
                raise OSError(f"`{program} fs dev` has not started: {text}")
            yield Dev(told["config"], dict(zip(told["servers"], told["pids"])))
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()

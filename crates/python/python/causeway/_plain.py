"""Plain functions, with one client for the process."""

from __future__ import annotations

import os
import threading
from typing import IO, Any

from ._client import Client, Path, Stat

_lock = threading.Lock()
_client: Client | None = None


def _forget() -> None:
    # A child has neither its parent's client nor the thread that may hold the lock.
    global _client, _lock
    _client, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def connect(config: str | os.PathLike[str] | None = None) -> Client:
    """Connects the file system that the plain functions use. They do it by themselves if the configuration is in its usual place."""
    global _client
    client = Client(config)
    with _lock:
        _client = client
    return client


def _connected() -> Client:
    global _client
    with _lock:
        if _client is None:
            _client = Client()
        return _client


def open(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> IO[Any]:
    """As ``Client.open``."""
    return _connected().open(path, mode, *arguments, **options)


def read(path: Path) -> bytes:
    """As ``Client.read``."""
    return _connected().read(path)


def write(path: Path, data: Any) -> None:
    """As ``Client.write``."""
    _connected().write(path, data)


def stat(path: Path) -> Stat:
    """As ``Client.stat``."""
    return _connected().stat(path)


def exists(path: Path) -> bool:
    """As ``Client.exists``."""
    return _connected().exists(path)


def listdir(path: Path = "/") -> list[str]:
    """As ``Client.listdir``."""
    return _connected().listdir(path)


def makedirs(path: Path, mode: int = 0o755, exist_ok: bool = False) -> None:
    """As ``Client.makedirs``."""
    _connected().makedirs(path, mode, exist_ok)


def remove(path: Path) -> None:
    """As ``Client.remove``."""
    _connected().remove(path)


def rename(source: Path, target: Path) -> None:
    """As ``Client.rename``."""
    _connected().rename(source, target)

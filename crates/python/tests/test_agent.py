"""A user who may not read the key, and the agent of the node. Only root can be several users."""

import errno
import os
import socket
import subprocess
import tempfile
import traceback

import pytest

import causeway
from causeway import _dev

USER = 61_234

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


def _free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class _Process:
    """``causeway fs ARGUMENTS…`` from the line that has ``ready`` to the end of the block."""

    def __init__(self, command, config, ready, *arguments):
        environment = {**os.environ, "CAUSEWAY_CONFIG": config}
        self._child = subprocess.Popen([command, "fs", *arguments], stdout=subprocess.PIPE, text=True, env=environment)
        line = self._child.stdout.readline()
        if ready not in line:
            self.end()
            raise OSError(f"{arguments}: {line}")

    def end(self):
        self._child.terminate()
        self._child.wait()
        self._child.stdout.close()


def _as_user(act):
    """Runs ``act`` in a child process of the user, which has nothing of this process's connections."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        return
    code = 1
    try:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        act()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def test_a_user_without_keys_uses_files_through_the_agent():
    command = _dev._command(None)
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        config = directory + "/causeway.toml"
        hosts = [f"127.0.0.1:{_free_port()}" for _ in range(2)]
        made = ["init", hosts[1], "--metadata", hosts[0], "--dir", directory + "/parts", "--durability", "relaxed"]
        subprocess.run([command, "fs", *made, "--output", config], check=True, stdout=subprocess.DEVNULL)
        with open(config) as file:
            text = file.read()
        with open(config, "w") as file:
            file.write(f'{text}\n[agent]\nsocket = "{directory}/run/agent.sock"\n')
        processes = []

        def start(ready, *arguments):
            processes.append(_Process(command, config, ready, *arguments))

        def refused():
            with pytest.raises(OSError, match="causeway fs agent") as raised:
                causeway.Client(config).listdir("/")
            assert raised.value.errno == errno.ENOKEY

        def uses():
            client = causeway.Client(config)
            client.write("/open/mine", b"content" * 100_000)
            assert client.read("/open/mine") == b"content" * 100_000
            assert client.stat("/open/mine").st_uid == USER
            with pytest.raises(PermissionError):
                client.write("/shut", b"")

        try:
            start("ready", "serve", "--server", "io0", "--format")
            start("ready", "serve", "--server", "meta", "--format")
            root = causeway.Client(config)
            root.mkdir("/open")
            root.chmod("/open", 0o1777)
            _as_user(refused)
            start("listens", "agent")
            _as_user(uses)
        finally:
            for process in processes:
                process.end()

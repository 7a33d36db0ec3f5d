import pytest

import causeway


@pytest.fixture(scope="session")
def dev():
    with causeway.dev(servers=2) as running:
        yield running


@pytest.fixture
def place(dev, request):
    """A directory of the test's own."""
    path = "/" + request.node.name.translate({ord(sign): "_" for sign in "[]/ "})
    dev.client().mkdir(path)
    return path


@pytest.fixture
def client(dev):
    return dev.client()


@pytest.fixture
def fs(dev):
    return dev.filesystem()

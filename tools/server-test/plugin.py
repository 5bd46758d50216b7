"""Has pytest run llama.cpp's server tests on candor: models are fixtures, ports are free ones, and cases.txt says what fails.

A case that is listed must fail, so that the list stays true. A file that is listed isn't run at all.
"""

import socket
from pathlib import Path

import pytest
import utils
from requests.structures import CaseInsensitiveDict

CASES = Path(__file__).with_name("cases.txt")


def listed():
    lines = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("  ", 1) for line in lines)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# There is nothing to download.
utils.ServerPreset.load_all = staticmethod(lambda: None)

begin = utils.ServerProcess.start


def start(server, *args, **kwargs):
    server.server_port = free_port()
    return begin(server, *args, **kwargs)


utils.ServerProcess.start = start

ask = utils.ServerProcess.make_request


def make_request(server, *args, **kwargs):
    """Names of headers have no case; the tests look for llama-server's."""
    reply = ask(server, *args, **kwargs)
    reply.headers = CaseInsensitiveDict(reply.headers)
    return reply


utils.ServerProcess.make_request = make_request


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    cases = listed()
    if config.option.collectonly:
        stale = {case for case in cases if "::" in case} - {item.nodeid for item in items}
        if stale:
            raise pytest.UsageError(f"cases.txt names cases that are not there: {sorted(stale)}")
    for item in items:
        if item.nodeid in cases:
            item.add_marker(pytest.mark.xfail(reason=cases[item.nodeid], strict=True))

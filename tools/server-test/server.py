"""`candor serve` as the scripts beside this one start it."""

import json
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

ENCODER = Path(__file__).parents[2] / "crates/candor/tests/goldens/cross-encoder.gguf"
KEY = "secret"


class Server:
    """A server on any free port."""

    def __init__(self, candor, *args):
        command = [candor, "serve", *args, "--port", "0", "--api-key", KEY]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            if line.startswith("listening at "):
                self.url = line.split()[-1]
            # Several models are loaded when they are asked for.
            if line.startswith("ready" if "--models-dir" not in args else "listening"):
                break
        else:
            sys.exit(f"{' '.join(command)} has ended")
        # What it says later must not fill the pipe.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(30) == 0

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {KEY}")
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

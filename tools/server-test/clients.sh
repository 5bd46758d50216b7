#!/bin/sh
# The packages openai, anthropic and ollama against `candor serve`: clients.py asserts what comes back. Needs python3-venv and a
# built program: `cargo build --workspace`, or CANDOR names it.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
CANDOR=${CANDOR:-$target/debug/candor}
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
list=tools/server-test/clients.txt
venv=$target/server-test/clients
if ! cmp -s "$list" "$venv/clients.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r "$list"
    cp "$list" "$venv/clients.txt"
fi
exec "$venv/bin/python" tools/server-test/clients.py "$CANDOR"

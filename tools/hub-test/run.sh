#!/bin/sh
# The package huggingface_hub of Python and `candor pull` on one cache, over servers on this machine: hub.py asserts what comes of it.
# Needs python3-venv and a built program: `cargo build --workspace`, or CANDOR names it.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
CANDOR=${CANDOR:-$target/debug/candor}
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
list=tools/hub-test/requirements.txt
venv=$target/hub-test/venv
if ! cmp -s "$list" "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --no-compile -r "$list"
    cp "$list" "$venv/requirements.txt"
fi
exec "$venv/bin/python" tools/hub-test/hub.py "$CANDOR"

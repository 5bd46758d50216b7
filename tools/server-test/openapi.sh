#!/bin/sh
# schemathesis against `candor serve`, by its own /openapi.json and by the description that OpenAI publishes: about a minute. Needs
# python3-venv and a built program: `cargo build --workspace`, or CANDOR names it. Arguments go to schemathesis: `-n 100`.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
CANDOR=${CANDOR:-$target/debug/candor}
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
list=tools/server-test/openapi.txt
venv=$target/server-test/openapi
if ! cmp -s "$list" "$venv/openapi.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --no-compile -r "$list"
    cp "$list" "$venv/openapi.txt"
fi
exec "$venv/bin/python" tools/server-test/openapi.py "$CANDOR" "$@"

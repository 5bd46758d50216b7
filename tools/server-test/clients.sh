#!/bin/sh
# The packages openai, anthropic and ollama of Python and openai of Node against `candor serve`: clients.py and clients.mjs assert
# what comes back. Needs python3-venv and a built program: `cargo build --workspace`, or CANDOR names it.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
CANDOR=${CANDOR:-$target/debug/candor}
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
openai=7.59.0
list=tools/server-test/clients.txt
venv=$target/server-test/clients
if ! cmp -s "$list" "$venv/clients.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --no-compile -r "$list"
    cp "$list" "$venv/clients.txt"
fi
# Node of the list, and npm, which asks for `node`.
PATH="$(cd "$venv" && pwd)/bin:$PATH"
export PATH
node=$target/server-test/node
if ! [ -e "$node/node_modules/openai-$openai" ]; then
    rm -rf "$node"
    mkdir -p "$node"
    npm install --silent --no-audit --no-fund --prefix "$node" "openai@$openai"
    touch "$node/node_modules/openai-$openai"
fi
# Node looks for packages beside the script.
cp tools/server-test/clients.mjs "$node"
exec "$venv/bin/python" tools/server-test/clients.py "$CANDOR" "$node/clients.mjs"

#!/bin/sh
# Uses the package in Deno and in Bun, which npm has, as in Node.
#
# usage: runtimes.sh PACKAGE MODELS FOLDER
set -eu
tests="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$3"
npm install --silent --prefix "$3" deno@2.9.6 bun@1.4.5
for runtime in "deno run --allow-all" bun; do
    echo "$runtime:"
    # Words of a command.
    # shellcheck disable=SC2086
    "$3/node_modules/.bin/"$runtime "$tests/node.test.mjs" "$1" "$2"
done

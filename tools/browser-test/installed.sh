#!/bin/sh
# Packs the npm package, unpacks it where a program would find it, and holds its types against how they are used.
#
# usage: installed.sh PACKAGE FOLDER
set -eu
tests="$(cd "$(dirname "$0")" && pwd)"
rm -rf "$2"
mkdir -p "$2/node_modules/candor"
npm pack --silent --pack-destination "$2" "$1"
tar xzf "$2"/candor-*.tgz -C "$2/node_modules/candor" --strip-components=1
cp "$tests/types.test.ts" "$2"
cd "$2"
npx -y -p typescript@7.0.2 tsc --noEmit --strict --module nodenext --target es2022 \
  --lib es2024,dom,dom.iterable,dom.asynciterable types.test.ts

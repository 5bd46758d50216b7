#!/bin/sh
# Writes the pages with the crate's own test, then opens them in headless Chromium. Needs node and chromium
# (CHROMIUM names another program). With a folder as argument it leaves pictures there.
set -eu
cd "$(dirname "$0")/../.."
cargo test -q --workspace --test inspect page::
target=${CARGO_TARGET_DIR:-target}
node tools/page-test/page.test.mjs "$target/tmp/page" "$@"

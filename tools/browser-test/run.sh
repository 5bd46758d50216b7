#!/bin/sh
# Builds the npm package and uses it in headless Chromium, on its emulated GPU and on the processor, and in Node: there from a
# tarball, as a registry has it, and in Deno and Bun; and, where it is installed, in headless Firefox on the processor. Needs node, npm, from whose
# registry the compiler of types comes, and chromium (CHROMIUM and FIREFOX name other programs). The models beside the built-in
# one are fixtures (CANDOR_FIXTURES).
set -eu
cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
cargo xtask browser
cargo xtask browser --faults
# With the features of all, so that nothing is built once more for it.
cargo test -q --workspace --test expected -- --ignored
sh tools/browser-test/installed.sh "$PWD/target/browser/package" "$target/tmp/installed"
node tools/browser-test/node.test.mjs "$target/tmp/installed/node_modules/candor" "$target/tmp/browser"
sh tools/browser-test/runtimes.sh "$target/tmp/installed/node_modules/candor" "$target/tmp/browser" "$target/tmp/runtimes"
node tools/browser-test/browser.test.mjs "$PWD/target/browser/package" "$target/tmp/browser" "$PWD/target/browser/faults"
if command -v "${FIREFOX:-firefox-esr}" >/dev/null; then
    node tools/browser-test/firefox.test.mjs "$PWD/target/browser/package" "$target/tmp/browser"
else
    echo "skipped: Firefox, which is not installed (apt-get install firefox-esr)"
fi

#!/bin/sh
# Uses the npm package, with the one module that run.sh built, in Node, in Chromium and, where it is installed, in Firefox. Needs node
# and chromium (CHROMIUM and FIREFOX name other programs). tools/browser-test/run.sh does so with all modules, and measures times.
set -eu
cd "$(dirname "$0")/../.."
package="$PWD/target/browser/quick"
folder="${CARGO_TARGET_DIR:-$PWD/target}/tmp/browser"
node tools/browser-test/node.test.mjs "$package" "$folder"
node tools/browser-test/browser.test.mjs "$package" "$folder" "$package"
if command -v "${FIREFOX:-firefox-esr}" >/dev/null; then
    node tools/browser-test/firefox.test.mjs "$package" "$folder"
else
    echo "skipped: Firefox, which is not installed (apt-get install firefox-esr)"
fi

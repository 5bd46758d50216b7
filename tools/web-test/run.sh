#!/bin/sh
# Builds the engine for a browser and runs it on WebGPU in headless Chromium, which emulates a GPU; builds the npm package with one
# module and prepares what package.sh asks of it. Needs node and chromium (CHROMIUM names another program), and here a GPU for
# Vulkan, emulated or not, that says what is to be found.
set -eu
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
# With the features of all, so that nothing is built once more for it: a test of xtask brings the program along.
cargo test -q --workspace --no-run --test architecture
"$CARGO_TARGET_DIR/debug/xtask" browser --quick
mkdir -p "$CARGO_TARGET_DIR/tmp"
cp "$CARGO_TARGET_DIR/wasm32-unknown-unknown/debug/candor_web_test.wasm" "$CARGO_TARGET_DIR/tmp"
CANDOR_GPU_SOFTWARE=1 cargo test -q --workspace --test web --test expected -- --ignored
node tools/web-test/web.test.mjs "$CARGO_TARGET_DIR/tmp/web"

#!/bin/sh
# Builds the engine for a browser and runs it on WebGPU in headless Chromium, which emulates a GPU. Needs node and chromium
# (CHROMIUM names another program), and here a GPU for Vulkan, emulated or not, that says what is to be found.
set -eu
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
rustup -q target add wasm32-unknown-unknown
cargo build -q -p candor-web-test --lib --target wasm32-unknown-unknown
mkdir -p "$CARGO_TARGET_DIR/tmp"
cp "$CARGO_TARGET_DIR/wasm32-unknown-unknown/debug/candor_web_test.wasm" "$CARGO_TARGET_DIR/tmp"
# With the features of all, so that nothing is built once more for it.
CANDOR_GPU_SOFTWARE=1 cargo test -q --workspace --test web -- --ignored
node tools/web-test/web.test.mjs "$CARGO_TARGET_DIR/tmp/web"

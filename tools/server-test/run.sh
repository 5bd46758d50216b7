#!/bin/sh
# llama.cpp's own server tests, on `candor serve`. cases.txt has what fails, with reasons: a listed case that passes is an
# error, too. Needs python3-venv, fixtures (CANDOR_FIXTURES) and a built program: `cargo build --workspace`, or CANDOR names
# it. Arguments go to pytest: `-k tokenize`, or a case.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
here=$root/tools/server-test
tests=$target/server-test/llama.cpp/tools/server/tests
export CANDOR="${CANDOR:-$target/debug/candor}" CANDOR_FIXTURES="${CANDOR_FIXTURES:-$root/../shared/fixtures}"
export LLAMA_SERVER_BIN_PATH="$here/llama-server"
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
venv=$target/server-test/venv
if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --no-compile -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$venv/requirements.txt"
fi
"$venv/bin/python" "$here/fetch.py" "$target/server-test"
"$venv/bin/python" "$here/stricter.py" "$tests"
# Files that are listed as a whole are not run.
ignored=$(sed -n 's/^\(unit\/[a-z_]*\.py\)  .*/--ignore=\1/p' "$here/cases.txt")
cd "$tests"
export PYTHONPATH="$here:$tests" PYTHONDONTWRITEBYTECODE=1
run() {
    # shellcheck disable=SC2086
    "$venv/bin/python" -m pytest -p plugin -p no:cacheprovider -q -m "not slow" $ignored "$@"
}
# Where all cases are run, those that are listed have to be there.
if [ $# -eq 0 ]; then
    collected=$(run --collect-only 2>&1) || { echo "$collected" >&2; exit 1; }
fi
run -n "${WORKERS:-4}" --dist worksteal "$@"

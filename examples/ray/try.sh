#!/bin/sh
# batch.py on a Ray cluster of this machine with two servers, against `candor batch`. Needs python3-venv and a built program:
# `cargo build --workspace`, or CANDOR names it.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
CANDOR=${CANDOR:-$target/debug/candor}
[ -x "$CANDOR" ] || { echo "there is no $CANDOR: cargo build --workspace makes it" >&2; exit 2; }
venv=$target/ray
list=examples/ray/requirements.txt
if ! cmp -s "$list" "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r "$list"
    cp "$list" "$venv/requirements.txt"
fi
folder=$(mktemp -d)
servers=
cleanup() {
    # shellcheck disable=SC2086
    [ -z "$servers" ] || kill $servers
    # A cluster takes a while to end, and writes into the folder until then.
    wait
    rm -rf "$folder"
}
trap cleanup EXIT
"$venv/bin/python" - >"$folder/in.jsonl" <<'PYTHON'
import json
for n in range(200):
    ask = {"model": "any", "seed": n, "temperature": [0, 0.9][n % 2], "max_tokens": 1 + n % 24}
    if n % 7 == 0:
        # Refused, and so is the answer in both.
        ask["unknown"] = n
    if n % 5 == 0:
        ask["logit_bias"] = {str(n + 5): -2.5}
    if n % 3:
        url, ask["messages"] = "/v1/chat/completions", [{"role": "user", "content": f"Tell me {n} things, ä and 猫"}]
    else:
        url, ask["prompt"] = "/v1/completions", ["Once upon a time", f"{n}"]
    print(json.dumps({"custom_id": f"r{n}", "method": "POST", "url": url, "body": ask}))
PYTHON
for n in 1 2; do
    "$CANDOR" serve --port 0 -np 8 -c 4096 2>"$folder/$n.log" &
    servers="$servers $!"
done
for n in 1 2; do
    until grep -q '^ready' "$folder/$n.log"; do sleep 0.2; done
done
urls=$(sed -n 's/^listening at //p' "$folder/1.log" "$folder/2.log")
# It ends with this script: `ray stop` would end those of others, too.
"$venv/bin/ray" start --head --block --port 0 --num-cpus 2 --include-dashboard false --disable-usage-stats \
    --temp-dir "$folder/ray" >"$folder/ray.log" 2>&1 &
servers="$servers $!"
until address=$(grep -o "address='[^']*'" "$folder/ray.log" | head -1 | cut -d"'" -f2) && [ -n "$address" ]; do sleep 0.5; done
# shellcheck disable=SC2086
RAY_ADDRESS=$address "$venv/bin/python" examples/ray/batch.py "$folder/in.jsonl" "$folder/out.jsonl" $urls
"$CANDOR" batch "$folder/in.jsonl" "$folder/alone.jsonl" -np 8 -c 4096
"$venv/bin/python" examples/ray/check.py "$folder/alone.jsonl" "$folder/out.jsonl"

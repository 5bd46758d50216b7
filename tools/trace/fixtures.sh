#!/bin/sh
# Traces of llama.cpp and Transformers for every fixture model that Candor, llama.cpp and Transformers all run, and of
# llama.cpp for mixtures of experts whose names it shares with Candor.
#
#     tools/trace/fixtures.sh OUT
#
# Writes OUT/NAME.llamacpp.safetensors and OUT/NAME.transformers.safetensors, some 70 MB in all. The fixtures are in
# CANDOR_FIXTURES, or ../shared/fixtures beside the repository. PYTHON names the interpreter (python3); what it needs
# is in tools/trace/README.md.
set -eu

out=${1:?usage: fixtures.sh OUT}
here=$(cd "$(dirname "$0")" && pwd)
arch=${CANDOR_FIXTURES:-$here/../../../shared/fixtures}/arch
python=${PYTHON:-python3}
# One thread: the models are tiny, and sums keep one order.
export OMP_NUM_THREADS=1

plain="llama llama-bias llama-eps llama-long200 llama-rope-linear llama-rope-llama3 llama-rope-yarn llama-wide256
mistral qwen2 qwen3 qwen3-yarn"
mixtures="dbrx dots1 ernie4_5-moe exaone-moe glm4moe granitehybrid granitemoe jamba mellum-sametheta minimax-m2 mixtral
olmoe qwen2moe qwen3moe"
quantized=$(cd "$arch" && ls -d quant-llama-*)
steps=15

mkdir -p "$out"
failed=
for name in $plain $quantized $mixtures; do
    folder=$arch/$name
    # A quantized fixture has the configuration of the one that it was made from.
    case $name in
    quant-llama-wide256*) config=$arch/llama-wide256/config.json ;;
    quant-llama-*) config=$arch/llama/config.json ;;
    *) config=$folder/config.json ;;
    esac
    ids=$("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1]))["tokens"], sep=",")' "$folder/tokens.json")
    "$python" "$here/trace_llama_cpp.py" "$folder/model.gguf" --ids "$ids" -n $steps \
        -o "$out/$name.llamacpp.safetensors" || failed="$failed $name.llamacpp"
    case " $(echo $mixtures) " in *" $name "*) continue ;; esac
    "$python" "$here/trace_transformers.py" --from-gguf "$folder/model.gguf" --config "$config" --ids "$ids" -n $steps \
        -o "$out/$name.transformers.safetensors" || failed="$failed $name.transformers"
done

if [ -n "$failed" ]; then
    echo "not written:$failed" >&2
    exit 1
fi
echo "now: CANDOR_TRACES=$(cd "$out" && pwd) cargo test -p candor-inspect --test inspect exported:: -- --nocapture" >&2

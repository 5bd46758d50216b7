#!/usr/bin/env python3
"""Writes a corpus of dumps by Hugging Face Transformers, healthy ones and ones with a fault patched in from outside.

    python tools/instrument/transformers_faults.py --fixtures DIR --out DIR --holdout DIR [--only WORD] [--names FILE]

DIR of --fixtures has one folder for each architecture, with config.json, model.gguf and tokens.json. Each case is a
folder in DIR/transformers with case.json and dump.safetensors. Faults whose id's SHA-256, taken as a number, is a
multiple of 3 are held out: their cases go to --holdout, and nothing that is printed names them. A prompt of ten tokens
is evaluated at once, three more are decoded greedily with the cache. Every third case is also made in bfloat16 and
float16. Needs torch, transformers, gguf, numpy, safetensors.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tomllib
from collections import Counter
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

import transformers_attention
import transformers_layers
from transformers_dump import Recorder, chosen, first_wrong, llama_cpp_name
from transformers_models import build, check
from transformers_patch import Patch

# The id of a fault: what the engine does wrong; the fixtures that it is patched into; where it, or its like, was seen.
# One without a source is from experience of ports.
FAULTS = {
    # Rope.
    "rope-base-default": ("takes rope base 10000 whatever the configuration says", "qwen3 gpt-oss lfm2 olmo2 qwen2moe",
        "marin-community/levanter#649, google/gemma.cpp#986"),
    "rope-base-global-everywhere": ("ropes the sliding layers with the global base", "gemma3",
        "Lightning-AI/litgpt#1993"),
    "rope-base-local-everywhere": ("ropes the global layers with the sliding layers' base", "gemma3",
        "google/gemma.cpp#986"),
    "rope-linear-dropped": ("does not divide positions by the linear scaling factor", "llama-rope-linear gemma3",
        "lablup/mlxcel#1340"),
    "rope-linear-inverted": ("multiplies positions with the linear scaling factor", "llama-rope-linear gemma3"),
    "rope-llama3-dropped": ("ignores the llama3 scaling of frequencies", "llama-rope-llama3",
        "Blaizzy/mlx-vlm#1710, meta-llama/llama-models#241"),
    "rope-llama3-as-linear": ("divides all frequencies by the llama3 factor", "llama-rope-llama3",
        "Blaizzy/mlx-vlm#1710"),
    "yarn-magnitude-dropped": ("does not multiply cos and sin by YaRN's magnitude",
        "llama-rope-yarn qwen3-yarn gpt-oss", "ggml-org/llama.cpp#17945"),
    "yarn-magnitude-twice": ("multiplies cos and sin by YaRN's magnitude twice", "llama-rope-yarn gpt-oss",
        "ggml-org/llama.cpp#7118"),
    "yarn-as-linear": ("divides all frequencies by the YaRN factor", "llama-rope-yarn qwen3-yarn"),
    "yarn-dropped": ("ignores YaRN", "qwen3-yarn gpt-oss", "ml-explore/mlx-lm#1507"),
    "rope-pairs-interleaved": ("ropes neighbouring elements instead of the halves of a head",
        "llama qwen2 qwen3 gptneox stablelm phi3 falcon mixtral", "jzhang38/TinyLlama#24"),
    "rope-pairs-half-split": ("ropes the halves of a head instead of neighbouring elements", "cohere glm4 ernie4_5",
        "vllm-project/vllm-metal#44"),
    "rope-direction-reversed": ("rotates the other way", "llama olmo2 granite"),
    "rope-query-only": ("ropes Q and not K", "llama gemma starcoder2"),
    "rope-key-only": ("ropes K and not Q", "mistral phi2"),
    "rope-missing": ("does not rope at all", "qwen2 gptneox olmoe"),
    "rope-cos-sin-swapped": ("takes sin for cos and cos for sin", "llama qwen3moe"),
    "rope-whole-head": ("ropes all of a head where the configuration says a part",
        "stablelm gptneox phi2 nemotron glm4", "ml-explore/mlx-lm#1698, InternLM/lmdeploy#3861"),
    "rope-exponent-of-head": ("spaces the frequencies of a partial rope for the whole head",
        "phi2 stablelm gptneox nemotron", "aws-neuron/neuronx-distributed-inference#106"),
    "rope-last-part": ("ropes the last part of a head instead of the first", "gptneox nemotron"),
    "decode-position-restarts": ("counts positions from 0 again when it decodes", "llama qwen3 gemma2 gpt2",
        "skyzh/tiny-llm#46"),
    "decode-position-skips-one": ("skips one position between prompt and decoded tokens", "mistral phi3 starcoder gpt2",
        "microsoft/onnxruntime-genai#2354"),
    "decode-position-stands-still": ("gives all decoded tokens the last position of the prompt", "qwen2 stablelm gpt2",
        "skyzh/tiny-llm#46"),
    "inv-freq-in-half": ("keeps rotary frequencies in bfloat16", "llama mistral qwen3",
        "huggingface/transformers#25681, huggingface/transformers#29496"),
    "rope-before-qk-norm": ("normalises Q and K after rope instead of before", "qwen3 gemma3 lfm2",
        "vllm-project/vllm-metal#692"),
    "nope-layers-roped": ("ropes the layers that have no rope", "cohere2-swa8 exaone4-32b llama4",
        "vllm-project/vllm#23918, pytorch/executorch#21115, airockchip/rknn-llm#501"),
    "longrope-long-for-short": ("takes the long factors for a short prompt", "phi3-longrope",
        "ggml-org/llama.cpp#24823, lablup/mlxcel#1358"),
    "longrope-factors-dropped": ("ignores the factors of longrope", "phi3-longrope", "mlc-ai/mlc-llm#3375"),
    # Attention.
    "attn-scale-missing": ("does not scale scores", "llama starcoder2 qwen3"),
    "attn-scale-of-hidden": ("scales by the root of hidden size over heads", "gemma2 qwen3 qwen3moe gpt-oss",
        "vllm-project/speculators#134, ggml-org/llama.cpp#13951"),
    "attn-scale-head-dim": ("scales by the root of the head size and ignores the model's multiplier",
        "granite granitemoe", "OpenNMT/CTranslate2#1882"),
    "attn-scale-inverse-dim": ("scales by the root twice over: by the head size", "mistral"),
    "attn-scale-twice": ("scales Q and then the scores", "qwen2 olmo2"),
    "causal-mask-missing": ("lets the prompt's tokens see later ones", "llama mixtral gptneox",
        "huggingface/transformers#27819"),
    "causal-mask-on-encoder": ("masks an encoder causally", "bert roberta", "McGill-NLP/llm2vec#74"),
    "mask-sees-next": ("lets each token of the prompt see the next one", "qwen2 llama"),
    "mask-not-itself": ("does not let a token of the prompt see itself", "mistral qwen3"),
    "sliding-window-ignored": ("attends to everything in the sliding layers", "gemma2 gpt-oss cohere2-swa8 olmo3-swa8",
        "huggingface/transformers#35691, Lightning-AI/litgpt#1598"),
    "sliding-window-one-more": ("sees one token too many in a window", "gemma2 gpt-oss cohere2-swa8",
        "huggingface/transformers#39408, NVIDIA-NeMo/Megatron-Bridge#2656"),
    "sliding-window-one-less": ("sees one token too few in a window", "gemma2 gemma3", "vllm-project/vllm#3385"),
    "sliding-window-everywhere": ("slides the window in the global layers, too", "gemma2 gpt-oss"),
    "sliding-window-other-layers": ("takes sliding layers for global ones and the reverse", "gemma2 gpt-oss"),
    "attn-softcap-missing": ("does not cap attention scores", "gemma2",
        "vllm-project/vllm-metal#665, EricLBuehler/mistral.rs#1930"),
    "attn-softcap-after-mask": ("caps scores after it has masked them", "gemma2"),
    "attn-softcap-divisor-forgotten": ("caps scores without dividing them by the cap first", "gemma2",
        "unslothai/unsloth-zoo#593"),
    "final-softcap-missing": ("does not cap logits", "gemma2 gemma4", "vllm-project/vllm#52173"),
    "kv-heads-tiled": ("shares K and V heads in turn instead of in groups",
        "llama mistral gemma2 qwen2 mixtral gpt-oss", "ekzhang/jax-js#180, apple/axlearn#842"),
    "kv-head-first-for-all": ("gives all heads the first K and V head", "llama qwen3", "PSAL-POSTECH/ONNXim#34"),
    "kv-heads-reversed": ("takes K and V heads in reverse", "granite"),
    "attn-sinks-missing": ("leaves out attention sinks", "gpt-oss", "vllm-project/vllm-metal#550"),
    "attn-sinks-one-for-all": ("takes the first head's sink for all", "gpt-oss", "ekryski/mlx-swift-lm#130"),
    "alibi-missing": ("leaves out ALiBi", "bloom mpt", "arXiv:2108.12409"),
    "alibi-slopes-reversed": ("gives heads the slopes of ALiBi in reverse", "bloom", "arXiv:2108.12409"),
    "alibi-slopes-from-one": ("counts the exponents of ALiBi's slopes from 0", "bloom mpt", "arXiv:2108.12409"),
    "kv-cache-dropped": ("lets decoded tokens see only themselves", "llama gptneox gpt2"),
    "kv-cache-without-newest": ("attends before it has stored a decoded token", "qwen2 gpt2"),
    "kv-cache-slot-zero": ("writes decoded tokens over the first of the prompt", "llama qwen3 phi3",
        "ekryski/mlx-swift-lm#90"),
    "kv-cache-values-late": ("reads V one position late when it decodes", "mistral olmoe"),
    "heads-not-transposed": ("takes heads by tokens for tokens by heads", "llama qwen2 gpt2 bert",
        "datawhalechina/tiny-universe#21"),
    "qk-norm-missing": ("does not normalise Q and K", "qwen3 gemma3 olmo2 olmoe lfm2 exaone4-32b",
        "Lightning-AI/litgpt#1894"),
    "q-norm-missing": ("normalises K and not Q", "qwen3moe olmo2"),
    "qk-norm-swapped": ("exchanges the norms of Q and K", "qwen3 gemma3"),
    "qk-norm-per-head": ("normalises each head where the model normalises all together", "olmo2 olmoe",
        "lablup/mlxcel#317, vllm-project/vllm-metal#692"),
    "qk-norm-over-all-heads": ("normalises all heads together where the model normalises each", "qwen3 gemma3",
        "EleutherAI/gpt-neox#1367"),
    "q-bias-missing": ("leaves out the bias of Q", "qwen2 llama-bias phi2", "sbryngelson/ANEForge#253"),
    "v-bias-missing": ("leaves out the bias of V", "qwen2 stablelm starcoder2"),
    "qkv-bias-missing": ("leaves out the biases of Q, K and V", "qwen2 gptneox glm4 gpt2 bert",
        "sbryngelson/ANEForge#253, EricLBuehler/candle-vllm#167"),
    "o-bias-missing": ("leaves out the bias of attention's output", "llama-bias starcoder2 gpt-oss gptneox"),
    "qkv-split-as-blocks": ("splits rows of q, k, v by head as all q, all k, all v", "gptneox bloom",
        "lablup/mlxcel#928, vllm-project/vllm#53114"),
    "qkv-split-by-head": ("splits rows of all q, all k, all v as if they went by head", "gpt2",
        "vllm-project/vllm#53114"),
    "qkv-split-order-kqv": ("takes the first rows for K and the next for Q", "gpt2 phi3"),
    "conv1d-not-transposed": ("multiplies with a Conv1D's square weight as if it were a Linear's", "gpt2"),
    "mla-kv-norm-missing": ("does not normalise the compressed K and V", "deepseek2-v2 deepseek2-v3"),
    "mla-q-norm-missing": ("does not normalise the compressed Q", "deepseek2-v2 deepseek2-v3"),
    "mla-scale-without-rope-part": ("scales by the root of the size without the roped part",
        "deepseek2-v2 deepseek2-v3"),
    "mla-key-rope-missing": ("does not rope the shared part of K", "deepseek2-v2"),
    # Norms and residuals.
    "norm-eps-1e-6": ("takes 1e-6 for the norms' epsilon", "llama-eps gpt2 stablelm",
        "apache/tvm#15856, NVIDIA/cutlass#1112"),
    "norm-eps-1e-5": ("takes 1e-5 for the norms' epsilon", "bert qwen3 gemma2", "paiml/aprender#1606"),
    "norm-eps-outside-root": ("adds the epsilon outside of the root", "llama-eps",
        "stanford-cs336/assignment1-basics#93"),
    "norm-offset-missing": ("multiplies with a norm's weight and not with the weight plus one",
        "gemma gemma2 gemma3 nemotron", "linkedin/Liger-Kernel#74"),
    "norm-offset-twice": ("adds one to norm weights that have it already", "gemma gemma3", "llmmanorg/llmman#151"),
    "norm-plus-one": ("adds one to the norm weights of a model that has none of that", "llama qwen2 phi3",
        "linkedin/Liger-Kernel#74"),
    "norm-weight-missing": ("leaves out the weight of the norm before attention", "mistral gpt2 mpt"),
    "norm-weight-squared": ("multiplies with the norms' weights twice", "qwen2 falcon"),
    "layernorm-for-rms": ("subtracts the mean in an RMS norm", "llama mistral granite",
        "stanford-cs336/assignment1-basics#93"),
    "rms-for-layernorm": ("does not subtract the mean in a layer norm", "stablelm starcoder2 phi2 gpt2 nemotron",
        "antonellof/ferrox#230"),
    "norm-bias-missing": ("leaves out the norms' biases", "stablelm gptneox gpt2 bloom", "antonellof/ferrox#230"),
    "norm-variance-unbiased": ("divides the sum of squares by one less than the width", "llama qwen3",
        "stanford-cs336/assignment1-basics#93"),
    "final-norm-missing": ("leaves out the last norm", "llama gpt2 qwen3 mamba lfm2"),
    "post-norms-missing": ("leaves out the norms after attention and feed-forward", "gemma2 glm4 gemma3"),
    "post-attention-norm-missing": ("leaves out the norm after attention", "gemma2 glm4 exaone4-32b"),
    "post-ffn-norm-missing": ("leaves out the norm after the feed-forward", "gemma2 glm4"),
    "norms-exchanged": ("exchanges the norm after attention and the one before the feed-forward", "gemma2 gemma3"),
    "norms-before-not-after": ("normalises the inputs of attention and feed-forward instead of their outputs",
        "olmo2 exaone4-32b", "EleutherAI/gpt-neox#1408"),
    "parallel-as-sequential": ("feeds attention's output into the feed-forward of a parallel model",
        "gptneox cohere phi2", "TransformerLensOrg/TransformerLens#1644"),
    "sequential-as-parallel": ("runs attention and feed-forward side by side", "gptneox-seq llama",
        "ml-explore/mlx-lm#586"),
    "parallel-norms-exchanged": ("exchanges the norms of attention and feed-forward", "falcon-40b"),
    "residual-of-normed": ("adds attention's output to the normed input", "bloom llama",
        "huggingface/transformers#18695"),
    "ffn-without-residual": ("does not add the feed-forward to its residual", "qwen2"),
    "embedding-norm-missing": ("leaves out the norm of the embeddings", "bloom bert"),
    # Feed-forward.
    "act-silu-for-gelu": ("takes SiLU for GELU", "gemma2 gptneox", "huggingface/candle#3745"),
    "act-gelu-for-silu": ("takes GELU for SiLU", "llama mistral mixtral", "NVIDIA/TensorRT-Model-Connect#177"),
    "act-gelu-exact-for-tanh": ("takes the exact GELU for the one by tanh", "gemma gemma2 gpt2 starcoder2",
        "vllm-project/vllm#3411, OpenNMT/CTranslate2#1658"),
    "act-gelu-tanh-for-exact": ("takes the GELU by tanh for the exact one", "gptneox falcon bert",
        "vllm-project/vllm#41574"),
    "act-gelu-quick": ("takes x * sigmoid(1.702 x) for GELU", "gpt2 phi2 bloom"),
    "act-relu": ("takes ReLU for the activation", "nemotron llama"),
    "act-missing": ("leaves out the activation", "llama starcoder2"),
    "gate-up-exchanged": ("activates the up branch instead of the gate", "llama phi3 glm4 qwen3 lfm2",
        "flashinfer-ai/flashinfer#4130"),
    "experts-gate-up-exchanged": ("exchanges gate and up of the experts", "mixtral olmoe granitemoe",
        "flashinfer-ai/flashinfer#4130"),
    "ffn-up-bias-missing": ("leaves out the bias of the feed-forward's first product", "gpt2 starcoder2 gptneox bert"),
    "ffn-down-bias-missing": ("leaves out the bias of the feed-forward's last product", "phi2 gpt2 bloom"),
    # Mixtures of experts.
    "router-not-normalised": ("does not divide the chosen experts' weights by their sum",
        "mixtral qwen3moe granitemoe gpt-oss", "pytorch/torchtitan#1448, HabanaAI/vllm-fork#73"),
    "router-normalised": ("divides the chosen experts' weights by their sum", "olmoe qwen2moe deepseek2-v2",
        "ServiceNow/Fast-LLM#83, sgl-project/sglang#35160"),
    "router-sigmoid-for-softmax": ("scores experts with a sigmoid instead of softmax", "mixtral qwen3moe",
        "ggml-org/llama.cpp#11049"),
    "router-softmax-for-sigmoid": ("scores experts with softmax instead of a sigmoid", "deepseek2-v3 glm4moe dots1",
        "ggml-org/llama.cpp#11049"),
    "router-one-expert-more": ("chooses one expert too many", "mixtral olmoe gpt-oss"),
    "router-one-expert": ("chooses one expert", "qwen3moe granitemoe"),
    "router-weights-even": ("weighs the chosen experts the same", "mixtral gpt-oss"),
    "router-weights-reversed": ("gives the chosen experts each other's weights", "olmoe qwen3moe"),
    "router-lowest": ("chooses the least likely experts", "mixtral"),
    "routed-scale-missing": ("does not scale the routed experts", "deepseek2-v2 deepseek2-v3 glm4moe"),
    "correction-bias-missing": ("chooses experts without the correction bias", "deepseek2-v3 glm4moe dots1"),
    "correction-bias-in-weights": ("weighs experts with the biased scores", "deepseek2-v3 glm4moe",
        "vllm-project/vllm#12002, PaddlePaddle/PaddleFormers#3452"),
    "expert-groups-ignored": ("chooses experts from all groups", "deepseek2-v3", "vllm-project/vllm#13474"),
    "router-bias-missing": ("leaves out the router's bias", "gpt-oss"),
    "shared-expert-gate-missing": ("does not weigh the shared expert with its gate", "qwen2moe",
        "NousResearch/torchtitan#36, vllm-project/vllm-ascend#15953"),
    "shared-expert-gate-no-sigmoid": ("weighs the shared expert with its gate's logit", "qwen2moe"),
    "shared-expert-missing": ("leaves out the shared expert", "qwen2moe deepseek2-v2 llama4"),
    "swiglu-alpha-one": ("takes 1 for the sigmoid's factor", "gpt-oss"),
    "swiglu-limit-one": ("clamps gate and up at 1", "gpt-oss", "huggingface/transformers#40197"),
    "swiglu-up-without-one": ("does not add one to the up branch", "gpt-oss"),
    "swiglu-halves-for-pairs": ("takes gate and up from halves where they alternate", "gpt-oss"),
    "expert-biases-missing": ("leaves out the experts' biases", "gpt-oss"),
    # Embeddings, multipliers and head.
    "embedding-scale-missing": ("does not scale embeddings", "gemma gemma2 gemma3 granite"),
    "embedding-scale-not-root": ("multiplies embeddings with the width and not its root", "gemma2"),
    "residual-multiplier-missing": ("does not scale what it adds to the residual", "granite granitemoe",
        "OpenNMT/CTranslate2#1882"),
    "residual-multiplier-ffn-only": ("scales the feed-forward's output and not attention's", "granite",
        "ndif-team/nnterp#54"),
    "logit-scale-missing": ("does not scale logits", "cohere cohere2-swa8 granite granitemoe", "dphnAI/sonar#1054"),
    "logit-scale-inverted": ("divides logits by their scale instead of multiplying, or the reverse", "cohere granite",
        "unslothai/unsloth#1218"),
    "head-tied": ("takes the embeddings for the head", "llama qwen2 qwen3 mamba", "pegainfer-project/pegainfer#544"),
    "head-bias-missing": ("leaves out the head's bias", "phi2"),
    "learned-positions-from-one": ("takes the next row for each position", "gpt2 starcoder bert"),
    "learned-positions-missing": ("does not add positions", "gpt2 starcoder roberta"),
    "learned-positions-without-offset": ("takes the first rows, which are the padding's", "roberta",
        "huggingface/sentence-transformers#3879, huggingface/transformers#10736"),
    "token-types-missing": ("does not add token types", "bert"),
    "token-types-one": ("adds the second token type", "bert"),
    "token-ids-one-late": ("looks each token up one row too far", "phi3 mamba2"),
    # Recurrent layers and convolutions.
    "conv-bias-missing": ("leaves out the convolution's bias", "mamba mamba2"),
    "conv-taps-reversed": ("takes the convolution's taps in reverse", "mamba lfm2"),
    "conv-act-missing": ("leaves out the activation after the convolution", "mamba falcon-mamba"),
    "conv-state-dropped": ("decodes with an empty convolution state", "mamba lfm2"),
    "dt-softplus-missing": ("leaves out softplus of the step", "mamba falcon-mamba",
        "fla-org/flash-linear-attention#63"),
    "dt-bias-missing": ("leaves out the step's bias", "mamba mamba2 falcon-mamba"),
    "ssm-a-not-exponentiated": ("takes A's logarithm for A", "mamba falcon-mamba"),
    "ssm-skip-missing": ("leaves out the skip by D", "mamba mamba2"),
    "ssm-gate-missing": ("leaves out the gate", "mamba"),
    "ssm-b-c-exchanged": ("exchanges B and C", "mamba"),
    "ssm-state-dropped": ("decodes with an empty state", "mamba falcon-mamba"),
    "ssm-x-gate-exchanged": ("takes the first half of the input product for the gate", "mamba"),
    "short-conv-gates-exchanged": ("exchanges the gates before and after the convolution", "lfm2"),
}

HEALTHY = """afmoe bert bloom cohere cohere2-swa8 deepseek2-lite deepseek2-v2 deepseek2-v3 distilbert dots1 ernie4_5
    ernie4_5-moe exaone4-32b falcon falcon-40b falcon-mamba gemma gemma2 gemma3 gemma4 glm4 glm4moe gpt-oss gpt2
    gptneox gptneox-seq granite granitemoe jamba lfm2 lfm2moe llama llama-bias llama-eps llama-rope-linear
    llama-rope-llama3 llama-rope-yarn llama4 mamba mamba2 minimax-m2 mistral mixtral modernbert mpt nemotron
    olmo olmo2 olmo3-swa8 olmoe phi2 phi3 phi3-longrope qwen2 qwen2moe qwen3 qwen3-yarn qwen3moe roberta
    stablelm starcoder starcoder2""".split()
STORAGE = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
VALUES = {"modules": "all", "llama.cpp": "all", "hidden_states": "layer-outputs", "logits": "logits"}
PROMPT, STEPS = 10, 3
# A dump in llama.cpp's names of the same run goes with these.
BY_LLAMA_CPP_NAMES = {
    "llama", "llama-bias", "llama-eps", "llama-rope-linear", "llama-rope-llama3", "llama-rope-yarn", "mistral", "qwen2",
    "qwen3", "qwen3-yarn",
}


def held_out(fault):
    return int(hashlib.sha256(fault.encode()).hexdigest(), 16) % 3 == 0


class Corpus:
    def __init__(self, fixtures, out, holdout):
        self.fixtures, self.out, self.holdout = fixtures, out, holdout
        self.counts = Counter()

    def prompt(self, name):
        return json.loads((self.fixtures / name / "tokens.json").read_text())["tokens"][:PROMPT]

    def write(self, name, fault, storage, style, recorder, ids, says="", first=None, cause=None):
        """One case of one style: its dump and its case.json."""
        named = chosen(recorder.values, style, recorder.model.config)
        tensors = {key: value.contiguous() for key, value in named.items()}
        if not tensors:
            return
        hidden = fault and held_out(fault)
        label = storage if style == "modules" else f"{storage}-{style}"
        folder = (self.holdout if hidden else self.out) / name / (fault or "healthy") / label
        folder.mkdir(parents=True, exist_ok=True)
        decoder = len(ids) > PROMPT
        meta, args = {"format": "pt"}, []
        if style == "llama.cpp":
            meta |= {"candor.trace": "1", "engine": f"transformers {transformers.__version__}"}
            meta |= {"tokens": json.dumps(ids), "prompt_tokens": str(PROMPT)}
        elif style == "modules":
            tensors["input_ids"] = torch.tensor([ids])
            args = ["--prompt-tokens", str(PROMPT)] if decoder else []
        else:
            args = ["--ids", ",".join(map(str, ids))] + (["--prompt-tokens", str(PROMPT)] if decoder else [])
        save_file(tensors, folder / "dump.safetensors", meta)
        case = {
            "id": f"transformers/{name}/{fault or 'healthy'}/{label}", "maker": "transformers", "wiring": name,
            "model": str((self.fixtures / name / "model.gguf").resolve()), "dump": "dump.safetensors", "args": args,
            "faults": [fault] if fault else [], "says": says or "nothing is wrong", "storage": storage,
            "values": VALUES[style], "names": style, "first": llama_cpp_name(first, recorder.model),
            "first_as_named": first, "changed": llama_cpp_name(cause, recorder.model), "holdout": bool(hidden),
        }
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        self.counts["sick" if fault else "healthy", bool(hidden)] += 1

    def healthy(self, name):
        for storage, dtype in STORAGE.items():
            model = build(self.fixtures / name, dtype)
            recorder = Recorder(model)
            ids = recorder.run(self.prompt(name), STEPS)
            styles = ["modules"]
            if name in BY_LLAMA_CPP_NAMES and storage != "f64":
                styles.append("llama.cpp")
            if storage == "f32":
                styles += ["hidden_states", "logits"]
            for style in styles:
                self.write(name, None, storage, style, recorder, ids)

    def sick(self, name, fault, number):
        """Cases of one fault in one model; returns whether any value of any of the dumps is wrong."""
        says = FAULTS[fault][0]
        storages = ["f32", "bf16", "f16"] if number % 3 == 0 else ["f32"]
        firsts, cause = {}, None
        for storage in storages:
            recorder, ids = self.patched(name, fault, STORAGE[storage])
            config = recorder.model.config
            if storage == "f32":
                healthy = Recorder(build(self.fixtures / name, torch.float32))
                healthy.run(self.prompt(name), STEPS, forced=ids)
                order = [key for key in recorder.first if key in recorder.values]
                cause = first_wrong(recorder.values, healthy.values, order)
                styles = ["modules", "llama.cpp", "hidden_states"]
                if name not in BY_LLAMA_CPP_NAMES or number % 2:
                    styles.remove("llama.cpp")
                seen = {style: chosen(recorder.values, style, config) for style in styles}
                right = {style: chosen(healthy.values, style, config) for style in seen}
                firsts = {style: first_wrong(seen[style], right[style], seen[style]) for style in seen}
                if firsts["modules"] is not None and number % 7:
                    del firsts["hidden_states"]  # what no module shows, such as capped logits, is shown by this style
                firsts = {style: first for style, first in firsts.items() if first is not None}
            for style in firsts if storage == "f32" else list(firsts)[:1]:
                self.write(name, fault, storage, style, recorder, ids, says, firsts[style], cause)
        return bool(firsts)

    def patched(self, name, fault, dtype):
        model = build(self.fixtures / name, dtype)
        patch, function = Patch(model), fault.replace("-", "_")
        try:
            source = transformers_attention if hasattr(transformers_attention, function) else transformers_layers
            getattr(source, function)(patch)
            recorder = Recorder(model, patch.late)
            ids = recorder.run(self.prompt(name), STEPS)
        finally:
            patch.restore()
        return recorder, ids


def write_names(path, faults):
    """Faults' ids with room for the catalogue's names of them; names that the file has already are kept."""
    known = tomllib.loads(path.read_text()) if path.exists() else {}
    lines = [f"{json.dumps(fault)} = {json.dumps(known.get(fault, []))}\n" for fault in faults]
    title = "# Which names of the catalogue are right for a fault of transformers_faults.py.\n"
    path.write_text(title + "".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", type=Path, required=True, help="folder of folders of architectures")
    parser.add_argument("--out", type=Path, required=True, help="where cases go")
    parser.add_argument("--holdout", type=Path, required=True, help="where cases of faults that are held out go")
    parser.add_argument("--only", help="only fixtures of this name, or this fault")
    parser.add_argument("--names", type=Path, help="write ids for score.py here, those held out to --holdout")
    parser.add_argument("--no-healthy", action="store_true")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    out, holdout = args.out / "transformers", args.holdout / "transformers"
    corpus = Corpus(args.fixtures, out, holdout)
    if args.names:
        write_names(args.names, [fault for fault in FAULTS if not held_out(fault)])
        write_names(args.holdout / "names-transformers.toml", [fault for fault in FAULTS if held_out(fault)])
    if not args.no_healthy:
        for name in HEALTHY:
            if args.only in (None, name):
                print(f"{name:18} {check(args.fixtures / name):.1e}", flush=True)
                shutil.rmtree(out / name / "healthy", ignore_errors=True)
                corpus.healthy(name)
    number = 0
    for fault, entry in FAULTS.items():
        for name in entry[1].split():
            number += 1
            shown = "(held out)" if held_out(fault) else fault
            if args.only not in (None, name, fault):
                continue
            for root in (out, holdout):
                shutil.rmtree(root / name / fault, ignore_errors=True)
            try:
                visible = corpus.sick(name, fault, number)
            except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as problem:
                print(f"failed: {shown} {name}: {type(problem).__name__}: {str(problem)[:160]}", file=sys.stderr)
                continue
            print(f"{shown:32} {name:18} {'written' if visible else 'no effect'}", flush=True)
    for (what, hidden), count in sorted(corpus.counts.items()):
        print(f"{count} {what}{' held out' if hidden else ''}")


if __name__ == "__main__":
    main()

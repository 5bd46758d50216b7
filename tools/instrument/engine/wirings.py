"""The wirings: which fixture has which, how to load one, and how to make a larger one."""

import numpy as np

from . import decoders, encoders, hybrids, latent, rwkv
from .file import File

# Wiring: folder of the fixture, class.
FIXTURES = {
    "llama": ("llama", decoders.Llama),
    "llama-bias": ("llama-bias", decoders.Llama),
    "llama-eps": ("llama-eps", decoders.Llama),
    "llama-linear": ("llama-rope-linear", decoders.Llama),
    "llama-llama3": ("llama-rope-llama3", decoders.Llama),
    "llama-yarn": ("llama-rope-yarn", decoders.Llama),
    "llama-q8_0": ("quant-llama-Q8_0", decoders.Llama),
    "llama-q4_0": ("quant-llama-Q4_0", decoders.Llama),
    "llama-q4_k": ("quant-llama-wide256-Q4_K_M", decoders.Llama),
    "mixtral": ("mixtral", decoders.Llama),
    "llama4": ("llama4", decoders.Llama4),
    "ernie": ("ernie4_5", decoders.Ernie),
    "ernie-moe": ("ernie4_5-moe", decoders.Ernie),
    "qwen2": ("qwen2", decoders.Qwen),
    "qwen3": ("qwen3", decoders.Qwen),
    "qwen3-yarn": ("qwen3-yarn", decoders.Qwen),
    "qwen2moe": ("qwen2moe", decoders.Qwen),
    "qwen3moe": ("qwen3moe", decoders.Qwen),
    "gemma": ("gemma", decoders.Gemma),
    "gemma2": ("gemma2", decoders.Gemma),
    "gemma3": ("gemma3", decoders.Gemma),
    "phi3": ("phi3", decoders.Phi3),
    "phi3-longrope": ("phi3-longrope", decoders.Phi3),
    "glm4": ("glm4", decoders.Glm4),
    "glm4moe": ("glm4moe", decoders.Glm4Moe),
    "granite": ("granite", decoders.Granite),
    "granitemoe": ("granitemoe", decoders.Granite),
    "minicpm": ("minicpm", decoders.Granite),
    "stablelm": ("stablelm", decoders.StableLm),
    "command-r": ("cohere", decoders.CommandR),
    "cohere2": ("cohere2-swa8", decoders.Cohere2),
    "gpt2": ("gpt2", decoders.Gelu),
    "starcoder": ("starcoder", decoders.Gelu),
    "starcoder2": ("starcoder2", decoders.Gelu),
    "gptneox": ("gptneox", decoders.Gelu),
    "gptneox-seq": ("gptneox-seq", decoders.Gelu),
    "falcon": ("falcon", decoders.Gelu),
    "falcon-40b": ("falcon-40b", decoders.Gelu),
    "bloom": ("bloom", decoders.Gelu),
    "mpt": ("mpt", decoders.Gelu),
    "phi2": ("phi2", decoders.Gelu),
    "nemotron": ("nemotron", decoders.Nemotron),
    "olmo": ("olmo", decoders.Olmo),
    "olmo2": ("olmo2", decoders.Olmo2),
    "olmo3": ("olmo3-swa8", decoders.Olmo3),
    "olmoe": ("olmoe", decoders.Transformer),
    "dbrx": ("dbrx", decoders.Dbrx),
    "apertus": ("apertus", decoders.Apertus),
    "hunyuan": ("hunyuan-dense", decoders.HunyuanDense),
    "minimax-m2": ("minimax-m2", decoders.MiniMax),
    "gpt-oss": ("gpt-oss-trunc", decoders.GptOss),
    "gpt-oss-unrounded": ("gpt-oss", decoders.GptOssUnrounded),
    "deepseek2-lite": ("deepseek2-lite", latent.DeepSeek2),
    "deepseek2-v2": ("deepseek2-v2", latent.DeepSeek2),
    "deepseek2-v3": ("deepseek2-v3", latent.DeepSeek2),
    "bert": ("bert", encoders.Bert),
    "roberta": ("roberta", encoders.Bert),
    "distilbert": ("distilbert", encoders.Bert),
    "nomic-bert": ("nomic-bert", encoders.NomicBert),
    "jina-bert-v2": ("jina-bert-v2", encoders.JinaBert),
    "modernbert": ("modernbert", encoders.ModernBert),
    "mamba": ("mamba", hybrids.Mamba),
    "falcon-mamba": ("falcon-mamba", hybrids.Mamba),
    "mamba2": ("mamba2", hybrids.Mamba),
    "jamba": ("jamba", hybrids.Jamba),
    "bamba": ("bamba-fixedperm", hybrids.Bamba),
    "granitehybrid": ("granitehybrid", hybrids.GraniteHybrid),
    "nemotron-h": ("nemotron-h", hybrids.NemotronH),
    "falcon-h1": ("falcon-h1", hybrids.FalconH1),
    "lfm2": ("lfm2", hybrids.Lfm2),
    "lfm2moe": ("lfm2moe", hybrids.Lfm2),
    "qwen3next": ("qwen3next", hybrids.Qwen3Next),
    "rwkv6": ("rwkv6", rwkv.Rwkv6),
    "rwkv7": ("rwkv7", rwkv.Rwkv7),
}


# Files made from a fixture, with matrices so large that half precision overflows or a clamp is reached.
ENLARGED = {
    "llama-large": ("llama", {"blk.1.ffn_up.weight": 1500, "blk.1.ffn_gate.weight": 200}),
    "gpt-oss-large": ("gpt-oss", {f"blk.{il}.ffn_{part}_exps.weight": 20 for il in (0, 1) for part in ("up", "gate")}),
}


def model_file(wiring, fixtures):
    """Return the file of a wiring that is a fixture."""
    return fixtures / "arch" / FIXTURES[wiring][0] / "model.gguf"


def enlarge(wiring, fixtures, target):
    """Write the file of an enlarged wiring."""
    source, factors = ENLARGED[wiring]
    data = bytearray(model_file(source, fixtures).read_bytes())
    for tensor in File(model_file(source, fixtures)).raw.values():
        if tensor.name in factors:
            start, size = int(tensor.data_offset), int(tensor.n_bytes)
            data[start:start + size] = (np.frombuffer(data[start:start + size], np.float32)
                                        * np.float32(factors[tensor.name])).tobytes()
    target.write_bytes(data)


def build(wiring, path, arithmetic="f64"):
    """Load a file as a wiring."""
    return FIXTURES[ENLARGED[wiring][0] if wiring in ENLARGED else wiring][1](path, arithmetic)

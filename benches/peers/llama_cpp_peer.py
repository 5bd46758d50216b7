"""Prompt and decode speed of llama.cpp (through llama-cpp-python) on a GGUF file.

usage: llama_cpp_peer.py MODEL.gguf THREADS on|off TEST...

A test is `pp512`, `tg64` or `tg64@1536`, as llama-bench would name it; on and off are flash attention. One JSON object
on stdout: the nanoseconds of each test, and under "version" and "system" what was measured. A test runs once without
the clock (one token of what is written), then once with it: random tokens, batches of 2048 computed 512 at once, a
half-precision cache, nothing sampled. An encoder reads a prompt as one text and makes its vector.
"""
import ctypes
import json
import sys
import time

import llama_cpp as ll

BATCH, UBATCH = 2048, 512


class Peer:
    def __init__(self, path, threads, flash):
        quiet = ll.llama_log_callback(lambda level, text, user: None)
        ll.llama_log_set(quiet, None)
        self.quiet = quiet  # must live as long as the library may call it
        ll.llama_backend_init()
        self.model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        self.threads, self.flash, self.number = threads, flash, 0
        self.encodes = self.metadata(self.metadata("general.architecture") + ".attention.causal") == "false"
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))

    def metadata(self, key):
        """A value of the file, as text; empty if there is none."""
        text = ctypes.create_string_buffer(64)
        ll.llama_model_meta_val_str(self.model, key.encode(), text, len(text))
        return text.value.decode()

    def context(self, positions):
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = positions, BATCH, UBATCH
        params.embeddings = self.encodes
        params.n_threads = params.n_threads_batch = self.threads
        params.flash_attn_type = ll.LLAMA_FLASH_ATTN_TYPE_ENABLED if self.flash else ll.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = ll.llama_init_from_model(self.model, params)
        if not context:
            raise SystemExit(f"no context of {positions} positions")
        return context

    def feed(self, context, count):
        """A prompt, with the logits of the last token of each batch."""
        for first in range(0, count, BATCH):
            size = min(BATCH, count - first)
            ids = []
            for _ in range(size):
                self.number += 1
                ids.append(1 + self.number * 7919 % (self.vocab - 1))
            array = (ll.llama_token * size)(*ids)
            if ll.llama_decode(context, ll.llama_batch_get_one(array, size)) != 0:
                raise SystemExit("llama_decode failed")
        ll.llama_synchronize(context)

    def test(self, name):
        work, _, depth = name.partition("@")
        kind, tokens, depth = work[:2], int(work[2:]), int(depth or 0)
        context = self.context(tokens + depth)
        clear = lambda: ll.llama_memory_clear(ll.llama_get_memory(context), False)
        if kind == "pp":
            self.feed(context, tokens)
            clear()
            started = time.perf_counter_ns()
            self.feed(context, tokens)
        else:
            self.feed(context, 1)
            clear()
            self.feed(context, depth)
            started = time.perf_counter_ns()
            for _ in range(tokens):
                self.feed(context, 1)
        elapsed = time.perf_counter_ns() - started
        ll.llama_free(context)
        return elapsed


def main():
    path, threads, flash, *tests = sys.argv[1:]
    peer = Peer(path, int(threads), flash == "on")
    results = {name: peer.test(name) for name in tests if name.startswith("pp") or not peer.encodes}
    results["version"] = f"llama-cpp-python {ll.__version__}"
    results["system"] = ll.llama_print_system_info().decode().strip(" |")
    print(json.dumps(results))


if __name__ == "__main__":
    main()

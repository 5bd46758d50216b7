#!/usr/bin/env python3
"""Runs a WebAssembly program for WASI: `wasm-run.py PROGRAM.wasm [ARGUMENT...]`.

The runner of `cargo xtask wasm`. The program sees all files, the variables and the streams of this process.
WASM_RELAXED=deterministic makes relaxed instructions give the same on every machine.
"""

import os
import sys

import wasmtime

config = wasmtime.Config()
config.wasm_relaxed_simd = True
config.wasm_relaxed_simd_deterministic = os.environ.get("WASM_RELAXED") == "deterministic"

wasi = wasmtime.WasiConfig()
wasi.argv = sys.argv[1:]
wasi.inherit_env()
wasi.inherit_stdin()
wasi.inherit_stdout()
wasi.inherit_stderr()
wasi.preopen_dir(".", ".")
wasi.preopen_dir("/", "/")

engine = wasmtime.Engine(config)
store = wasmtime.Store(engine)
store.set_wasi(wasi)
linker = wasmtime.Linker(engine)
linker.define_wasi()
program = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
try:
    program.exports(store)["_start"](store)
except wasmtime.ExitTrap as exit:
    sys.exit(exit.code)
except wasmtime.Trap as trap:
    sys.exit(f"{sys.argv[1]}: {trap}")

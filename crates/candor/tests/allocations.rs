//! Decoding takes no memory from the heap once it runs: a forward pass of one token after another, with every allocation
//! counted, of the process and of the thread that decodes. The only test of its binary, since others would be counted too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use candor_cpu::{Cpu, CpuOptions};
use candor_gguf::{Format, Gguf, Writer};
use candor_models::{Decoder, Pass};
use candor_ops::{KvFormat, Prims, Step};
use candor_testing::{Random, Tiny};

struct Counting;

/// Allocations of all threads, that which started the test among them: it allocates whenever it gets to it.
static ALL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Allocations of this thread.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALL.fetch_add(1, Ordering::Relaxed);
    OWN.set(OWN.get() + 1);
}

// SAFETY: every call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Positions: several blocks of attention.
const CONTEXT: usize = 1200;
/// Tokens after which every buffer has had its turn.
const WARM: usize = 32;

/// Allocations until all of several threads have what they need: more than they ever make, and far fewer than tokens.
const FEW: usize = 100;

/// A small model with matrices of a format, and with norms of heads.
fn model(format: Format) -> Gguf {
    let tiny = Tiny { arch: "qwen3", dim: 64, head_dim: 32, kv_heads: 1, ffn: 96, ..Tiny::default() };
    let (mut writer, mut random) = (Writer::new(), Random(3));
    for (key, value) in tiny.metadata() {
        writer.insert(key, value);
    }
    let norms = (0..tiny.layers).flat_map(|i| ["q", "k"].map(|x| (format!("blk.{i}.attn_{x}_norm.weight"), vec![32])));
    for (name, shape) in tiny.tensors().into_iter().chain(norms) {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.signed() * 0.3).collect();
        let format = if shape.len() == 1 { Format::F32 } else { format };
        let mut bytes = vec![0; format.row_bytes(values.len()).expect("whole blocks")];
        format.encode(&values, &mut bytes).expect("a format with an encoder");
        writer.tensor(&name, format, &shape, bytes).expect("a fresh name and a fitting length");
    }
    Gguf::from_bytes(writer.to_bytes().expect("a complete model")).expect("a file")
}

/// Allocations of each token's pass on the thread that decodes, and of all threads together.
fn per_token(gguf: &Gguf, threads: usize, cache: KvFormat) -> (Vec<usize>, usize) {
    let mut ops = Cpu::new(CpuOptions { threads, ..CpuOptions::default() });
    let model = Decoder::load(gguf, &mut ops).expect("a model");
    let mut scratch = model.scratch(&mut ops, 4, 1);
    let mut kv = ops.kv(&model.config().kv_plan(CONTEXT, 1, cache, cache));
    let mut counts = Vec::with_capacity(CONTEXT);
    let all = ALL.load(Ordering::Relaxed);
    for position in 0..CONTEXT as u32 {
        let before = OWN.get();
        let (tokens, positions) = ([position % 200], [position]);
        let step = Step { tokens: &tokens, positions: &positions, sequences: &[0], outputs: &[0], decoding: 1 };
        model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        counts.push(OWN.get() - before);
    }
    (counts, ALL.load(Ordering::Relaxed) - all)
}

#[test]
fn a_token_allocates_nothing() {
    for (format, cache) in [(Format::F32, KvFormat::F16), (Format::Q8_0, KvFormat::Q8_0), (Format::F16, KvFormat::F32)]
    {
        let gguf = model(format);
        let (alone, _) = per_token(&gguf, 1, cache);
        let case = format!("weights {format}, cache {cache:?}");
        assert_ne!(alone[0], 0, "{case}: nothing is counted");
        let late: Vec<usize> = (WARM..CONTEXT).filter(|&i| alone[i] > 0).collect();
        assert!(late.is_empty(), "{case}, 1 thread: tokens {late:?} allocate");
        // One key and value head leaves threads without tasks of their own: blocks of positions are dealt out. A thread
        // allocates when it first takes part in an operation, which may be late, but no more for many tokens than for few.
        let (_, all) = per_token(&gguf, 3, cache);
        assert!(all < FEW, "{case}, 3 threads: {all} allocations");
    }
}

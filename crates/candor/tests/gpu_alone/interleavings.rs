//! A thousand random interleavings of loading, generating, cancelling and unloading two models in two sessions on one GPU:
//! the tokens of an undisturbed run, and nothing left behind. `CANDOR_SEED` repeats a run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use candor::{
    Cancel, Device, GenerateOptions, Gguf, KvFormat, LoadOptions, Model, Offload, Sampling, Session, SessionOptions,
    Verify,
};
use candor_gpu::{AdapterChoice, Gpu, GpuOptions, held};
use candor_testing::{Random, Tiny};

const STEPS: usize = 1000;
/// After this number everything is unloaded, and the memory looked at.
const ROUND: usize = 100;
/// Tokens that are compared.
const TOKENS: usize = 10;
/// Pages that allocators keep; a leak of one tiny model per round would be more.
const SLACK_BYTES: u64 = 24 << 20;

fn prompts() -> Vec<Vec<u32>> {
    let long: Vec<u32> = (0..40).map(|i| 3 + (i * 37) % 250).collect();
    vec![vec![1], vec![1, 270, 280, 290, 300, 261, 262], vec![1, 270, 280, 299], long]
}

/// Elements of caches.
const FORMATS: [KvFormat; 2] = [KvFormat::F32, KvFormat::F16];

fn session_options(format: KvFormat) -> SessionOptions {
    SessionOptions::default().context(64).batch(32).ubatch(16).keys(format).values(format)
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    let sampling = Sampling::default().temperature(0.0);
    GenerateOptions::default().sampling(sampling).max_tokens(max_tokens).ignore_eos(true)
}

/// Up to `count` tokens after the prompt; to drop the rest is to cancel.
fn tokens(session: &mut Session, prompt: &[u32], count: usize) -> Vec<u32> {
    let pieces = session.generate(prompt, greedy(TOKENS)).unwrap();
    pieces.map(|piece| piece.unwrap()).filter_map(|piece| piece.token).take(count).collect()
}

/// Cancelled at the first step, of 16 tokens, that begins with `tokens` done or more.
fn after(tokens: usize) -> Cancel {
    let steps = AtomicUsize::new(0);
    Cancel::when(move || steps.fetch_add(1, Ordering::Relaxed) * 16 >= tokens)
}

/// Bytes of this process that lie in memory (proc(5)); 0 where there is no such file.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// A model in the file's form, where it is to run, and what follows each prompt.
struct Subject {
    gguf: Gguf,
    options: LoadOptions,
    /// For each format of caches.
    expected: [Vec<Vec<u32>>; 2],
}

impl Subject {
    fn new(tiny: &Tiny, options: LoadOptions) -> Subject {
        let gguf = Gguf::from_bytes(tiny.bytes().into()).unwrap();
        let mut subject = Subject { gguf, options, expected: Default::default() };
        subject.expected = FORMATS.map(|format| {
            let fresh = || subject.load().session(&session_options(format)).unwrap();
            prompts().iter().map(|prompt| tokens(&mut fresh(), prompt, TOKENS)).collect()
        });
        subject
    }

    fn load(&self) -> Model {
        Model::from_gguf(self.gguf.clone(), &self.options).unwrap()
    }
}

/// A session, which of the models it is of, and the format of its cache.
struct Open {
    subject: usize,
    format: usize,
    session: Session,
}

impl Open {
    /// Generates what the prompt wants, or the beginning of it.
    fn generate(&mut self, subjects: &[Subject; 2], prompt: usize, count: usize) {
        let got = tokens(&mut self.session, &prompts()[prompt], count);
        assert_eq!(
            got,
            subjects[self.subject].expected[self.format][prompt][..count],
            "model {}, prompt {prompt}",
            self.subject
        );
    }
}

#[test]
fn a_thousand_interleavings_leave_nothing_behind() {
    let Some(_alone) = crate::alone() else { return };
    let seed = std::env::var("CANDOR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20);
    println!("CANDOR_SEED={seed}");
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0));
    // Keeps the device open, and with it the compiled shaders.
    let device = Gpu::new(&gpu).unwrap();
    let whole = LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off).threads(1);
    let offload = Offload::default().layers(candor::GpuLayers::Count(1));
    let divided = whole.clone().offload(offload);
    let other = Tiny { dim: 36, heads: 2, kv_heads: 1, head_dim: 18, ffn: 50, seed: 5, ..Tiny::default() };
    let subjects = [Subject::new(&Tiny::default(), whole), Subject::new(&other, divided)];
    assert_ne!(subjects[0].expected, subjects[1].expected);
    let before = held();

    let mut random = Random(seed);
    let mut below = |most: usize| random.below(most);
    let mut models: [Option<Model>; 2] = [None, None];
    let mut sessions: [Option<Open>; 2] = [None, None];
    let (mut counts, mut memory, mut most) = ([0; 7], Vec::new(), 0);
    let started = Instant::now();
    for step in 1..=STEPS {
        let (which, slot, prompt) = (below(2), below(2), below(prompts().len()));
        let action = below(counts.len());
        counts[action] += 1;
        match action {
            0 => models[which] = Some(subjects[which].load()),
            // Sessions that are open keep their model.
            1 => models[which] = None,
            2 => {
                let model = models[which].get_or_insert_with(|| subjects[which].load());
                let format = below(2);
                let session = model.session(&session_options(FORMATS[format])).unwrap();
                sessions[slot] = Some(Open { subject: which, format, session });
            }
            3 => sessions[slot] = None,
            4 => {
                if let Some(open) = &mut sessions[slot] {
                    open.generate(&subjects, prompt, 1 + below(TOKENS));
                }
            }
            5 => {
                // Cancelled while the prompt is evaluated, and then asked again.
                if let Some(open) = &mut sessions[slot] {
                    let stop = below(40);
                    open.session.truncate(0);
                    let all = open.session.evaluate_until(&prompts()[3], &after(stop)).unwrap();
                    assert_eq!(all, stop > 32);
                    open.generate(&subjects, prompt, 2);
                }
            }
            _ => {
                // Both at once.
                if let [Some(a), Some(b)] = &mut sessions {
                    let (subjects, counts) = (&subjects, [1 + below(TOKENS), 1 + below(TOKENS)]);
                    std::thread::scope(|scope| {
                        scope.spawn(move || a.generate(subjects, prompt, counts[0]));
                        b.generate(subjects, (prompt + 1) % prompts().len(), counts[1]);
                    });
                }
            }
        }
        most = most.max(held().bytes);
        if step % ROUND == 0 {
            (models, sessions) = ([None, None], [None, None]);
            assert_eq!(held(), before, "after {step} steps");
            memory.push(resident());
        }
    }
    drop((models, sessions));
    let seconds = started.elapsed().as_secs_f32();
    let megabytes: Vec<u64> = memory.iter().map(|bytes| bytes >> 20).collect();
    println!("{counts:?} of the actions in {seconds:.1} s; most on the device {most} bytes; resident MB {megabytes:?}");
    assert!(most > before.bytes);
    let (middle, last) = (memory[memory.len() / 2 - 1], memory[memory.len() - 1]);
    assert!(last <= middle + SLACK_BYTES, "resident memory grows: {megabytes:?} MB");
    drop(device);
}

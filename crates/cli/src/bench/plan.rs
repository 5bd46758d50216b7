//! From the arguments to the tests that are to be run: which, and in which combinations of settings.

use std::fmt;

use candor::{Activations, Batching, SessionOptions};

use crate::{
    answer::kv_format,
    args::{
        CacheFormat,
        bench::{BenchArgs, Counts, Positive},
        device::{DeviceName, Layers},
    },
};

/// What is measured: passes over a prompt, then passes that each add a token to every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens generated after it, in each sequence.
    pub generated: u32,
    /// Tokens that the cache holds before.
    pub depth: u32,
    /// Sequences.
    pub sequences: u32,
    /// Whether what precedes the tokens that they generate is one sequence's, which the others share.
    pub shared: bool,
}

/// How it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub batch: u32,
    pub ubatch: u32,
    pub keys: CacheFormat,
    pub values: CacheFormat,
}

/// Where it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub device: DeviceName,
    pub layers: Layers,
    /// 0 stands for one per physical core.
    pub threads: u32,
    pub batching: Batching,
    pub activations: Activations,
}

/// The tests of a model.
pub struct Plan {
    /// All else is done on each.
    pub sites: Vec<Site>,
    /// Setups and what is measured in each.
    pub tests: Vec<(Setup, Test)>,
}

impl fmt::Display for Test {
    /// As llama-bench names tests: `pp512`, `tg128`, `pp512+tg128`, `tg128 @ d1536`; and `tg128 x8` of 8 sequences,
    /// `pp512+tg128 x8 shared` after one prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.prompt, self.generated) {
            (prompt, 0) => write!(f, "pp{prompt}")?,
            (0, generated) => write!(f, "tg{generated}")?,
            (prompt, generated) => write!(f, "pp{prompt}+tg{generated}")?,
        }
        if self.sequences > 1 {
            write!(f, " x{}", self.sequences)?;
        }
        if self.depth > 0 {
            write!(f, " @ d{}", self.depth)?;
        }
        f.write_str(if self.shared { " shared" } else { "" })
    }
}

impl Setup {
    /// A session with these settings and the model's context.
    pub fn session(self) -> SessionOptions {
        SessionOptions::default()
            .context(0)
            .fit(false)
            .batch(self.batch as usize)
            .ubatch(self.ubatch as usize)
            .keys(kv_format(self.keys))
            .values(kv_format(self.values))
    }
}

impl Test {
    /// Sequences whose prompt is computed.
    pub fn prompts(&self) -> u32 {
        if self.shared { 1 } else { self.sequences }
    }

    /// Tokens that count: those of all sequences that are computed.
    pub fn tokens(&self) -> u64 {
        u64::from(self.prompt) * u64::from(self.prompts()) + u64::from(self.generated) * u64::from(self.sequences)
    }

    /// Whether it is a prompt and nothing else, which is all that an encoder has.
    pub fn encodes(&self) -> bool {
        self.generated == 0 && self.depth == 0 && self.sequences == 1
    }

    /// Positions of the cache that a sequence takes.
    pub fn context(&self) -> u64 {
        u64::from(self.depth) + u64::from(self.prompt) + u64::from(self.generated)
    }
}

impl Plan {
    /// The session that a model has to leave room for on a GPU: with the longest context of all tests.
    pub fn largest(&self) -> SessionOptions {
        let longest = self.tests.iter().max_by_key(|(_, test)| test.context() * u64::from(test.sequences));
        longest.map_or_else(SessionOptions::default, |(setup, test)| {
            // What several sequences take is what one of the same length together takes.
            let context = test.context() * u64::from(test.sequences);
            setup.session().context(usize::try_from(context).unwrap_or(usize::MAX))
        })
    }

    /// What the arguments ask for.
    pub fn of(args: &BenchArgs) -> Plan {
        let counts = |lists: &[Counts]| lists.iter().flat_map(|list| list.0.clone()).collect::<Vec<_>>();
        let positive = |lists: &[Positive]| lists.iter().flat_map(|list| list.0.clone()).collect::<Vec<_>>();
        let (prompts, generated) = (counts(&args.tests.n_prompt), counts(&args.tests.n_gen));
        let parallel: Vec<u32> = args.tests.n_parallel.iter().flat_map(|list| list.0.clone()).collect();
        let setups = &args.setups;
        let mut tests = Vec::new();
        for &keys in &setups.cache_type_k {
            for &values in &setups.cache_type_v {
                for batch in positive(&setups.batch_size) {
                    for ubatch in positive(&setups.ubatch_size) {
                        let setup = Setup { batch, ubatch, keys, values };
                        for depth in counts(&args.tests.n_depth) {
                            let alone = Test { prompt: 0, generated: 0, depth, sequences: 1, shared: false };
                            let prompts = prompts.iter().filter(|&&prompt| prompt > 0);
                            tests.extend(prompts.map(|&prompt| (setup, Test { prompt, ..alone })));
                            for &generated in generated.iter().filter(|&&generated| generated > 0) {
                                let several = parallel.iter().map(|&sequences| {
                                    let shared = args.tests.prompt_shared && sequences > 1 && depth > 0;
                                    Test { generated, sequences, shared, ..alone }
                                });
                                tests.extend(several.map(|test| (setup, test)));
                            }
                            for pair in &args.tests.n_prompt_gen {
                                let (prompt, generated) = (pair.prompt, pair.generated);
                                let several = parallel.iter().map(|&sequences| {
                                    let shared = args.tests.prompt_shared && sequences > 1;
                                    Test { prompt, generated, depth, sequences, shared }
                                });
                                tests.extend(several.map(|test| (setup, test)));
                            }
                        }
                    }
                }
            }
        }
        Plan { sites: sites(args), tests }
    }
}

/// Every device with every number of layers and of threads.
fn sites(args: &BenchArgs) -> Vec<Site> {
    let threads: Vec<u32> = args.setups.threads.iter().flat_map(|list| list.0.clone()).collect();
    let devices = args.devices.device.iter();
    let places = devices.flat_map(|device| args.devices.gpu_layers.iter().map(move |&layers| (device, layers)));
    places
        .flat_map(|(device, layers)| {
            let batching = args.batching.batching();
            let activations = args.batching.activations(device);
            let site = move |&threads| Site { device: device.clone(), layers, threads, batching, activations };
            threads.iter().map(site)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests() {
        let test = Test { prompt: 512, generated: 0, depth: 0, sequences: 1, shared: false };
        let both = Test { generated: 128, ..test };
        let generated = Test { prompt: 0, ..both };
        for (test, name, tokens) in [
            (test, "pp512", 512),
            (both, "pp512+tg128", 640),
            (Test { depth: 1536, ..generated }, "tg128 @ d1536", 128),
            (Test { sequences: 8, ..generated }, "tg128 x8", 1024),
            (Test { sequences: 2, depth: 9, ..both }, "pp512+tg128 x2 @ d9", 1280),
            (Test { sequences: 2, depth: 9, shared: true, ..both }, "pp512+tg128 x2 @ d9 shared", 768),
        ] {
            assert_eq!((test.to_string().as_str(), test.tokens()), (name, tokens));
        }
    }
}

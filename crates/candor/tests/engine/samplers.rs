//! The samplers against llama.cpp's: what they leave of random logits, with what probabilities, and what is drawn.
//!
//! The goldens are made by tools/goldens/samplers.py, whose head says how a case is written.

use std::collections::{BTreeMap, HashMap};

use candor::sampler::{Candidate, Error, Sampler, SamplerKind, Sampling, Vocabulary};
use serde::Deserialize;

/// Difference allowed between probabilities, relative to `p` and to `p |ln p|`: scaled logits are f32, and llama.cpp adds
/// up in f32 too. An error of its sums acts on `p` once, one of a dynamic temperature as often as `p` has nats.
const TOLERANCE: f32 = 5e-6;

/// Logits for the tests without goldens.
fn bell(seed: u64, n: usize) -> Vec<f32> {
    logits(&("bell".into(), seed, 4.0), n)
}

fn sampler(settings: Sampling) -> Sampler {
    Sampler::new(&settings, 512, None).unwrap()
}

#[derive(Deserialize)]
struct Goldens {
    made_by: String,
    pieces: Vec<String>,
    encoded: HashMap<String, Vec<u32>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    family: String,
    n: usize,
    settings: Sampling,
    accept: Vec<u32>,
    /// Whether the candidates have llama.cpp's order, so that the draw is the same.
    draws: bool,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    logits: (String, u64, f64),
    count: usize,
    digest: String,
    ids: Vec<u32>,
    p: String,
    drawn: u32,
}

/// The formula of tools/goldens/samplers.py: additions and multiplications of f64 alone, so the same everywhere.
fn logits((shape, seed, scale): &(String, u64, f64), n: usize) -> Vec<f32> {
    let uniform = |i: usize| {
        let mut z = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 * 2f64.powi(-53)
    };
    let logit = |i: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| uniform(4 * i + j));
        let bell = (a + b + c + d - 2.0) * scale;
        match shape.as_str() {
            "flat" => a * scale,
            "spiky" => {
                let square = |x: f64| x * x;
                let eighth = square(square(square(a)));
                bell + eighth * eighth * 2.0 * scale
            }
            _ => bell,
        }
    };
    (0..n).map(|i| logit(i) as f32).collect()
}

fn digest(candidates: &[Candidate]) -> String {
    let mut ids: Vec<u32> = candidates.iter().map(|candidate| candidate.id).collect();
    ids.sort_unstable();
    let bytes = ids.iter().flat_map(|id| id.to_le_bytes());
    let hash =
        bytes.fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// What is wrong with the candidates of a step, if anything.
fn difference(step: &Step, candidates: &[Candidate]) -> Option<String> {
    if candidates.len() != step.count {
        return Some(format!("{} candidates, expected {}", candidates.len(), step.count));
    }
    if digest(candidates) != step.digest {
        return Some("as many candidates as expected, but others".into());
    }
    let sum: f64 = candidates.iter().map(|candidate| f64::from(candidate.p)).sum();
    if (sum - 1.0).abs() > 1e-5 {
        return Some(format!("probabilities add up to {sum}"));
    }
    let by_id: HashMap<u32, f32> = candidates.iter().map(|candidate| (candidate.id, candidate.p)).collect();
    let expected = bytes(&step.p);
    let expected = expected.chunks_exact(4).map(|bits| f32::from_be_bytes(bits.try_into().unwrap()));
    step.ids.iter().zip(expected).find_map(|(id, p)| {
        let got = by_id.get(id).copied().unwrap_or(f32::NAN);
        // Not `>`: NaN is a difference.
        let close = (got - p).abs() <= TOLERANCE * p * (1.0 + p.max(f32::MIN_POSITIVE).ln().abs()) + 1e-12;
        (!close).then(|| format!("token {id}: probability {got:e}, expected {p:e}"))
    })
}

#[test]
fn what_is_left_is_what_llama_cpp_leaves() {
    let goldens: Goldens = serde_json::from_str(include_str!("../goldens/samplers.json")).unwrap();
    let pieces: Vec<Vec<u8>> = goldens.pieces.iter().map(|piece| bytes(piece)).collect();
    let vocabulary = Vocabulary {
        tokens: pieces.len(),
        piece: &|id| pieces[id as usize].clone(),
        encode: &|text| goldens.encoded[text].clone(),
    };
    let mut vectors = BTreeMap::<&str, usize>::new();
    let mut draws = 0;
    let mut wrong = Vec::new();
    for (number, case) in goldens.cases.iter().enumerate() {
        let mut sampler = Sampler::new(&case.settings, 512, Some(&vocabulary)).unwrap();
        for &id in &case.accept {
            sampler.accept(id);
        }
        for (at, step) in case.steps.iter().enumerate() {
            let drawn = sampler.sample(&logits(&step.logits, case.n)).unwrap();
            let mut difference = difference(step, sampler.last_candidates());
            if case.draws && drawn != step.drawn {
                difference.get_or_insert(format!("drew {drawn}, expected {}", step.drawn));
            }
            if let Some(difference) = difference {
                let settings = serde_json::to_string(&case.settings).unwrap();
                wrong.push(format!("case {number} ({}), step {at}: {difference}\n  {settings}", case.family));
            }
            sampler.accept(step.drawn);
            *vectors.entry(&case.family).or_default() += 1;
            draws += usize::from(case.draws);
        }
    }
    println!("{}: vectors {vectors:?}, {draws} draws compared", goldens.made_by);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    // A family that shrinks is a golden file that was made badly.
    assert_eq!(vectors.len(), 17);
    assert!(vectors.values().all(|&count| count >= 100), "{vectors:?}");
}

#[test]
fn the_same_seed_gives_the_same_tokens() {
    let settings = Sampling::default().seed(42).xtc_probability(0.5).repeat_penalty(1.1);
    let run = |sampler: &mut Sampler| -> Vec<u32> {
        let next = |step| {
            let id = sampler.sample(&bell(step, 1000)).unwrap();
            sampler.accept(id);
            id
        };
        (0..100).map(next).collect()
    };
    let mut first = sampler(settings.clone());
    let tokens = run(&mut first);
    assert_eq!(run(&mut sampler(settings.clone())), tokens);
    let mut on = first.clone();
    assert_eq!(run(&mut on), run(&mut first.clone()), "a clone goes on from the same state");
    assert_ne!(run(&mut first), tokens, "the state moves on");
    first.reset();
    assert_eq!(run(&mut first), tokens);
    assert_ne!(run(&mut sampler(settings.clone().seed(43))), tokens);

    for random in [None, Some(u32::MAX)] {
        let drawn = sampler(settings.clone().seed(random));
        let seed = drawn.seed();
        assert_ne!(seed, u32::MAX);
        assert_eq!(run(&mut drawn.clone()), run(&mut sampler(settings.clone().seed(seed))));
    }
    let seeds: Vec<u32> = (0..4).map(|_| sampler(Sampling::default()).seed()).collect();
    assert!(seeds.iter().any(|&seed| seed != seeds[0]), "{seeds:?}");
}

/// The tokens themselves, as written by the platform that made this test: a platform that differs fails.
#[test]
fn the_same_seed_gives_these_tokens() {
    let mut sampler = sampler(Sampling::default().seed(42).top_k(0).top_p(0.999).min_p(0.0));
    let tokens: Vec<u32> = (0..12).map(|step| sampler.sample(&bell(step, 5000)).unwrap()).collect();
    assert_eq!(tokens, [1685, 4046, 1924, 793, 4848, 4768, 2467, 4525, 3151, 1320, 338, 4302]);
}

#[test]
fn the_order_of_the_chain_matters() {
    // Probabilities 1/2, 1/4, 1/8 ...: hot, top-p 0.8 needs more of them.
    let logits: Vec<f32> = (0..20).map(|i| i as f32 * -std::f32::consts::LN_2).collect();
    let count = |chain: &str| {
        let samplers = Sampling::parse_samplers(chain).unwrap();
        let settings = Sampling::default().temperature(2.0).top_p(0.8).top_k(3).samplers(samplers);
        sampler(settings).candidates(&logits).unwrap().len()
    };
    assert_eq!(count("top_p;temperature"), 3);
    assert_eq!(count("temperature;top_p"), 5);
    assert_eq!(count("temperature;top_p;top_k"), 3);
    assert_eq!(count("top_k"), 3);
    assert_eq!(count(""), 20);
}

#[test]
fn greedy_takes_the_first_of_the_best() {
    let logits = [1.0, 3.0, 3.0, -2.0];
    for temperature in [0.0, -1.0] {
        for chain in
            ["temperature", "top_k;temperature", "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"]
        {
            let samplers = Sampling::parse_samplers(chain).unwrap();
            let mut greedy = sampler(Sampling::default().temperature(temperature).samplers(samplers));
            assert_eq!(greedy.sample(&logits), Ok(1), "{chain}");
            assert_eq!(greedy.last_candidates(), [Candidate { id: 1, logit: 3.0, p: 1.0 }], "{chain}");
        }
    }
}

#[test]
fn logits_that_are_no_numbers_do_no_harm() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let everything = Sampling::default()
        .typical_p(0.9)
        .top_n_sigma(1.0)
        .xtc_probability(1.0)
        .xtc_threshold(0.01)
        .repeat_penalty(2.0)
        .dynatemp_range(0.5)
        .dry_multiplier(1e30)
        .dry_sequence_breakers(vec![]);
    let bare = Sampling::default().samplers(vec![]);
    let mut chains = vec![bare, Sampling::greedy(), Sampling::default(), everything.clone()];
    chains.extend([1, 2].map(|mirostat| Sampling::default().mirostat(mirostat)));
    chains.extend(SamplerKind::DEFAULT_ORDER.map(|kind| everything.clone().samplers(vec![kind])));
    for settings in chains {
        let mut sampler = sampler(settings);
        [1, 2, 1, 2, 1, 2].iter().for_each(|&id| sampler.accept(id));
        for (logits, may_follow) in [
            (&[][..], &[][..]),
            (&[NAN, NAN], &[]),
            (&[NAN, -INF], &[]),
            (&[NAN, -3.0, -INF], &[1]),
            (&[-INF, -INF, -1e38], &[2]),
            (&[0.0, INF, NAN], &[1]),
            (&[INF, INF, 0.0], &[0, 1]),
            (&[f32::MAX, f32::MIN, f32::MAX], &[0, 2]),
            (&[0.0, -0.0, 1e-45], &[0, 1, 2]),
        ] {
            match sampler.sample(logits) {
                Ok(id) => {
                    assert!(may_follow.contains(&id), "{logits:?}: {id}");
                    assert!(sampler.last_candidates().iter().all(|c| (0.0..=1.0).contains(&c.p)), "{logits:?}");
                    sampler.accept(id);
                }
                Err(error) => {
                    assert_eq!(error, Error::NothingLeft { logits: logits.len() });
                    assert!(may_follow.is_empty(), "{logits:?}");
                }
            }
        }
    }
}

/// Pearson's chi-square of 100 000 draws against the probabilities.
#[test]
fn draws_follow_the_probabilities() {
    const DRAWS: usize = 100_000;
    let logits = bell(9, 300);
    for (samplers, top_k) in [(vec![], 0), (vec![SamplerKind::TopK], 30)] {
        let mut sampler = sampler(Sampling::default().samplers(samplers).top_k(top_k).seed(2024));
        let mut counts = HashMap::<u32, usize>::new();
        for _ in 0..DRAWS {
            *counts.entry(sampler.sample(&logits).unwrap()).or_default() += 1;
        }
        // Tokens expected fewer than 5 times go into one class, as the test asks for.
        let (mut statistic, mut classes, mut rare, mut rare_count) = (0.0, 0, 0.0, 0);
        for candidate in sampler.last_candidates() {
            let expected = f64::from(candidate.p) * DRAWS as f64;
            let count = counts.remove(&candidate.id).unwrap_or(0);
            if expected < 5.0 {
                (rare, rare_count) = (rare + expected, rare_count + count);
            } else {
                statistic += (count as f64 - expected).powi(2) / expected;
                classes += 1;
            }
        }
        assert!(counts.is_empty(), "drawn but no candidate: {counts:?}");
        if rare >= 5.0 {
            statistic += (rare_count as f64 - rare).powi(2) / rare;
            classes += 1;
        }
        let freedom = f64::from(classes - 1);
        // Wilson and Hilferty: the cube root of a chi-square is nearly normal; 3.09 deviations are one in a thousand.
        let spread = 2.0 / (9.0 * freedom);
        let deviations = ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
        println!("{classes} classes: chi-square {statistic:.1}, {deviations:.2} deviations from the mean");
        assert!(deviations.abs() < 3.09, "{deviations} deviations");
    }
}

/// A sanity check for unoptimised builds on busy machines, not a benchmark: the best of some rounds is far below the
/// limit unless something takes the square of the vocabulary. It prints what it measured.
#[test]
fn a_large_vocabulary_takes_little_time() {
    let logits = logits(&("spiky".into(), 1, 6.0), 128_256);
    let off = Sampling::default().top_k(0).dry_sequence_breakers(vec![]);
    for (name, settings) in [
        ("default", Sampling::default()),
        ("greedy", Sampling::greedy()),
        ("penalties", off.clone().repeat_penalty(1.1).dry_multiplier(0.8).top_k(40)),
        ("top-p over all", off.clone().top_k(0)),
        ("typical over all", off.clone().typical_p(0.5).top_p(1.0)),
        ("no cut", off.clone().samplers(vec![SamplerKind::Temperature])),
        ("mirostat 2", off.clone().mirostat(2)),
    ] {
        let mut sampler = sampler(settings);
        let round = |_| {
            let started = std::time::Instant::now();
            let id = sampler.sample(&logits).unwrap();
            sampler.accept(id);
            started.elapsed()
        };
        let best = (0..20).map(round).min().unwrap();
        let left = sampler.last_candidates().len();
        println!("{name}: {:.3} ms a token, {left} candidates", best.as_secs_f64() * 1e3);
        assert!(best.as_millis() < 100, "{name}: {best:?}");
    }
}

//! A few of the greatest logits decide as all of them do: the same candidates with the same probabilities to the bit, and the
//! same tokens.

use candor::sampler::{Candidate, Sampler, SamplerKind, Sampling};
use candor_ops::{Ranked, top_k};
use candor_testing::Random;

const VOCAB: usize = 300;

fn best(logits: &[f32], count: usize) -> Vec<Ranked> {
    let mut best = Vec::new();
    top_k(logits, count, &mut best);
    best
}

fn bits(candidates: &[Candidate]) -> Vec<(u32, u32, u32)> {
    candidates.iter().map(|one| (one.id, one.logit.to_bits(), one.p.to_bits())).collect()
}

/// Logits with ties; of some rounds with zeros of both signs, with masks, and with numbers beyond all bounds.
fn logits(random: &mut Random, round: usize) -> Vec<f32> {
    let coarse = [1.0, 4.0, 1000.0][random.below(3)];
    let logit = |_| match (round % 4, random.below(8)) {
        (1, 0..4) => [0.0, -0.0][random.below(2)],
        (1, _) => -6.0 * random.signed().abs(),
        (2, 0..7) => f32::NEG_INFINITY,
        (3, 0) => [f32::INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE][random.below(4)],
        _ => (random.signed() * 6.0 * coarse).round() / coarse,
    };
    (0..VOCAB).map(logit).collect()
}

/// Settings of which most leave most samplers off.
fn settings(random: &mut Random) -> Sampling {
    fn often<T: Copy>(random: &mut Random, usual: T, others: &[T]) -> T {
        if random.below(7) > 0 { usual } else { others[random.below(others.len())] }
    }
    let all = SamplerKind::DEFAULT_ORDER;
    let (presence_penalty, frequency_penalty) =
        often(random, (0.0, 0.0), &[(1.5, 0.0), (0.0, 0.5), (-0.0, -0.0), (-1.0, 0.0), (0.0, -0.5)]);
    let (xtc_probability, xtc_threshold) = often(random, (0.0, 0.1), &[(0.5, 0.1), (1.0, 0.0), (1.0, 0.6)]);
    let samplers = match random.below(3) {
        0 => (0..random.below(8)).map(|_| all[random.below(all.len())]).collect(),
        _ => all.to_vec(),
    };
    let biases = if random.below(3) == 0 { random.below(5) } else { 0 };
    let logit_bias = (0..biases).map(|_| {
        let bias = often(random, f32::NEG_INFINITY, &[-0.5, -20.0, -0.0, 0.0, 3.0]);
        (random.below(VOCAB) as u32, bias)
    });
    Sampling::default()
        .logit_bias(logit_bias.collect())
        .temperature(often(random, 0.8, &[0.0, 0.0, -1.0, 1.0, 5.0]))
        .dynatemp_range(often(random, 0.0, &[0.5]))
        .top_k(often(random, 40, &[0, 1, 2, 5, 100, 1000]))
        .top_p(often(random, 0.95, &[1.0, 0.3, 0.0]))
        .min_p(often(random, 0.05, &[0.0, 0.5, 1.5]))
        .typical_p(often(random, 1.0, &[0.5]))
        .top_n_sigma(often(random, -1.0, &[0.5, 1.5]))
        .xtc_probability(xtc_probability)
        .xtc_threshold(xtc_threshold)
        .repeat_penalty(often(random, 1.1, &[1.0, 3.0, 0.4]))
        .repeat_last_n(often(random, 64, &[0, 3, -1]))
        .presence_penalty(presence_penalty)
        .frequency_penalty(frequency_penalty)
        .dry_multiplier(often(random, 0.0, &[0.8, 1e30, -1.0]))
        .dry_allowed_length(often(random, 2, &[0, 1]))
        .dry_sequence_breakers(Vec::new())
        .mirostat(often(random, 0, &[0, 0, 0, 0, 2]))
        .min_keep(often(random, 0, &[3]))
        .seed(random.bits() as u32 >> 1)
        .samplers(samplers)
}

#[test]
fn a_few_of_the_greatest_logits_decide_as_all_do() {
    let mut random = Random(1);
    let (mut of_all, mut of_best, mut of_one, mut errors) = (0, 0, 0, 0);
    for round in 0..4000 {
        let settings = settings(&mut random);
        let mut sampler = Sampler::new(&settings, 512, None).unwrap();
        let mut twin = sampler.clone();
        // Few tokens at first, so that some are seen again and again.
        for _ in 0..random.below(60) {
            let token = random.below(12) as u32;
            sampler.accept(token);
            twin.accept(token);
        }
        for step in 0..6 {
            let logits = logits(&mut random, step);
            let want = sampler.sample(&logits);
            let got = match twin.enough() {
                None => {
                    of_all += 1;
                    twin.sample(&logits)
                }
                Some(count) => {
                    of_best += 1;
                    of_one += usize::from(count == 1);
                    twin.sample_best(&best(&logits, count), VOCAB)
                }
            };
            assert_eq!(got, want, "round {round}, step {step}: {settings:?}");
            let Ok(token) = want else {
                errors += 1;
                continue;
            };
            let (got, want) = (bits(twin.last_candidates()), bits(sampler.last_candidates()));
            assert_eq!(got, want, "round {round}, step {step}: {settings:?}");
            // Another's token now and then, as in a prompt.
            let token = if step == 3 { 5 } else { token };
            sampler.accept(token);
            twin.accept(token);
        }
    }
    println!("{of_all} of all logits, {of_best} of the best, {of_one} of one alone; {errors} errors");
    assert!(of_all > 4000 && of_best > 8000 && of_one > 100 && errors > 0, "{of_all} {of_best} {of_one} {errors}");
}

/// Of which the tokens 7, 8 and 9 were seen, 9 after 7 and 8 twice, and then 7 and 8 again.
fn enough(settings: &Sampling) -> Option<usize> {
    let settings = settings.clone().dry_sequence_breakers(Vec::new());
    let mut sampler = Sampler::new(&settings, 512, None).unwrap();
    [7, 8, 9, 7, 8, 9, 7, 8].into_iter().for_each(|token| sampler.accept(token));
    sampler.enough()
}

#[test]
fn what_is_enough() {
    let (usual, greedy) = (Sampling::default(), Sampling::greedy());
    let chain = |text, of: &Sampling| of.clone().samplers(Sampling::parse_samplers(text).unwrap());
    let biased = |bias, of: &Sampling| of.clone().logit_bias(vec![(7, bias), (9, f32::NEG_INFINITY)]);
    let cases = [
        (Some(40), usual.clone()),
        (Some(9), usual.clone().top_k(9).temperature(3.0).dynatemp_range(1.0)),
        (Some(40), usual.clone().typical_p(0.3).xtc_probability(0.5).min_keep(3)),
        (None, usual.clone().top_k(0)),
        (None, usual.clone().top_n_sigma(1.0)),
        (None, usual.clone().mirostat(1)),
        (None, chain("top_p;top_k;temperature", &usual)),
        (None, chain("min_p;top_k", &usual)),
        (None, chain("temperature;top_k", &usual)),
        (None, chain("xtc;top_k", &usual).xtc_probability(0.5)),
        (None, chain("typ_p;top_k", &usual).typical_p(0.5)),
        (None, chain("", &usual)),
        (Some(40), chain("top_p;typ_p;min_p;xtc;top_k", &usual).typical_p(1.0).top_p(1.0).min_p(0.0)),
        // Ollama's default penalty; one that rewards; those of others.
        (Some(43), usual.clone().repeat_penalty(1.1)),
        (Some(41), usual.clone().repeat_penalty(1.1).repeat_last_n(1)),
        (Some(40), usual.clone().repeat_penalty(1.1).repeat_last_n(0)),
        (Some(40), chain("top_k;penalties", &usual).repeat_penalty(1.1)),
        (None, usual.clone().repeat_penalty(0.9)),
        (Some(43), usual.clone().presence_penalty(0.5).frequency_penalty(0.5)),
        (None, usual.clone().presence_penalty(-0.5)),
        (None, usual.clone().frequency_penalty(-0.5)),
        (Some(41), usual.clone().dry_multiplier(0.8)),
        (None, usual.clone().dry_multiplier(-0.8)),
        (Some(42), biased(-1.0, &usual)),
        (None, biased(1.0, &usual)),
        // Nothing but the best is left in the end.
        (Some(1), greedy.clone()),
        (Some(1), greedy.clone().top_k(3).top_p(0.1).min_p(0.9).top_n_sigma(0.5).min_keep(4)),
        (Some(1), chain("temperature;top_k", &greedy).typical_p(0.1).xtc_probability(1.0)),
        (Some(1), chain("temperature", &greedy)),
        (Some(1), chain("temperature;typ_p", &greedy).typical_p(0.1)),
        (None, chain("temperature;xtc", &greedy).xtc_probability(1.0).xtc_threshold(0.0)),
        (None, chain("typ_p;temperature", &greedy).typical_p(0.1)),
        (Some(3), biased(f32::NEG_INFINITY, &greedy)),
        (None, biased(1.0, &greedy)),
        (Some(4), greedy.clone().repeat_penalty(1.1)),
        (Some(5), greedy.clone().repeat_penalty(1.1).dry_multiplier(0.8)),
        (Some(40), greedy.clone().dynatemp_range(0.5)),
        (Some(40), greedy.clone().xtc_probability(0.5)),
        (Some(1), greedy.clone().xtc_probability(0.5).xtc_threshold(0.6)),
        (Some(40), greedy.clone().typical_p(0.5)),
        (Some(40), chain("top_k;penalties;temperature", &greedy).repeat_penalty(1.1)),
        (None, chain("min_p;penalties;temperature", &greedy).repeat_penalty(1.1)),
    ];
    for (expected, settings) in cases {
        assert_eq!(enough(&settings), expected, "{settings:?}");
    }
}

//! Every sampling flag changes the text, and the same seed gives the same text.

use std::collections::HashMap;

use crate::program::{candor, story};

/// A base so wide that every restriction shows.
const WIDE: &[&str] = &["--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", "7"];
/// The same with a temperature that follows the entropy.
const WIDE_DYNATEMP: &[&str] =
    &["--dynatemp-range", "1.4", "--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", "7"];
/// Always the likeliest token.
const GREEDY: &[&str] = &["--temp", "0"];

fn text(base: &[&str], flags: &[&str]) -> String {
    story(&[&["-n", "48", "--ignore-eos"], base, flags].concat()).text()
}

/// As llama.cpp: what restricts nothing is off, however far beyond.
#[test]
fn numbers_beyond_off_are_off() {
    let wide = text(WIDE, &[]);
    for flags in [["--top-p", "3"], ["--min-p", "-1"], ["--typical", "7"], ["--top-k", "-5"], ["--top-nsigma", "-3"]] {
        assert_eq!(text(WIDE, &flags), wide, "{flags:?}");
    }
}

/// Flags that change the text of a base.
const CASES: &[(&[&str], &[&str])] = &[
    (WIDE, &["--temp", "0"]),
    (WIDE, &["-s", "8"]),
    (WIDE, &["--seed", "8"]),
    (WIDE, &["--top-k", "1"]),
    (WIDE, &["--top-p", "0.1"]),
    (WIDE, &["--min-p", "0.9"]),
    (WIDE, &["--typical", "0.1"]),
    (WIDE, &["--typical-p", "0.1"]),
    (WIDE, &["--top-nsigma", "0.1"]),
    (WIDE, &["--top-n-sigma", "0.1"]),
    (WIDE, &["--repeat-penalty", "2"]),
    (WIDE, &["--presence-penalty", "5"]),
    (WIDE, &["--frequency-penalty", "5"]),
    (WIDE, &["--dynatemp-range", "1.4"]),
    (WIDE, &["--mirostat", "1"]),
    (WIDE, &["--mirostat", "2"]),
    (WIDE, &["--samplers", "top_k;top_p"]),
    (WIDE, &["--sampling-seq", "k"]),
    (WIDE, &["--sampler-seq", "k"]),
    (&["--temp", "0", "--repeat-penalty", "3", "--repeat-last-n", "-1"], &["--repeat-last-n", "1"]),
    (&["--temp", "0.3", "-s", "7"], &["--xtc-probability", "1"]),
    (&["--temp", "0.3", "-s", "7", "--xtc-probability", "1"], &["--xtc-threshold", "0.5"]),
    (WIDE_DYNATEMP, &["--dynatemp-exp", "4"]),
    (&["--mirostat", "2", "-s", "7"], &["--mirostat-ent", "1"]),
    (&["--mirostat", "2", "-s", "7", "--mirostat-ent", "1"], &["--mirostat-lr", "1"]),
    // At temperature 0 the text repeats, or is made to: a strong bias makes two tokens come again and again.
    (REPEATING, &["--dry-multiplier", "20"]),
    (REPEATING_DRY, &["--dry-base", "4"]),
    (REPEATING_DRY, &["--dry-allowed-length", "5"]),
    (REPEATING_DRY, &["--dry-penalty-last-n", "0"]),
    (GREEDY, &["-l", "300+30"]),
    (GREEDY, &["--logit-bias", "300+30"]),
    // Biases of a token add up.
    (REPEATING, &["-l", "300-inf"]),
    (REPEATING, &["-l", "5+1,300-inf"]),
];

const REPEATING: &[&str] = &["--temp", "0", "-l", "300+30"];
const REPEATING_DRY: &[&str] = &["--temp", "0", "-l", "300+30", "--dry-multiplier", "1", "--dry-penalty-last-n", "-1"];

#[test]
fn every_flag_changes_the_text() {
    let mut bases = HashMap::new();
    for (base, flags) in CASES {
        let without = bases.entry(base).or_insert_with(|| text(base, &[]));
        let with = text(base, flags);
        assert_ne!(*without, with, "{base:?} {flags:?}");
        assert!(with.len() > 4, "{base:?} {flags:?}: {with:?}");
    }
}

#[test]
fn sequence_breakers_shield_from_dry() {
    // The repeated token itself as a breaker: no repetition reaches across it.
    let shown = story(&["--temp", "0", "-l", "300+30", "-n", "1"]).text();
    let breaker = shown.trim_end_matches('\n');
    let with = text(REPEATING_DRY, &["--dry-sequence-breaker", breaker]);
    assert_ne!(text(REPEATING_DRY, &[]), with);
    assert_eq!(text(REPEATING, &[]), with);
    // Escapes are read on request.
    let escaped: String = breaker.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    assert_eq!(text(REPEATING_DRY, &["--dry-sequence-breaker", &escaped, "-e"]), with);
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let seeded = |seed: &str| text(&["--temp", "1"], &["-s", seed]);
    assert_eq!(seeded("11"), seeded("11"));
    assert_ne!(seeded("11"), seeded("12"));
    // Without a seed one is drawn and said: with it the text comes again.
    let outcome = story(&["-n", "48", "--ignore-eos", "--temp", "1", "-v"]).outcome();
    let seed = outcome.stderr.lines().find_map(|line| line.strip_prefix("seed: ")).expect("a seed").to_owned();
    assert_eq!(seeded(&seed), outcome.stdout);
    let other = story(&["-n", "48", "--ignore-eos", "--temp", "1", "-s", "-1"]).text();
    assert_ne!(other, outcome.stdout);
}

#[test]
fn the_default_order_can_be_spelled_out() {
    let names = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    let base = ["--temp", "1", "-s", "3"];
    let expected = text(&base, &[]);
    assert_eq!(text(&base, &["--samplers", names]), expected);
    assert_eq!(text(&base, &["--sampling-seq", "edskypmxt"]), expected);
}

#[test]
fn wrong_settings_are_errors() {
    for (flags, expected) in [
        (["--samplers", "top_q"], "error: sampler `top_q` is unknown; the samplers are penalties, "),
        (["--samplers", "top_k;;temp"], "error: sampler 2 of `top_k;;temp` has no name; the samplers are penalties, "),
        (["--samplers", "top_k; "], "error: sampler 2 of `top_k; ` has no name; the samplers are penalties, "),
        (["--sampling-seq", "kz"], "error: sampler letter `z` is unknown; the letters are "),
        (["--temp", "nan"], "error: temperature: expected a finite number, got NaN"),
        (["--repeat-penalty", "0"], "error: repeat_penalty: expected a finite number above 0, got 0"),
        (["--repeat-last-n", "-2"], "error: repeat_last_n: expected -1 (the context)"),
        (["-l", "99999999+1"], "error: logit_bias: token 99999999 is outside of the vocabulary"),
    ] {
        let error = story(&flags).error();
        assert!(error.starts_with(expected), "{flags:?}: {error}");
    }
    for (names, hint) in [
        ("top_q", "hint: is top_k or top_p meant?"),
        ("dyr", "hint: is dry meant?"),
        ("top_k,temp", "hint: names have ; between them: --samplers 'top_k;temperature'"),
    ] {
        let error = story(&["--samplers", names]).error();
        assert!(error.ends_with(hint), "{names}: {error}");
    }
    assert!(!story(&["--samplers", "infill"]).error().contains("hint: "));
    // Before the model is loaded.
    for command in ["run", "chat"] {
        let outcome = candor([command, "--samplers", "x"]).stdin("Hello").outcome();
        assert!(outcome.stderr.starts_with("error: sampler `x` is unknown"), "{command}: {outcome:?}");
    }
}

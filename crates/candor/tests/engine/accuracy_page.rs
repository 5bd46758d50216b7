//! docs/accuracy.md: how near quantized files are to the exact result, beside llama.cpp. The tests of `accuracy.rs`,
//! `architectures.rs` and `greedy.rs` hold the bounds; here the same figures are written as a page.

use std::fmt::Write;

use candor_testing::fixtures;

use crate::{
    accuracy::{Divergence, divergences},
    architectures::{Distance, distances},
    greedy::{Greedy, is_unquantized, texts},
};

/// What the command writes.
const PAGE: &str = "# Accuracy

Written by `CANDOR_WRITE_TABLE=$PWD/docs/accuracy.md cargo test -p candor --test engine -- --ignored accuracy_page`, with the
fixtures (`cargo xtask fixtures`); not by hand. The instruction set was `ISA`.

A quantized file has no single right answer in practice. Every engine rounds the inputs of its products, to 8 bits as a
rule, and each in its own way. What can be measured is the distance from the exact result: the same weights, decoded and
multiplied in float64. llama.cpp's distance on the same file is the yardstick. Files of floats have the same tokens as
llama.cpp.

Tests hold the bounds on every machine: no format more than 1.15 times as far as llama.cpp, all together no further.
`--activations f32` rounds no input ([how exact](performance.md)).

## Greedy text

\"Once upon a time\", continued by trained models (260 thousand parameters) and by llama.cpp at temperature 0. Of a quantized
file the third column says where rounding first decides: the margin between the two best tokens is within the noise there.

GREEDY
## Distributions

Divergence of the next token's distribution from the exact one, mean over 128 tokens of a text, in millinats. The models are
the same.

DIVERGENCES
## Logits

Normalized mean squared error of the logits of tiny random models. `reference` is `--device reference`, which computes by the
formulas.

DISTANCES";

fn greedy_table(texts: &[Greedy]) -> String {
    let mut table = String::from("| model | tokens as llama.cpp's | decided by rounding from |\n| --- | --- | --- |\n");
    for Greedy { name, parted, near, count } in texts {
        let same = parted.unwrap_or(*count);
        let near = match near {
            Some((step, margin)) => format!("token {}, margin {margin:.4}", step + 1),
            None if is_unquantized(name) => "-".to_owned(),
            None => "no token".to_owned(),
        };
        writeln!(table, "| {name} | {same} of {count} | {near} |").unwrap();
    }
    table
}

fn divergence_table(divergences: &[Divergence]) -> String {
    let mut table = String::from("| model | Candor | llama.cpp | ratio |\n| --- | --- | --- | --- |\n");
    for Divergence { name, mean, llama_cpp, .. } in divergences {
        let ratio = mean / llama_cpp;
        writeln!(table, "| {name} | {:.4} | {:.4} | {ratio:.2} |", 1e3 * mean, 1e3 * llama_cpp).unwrap();
    }
    table
}

fn distance_table(distances: &[Distance]) -> String {
    let mut table =
        String::from("| format | Candor | llama.cpp | ratio | reference |\n| --- | --- | --- | --- | --- |\n");
    for Distance { name, reference, cpu, llama_cpp } in distances {
        let name = name.trim_start_matches("quant-llama-");
        let ratio = cpu / llama_cpp;
        writeln!(table, "| {name} | {cpu:.1e} | {llama_cpp:.1e} | {ratio:.2} | {reference:.0e} |").unwrap();
    }
    table
}

#[test]
#[ignore = "it writes docs/accuracy.md; other tests hold its figures"]
fn accuracy_page() {
    let Some(fixtures) = fixtures() else { return };
    let text = PAGE
        .replace("ISA", candor_kernels::Kernels::from_env().unwrap().name)
        .replace("GREEDY", &greedy_table(&texts(&fixtures)))
        .replace("DIVERGENCES", &divergence_table(&divergences(&fixtures)))
        .replace("DISTANCES", &distance_table(&distances(&fixtures)));
    match std::env::var_os("CANDOR_WRITE_TABLE") {
        Some(path) => std::fs::write(path, text).unwrap(),
        None => println!("{text}"),
    }
}

//! Mixtures against llama.cpp's own snapshots: `tools/goldens/mixtures.py` writes the golden.

use std::collections::HashMap;

use candor_convert::{FileType, Mix, Model, Tensor};
use candor_quant::Format;

const GOLDEN: &str = include_str!("../goldens/mixtures.txt");

/// The tensors of a line, and what it says of them.
fn spread(line: &str) -> (Vec<String>, &str) {
    let [name, layers, said] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    let numbered = |layer: u32| name.replace('#', &layer.to_string());
    let names = match layers {
        "-" => vec![name.to_owned()],
        _ => layers.split(',').flat_map(range).map(numbered).collect(),
    };
    (names, said)
}

fn format(name: &str) -> Format {
    *Format::ALL.iter().find(|format| format.name().eq_ignore_ascii_case(name)).expect("a format")
}

#[test]
fn every_tensor_gets_what_llama_cpp_gives_it() {
    let (mut models, mut kinds, mut checked) = (0, 0, 0);
    for part in GOLDEN.split("model ").skip(1) {
        let mut sections = part.split("kind ");
        let mut lines = sections.next().expect("a model").lines();
        let head: Vec<&str> = lines.next().expect("its numbers").split(' ').collect();
        let [layers, heads, kv_heads, experts] = [1, 2, 3, 4].map(|i| head[i].parse::<u32>().unwrap());
        let llama = head[0].starts_with("meta-llama");
        let model = Model {
            architecture: if llama { "llama" } else { "other" }.to_owned(),
            layers,
            grouped: heads.checked_div(kv_heads).unwrap_or(0),
            experts,
            shares_values: llama && layers == 80 && heads != kv_heads,
        };
        let shapes: Vec<(String, [u64; 3])> = lines
            .flat_map(|line| {
                let (names, shape) = spread(line);
                let (cols, count) = shape.split_once('x').unwrap();
                let shape = [cols.parse().unwrap(), 64, count.parse().unwrap()];
                names.into_iter().map(move |name| (name, shape))
            })
            .collect();
        let tensors: Vec<Tensor<'_>> =
            shapes.iter().map(|(name, shape)| Tensor { name, format: Format::F32, shape }).collect();
        models += 1;
        for section in sections {
            let mut lines = section.lines();
            let (kind, main) = lines.next().unwrap().split_once(' ').unwrap();
            let mix = Mix::new(FileType::named(kind).expect("a kind"));
            assert_eq!(mix.main, format(main), "{kind}");
            let others: HashMap<String, Format> = lines
                .flat_map(|line| {
                    let (names, said) = spread(line);
                    names.into_iter().map(move |name| (name, format(said)))
                })
                .collect();
            let choices = mix.choices(&model, &tensors).unwrap();
            for (tensor, choice) in tensors.iter().zip(&choices) {
                let expected = others.get(tensor.name).copied().unwrap_or(mix.main);
                assert_eq!(choice.format, expected, "{}, {kind}: {}", head[0], tensor.name);
                checked += 1;
            }
            kinds += 1;
        }
    }
    assert!(models == 12 && kinds == 33 * models && checked > 100_000, "{models} {kinds} {checked}");
}

//! How alike texts are, by their vectors: `cargo run --release --example embed -- encoder.gguf "A cat" "A dog" "A ship"`.

use candor::{EmbedOptions, Error, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), texts) = (args.next(), args.collect::<Vec<_>>()) else {
        return Err("usage: embed MODEL TEXT...".into());
    };

    let alike = alike(&Model::open(path, &Default::default())?, &texts)?;
    for (text, row) in texts.iter().zip(alike) {
        println!("{} {text:?}", row.iter().map(|cosine| format!("{cosine:6.3}")).collect::<String>());
    }
    Ok(())
}

/// The cosine of each text's vector with each.
pub fn alike(model: &Model, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
    let mut embedder = model.embedder(&EmbedOptions::default())?;
    let ids: Vec<Vec<u32>> = texts.iter().map(|text| embedder.encode(text)).collect();
    // Of length 1, unless the options ask for something else: products are cosines.
    let vectors = embedder.embed(&ids, |_| ())?;
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    Ok(vectors.iter().map(|a| vectors.iter().map(|b| dot(a, b)).collect()).collect())
}

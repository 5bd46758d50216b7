//! A small model guesses what a large one says, which makes that quicker, and changes no word of it:
//! `cargo run --release --example speculate -- model.gguf draft.gguf "Once upon a time"`.

use candor::{
    Error, GenerateOptions, Model, Sampling, Timings,
    speculate::{DraftModel, Speculation},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, draft, text] = args.as_slice() else { return Err("usage: speculate MODEL DRAFT TEXT".into()) };

    let [model, draft] = [model, draft].map(|path| Model::open(path, &Default::default()));
    let (told, timings) = tell(&model?, Some(&draft?), text)?;
    println!("{text}{told}\n({} of {} guesses were right)", timings.accepted, timings.drafted);
    Ok(())
}

/// Up to 60 tokens that follow a text, and what came of the guesses.
pub fn tell(model: &Model, draft: Option<&Model>, text: &str) -> Result<(String, Timings), Error> {
    let mut session = model.session(&Default::default())?;
    if let Some(draft) = draft {
        let guesses = DraftModel::new(draft.session(&Default::default())?, model, 0.5)?;
        session.speculate(Some(Speculation::new(guesses)))?;
    }
    let sampling = Sampling::default().seed(1);
    let options = GenerateOptions::default().max_tokens(60).sampling(sampling);
    let mut generation = session.generate(&model.encode_prompt(text), options)?;
    let told = generation.by_ref().map(|piece| Ok(piece?.text)).collect::<Result<_, Error>>()?;
    Ok((told, generation.timings()))
}

//! Several prompts answered at once by the built-in model, each as it would be alone:
//! `cargo run --release --features builtin --example batch`.

use candor::{BatchOptions, Continuation, Error, GenerateOptions, Message, Model, Outputs, Role, Sampling};

fn main() -> Result<(), Error> {
    let questions = ["Hello, how are you?", "Tell me a story.", "What color is the sky?"];
    let answers = answer(&Model::builtin(&Default::default())?, &questions)?;
    for (question, answer) in questions.iter().zip(answers) {
        println!("> {question}\n{answer}\n");
    }
    Ok(())
}

/// The answers to some questions, up to 40 tokens of each.
pub fn answer(model: &Model, questions: &[&str]) -> Result<Vec<String>, Error> {
    let mut options = BatchOptions::default();
    options.sequences = questions.len();
    let mut batch = model.batch(&options)?;
    let sampling = Sampling::default().seed(1);
    let how = GenerateOptions::default().sampling(sampling).max_tokens(40);

    let mut running = Vec::new();
    for &question in questions {
        let prompt = model.encode_chat(&[Message::user(question)])?;
        let mut text = Continuation::new(model, &how, &prompt, batch.context())?;
        let id = batch.add()?;
        batch.push(id, &prompt, Role::Prefill, Outputs::Last(text.want(batch.top_k())))?;
        running.push((id, text, String::new()));
    }
    // A step computes a row for each sequence that goes on; one that has ended is left out.
    while running.iter().any(|(_, text, _)| text.stop_reason().is_none()) {
        batch.step()?;
        for answer in batch.answers() {
            let Some((_, text, said)) = running.iter_mut().find(|(id, ..)| *id == answer.sequence) else { continue };
            if let Some(piece) = text.choose(answer.value)? {
                said.push_str(&piece.text);
            }
        }
        for (id, text, _) in &mut running {
            if let Some(token) = text.pending() {
                batch.push(*id, &[token], Role::Decode, Outputs::Last(text.want(batch.top_k())))?;
            }
        }
    }
    Ok(running.into_iter().map(|(_, _, said)| said).collect())
}

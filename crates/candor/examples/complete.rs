//! Continues a text: `cargo run --release --example complete -- model.gguf "Once upon a time"`.

use std::io::Write;

use candor::{GenerateOptions, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else { return Err("usage: complete MODEL TEXT".into()) };

    let model = Model::open(path, &Default::default())?;
    let mut session = model.session(&Default::default())?;
    let options = GenerateOptions { max_tokens: Some(100), ..Default::default() };
    print!("{text}");
    for piece in session.generate(&model.encode_prompt(&text), options)? {
        print!("{}", piece?.text);
        std::io::stdout().flush()?;
    }
    println!();
    Ok(())
}

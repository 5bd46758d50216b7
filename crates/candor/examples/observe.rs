//! What a model computes on its way, layer by layer: `cargo run --release --example observe -- model.gguf "The sky is"`.

use candor::{Error, Logits, Model, Observed, Observer, Role};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(text)) = (args.next(), args.next()) else { return Err("usage: observe MODEL TEXT".into()) };

    for (layer, size) in sizes(&Model::open(path, &Default::default())?, &text)? {
        println!("layer {layer:3}: the stream's root mean square is {size:.4}");
    }
    Ok(())
}

/// Notes how large the residual stream is behind each layer.
#[derive(Default)]
struct Sizes(Vec<(usize, f32)>);

impl Observer for Sizes {
    /// The names are llama.cpp's; what is not wanted is not copied.
    fn wants(&mut self, name: &'static str, _: Option<usize>) -> bool {
        name == "l_out"
    }

    fn value(&mut self, observed: &Observed<'_>) {
        let squares: f32 = observed.values.iter().map(|x| x * x).sum();
        let size = (squares / observed.values.len() as f32).sqrt();
        self.0.extend(observed.layer.map(|layer| (layer, size)));
    }
}

/// The root mean square of each layer's output.
pub fn sizes(model: &Model, text: &str) -> Result<Vec<(usize, f32)>, Error> {
    let mut session = model.session(&Default::default())?;
    let mut sizes = Sizes::default();
    session.observe(&model.encode_prompt(text), Role::Prefill, Logits::Last, &mut sizes)?;
    Ok(sizes.0)
}

//! Prompt and decode speed of candle's quantized Llama on a GGUF file, on the tests that are named like llama-bench's.
//!
//! usage: candle-peer MODEL.gguf TEST..., where a test is `pp512`, `tg64` or `tg64@1536`. One JSON object on stdout: the
//! nanoseconds of each test. Threads are RAYON_NUM_THREADS.

use std::{env, error::Error, fs::File, io::BufReader, time::Instant};

use candle_core::{Device, Tensor, quantized::gguf_file};
use candle_transformers::models::quantized_llama::ModelWeights;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let path = args.next().ok_or("usage: candle-peer MODEL.gguf TEST...")?;
    let mut file = BufReader::new(File::open(&path)?);
    let content = gguf_file::Content::read(&mut file)?;
    let vocab = content.tensor_infos.get("token_embd.weight").ok_or("no token_embd.weight")?.shape.dims()[0];
    let mut peer = Peer { model: ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?, vocab, number: 0 };
    let mut results = Vec::new();
    for name in args {
        let nanoseconds = peer.test(&name)?;
        results.push(format!("\"{name}\": {nanoseconds}"));
    }
    println!("{{{}}}", results.join(", "));
    Ok(())
}

struct Peer {
    model: ModelWeights,
    vocab: usize,
    number: usize,
}

impl Peer {
    /// Runs a test once without and once with the clock.
    fn test(&mut self, name: &str) -> Result<u128, Box<dyn Error>> {
        let (work, depth) = name.split_once('@').unwrap_or((name, "0"));
        let (kind, tokens) = work.split_at(work.len().min(2));
        let (tokens, depth): (usize, usize) = (tokens.parse()?, depth.parse()?);
        match kind {
            "pp" if depth == 0 => {
                self.pass(tokens, 0)?;
                let started = Instant::now();
                self.pass(tokens, 0)?;
                Ok(started.elapsed().as_nanos())
            }
            "tg" => {
                // A pass at position 0 empties the cache; where the depth is 0, the first token does.
                if depth > 0 {
                    self.pass(depth, 0)?;
                } else {
                    self.pass(1, 0)?;
                }
                let started = Instant::now();
                for i in 0..tokens {
                    self.pass(1, depth + i)?;
                }
                Ok(started.elapsed().as_nanos())
            }
            _ => Err(format!("test {name}: expected pp512, tg64 or tg64@1536").into()),
        }
    }

    /// One pass over `rows` random tokens from `position` on; the logits of the last are computed and dropped.
    fn pass(&mut self, rows: usize, position: usize) -> candle_core::Result<()> {
        let ids: Vec<u32> = (0..rows)
            .map(|_| {
                self.number += 1;
                (1 + self.number * 7919 % (self.vocab - 1)) as u32
            })
            .collect();
        let input = Tensor::from_vec(ids, (1, rows), &Device::Cpu)?;
        self.model.forward(&input, position)?.flatten_all()?.to_vec1::<f32>()?;
        Ok(())
    }
}

//! Steps of several sequences, by what chooses the kernels of their rows: `cargo bench -p candor --bench batch -- FILE [THREADS]`
//! prints rows per second as a table, the median of five rounds in turn.

use std::time::Instant;

use candor::{BatchOptions, Batching, LoadOptions, Model, Outputs, Role, SequenceId, Want};

const ROUNDS: usize = 5;
const STEPS: usize = 3;
const BATCHINGS: [Batching; 3] = [Batching::ByRole, Batching::Fastest, Batching::Invariant];

/// Rows of a prompt's chunk, and sequences that decode beside it.
const SHAPES: [(usize, usize); 9] = [(1, 0), (4, 0), (16, 0), (0, 1), (0, 8), (0, 32), (64, 8), (256, 8), (64, 32)];

fn main() -> Result<(), candor::Error> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let Some(path) = args.first() else {
        eprintln!("usage: cargo bench -p candor --bench batch -- FILE [THREADS]");
        return Ok(());
    };
    let threads = args.get(1).and_then(|threads| threads.parse().ok()).unwrap_or(0);
    let load = |batching| Model::open(path, &LoadOptions::default().threads(threads).batching(batching));
    let models = BATCHINGS.map(load).into_iter().collect::<Result<Vec<Model>, _>>()?;
    println!("| prompt rows | decoding rows | by role | fastest | one arithmetic | by role / fastest |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (read, written) in SHAPES {
        let mut speeds = [const { Vec::new() }; BATCHINGS.len()];
        for _ in 0..ROUNDS {
            for (model, speeds) in models.iter().zip(&mut speeds) {
                speeds.push(speed(model, read, written)?);
            }
        }
        let mut ratios: Vec<f64> = speeds[0].iter().zip(&speeds[1]).map(|(role, fastest)| role / fastest).collect();
        let [role, fastest, one] = speeds.each_mut().map(|speeds| median(speeds));
        println!("| {read} | {written} | {role:.1} | {fastest:.1} | {one:.1} | {:.2} |", median(&mut ratios));
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Rows per second of a step with a chunk of a prompt and sequences that decode.
fn speed(model: &Model, read: usize, written: usize) -> Result<f64, candor::Error> {
    let mut options = BatchOptions::default();
    (options.sequences, options.context, options.rows) = (written + 1, read * (STEPS + 1) + STEPS + 2, read + written);
    let mut batch = model.batch(&options)?;
    let prompt = batch.add()?;
    let texts = (0..written).map(|_| batch.add()).collect::<Result<Vec<SequenceId>, _>>()?;
    let chunk: Vec<u32> = (0..read as u32).map(|i| 3 + i % 200).collect();
    let mut step = || {
        if read > 0 {
            batch.push(prompt, &chunk, Role::Prefill, Outputs::Last(Want::Logits))?;
        }
        for &id in &texts {
            batch.push(id, &[9], Role::Decode, Outputs::Last(Want::Logits))?;
        }
        batch.step()
    };
    step()?;
    let begun = Instant::now();
    (0..STEPS).try_for_each(|_| step())?;
    Ok((STEPS * (read + written)) as f64 / begun.elapsed().as_secs_f64())
}

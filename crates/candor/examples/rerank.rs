//! Documents by how well they answer a query, the best first:
//! `cargo run --release --example rerank -- reranker.gguf "Where is Paris?" "In France." "Cats sleep."`.

use candor::{Error, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, query, documents @ ..] = args.as_slice() else { return Err("usage: rerank MODEL QUERY TEXT...".into()) };

    for (document, score) in rank(&Model::open(path, &Default::default())?, query, documents)? {
        println!("{score:8.4} {document}");
    }
    Ok(())
}

/// The documents and their scores, the best first.
pub fn rank(model: &Model, query: &str, documents: &[String]) -> Result<Vec<(String, f32)>, Error> {
    let mut embedder = model.embedder(&Default::default())?;
    let pairs = documents.iter().map(|document| embedder.model().encode_pair(query, document));
    let pairs = pairs.collect::<Result<Vec<_>, Error>>()?;
    // A reranker's vector is its scores, one for each label.
    let scores = embedder.embed(&pairs, |_| ())?;
    let mut ranked: Vec<(String, f32)> = documents.iter().cloned().zip(scores.iter().map(|score| score[0])).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(ranked)
}

//! Vectors of texts, and how well documents answer a query: the endpoints of OpenAI, llama.cpp, Jina and Text Embeddings
//! Inference.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    response::{IntoResponse, Response},
};
use candor::{Pooling, Scaling};
use serde_json::{Value, json};

use crate::{
    app::{Does, Served, blocking},
    completions,
    fields::{Fields, expected},
    log::Counts,
    refusal::Refusal,
    registry::Held,
};

/// A request that was understood.
pub struct Asked {
    ids: Vec<Vec<u32>>,
    scaling: Scaling,
    form: Box<dyn FnOnce(Vec<Vec<f32>>) -> Value + Send>,
}

/// Understands a request.
pub type Read = fn(&Served, Fields) -> Result<Asked, Refusal>;

/// Fields that change no vector.
pub const WITHOUT_EFFECT: [&str; 2] = ["model", "user"];

/// Answers a request that `read` understands.
///
/// # Errors
/// If it is refused.
pub async fn answer(held: Arc<Held>, body: Bytes, read: Read) -> Result<Response, Refusal> {
    let served = held.clone();
    let asked = blocking(move || read(&served, Fields::of(&body)?)).await?;
    let counts = Arc::new(Counts::of_prompts(&held.name, asked.ids.iter().map(Vec::len).sum()));
    let vectors = held.vectors(asked.ids, asked.scaling).await?;
    Ok(counts.noted(Json((asked.form)(vectors)).into_response()))
}

impl Asked {
    /// Texts by their ids, and what becomes of their vectors.
    pub fn new(
        ids: Vec<Vec<u32>>,
        scaling: Scaling,
        form: impl FnOnce(Vec<Vec<f32>>) -> Value + Send + 'static,
    ) -> Asked {
        Asked { ids, scaling, form: Box::new(form) }
    }
}

/// How a model makes vectors.
///
/// # Errors
/// If it makes none.
fn vectors(served: &Served) -> Result<(Pooling, usize, Scaling), Refusal> {
    match served.does {
        Does::Vectors { pooling, width, scaling } if pooling != Pooling::Rank => Ok((pooling, width, scaling)),
        _ => Err(Refusal::other_model("this server makes no embeddings: start it with `--embedding`")),
    }
}

/// How many numbers the one vector of a text has, and how long it is.
///
/// # Errors
/// If texts have none, or several.
pub fn pooled(served: &Served) -> Result<(usize, Scaling), Refusal> {
    match vectors(served)? {
        (Pooling::None, ..) => {
            let message =
                "a text has one vector here, and --pooling none gives one for each token: /embeddings has them";
            Err(Refusal::request(message))
        }
        (_, width, scaling) => Ok((width, scaling)),
    }
}

/// OpenAI's `/v1/embeddings`; with llama.cpp's field `content` it is [`rows`].
///
/// # Errors
/// If the request is refused.
pub fn embeddings(served: &Served, mut fields: Fields) -> Result<Asked, Refusal> {
    if fields.has("content") {
        return rows(served, fields);
    }
    let (width, scaling) = pooled(served)?;
    let ids = completions::texts(&served.model, "input", fields.take("input"))?;
    let is_base64 = match fields.text("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return Err(expected("encoding_format", "\"float\" or \"base64\"", &other.into())),
    };
    let own = |value: &Value| value.as_u64() == Some(width as u64);
    fields.refuse("dimensions", own, &format!("the model's vectors have {width} numbers, and are not cut"))?;
    let scaling = scaled(&mut fields, scaling)?;
    fields.finish(&WITHOUT_EFFECT)?;
    let (name, usage) = (served.name.clone(), usage(&ids));
    let form = move |vectors: Vec<Vec<f32>>| {
        let one = |(index, vector): (usize, Vec<f32>)| {
            let embedding = if is_base64 { base64(&vector).into() } else { json!(vector) };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        };
        let data: Vec<Value> = vectors.into_iter().enumerate().map(one).collect();
        json!({ "object": "list", "data": data, "model": name, "usage": usage })
    };
    Ok(Asked::new(ids, scaling, form))
}

/// llama.cpp's `/embeddings`: a list of vectors for each text, of one or of each token.
///
/// # Errors
/// If the request is refused.
pub fn rows(served: &Served, mut fields: Fields) -> Result<Asked, Refusal> {
    let (_, width, scaling) = vectors(served)?;
    let name = if fields.has("content") { "content" } else { "input" };
    let ids = completions::texts(&served.model, name, fields.take(name))?;
    let scaling = scaled(&mut fields, scaling)?;
    fields.finish(&WITHOUT_EFFECT)?;
    let form = move |vectors: Vec<Vec<f32>>| {
        let rows = |vector: Vec<f32>| vector.chunks_exact(width).map(|row| json!(row)).collect::<Vec<_>>();
        let one = |(index, vector)| json!({ "index": index, "embedding": rows(vector) });
        vectors.into_iter().enumerate().map(one).collect()
    };
    Ok(Asked::new(ids, scaling, form))
}

/// `/rerank`: documents by how well they answer a query. With `texts` it is the form of Text Embeddings Inference, otherwise Jina's.
///
/// # Errors
/// If the request is refused.
pub fn rerank(served: &Served, mut fields: Fields) -> Result<Asked, Refusal> {
    if !matches!(served.does, Does::Vectors { pooling: Pooling::Rank, .. }) {
        return Err(Refusal::other_model("this server makes no scores: start it with `--reranking`"));
    }
    let is_tei = fields.has("texts");
    let query = fields.text("query")?.ok_or_else(|| Refusal::field("query", "missing"))?;
    let name = if is_tei { "texts" } else { "documents" };
    let documents = documents(name, fields.list(name)?.unwrap_or_default())?;
    let with_text = fields.flag(if is_tei { "return_text" } else { "return_documents" })?.unwrap_or(false);
    let most = match fields.whole("top_n")?.map(|most| (most, usize::try_from(most))) {
        None => documents.len(),
        Some((_, Ok(most))) if most > 0 => most,
        Some((most, _)) => return Err(expected("top_n", "a number of documents", &most.into())),
    };
    if is_tei {
        let off = |value: &Value| *value == false;
        fields.refuse("truncate", off, "documents are not cut")?;
        // The score is the model's own.
        fields.refuse("raw_scores", |value| *value == true, "scores are those of the model, as they are")?;
    }
    fields.finish(&WITHOUT_EFFECT)?;
    let pair = |document: &String| served.model.encode_pair(&query, document);
    let ids = documents.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    let (name, usage) = (served.name.clone(), usage(&ids));
    let form = move |scores: Vec<Vec<f32>>| {
        let mut order: Vec<(usize, f32)> = scores.iter().map(|scores| scores[0]).enumerate().collect();
        // Of equals the earlier one stays first.
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let one = |&(index, score): &(usize, f32)| {
            let label = if is_tei { "score" } else { "relevance_score" };
            let mut one = json!({ "index": index, label: score });
            match (with_text, is_tei) {
                (false, _) => {}
                (true, true) => one["text"] = documents[index].clone().into(),
                (true, false) => one["document"] = json!({ "text": documents[index] }),
            }
            one
        };
        let results: Vec<Value> = order.iter().take(most).map(one).collect();
        match is_tei {
            true => results.into(),
            false => json!({ "model": name, "object": "list", "usage": usage, "results": results }),
        }
    };
    Ok(Asked::new(ids, Scaling::None, form))
}

/// Documents: texts, or objects with a text.
fn documents(name: &str, list: Vec<Value>) -> Result<Vec<String>, Refusal> {
    if list.is_empty() {
        return Err(Refusal::field(name, "expected an array of texts"));
    }
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        other => match other["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(expected(name, "an array of texts", &other)),
        },
    };
    list.into_iter().map(text).collect()
}

/// The length of vectors, as llama.cpp's field has it.
fn scaled(fields: &mut Fields, own: Scaling) -> Result<Scaling, Refusal> {
    match fields.whole("embd_normalize")? {
        None => Ok(own),
        Some(-1) => Ok(Scaling::None),
        Some(0) => Ok(Scaling::Max),
        Some(p) => {
            let refuse = |_| expected("embd_normalize", "-1, 0, or the number of a norm", &p.into());
            u32::try_from(p).map(Scaling::Norm).map_err(refuse)
        }
    }
}

fn usage(ids: &[Vec<u32>]) -> Value {
    let tokens: usize = ids.iter().map(Vec::len).sum();
    json!({ "prompt_tokens": tokens, "total_tokens": tokens })
}

/// The numbers' bytes, the lowest first, in base64.
fn base64(vector: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().map(|(i, &byte)| u32::from(byte) << (16 - 8 * i)).sum::<u32>();
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= group.len() { char::from(DIGITS[place]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_base64() {
        for (vector, expected) in [
            (&[][..], ""),
            (&[1.0][..], "AACAPw=="),
            (&[1.0, -2.5][..], "AACAPwAAIMA="),
            (&[0.0; 3][..], "AAAAAAAAAAAAAAAA"),
        ] {
            assert_eq!(base64(vector), expected);
        }
    }
}

//! LoRA adapters: which there are, by how much each changes the model, and by how much for one request. llama.cpp's form.

use candor::{Adapter, Model};
use serde_json::{Value, json};

use crate::{app::Served, fields::expected, refusal::Refusal};

/// `GET /lora-adapters`: those that there are, with their scales where a request does not say.
pub fn list(served: &Served) -> Value {
    let scales = served.scales();
    let one =
        |(id, (adapter, scale)): (usize, (&Adapter, f32))| json!({ "id": id, "path": adapter.name(), "scale": scale });
    served.model.adapters().iter().zip(scales).enumerate().map(one).collect()
}

/// `POST /lora-adapters`: sets the scales for requests that do not say; those that are not named are off.
///
/// # Errors
/// If there is no such adapter.
pub fn set(served: &Served, body: &[u8]) -> Result<Value, Refusal> {
    let served = served.answers()?;
    let list =
        serde_json::from_slice(body).map_err(|error| Refusal::request(format!("the body is no JSON: {error}")))?;
    served.rescale(scales("lora", &list, &served.model)?);
    Ok(json!({ "success": true }))
}

/// The scales that a list of adapters says: `[{"id": 0, "scale": 0.5}]`. Those that it does not name are off.
///
/// # Errors
/// If there is no such adapter.
pub fn scales(name: &str, list: &Value, model: &Model) -> Result<Vec<f32>, Refusal> {
    let wrong = |got: &Value| expected(name, "a list of {\"id\": NUMBER, \"scale\": NUMBER}", got);
    let mut scales = vec![0.0; model.adapters().len()];
    for one in list.as_array().ok_or_else(|| wrong(list))? {
        let named =
            one.as_object().filter(|fields| fields.keys().all(|field| ["id", "scale"].contains(&field.as_str())));
        let number = named.and_then(|fields| Some((fields.get("id")?.as_u64()?, fields.get("scale")?.as_f64()?)));
        let (id, scale) = number.filter(|(_, scale)| (*scale as f32).is_finite()).ok_or_else(|| wrong(one))?;
        let place = usize::try_from(id).ok().and_then(|id| scales.get_mut(id));
        let missing = || Refusal::field(name, format!("there is no adapter {id}: --lora FILE brings one"));
        *place.ok_or_else(missing)? = scale as f32;
    }
    Ok(scales)
}

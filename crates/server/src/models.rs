//! Which model a request is for, and what is said of all models.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use axum::{
    body::Bytes,
    extract::{FromRequest, Query, Request},
    http::Uri,
};
use candor::TensorInfo;
use serde_json::{Value, json};

use crate::{
    app::{App, Served, blocking},
    fields::{Fields, expected},
    head::FINGERPRINT,
    refusal::Refusal,
    registry::{Held, Status},
};

/// The model that a request is for, and the request's body.
pub struct For(pub Arc<Held>, pub Bytes);

/// What the address of a request says of its model.
pub struct Named {
    /// What it is called.
    pub model: Option<String>,
    /// Whether it is loaded where it is not.
    autoload: Option<bool>,
}

impl Named {
    /// What follows the `?` of an address.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(uri: &Uri) -> Result<Named, Refusal> {
        let query: Query<BTreeMap<String, String>> =
            Query::try_from_uri(uri).map_err(|error| Refusal::request(error.body_text()))?;
        let autoload = match query.get("autoload").map(String::as_str) {
            None => None,
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            Some(other) => return Err(expected("autoload", "true or false", &other.into())),
        };
        Ok(Named { model: query.get("model").cloned(), autoload })
    }
}

impl FromRequest<Arc<App>> for For {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<For, Refusal> {
        let uri = request.uri().clone();
        let wrong = |rejection: axum::extract::rejection::BytesRejection| {
            Refusal::body(rejection.status(), rejection.body_text())
        };
        let body = Bytes::from_request(request, app).await.map_err(wrong)?;
        let Named { model, autoload } = Named::of(&uri)?;
        let (number, load) = match app.models.several() {
            false => (0, true),
            true => {
                let name = match model {
                    Some(name) => Some(name),
                    None if body.is_empty() => None,
                    None => written(body.clone()).await?,
                };
                (number(app, name)?, autoload.unwrap_or(app.config.autoload))
            }
        };
        Ok(For(app.models.hold(number, load).await?, body))
    }
}

/// The name in a body.
async fn written(body: Bytes) -> Result<Option<String>, Refusal> {
    blocking(move || {
        let fields = Fields::of(&body)?;
        // Ollama had another name for it.
        match fields.get("model").or_else(|| fields.get("name")) {
            None => Ok(None),
            Some(Value::String(name)) => Ok(Some(name.clone())),
            Some(other) => Err(expected("model", "a string", other)),
        }
    })
    .await
}

/// The number of a model that has to be named where there are several.
fn number(app: &App, name: Option<String>) -> Result<usize, Refusal> {
    match name {
        _ if !app.models.several() => Ok(0),
        Some(name) => app.models.find(&name),
        None => Err(Refusal::field("model", "missing: this server has several, /models lists them")),
    }
}

/// The number of the model that an address names.
///
/// # Errors
/// If it names none.
pub fn at(app: &App, uri: &Uri) -> Result<usize, Refusal> {
    number(app, Named::of(uri)?.model)
}

/// `GET /models`: all of them, and whether they are loaded.
///
/// # Errors
/// If the one that there is was never loaded, or the server is about to end.
pub fn list(app: &App) -> Result<Value, Refusal> {
    app.models.ready()?;
    let one = |(number, name)| {
        let Status { value, served, failure, .. } = app.models.status(number);
        let mut one = json!({
            "id": name,
            "object": "model",
            "created": served.as_ref().map_or(app.started, |served| served.created),
            "owned_by": "candor",
            "status": { "value": value },
        });
        if failure.is_some() {
            one["status"]["failed"] = true.into();
        }
        if let Some(served) = served {
            one["meta"] = sizes(&served);
        }
        one
    };
    let names = app.models.names().iter().map(|name| name.name.as_str());
    let data: Vec<Value> = names.enumerate().map(one).collect();
    Ok(json!({ "object": "list", "data": data }))
}

fn sizes(served: &Served) -> Value {
    let (config, tensors) = (served.model.config(), served.model.gguf().tensors());
    json!({
        "n_ctx": served.context,
        "n_ctx_train": config.context,
        "n_vocab": config.vocab,
        "n_embd": config.dim,
        "n_params": tensors.iter().map(TensorInfo::elements).sum::<u64>(),
        "size": tensors.iter().map(|tensor| tensor.bytes).sum::<u64>(),
    })
}

/// `POST /models/load`: loads a model, and answers once it is there.
///
/// # Errors
/// If it cannot be loaded.
pub async fn load(app: &App, body: &[u8]) -> Result<Value, Refusal> {
    app.models.hold(meant(app, body)?, true).await?;
    Ok(json!({ "success": true }))
}

/// `POST /models/unload`: has a model go once it answers nothing.
///
/// # Errors
/// If there is no such model.
pub fn unload(app: &App, body: &[u8]) -> Result<Value, Refusal> {
    app.models.unload(meant(app, body)?);
    Ok(json!({ "success": true }))
}

/// The model that is to be loaded or to go.
fn meant(app: &App, body: &[u8]) -> Result<usize, Refusal> {
    if !app.models.several() {
        return Err(Refusal::missing("this server has one model: --models-dir PATH serves several"));
    }
    let mut fields = Fields::of(body)?;
    let name = fields.text("model")?;
    fields.finish(&[])?;
    number(app, name)
}

/// `/props` of a model, as it said when it was loaded, or of all models by llama.cpp's names; `None` where it was never loaded. To be
/// asked keeps no model from sleeping, and wakes none.
///
/// # Errors
/// If there is no such model, or the server is about to end.
pub fn props(app: &App, uri: &Uri) -> Result<Option<Value>, Refusal> {
    app.models.ready()?;
    let named = Named::of(uri)?.model;
    if app.models.several() && named.is_none() {
        return Ok(Some(json!({
            "role": "router",
            "max_instances": app.config.models_max,
            "models_autoload": app.config.autoload,
            "build_info": FINGERPRINT,
        })));
    }
    let number = number(app, named)?;
    let sleeps = app.models.status(number).value == "unloaded";
    let mut props = app.models.names()[number].props.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(props) = &mut props {
        props["is_sleeping"] = sleeps.into();
    }
    Ok(props)
}

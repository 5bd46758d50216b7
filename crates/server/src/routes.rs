//! The paths, and what answers at each.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request, State, rejection::BytesRejection},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use candor::TensorInfo;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    app::App,
    chat, completions,
    guard::{Scope, guard},
    native,
    refusal::Refusal,
};

type Shared = State<Arc<App>>;
type Scoped = Extension<Scope>;
type Body = Result<Bytes, BytesRejection>;

/// All paths.
pub fn routes(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/completion", post(completion))
        .route("/completions", post(completion))
        .route("/v1/completions", post(completions))
        .route("/tokenize", post(async |State(app): Shared, body: Body| native::tokenize(app, read(body)?).await))
        .route("/detokenize", post(async |State(app): Shared, body: Body| native::detokenize(app, read(body)?).await))
        .route(
            "/apply-template",
            post(async |State(app): Shared, body: Body| native::apply_template(app, read(body)?).await),
        )
        .route("/props", get(async |State(app): Shared| native::props(&app)));
    for prefix in ["", "/v1"] {
        router = router
            .route(&format!("{prefix}/health"), get(health))
            .route(&format!("{prefix}/models"), get(models))
            .route(&format!("{prefix}/chat/completions"), post(chat));
    }
    let limit = DefaultBodyLimit::max(app.config.body);
    router
        .fallback(async || Refusal::not_found())
        .method_not_allowed_fallback(async || Refusal::method())
        .layer(middleware::from_fn_with_state(app.clone(), arrived))
        .layer(limit)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Waits for a request's body, but not for ever.
async fn arrived(State(app): Shared, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let arriving = Bytes::from_request(Request::from_parts(parts.clone(), body), &());
    match timeout(app.config.patience, arriving).await {
        Ok(Ok(body)) => next.run(Request::from_parts(parts, body.into())).await,
        Ok(Err(rejection)) => Refusal::body(rejection.status(), rejection.body_text()).into_response(),
        Err(_) => Refusal::body(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive").into_response(),
    }
}

fn read(body: Body) -> Result<Bytes, Refusal> {
    body.map_err(|rejection| Refusal::body(rejection.status(), rejection.body_text()))
}

async fn chat(State(app): Shared, Extension(scope): Scoped, body: Body) -> Result<Response, Refusal> {
    chat::answer(app, scope, read(body)?).await
}

async fn completions(State(app): Shared, Extension(scope): Scoped, body: Body) -> Result<Response, Refusal> {
    completions::answer(app, scope, read(body)?).await
}

async fn completion(State(app): Shared, Extension(scope): Scoped, body: Body) -> Result<Response, Refusal> {
    native::completion(app, scope, read(body)?).await
}

/// Whether requests are answered.
async fn health(State(app): Shared) -> Result<Json<Value>, Refusal> {
    app.served().map(|_| Json(json!({ "status": "ok" })))
}

/// The model.
async fn models(State(app): Shared) -> Result<Json<Value>, Refusal> {
    let served = app.served()?;
    let (config, tensors) = (served.model.config(), served.model.gguf().tensors());
    let model = json!({
        "id": served.name,
        "object": "model",
        "created": served.created,
        "owned_by": "candor",
        "meta": {
            "n_ctx": served.context,
            "n_ctx_train": config.context,
            "n_vocab": config.vocab,
            "n_embd": config.dim,
            "n_params": tensors.iter().map(TensorInfo::elements).sum::<u64>(),
            "size": tensors.iter().map(|tensor| tensor.bytes).sum::<u64>(),
        },
    });
    Ok(Json(json!({ "object": "list", "data": [model] })))
}

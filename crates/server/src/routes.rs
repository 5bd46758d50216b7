//! The paths, and what answers at each.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::{Bytes, HttpBody},
    extract::{DefaultBodyLimit, FromRequest, Path, Request, State, rejection::BytesRejection},
    http::{HeaderName, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use candor::TensorInfo;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    answer::Form,
    app::{App, Served, blocking},
    ask::{self, Read},
    chat, completions, counters, diagnose,
    fields::Fields,
    guard::{Scope, guard},
    infill,
    log::logged,
    lora, messages, native, ollama,
    openapi::description,
    refusal::{Refusal, shaped},
    responses, vectors,
};

type Shared = State<Arc<App>>;
type Scoped = Extension<Scope>;
type Body = Result<Bytes, BytesRejection>;

/// The type of metrics.
const PROMETHEUS: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");

/// When the model was loaded: llama.cpp's name for the time since which metrics count.
const STARTED: HeaderName = HeaderName::from_static("process-start-time-unix");

/// All paths.
pub fn routes(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/completion", generated(native::read))
        .route("/completions", generated(native::read))
        .route("/v1/completions", generated(completions::read))
        .route("/infill", generated(infill::read))
        .route("/lora-adapters", adapters())
        .route("/tokenize", post(async |State(app): Shared, body: Body| native::tokenize(app, read(body)?).await))
        .route("/detokenize", post(async |State(app): Shared, body: Body| native::detokenize(app, read(body)?).await))
        .route(
            "/apply-template",
            post(async |State(app): Shared, body: Body| native::apply_template(app, read(body)?).await),
        )
        .route("/tokenizer_info", get(async |State(app): Shared| native::tokenizer_info(&app)))
        .route("/props", get(async |State(app): Shared| native::props(&app)))
        .route("/metrics", get(metrics))
        .route("/slots", get(async |State(app): Shared| counters::slots(&app).map(Json)))
        .route(
            "/trace/{id}",
            get(async |State(app): Shared, Extension(scope): Scoped, Path(id): Path<String>| {
                app.traces.find(scope.0, &id).map(|trace| Json(trace.json()))
            }),
        )
        .route(
            "/diagnose/{id}",
            post(async |State(app): Shared, Extension(scope): Scoped, Path(id): Path<String>| {
                diagnose::diagnose(app, scope, &id).await
            }),
        )
        .route("/v1/messages", generated(messages::read))
        .route("/v1/messages/count_tokens", counted(messages::count))
        .route("/api/generate", generated(ollama::generate))
        .route("/api/chat", generated(ollama::chat))
        .route("/api/embed", made(ollama::embed))
        .route("/api/embeddings", made(ollama::embeddings))
        .route("/api/tags", said(ollama::tags))
        .route("/api/ps", said(ollama::ps))
        .route(
            "/api/show",
            post(async |State(app): Shared, body: Body| {
                ollama::show(app.served()?, Fields::of(&read(body)?)?).map(Json)
            }),
        )
        .route("/api/version", get(async || Json(ollama::version())))
        .route("/openapi.json", get(async || Json(description())))
        .route("/embedding", made(vectors::rows))
        .route("/embeddings", made(vectors::rows))
        .route("/v1/embeddings", made(vectors::embeddings));
    for path in ["/rerank", "/reranking", "/v1/rerank", "/v1/reranking"] {
        router = router.route(path, made(vectors::rerank));
    }
    for prefix in ["", "/v1"] {
        router = router
            .route(&format!("{prefix}/health"), get(health))
            .route(&format!("{prefix}/models"), get(models))
            .route(&format!("{prefix}/chat/completions"), generated(chat::read))
            .route(&format!("{prefix}/chat/completions/input_tokens"), counted(chat::count))
            .route(&format!("{prefix}/responses"), generated(responses::read))
            .route(&format!("{prefix}/responses/input_tokens"), counted(responses::count));
    }
    let limit = DefaultBodyLimit::max(app.config.body);
    router
        .fallback(async || Refusal::not_found())
        .method_not_allowed_fallback(async || Refusal::method())
        .layer(middleware::from_fn_with_state(app.clone(), arrived))
        .layer(limit)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .layer(middleware::from_fn(shaped))
        .layer(middleware::from_fn_with_state(app.clone(), logged))
        .with_state(app)
}

/// Waits for a request's body, but not for ever.
async fn arrived(State(app): Shared, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // What says that it is too large is not read as far as that.
    if body.size_hint().lower() > app.config.body as u64 {
        return Refusal::body(StatusCode::PAYLOAD_TOO_LARGE, "length limit exceeded").into_response();
    }
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

/// Requests that the model answers.
fn generated<F: Form>(understand: Read<F>) -> MethodRouter<Arc<App>> {
    post(async move |State(app): Shared, Extension(scope): Scoped, body: Body| {
        ask::answer(app, scope, read(body)?, understand).await
    })
}

/// Adapters: which there are, and by how much they change the model.
fn adapters() -> MethodRouter<Arc<App>> {
    get(async |State(app): Shared| lora::list(&app).map(Json))
        .post(async |State(app): Shared, body: Body| lora::set(&app, &read(body)?).map(Json))
}

/// What can be said of the model.
fn said(say: fn(&Served) -> Value) -> MethodRouter<Arc<App>> {
    get(async move |State(app): Shared| app.served().map(|served| Json(say(served))))
}

/// Requests that need the model's words alone.
fn counted(count: fn(&App, &Served, Fields) -> Result<Value, Refusal>) -> MethodRouter<Arc<App>> {
    post(async move |State(app): Shared, Extension(scope): Scoped, body: Body| {
        let body = read(body)?;
        let counted = blocking(move || {
            let (served, mut fields) = (app.served()?.answers()?, Fields::of(&body)?);
            ask::memory(&mut fields, &app.config, served, scope)?;
            count(&app, served, fields)
        });
        counted.await.map(Json)
    })
}

/// Requests of vectors and scores.
fn made(understand: vectors::Read) -> MethodRouter<Arc<App>> {
    post(async move |State(app): Shared, body: Body| vectors::answer(app, read(body)?, understand).await)
}

/// What was done.
async fn metrics(State(app): Shared) -> Result<impl IntoResponse, Refusal> {
    let text = counters::metrics(&app)?;
    Ok(([PROMETHEUS], [(STARTED, app.served()?.created.to_string())], text))
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

//! The paths, and what answers at each.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::{Bytes, HttpBody},
    extract::{DefaultBodyLimit, FromRequest, Path, Request, State},
    http::{HeaderName, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
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
    lora, messages,
    models::{self, For},
    native, ollama,
    openapi::description,
    refusal::{Refusal, shaped},
    responses, vectors,
};

type Shared = State<Arc<App>>;
type Scoped = Extension<Scope>;

/// The type of metrics.
const PROMETHEUS: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");

/// When the server was started: llama.cpp's name for the time since which metrics count.
const STARTED: HeaderName = HeaderName::from_static("process-start-time-unix");

/// All paths.
pub fn routes(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/completion", generated(native::read))
        .route("/completions", generated(native::read))
        .route("/v1/completions", generated(completions::read))
        .route("/infill", generated(infill::read))
        .route("/lora-adapters", adapters())
        .route("/tokenize", post(async |For(model, body): For| native::tokenize(model, body).await))
        .route("/detokenize", post(async |For(model, body): For| native::detokenize(&model, &body)))
        .route(
            "/apply-template",
            post(async |State(app): Shared, For(model, body): For| native::apply_template(app, model, body).await),
        )
        .route("/tokenizer_info", said(native::tokenizer_info))
        .route("/props", get(props))
        .route("/metrics", get(metrics))
        .route("/slots", get(slots))
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
        .route("/models/load", post(async |State(app): Shared, body: Bytes| models::load(&app, &body).await.map(Json)))
        .route("/models/unload", post(async |State(app): Shared, body: Bytes| models::unload(&app, &body).map(Json)))
        .route("/v1/messages", generated(messages::read))
        .route("/v1/messages/count_tokens", counted(messages::count))
        .route("/api/generate", generated(ollama::generate))
        .route("/api/chat", generated(ollama::chat))
        .route("/api/embed", made(ollama::embed))
        .route("/api/embeddings", made(ollama::embeddings))
        .route("/api/tags", listed(ollama::tags))
        .route("/api/ps", listed(ollama::ps))
        .route("/api/show", post(async |For(model, body): For| ollama::show(&model, Fields::of(&body)?).map(Json)))
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
            .route(&format!("{prefix}/models"), listed(models::list))
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

/// Requests that a model answers.
fn generated<F: Form>(understand: Read<F>) -> MethodRouter<Arc<App>> {
    post(async move |State(app): Shared, Extension(scope): Scoped, For(model, body): For| {
        ask::answer(app, model, scope, body, understand).await
    })
}

/// Adapters: which there are, and by how much they change the model.
fn adapters() -> MethodRouter<Arc<App>> {
    said(lora::list).post(async |For(model, body): For| lora::set(&model, &body).map(Json))
}

/// What can be said of a model.
fn said(say: fn(&Served) -> Value) -> MethodRouter<Arc<App>> {
    get(async move |For(model, _): For| Json(say(&model)))
}

/// What can be said of all models.
fn listed(say: fn(&App) -> Result<Value, Refusal>) -> MethodRouter<Arc<App>> {
    get(async move |State(app): Shared| say(&app).map(Json))
}

/// Requests that a model's words alone are needed for.
fn counted(count: fn(&App, &Served, Fields) -> Result<Value, Refusal>) -> MethodRouter<Arc<App>> {
    post(async move |State(app): Shared, Extension(scope): Scoped, For(model, body): For| {
        let counted = blocking(move || {
            let (served, mut fields) = (model.answers()?, Fields::of(&body)?);
            ask::memory(&mut fields, &app.config, served, scope)?;
            count(&app, served, fields)
        });
        counted.await.map(Json)
    })
}

/// Requests of vectors and scores.
fn made(understand: vectors::Read) -> MethodRouter<Arc<App>> {
    post(async move |For(model, body): For| vectors::answer(model, body, understand).await)
}

/// How a model is served, or how several are. One that sleeps is not woken up.
async fn props(State(app): Shared, request: Request) -> Result<Json<Value>, Refusal> {
    if let Some(props) = models::props(&app, request.uri())? {
        return Ok(Json(props));
    }
    let For(model, _) = For::from_request(request, &app).await?;
    Ok(Json(native::props(&app, &model)))
}

/// What was done.
async fn metrics(State(app): Shared, uri: Uri) -> Result<impl IntoResponse, Refusal> {
    let text = counters::metrics(&app, models::at(&app, &uri)?)?;
    Ok(([PROMETHEUS], [(STARTED, app.started.to_string())], text))
}

/// How many answers are being written.
async fn slots(State(app): Shared, uri: Uri) -> Result<Json<Value>, Refusal> {
    counters::slots(&app, models::at(&app, &uri)?).map(Json)
}

/// Whether requests are answered.
async fn health(State(app): Shared) -> Result<Json<Value>, Refusal> {
    app.models.ready().map(|()| Json(json!({ "status": "ok" })))
}

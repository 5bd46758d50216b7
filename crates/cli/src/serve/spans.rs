//! Spans of requests for a collector of OpenTelemetry, by OTLP over HTTP. They have times, sizes and names, and no text of a request.

use std::{
    collections::HashMap,
    env,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use candor_hub::Post;
use candor_server::{Config, Done, Ended};
use opentelemetry::{
    Context, KeyValue, global,
    propagation::TextMapPropagator,
    trace::{Span, SpanBuilder, SpanKind, Status, TraceContextExt},
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};

use crate::{errors::Error, output::say};

/// What sends spans as long as it lasts; what is left is sent at its end.
pub struct Spans(SdkTracerProvider);

/// What sends a batch of spans. It blocks, on the thread that batches have of their own.
#[derive(Debug)]
struct Sender {
    post: Post,
    /// Whether the last batch did not arrive: that is said once.
    failing: AtomicBool,
}

/// Variables of the OpenTelemetry specification that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// How long the collector may take, the specification's default.
const PATIENCE: Duration = Duration::from_secs(10);
const NAME: &str = "candor";

/// Has spans sent to a collector: that of `endpoint`, or that of the environment. `None` where neither names one.
///
/// # Errors
/// If the address is no address.
pub fn start(endpoint: Option<&str>, config: &mut Config) -> Result<Option<Spans>, Error> {
    let set = |name: &str| env::var(name).is_ok_and(|value| !value.is_empty());
    let disabled = env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    if endpoint.is_none() && (disabled || !ENDPOINTS.iter().any(|name| set(name))) {
        return Ok(None);
    }
    if let Some(wrong) = endpoint.filter(|endpoint| !is_address(endpoint)) {
        let problem = format!("--otlp-traces-endpoint: {wrong:?} is no address of http or https");
        return Err(Error::Collector { problem });
    }
    let sender = Sender { post: Post::new(PATIENCE), failing: AtomicBool::new(false) };
    let exporter = SpanExporter::builder().with_http().with_http_client(sender);
    let exporter = endpoint.into_iter().fold(exporter, |exporter, endpoint| exporter.with_endpoint(endpoint));
    let exporter = exporter.build().map_err(|error| Error::Collector { problem: error.to_string() })?;
    let mut resource = Resource::builder();
    if !set("OTEL_SERVICE_NAME") {
        resource = resource.with_service_name(NAME);
    }
    let resource = resource.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build();
    let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
    global::set_tracer_provider(provider.clone());
    config.ended = Some(ended);
    Ok(Some(Spans(provider)))
}

fn is_address(text: &str) -> bool {
    let of = |request: Request<()>| {
        matches!(request.uri().scheme_str(), Some("http" | "https")) && request.uri().host().is_some()
    };
    Request::post(text).body(()).is_ok_and(of)
}

impl Drop for Spans {
    fn drop(&mut self) {
        // What did not arrive was said by the sender.
        let _ = self.0.shutdown();
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let url = request.uri().to_string();
        let headers = request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let sent = self.post.send(&url, &headers.collect::<Vec<_>>(), request.body());
        let problem = match &sent {
            Ok(posted) if posted.status < 400 => None,
            Ok(posted) => Some(format!("it answers with status {}", posted.status)),
            Err(error) => Some(error.to_string()),
        };
        if !self.failing.swap(problem.is_some(), Ordering::Relaxed)
            && let Some(problem) = problem
        {
            say!("spans do not arrive at {url}: {problem}");
        }
        let posted = sent?;
        let mut response = Response::builder().status(posted.status);
        for (name, value) in &posted.headers {
            response = response.header(name, value);
        }
        Ok(response.body(posted.body.into())?)
    }
}

/// Makes the spans of a request: one for all of it, and below it one for each part of what a model did.
fn ended(ended: &Ended) {
    let tracer = global::tracer(NAME);
    let end = ended.at + ended.took;
    let name = ended.route.iter().fold(ended.method.clone(), |method, route| format!("{method} {route}"));
    let mut span = SpanBuilder::from_name(name)
        .with_kind(SpanKind::Server)
        .with_start_time(ended.at)
        .with_attributes(attributes(ended))
        .start_with_context(&tracer, &parent(ended));
    if let Some(problem) = problem(ended) {
        span.set_attribute(KeyValue::new("error.type", problem.clone()));
        span.set_status(Status::error(problem));
    }
    let below = Context::new().with_remote_span_context(span.span_context().clone());
    for (name, from, to) in ended.work.iter().flat_map(|work| parts(work, ended.at, end)) {
        let part = SpanBuilder::from_name(name).with_start_time(from).start_with_context(&tracer, &below);
        end_at(part, to);
    }
    end_at(span, end);
}

fn end_at(mut span: impl Span, at: SystemTime) {
    span.end_with_timestamp(at);
}

/// The span that a request is a part of, by W3C Trace Context.
fn parent(ended: &Ended) -> Context {
    let headers = [("traceparent", &ended.trace_parent), ("tracestate", &ended.trace_state)];
    let headers = headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    TraceContextPropagator::new().extract_with_context(&Context::new(), &headers.collect::<HashMap<_, _>>())
}

/// What went wrong: a status that is the server's fault, or a client that left.
fn problem(ended: &Ended) -> Option<String> {
    match ended.status {
        Some(status) if status >= 500 => Some(status.to_string()),
        _ => (!ended.whole).then(|| "cancelled".to_owned()),
    }
}

/// Names and values of the semantic conventions for HTTP and for generative models.
fn attributes(ended: &Ended) -> Vec<KeyValue> {
    let mut all = vec![
        KeyValue::new("http.request.method", ended.method.clone()),
        KeyValue::new("url.path", ended.path.clone()),
        KeyValue::new("candor.request.id", ended.id.clone()),
    ];
    all.extend(ended.route.clone().map(|route| KeyValue::new("http.route", route)));
    all.extend(ended.status.map(|status| KeyValue::new("http.response.status_code", i64::from(status))));
    if let Some(work) = &ended.work {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        all.extend(ended.route.as_deref().and_then(operation).map(|name| KeyValue::new("gen_ai.operation.name", name)));
        all.push(KeyValue::new("gen_ai.response.model", work.model.clone()));
        all.push(KeyValue::new("gen_ai.usage.input_tokens", number(work.prompt)));
        all.push(KeyValue::new("gen_ai.usage.cache_read.input_tokens", number(work.reused)));
        all.push(KeyValue::new("gen_ai.usage.output_tokens", number(work.written)));
    }
    all
}

/// What a path does, by the conventions' names.
fn operation(route: &str) -> Option<&'static str> {
    let path = route.strip_prefix("/v1").unwrap_or(route);
    match path {
        "/chat/completions" | "/messages" | "/responses" | "/api/chat" => Some("chat"),
        "/completion" | "/completions" | "/infill" | "/api/generate" => Some("text_completion"),
        "/embedding" | "/embeddings" | "/api/embed" | "/api/embeddings" => Some("embeddings"),
        _ => None,
    }
}

/// When an answer waited for its turn, its prompt was read, and its tokens were written; what did not come to pass is left out.
fn parts(work: &Done, at: SystemTime, end: SystemTime) -> Vec<(&'static str, SystemTime, SystemTime)> {
    let Some(begun) = work.begun.map(|since| at + since) else { return Vec::new() };
    let mut parts = vec![("wait", at, begun)];
    match work.first.map(|since| at + since) {
        Some(first) => parts.extend([("prompt", begun, first), ("answer", first, end)]),
        None => parts.push(("prompt", begun, end)),
    }
    parts
}

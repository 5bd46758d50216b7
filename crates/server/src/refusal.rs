//! What a request is refused with: in OpenAI's shape, and in those of others at their paths.

use axum::{
    Json,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use candor::Error;
use serde_json::{Value, json};

/// A refused request.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    /// OpenAI's kind of error.
    kind: &'static str,
    code: Option<&'static str>,
    /// The field that is wrong.
    param: Option<String>,
    message: String,
    /// Numbers besides.
    more: Vec<(&'static str, usize)>,
}

/// Whose shape a refusal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    OpenAi,
    Anthropic,
    Ollama,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, kind, code: None, param: None, message: message.into(), more: Vec::new() }
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// A field with a wrong value, or a request without one that it needs.
    pub fn field(name: &str, message: impl Into<String>) -> Refusal {
        let message = format!("{name}: {}", message.into());
        Refusal { param: Some(name.to_owned()), ..Refusal::request(message) }
    }

    /// A field, or a value of it, that would change the answer and is not served.
    pub fn unsupported(name: &str, message: impl Into<String>) -> Refusal {
        Refusal { code: Some("unsupported_parameter"), ..Refusal::field(name, message) }
    }

    /// A request that cannot be understood.
    pub fn request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// What axum refused before it came here, by its status.
    pub fn body(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal::new(status, "invalid_request_error", message)
    }

    /// A missing or wrong key.
    pub fn key() -> Refusal {
        let message = "invalid API key: expected `Authorization: Bearer KEY` or `X-Api-Key: KEY`";
        Refusal {
            code: Some("invalid_api_key"),
            ..Refusal::new(StatusCode::UNAUTHORIZED, "authentication_error", message)
        }
    }

    /// A name in the request's headers under which this server is not asked.
    pub fn host(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, "permission_error", message)
    }

    /// No such path.
    pub fn not_found() -> Refusal {
        Refusal::missing("no such path: docs/server.md lists them")
    }

    /// Nothing of that name.
    pub fn missing(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// No such model, where there are several.
    pub fn no_model(name: &str) -> Refusal {
        let message = format!("model: there is no model {name:?}: /models lists them");
        Refusal { code: Some("model_not_found"), param: Some("model".to_owned()), ..Refusal::missing(message) }
    }

    /// No such method.
    pub fn method() -> Refusal {
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "the path has no such method")
    }

    /// The server cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", message)
    }

    /// The model does other things.
    pub fn other_model(message: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_IMPLEMENTED, "not_supported_error", message)
    }

    /// Too many wait already.
    pub fn full(waiting: usize) -> Refusal {
        Refusal::busy(format!("{waiting} answers wait already: try again later"))
    }

    /// Something else has to be done first.
    pub fn busy(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
    }

    /// Something failed here.
    pub fn failed(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// The same with the name of the model that it is about.
    #[must_use]
    pub fn about(self, model: &str) -> Refusal {
        Refusal { message: format!("{model}: {}", self.message), ..self }
    }

    /// The same of a field within another.
    #[must_use]
    pub fn within(self, outer: &str) -> Refusal {
        let Some(name) = &self.param else { return self };
        let name = format!("{outer}.{name}");
        Refusal { message: format!("{outer}.{}", self.message), param: Some(name), ..self }
    }

    /// It as a response, which keeps it for [`shaped`].
    fn response(self, body: Value) -> Response {
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }

    /// The same in Anthropic's shape.
    pub fn anthropic(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "api_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": self.message } })
    }

    /// The same in Ollama's shape.
    pub fn ollama(&self) -> Value {
        json!({ "error": self.message })
    }

    /// The body, in OpenAI's shape.
    pub fn json(&self) -> Value {
        let Refusal { kind, code, param, message, more, .. } = self;
        let mut error = json!({ "message": message, "type": kind, "param": param, "code": code });
        if let Value::Object(fields) = &mut error {
            fields.extend(more.iter().map(|(name, number)| ((*name).to_owned(), (*number).into())));
        }
        json!({ "error": error })
    }
}

/// What the library refuses.
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let message = error.to_string();
        match error {
            Error::PromptTooLong { prompt: tokens, context } | Error::TextTooLong { tokens, context, .. } => {
                let message = match error {
                    // Clients of llama.cpp's server look for some of these words.
                    Error::PromptTooLong { .. } => format!(
                        "a prompt of {tokens} tokens exceeds the available context size of {context}: -c gives more"
                    ),
                    _ => message,
                };
                let mut refusal = Refusal::new(StatusCode::BAD_REQUEST, "exceed_context_size_error", message);
                refusal.code = Some("context_length_exceeded");
                refusal.more = vec![("n_prompt_tokens", tokens), ("n_ctx", context)];
                refusal
            }
            Error::Sampler(_)
            | Error::Tokenizer(_)
            | Error::EmptyPrompt
            | Error::Token { .. }
            | Error::NoTokens { .. }
            | Error::NoChatTemplate
            | Error::OwnProcessor(_)
            | Error::NotForAnswers { .. } => Refusal::request(message),
            _ => Refusal::failed(message),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = self.json();
        self.response(body)
    }
}

/// Has a path's refusals in the shape that its clients know.
pub async fn shaped(request: Request, next: Next) -> Response {
    let style = Style::of(request.uri().path());
    let mut response = next.run(request).await;
    match (style, response.extensions_mut().remove::<Refusal>()) {
        (Style::OpenAi, _) | (_, None) => response,
        (Style::Anthropic, Some(refusal)) => {
            let body = refusal.anthropic();
            refusal.response(body)
        }
        (Style::Ollama, Some(refusal)) => {
            let body = refusal.ollama();
            refusal.response(body)
        }
    }
}

impl Style {
    /// That of a path.
    pub fn of(path: &str) -> Style {
        match () {
            () if path.starts_with("/v1/messages") => Style::Anthropic,
            () if path.starts_with("/api/") => Style::Ollama,
            () => Style::OpenAi,
        }
    }
}

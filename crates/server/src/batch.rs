//! Requests of a file, answered into another file: OpenAI's batch format, without an address.

use std::{
    collections::HashSet,
    fmt::Display,
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    pin::pin,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, header},
};
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::{
    app::runtime,
    config::{Config, Listed, Models},
    failure::{BatchError, Failure},
    routes::routes,
    serving::open,
    stop::Stop,
};

/// Requests that are to be answered, one in a line, and where the answers go.
#[derive(Debug)]
pub struct Batch {
    requests: PathBuf,
    answers: PathBuf,
    file: File,
    /// Names of requests that are answered already.
    answered: HashSet<String>,
    /// All requests.
    count: usize,
}

/// A request of a file.
struct Asked {
    name: String,
    url: String,
    body: Value,
}

impl Batch {
    /// Reads `requests` once, to see that each line is a request with a name of its own, and opens `answers`. Answers that are there
    /// stay, and their requests are not made again. What a killed run left of a line goes.
    ///
    /// # Errors
    /// If a file cannot be read or written, or a line of either is wrong.
    pub fn open(requests: &Path, answers: &Path) -> Result<Batch, BatchError> {
        let mut names = HashSet::new();
        for asked in Asked::all(requests)? {
            let (line, asked) = asked?;
            if !names.insert(asked.name.clone()) {
                let message = format!("custom_id {:?} is that of an earlier line", asked.name);
                return Err(BatchError::Line { path: requests.to_owned(), line, message });
            }
        }
        let failed = |error| BatchError::File { path: answers.to_owned(), error };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(answers).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => failed(error),
            TryLockError::WouldBlock => failed(io::Error::other("another run writes to this file")),
        })?;
        let mut answered = HashSet::new();
        let (mut whole, mut text) = (0, String::new());
        let mut reader = BufReader::new(&file);
        for line in 1.. {
            text.clear();
            let bytes = reader.read_line(&mut text).map_err(failed)?;
            if !text.ends_with('\n') {
                break;
            }
            whole += bytes as u64;
            let answer: Option<Value> = serde_json::from_str(&text).ok();
            let name = answer.and_then(|answer| answer["custom_id"].as_str().map(str::to_owned));
            // Another file was meant: nothing is written to it.
            let Some(name) = name.filter(|name| names.contains(name)) else {
                let message = "this is no answer to one of the requests".to_owned();
                return Err(BatchError::Line { path: answers.to_owned(), line, message });
            };
            answered.insert(name);
        }
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Batch { requests: requests.to_owned(), answers: answers.to_owned(), file, answered, count: names.len() })
    }

    /// All requests.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those that have an answer.
    pub fn answered(&self) -> usize {
        self.answered.len()
    }

    /// Loads a model and answers what has no answer, each written once it is there. `hear` hears how many have one. Ends before all
    /// have where `stop` says so: what was written is whole, and another run goes on.
    ///
    /// # Errors
    /// If the model cannot be loaded, is computed wrongly here or fails, or a file cannot be read or written.
    pub fn answer<E: Display + Send + 'static>(
        &mut self,
        mut config: Config,
        model: Listed<E>,
        stop: &Stop,
        mut hear: impl FnMut(usize),
    ) -> Result<(), Failure<E>> {
        // Nobody asks from elsewhere.
        config.keys.clear();
        config.queue = QUEUE;
        runtime()?.block_on(async {
            let (app, mut failed) = open(config, Models::One(model))?;
            if let Either::Right((failure, _)) = select(pin!(app.models.settled()), pin!(failed.recv())).await {
                return Err(failure.unwrap_or(Failure::Panicked));
            }
            let together = match app.models.hold(0, true).await {
                Ok(held) => 2 * held.sequences,
                Err(refusal) => return Err(Failure::Wrong(refusal.message().to_owned())),
            };
            let router = routes(app);
            let mut asked = Asked::all(&self.requests)?;
            let mut running = JoinSet::new();
            let mut stopped = pin!(stop.asked());
            loop {
                while running.len() < together {
                    let Some(next) = asked.next() else { break };
                    let (_, next) = next?;
                    if !self.answered.contains(&next.name) {
                        running.spawn(next.answered(router.clone()));
                    }
                }
                let done = match select(&mut stopped, pin!(running.join_next())).await {
                    Either::Right((Some(done), _)) => done.map_err(|_| Failure::Panicked)?,
                    Either::Right((None, _)) | Either::Left(_) => return Ok(()),
                };
                let (name, status, body) = done;
                if status >= 500 {
                    return Err(Failure::Request { name, message: message(&body) });
                }
                let number = self.answered.len();
                let response = json!({ "status_code": status, "request_id": format!("req_{number}"), "body": body });
                let id = format!("batch_req_{number}");
                let line = json!({ "id": id, "custom_id": name, "response": response, "error": null });
                let written = self.file.write_all(format!("{line}\n").as_bytes());
                written.map_err(|error| BatchError::File { path: self.answers.clone(), error })?;
                self.answered.insert(name);
                hear(self.answered.len());
            }
        })
    }
}

/// Orders that may wait. No more requests are made at once than are answered and as many again, each with answers of its own.
const QUEUE: usize = 1 << 16;

/// What an error's body says.
fn message(body: &Value) -> String {
    body["error"]["message"].as_str().map_or_else(|| body.to_string(), str::to_owned)
}

impl Asked {
    /// The requests of a file with the numbers of their lines; lines without anything are none.
    fn all(path: &Path) -> Result<impl Iterator<Item = Result<(usize, Asked), BatchError>> + use<>, BatchError> {
        let path = path.to_owned();
        let failed = |path: &Path, error| BatchError::File { path: path.to_owned(), error };
        let file = File::open(&path).map_err(|error| failed(&path, error))?;
        Ok((1..).zip(BufReader::new(file).lines()).filter_map(move |(line, text)| match text {
            Ok(text) if text.trim().is_empty() => None,
            Ok(text) => {
                let wrong = |message| BatchError::Line { path: path.clone(), line, message };
                Some(Asked::of(&text).map(|asked| (line, asked)).map_err(wrong))
            }
            Err(error) => Some(Err(failed(&path, error))),
        }))
    }

    /// The request of a line.
    fn of(text: &str) -> Result<Asked, String> {
        let mut value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
        let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or(format!("{name}: expected a string"));
        let (name, method, url) = (text("custom_id")?, text("method")?, text("url")?);
        if method != "POST" {
            return Err(format!("method: expected \"POST\", got {method:?}"));
        }
        let body = value["body"].take();
        if !body.is_object() {
            return Err("body: expected an object".to_owned());
        }
        if body["stream"] == true {
            return Err("body.stream: a file's answers are whole".to_owned());
        }
        Ok(Asked { name, url, body })
    }

    /// Its name, and what is answered: the status and the body.
    async fn answered(self, router: Router) -> (String, u16, Value) {
        let request = Request::post(&self.url)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(self.body.to_string()));
        let Ok(request) = request else {
            let message = format!("url: {:?} is no path", self.url);
            return (self.name, 400, json!({ "error": { "message": message, "type": "invalid_request_error" } }));
        };
        let Ok(response) = router.oneshot(request).await;
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
        let text = || Value::from(String::from_utf8_lossy(&body).into_owned());
        (self.name, status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
    }
}

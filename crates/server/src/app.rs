//! What all requests share.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use candor::{GenerateOptions, Model};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    answer::Answers,
    config::Config,
    refusal::Refusal,
    shape::Tokens,
    template::Template,
    worker::{Order, Untaken},
};

/// The model that is served.
pub struct Served {
    /// The model.
    pub model: Model,
    /// What it is called.
    pub name: String,
    /// Its chat template.
    pub template: Option<Template>,
    /// Its tokens, for answers of a shape.
    pub tokens: Tokens,
    /// Tokens of a prompt and its answer at most.
    pub context: usize,
    /// Answers that are written at once at most.
    pub sequences: usize,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
}

/// What all requests share.
pub struct App {
    /// How to serve.
    pub config: Config,
    served: OnceLock<Served>,
    draining: AtomicBool,
    /// Requests that are being answered.
    running: watch::Sender<usize>,
    orders: SyncSender<Order>,
}

/// Counts a request as long as it lives.
pub struct Running(watch::Sender<usize>);

/// Events of a request that wait for its reader, before its answers wait.
const BUFFERED: usize = 64;

impl Served {
    /// The chat template.
    ///
    /// # Errors
    /// If the model has none.
    pub fn template(&self) -> Result<&Template, Refusal> {
        let none = || Refusal::request("the model has no chat template: --chat-template NAME gives it one");
        self.template.as_ref().ok_or_else(none)
    }
}

impl App {
    /// One without a model.
    pub fn new(config: Config, orders: SyncSender<Order>) -> App {
        let (served, draining) = (OnceLock::new(), AtomicBool::new(false));
        App { config, served, draining, running: watch::Sender::new(0), orders }
    }

    /// Begins to answer.
    pub fn begin(&self, served: Served) {
        // There is one model for the whole time.
        let _ = self.served.set(served);
    }

    /// Takes no requests any more.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Waits until nothing is being answered.
    pub async fn idle(&self) {
        // The sender is here: it is not gone before.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// The model.
    ///
    /// # Errors
    /// If it is not loaded yet, or the server is about to end.
    pub fn served(&self) -> Result<&Served, Refusal> {
        if self.draining.load(Ordering::SeqCst) {
            return Err(Refusal::unavailable("the server is ending"));
        }
        self.served.get().ok_or_else(|| Refusal::unavailable("the model is being loaded"))
    }

    /// Has prompts answered.
    ///
    /// # Errors
    /// If one is refused, or too many wait; none is answered then.
    pub async fn answer(&self, prompts: Vec<(Vec<u32>, GenerateOptions)>) -> Result<Answers, Refusal> {
        let (sender, events) = mpsc::channel(BUFFERED);
        let answers = Answers::new(events, prompts.len(), self.running());
        for (index, (prompt, options)) in prompts.into_iter().enumerate() {
            let (taken, hears) = oneshot::channel();
            let order = Order { prompt, options, index, events: sender.clone(), taken };
            self.orders.try_send(order).map_err(|error| match error {
                TrySendError::Full(_) => Refusal::full(self.config.queue),
                TrySendError::Disconnected(_) => Refusal::failed("the model has failed"),
            })?;
            match hears.await {
                Ok(Ok(())) => {}
                Ok(Err(Untaken::Full(waiting))) => return Err(Refusal::full(waiting)),
                Ok(Err(Untaken::Wrong(error))) => return Err(error.into()),
                Err(_) => return Err(Refusal::failed("the model has failed")),
            }
        }
        Ok(answers)
    }

    fn running(&self) -> Running {
        self.running.send_modify(|running| *running += 1);
        Running(self.running.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// Does work that takes a while where nothing waits for it.
///
/// # Errors
/// What the work refuses.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Refusal::failed("this is a bug: the server's log has more")))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

//! What all requests share.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use candor::{Adapter, GenerateOptions, KvFormat, Model, Pooling, Reuse, Scaling};
use tokio::{
    runtime::{self, Runtime},
    sync::{Notify, Semaphore, mpsc, oneshot, watch},
};

use crate::{
    answer::Answers,
    config::{Config, Diagnose},
    counters::Counters,
    refusal::Refusal,
    shape::Tokens,
    template::Template,
    texts::Texts,
    traces::Traces,
    worker::{Order, Untaken},
};

/// The model that is served.
pub struct Served {
    /// The model.
    pub model: Model,
    /// What it is called.
    pub name: String,
    /// The file that it was loaded from.
    pub path: Option<PathBuf>,
    /// What it does.
    pub does: Does,
    /// Its chat template.
    pub template: Option<Template>,
    /// Its tokens, for answers of a shape.
    pub tokens: Tokens,
    /// Tokens of a prompt and its answer at most.
    pub context: usize,
    /// Answers that are written at once at most.
    pub sequences: usize,
    /// The formats of cached keys and values.
    pub formats: [KvFormat; 2],
    /// Holds the operations of an answer against formulas.
    pub diagnose: Option<Arc<Diagnose>>,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// The adapters' scales where a request does not say.
    scales: RwLock<Vec<f32>>,
}

/// What a model does.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// It answers prompts.
    Answers,
    /// It makes vectors, or scores, of texts.
    Vectors {
        /// How tokens' vectors become a text's.
        pooling: Pooling,
        /// Numbers of a vector.
        width: usize,
        /// The length of vectors where a request does not say.
        scaling: Scaling,
    },
}

/// What all requests share.
pub struct App {
    /// How to serve.
    pub config: Config,
    /// What was done.
    pub counters: Arc<Counters>,
    /// Or why it is not served.
    served: OnceLock<Result<Served, String>>,
    settled: Notify,
    draining: AtomicBool,
    /// Requests that are being answered.
    running: watch::Sender<usize>,
    orders: SyncSender<Order>,
    /// How the last answers came to be.
    pub traces: Traces,
    /// One answer is diagnosed at a time.
    pub diagnosing: Arc<Semaphore>,
    texts: SyncSender<Texts>,
}

/// What the model's thread takes.
pub struct Taken {
    /// Prompts to answer.
    pub orders: Receiver<Order>,
    /// Texts to make vectors of.
    pub texts: Receiver<Texts>,
}

/// Counts a request as long as it lives.
pub struct Running(watch::Sender<usize>);

/// Threads that templates and tokenizers have.
const BLOCKING: usize = 4;

/// Events of a request that wait for its reader, before its answers wait.
const BUFFERED: usize = 64;

impl Served {
    /// A model of this name that does this. It was loaded now.
    pub fn new(model: Model, name: String, path: Option<PathBuf>, does: Does) -> Served {
        let scales = RwLock::new(model.adapters().iter().map(Adapter::scale).collect());
        let (tokens, context, created) = (Tokens::default(), model.config().context, now());
        Served {
            model,
            name,
            path,
            does,
            template: None,
            tokens,
            context,
            sequences: 1,
            formats: Default::default(),
            diagnose: None,
            created,
            scales,
        }
    }

    /// The adapters' scales where a request does not say.
    pub fn scales(&self) -> Vec<f32> {
        self.scales.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets them for requests to come.
    pub fn rescale(&self, scales: Vec<f32>) {
        *self.scales.write().unwrap_or_else(PoisonError::into_inner) = scales;
    }

    /// The chat template.
    ///
    /// # Errors
    /// If the model has none.
    pub fn template(&self) -> Result<&Template, Refusal> {
        let none = || Refusal::request("the model has no chat template: --chat-template NAME gives it one");
        self.template.as_ref().ok_or_else(none)
    }

    /// The model, where it answers prompts.
    ///
    /// # Errors
    /// If it does something else.
    pub fn answers(&self) -> Result<&Served, Refusal> {
        match self.does {
            Does::Answers => Ok(self),
            Does::Vectors { .. } => {
                Err(Refusal::other_model("this server makes vectors or scores of texts, and continues none"))
            }
        }
    }
}

impl App {
    /// One without a model, and what is asked of that.
    pub fn new(config: Config) -> (App, Taken) {
        let (served, settled, draining) = (OnceLock::new(), Notify::new(), AtomicBool::new(false));
        let queue = config.queue.max(1);
        let ((orders, taken), (texts, read)) = (sync_channel(queue), sync_channel(queue));
        let (counters, running) = (Arc::default(), watch::Sender::new(0));
        let (traces, diagnosing) = (Traces::new(config.traces), Arc::new(Semaphore::new(1)));
        let app = App { config, counters, served, settled, draining, running, orders, traces, diagnosing, texts };
        (app, Taken { orders: taken, texts: read })
    }

    /// Begins to answer.
    pub fn begin(&self, served: Served) {
        // There is one model for the whole time.
        let _ = self.served.set(Ok(served));
        self.settled.notify_waiters();
    }

    /// Refuses to answer, for good.
    pub fn fail(&self, failure: String) {
        let _ = self.served.set(Err(failure));
        self.settled.notify_waiters();
    }

    /// Waits until it is known whether the model is served.
    pub async fn loaded(&self) {
        let settled = self.settled.notified();
        if self.served.get().is_none() {
            settled.await;
        }
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
    /// If it is not loaded yet, is computed wrongly here, or the server is about to end.
    pub fn served(&self) -> Result<&Served, Refusal> {
        if self.draining.load(Ordering::SeqCst) {
            return Err(Refusal::unavailable("the server is ending"));
        }
        match self.served.get() {
            Some(Ok(served)) => Ok(served),
            Some(Err(failure)) => {
                Err(Refusal::unavailable(format!("this machine computes the model wrongly: {failure}")))
            }
            None => Err(Refusal::unavailable("the model is being loaded")),
        }
    }

    /// Has prompts answered; `reuse` says which others they may share memory with, `scales` by how much each adapter changes the model,
    /// `scope` who may ask for their trace.
    ///
    /// # Errors
    /// If one is refused, or too many wait; none is answered then.
    pub async fn answer(
        &self,
        mut prompts: Vec<(Vec<u32>, GenerateOptions)>,
        reuse: Reuse,
        scales: Vec<f32>,
        scope: u64,
    ) -> Result<Answers, Refusal> {
        let served = self.served()?.answers()?;
        let trace = self.traces.begin((&served.model, &served.name), scope, now(), &mut prompts);
        let (sender, events) = mpsc::channel(BUFFERED);
        let answers = Answers::new(events, prompts.len(), self.running(), trace.clone());
        for (index, (prompt, options)) in prompts.into_iter().enumerate() {
            let (taken, hears) = oneshot::channel();
            let scales = scales.clone();
            let order = Order { prompt, options, reuse, scales, index, events: sender.clone(), taken };
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
        if let Some(trace) = trace {
            self.traces.keep(trace);
        }
        Ok(answers)
    }

    /// Has vectors or scores made of texts.
    ///
    /// # Errors
    /// If a text is refused, or too many wait.
    pub async fn vectors(&self, ids: Vec<Vec<u32>>, scaling: Scaling) -> Result<Vec<Vec<f32>>, Refusal> {
        let _running = self.running();
        let (started, tokens) = (Instant::now(), ids.iter().map(Vec::len).sum());
        let (made, hears) = oneshot::channel();
        self.texts.try_send(Texts::new(ids, scaling, made)).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::full(self.config.queue),
            TrySendError::Disconnected(_) => Refusal::failed("the model has failed"),
        })?;
        let vectors = hears.await.map_err(|_| Refusal::failed("the model has failed"))??;
        self.counters.read(tokens, started.elapsed());
        Ok(vectors)
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

/// What awaits requests: one thread, and a few for what [`blocking`] is given. More would keep memory of their own and be no faster.
///
/// # Errors
/// If the system gives no events.
pub fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING).build()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

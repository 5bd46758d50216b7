//! What all requests share.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use candor::{Adapter, GenerateOptions, KvFormat, Model, Pooling, Reuse, Scaling};
use tokio::{
    runtime::{self, Runtime},
    sync::{Semaphore, mpsc, oneshot},
};

use crate::{
    answer::Answers,
    config::{Config, Diagnose, News},
    counters::Counters,
    refusal::Refusal,
    registry::{Held, Name, Registry, Start},
    shape::Tokens,
    template::Template,
    texts::Texts,
    traces::Traces,
    worker::{Order, Untaken},
};

/// A model that is served.
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
    /// What was done, as long as the server runs.
    pub counters: Arc<Counters>,
    /// The adapters' scales where a request does not say.
    scales: RwLock<Vec<f32>>,
    /// How long it stays without requests; for ever without. Requests say so where `may_go`.
    stays: RwLock<Option<Duration>>,
    may_go: bool,
    queue: usize,
    orders: SyncSender<Order>,
    texts: SyncSender<Texts>,
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
    /// The models.
    pub models: Arc<Registry>,
    /// When it was started, in seconds since 1970.
    pub started: u64,
    /// How the last answers came to be.
    pub traces: Traces,
    /// One answer is diagnosed at a time.
    pub diagnosing: Arc<Semaphore>,
}

/// What a model's thread takes.
pub struct Taken {
    /// Prompts to answer.
    pub orders: Receiver<Order>,
    /// Texts to make vectors of.
    pub texts: Receiver<Texts>,
}

/// Threads that templates and tokenizers have.
const BLOCKING: usize = 4;

/// Events of a request that wait for its reader, before its answers wait.
const BUFFERED: usize = 64;

impl Served {
    /// A model that does this, and what is asked of it. It was loaded now.
    pub fn new(model: Model, name: &Name, does: Does, config: &Config, may_go: bool) -> (Served, Taken) {
        let scales = RwLock::new(model.adapters().iter().map(Adapter::scale).collect());
        let (tokens, context, created) = (Tokens::default(), model.config().context, now());
        let queue = config.queue.max(1);
        let ((orders, taken), (texts, read)) = (sync_channel(queue), sync_channel(queue));
        let served = Served {
            model,
            name: name.name.clone(),
            path: name.path.clone(),
            does,
            template: None,
            tokens,
            context,
            sequences: 1,
            formats: Default::default(),
            diagnose: None,
            created,
            counters: name.counters.clone(),
            scales,
            stays: RwLock::new(config.idle),
            may_go,
            queue,
            orders,
            texts,
        };
        (served, Taken { orders: taken, texts: read })
    }

    /// How long it stays without requests; `None` is for ever.
    pub fn stays(&self) -> Option<Duration> {
        *self.stays.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets that, where requests may.
    pub fn stay(&self, stays: Option<Duration>) {
        if self.may_go {
            *self.stays.write().unwrap_or_else(PoisonError::into_inner) = stays;
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

    /// Has vectors or scores made of texts.
    ///
    /// # Errors
    /// If a text is refused, or too many wait.
    pub async fn vectors(&self, ids: Vec<Vec<u32>>, scaling: Scaling) -> Result<Vec<Vec<f32>>, Refusal> {
        let (started, tokens) = (Instant::now(), ids.iter().map(Vec::len).sum());
        let (made, hears) = oneshot::channel();
        self.texts.try_send(Texts::new(ids, scaling, made)).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::full(self.queue),
            TrySendError::Disconnected(_) => Refusal::failed("the model has failed"),
        })?;
        let vectors = hears.await.map_err(|_| Refusal::failed("the model has failed"))??;
        self.counters.read(tokens, started.elapsed());
        Ok(vectors)
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
    /// One with these models.
    pub fn new(config: Config, names: Vec<(String, Option<PathBuf>)>, several: bool, start: Start) -> App {
        let models = Arc::new(Registry::new(names, several, config.models_max, start));
        let (traces, diagnosing) = (Traces::new(config.traces), Arc::new(Semaphore::new(1)));
        App { config, models, started: now(), traces, diagnosing }
    }

    /// Says what is new.
    pub fn tell(&self, news: &News) {
        if let Some(hear) = self.config.news {
            hear(news);
        }
    }

    /// Has prompts answered by a model; `reuse` says which others they may share memory with, `scales` by how much each adapter changes
    /// the model, `scope` who may ask for their trace.
    ///
    /// # Errors
    /// If one is refused, or too many wait; none is answered then.
    pub async fn answer(
        &self,
        held: Arc<Held>,
        mut prompts: Vec<(Vec<u32>, GenerateOptions)>,
        reuse: Reuse,
        scales: Vec<f32>,
        scope: u64,
    ) -> Result<Answers, Refusal> {
        let trace = self.traces.begin((&held.model, &held.name), scope, now(), &mut prompts);
        let (sender, events) = mpsc::channel(BUFFERED);
        let answers = Answers::new(events, prompts.len(), held.clone(), trace.clone());
        for (index, (prompt, options)) in prompts.into_iter().enumerate() {
            let (taken, hears) = oneshot::channel();
            let scales = scales.clone();
            let order = Order { prompt, options, reuse, scales, index, events: sender.clone(), taken };
            held.orders.try_send(order).map_err(|error| match error {
                TrySendError::Full(_) => Refusal::full(held.queue),
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

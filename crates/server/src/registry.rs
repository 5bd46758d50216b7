//! The models that may be asked for: which of them are loaded, who uses them, which one goes for another.

use std::{
    collections::VecDeque,
    io,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{sync::watch, time::timeout_at};

use crate::{app::Served, counters::Counters, refusal::Refusal};

/// All models, by their numbers.
pub struct Registry {
    names: Vec<Name>,
    /// Whether requests say which one they mean.
    several: bool,
    /// How many are loaded at once; 0 has no limit.
    most: usize,
    /// How long a request that waits for a place lets those of loaded models pass.
    patience: Duration,
    list: Mutex<List>,
    changed: watch::Sender<()>,
    start: Start,
}

/// What is always known of a model.
pub struct Name {
    /// What it is called.
    pub name: String,
    /// The file that it is loaded from.
    pub path: Option<PathBuf>,
    /// What it did.
    pub counters: Arc<Counters>,
    /// How it is served, as it said when it was last loaded.
    pub props: Mutex<Option<Value>>,
}

/// Starts the thread that loads the model of this number.
pub type Start = Box<dyn Fn(usize) -> io::Result<()> + Send + Sync>;

/// How a model is, to be shown.
#[derive(Clone)]
pub struct Status {
    /// llama.cpp's word for it.
    pub value: &'static str,
    /// It, where it is loaded.
    pub served: Option<Arc<Served>>,
    /// Why it could not be loaded, or failed, the last time.
    pub failure: Option<String>,
    /// When it goes if nobody asks for it.
    pub expires: Option<Instant>,
}

/// A model that is used: it stays as long as this does.
pub struct Held {
    registry: Arc<Registry>,
    number: usize,
    served: Arc<Served>,
}

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    /// Requests that wait for a place for their model, by when they came.
    waiting: VecDeque<(u64, Instant)>,
    /// Requests that waited so far.
    waited: u64,
    draining: bool,
}

struct Entry {
    state: State,
    /// Requests that use it.
    users: usize,
    /// Requests that waited while it was loaded, and will use it.
    awaited: usize,
    /// When the last of them ended.
    used: Instant,
    /// How often it failed, and why the last time.
    failures: (u64, Option<String>),
    /// Whether it was ever loaded.
    seen: bool,
    /// Whether it is to go once it is loaded and was used.
    passing: bool,
}

enum State {
    Unloaded,
    Loading,
    Loaded(Arc<Served>),
    /// Its thread gives its memory back.
    Leaving,
    /// This machine computes it wrongly.
    Wrong(String),
}

/// A request that waits; what it waits for is given up with it.
struct Waiting<'a> {
    registry: &'a Registry,
    number: usize,
    /// Its place among those that wait for one for their model.
    ticket: Option<u64>,
    /// Whether its model is being loaded: it does not go before this request has used it.
    awaits: bool,
}

impl Registry {
    /// Models of these names, none of which is loaded.
    pub fn new(names: Vec<(String, Option<PathBuf>)>, several: bool, most: usize, start: Start) -> Registry {
        let entries = names.iter().map(|_| Entry::new()).collect();
        let name = |(name, path)| Name { name, path, counters: Arc::default(), props: Mutex::default() };
        Registry {
            names: names.into_iter().map(name).collect(),
            several,
            most: if several { most } else { 0 },
            patience: PATIENCE,
            list: Mutex::new(List { entries, ..List::default() }),
            changed: watch::Sender::new(()),
            start,
        }
    }

    /// Whether requests say which model they mean.
    pub fn several(&self) -> bool {
        self.several
    }

    /// What is always known of the models.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The number of a model. Ollama's clients may write `:latest` behind its name.
    ///
    /// # Errors
    /// If it has no number.
    pub fn find(&self, name: &str) -> Result<usize, Refusal> {
        let number = |name: &str| self.names.iter().position(|one| one.name == name);
        let found = number(name).or_else(|| number(name.strip_suffix(":latest")?));
        found.ok_or_else(|| Refusal::no_model(name))
    }

    /// How a model is.
    pub fn status(&self, number: usize) -> Status {
        let list = self.lock();
        let Entry { state, users, used, failures, .. } = &list.entries[number];
        let (value, served) = match state {
            State::Unloaded | State::Wrong(_) => ("unloaded", None),
            State::Loading => ("loading", None),
            State::Loaded(served) => ("loaded", Some(served.clone())),
            State::Leaving => ("unloading", None),
        };
        let failure = match state {
            State::Wrong(why) => Some(why.clone()),
            State::Unloaded => failures.1.clone(),
            _ => None,
        };
        let since = if *users > 0 { Instant::now() } else { *used };
        let expires = served.as_ref().and_then(|served| since.checked_add(served.stays()?));
        Status { value, served, failure, expires }
    }

    /// Whether requests are answered: where there is one model, whether it was loaded.
    ///
    /// # Errors
    /// If not; why.
    pub fn ready(&self) -> Result<(), Refusal> {
        let list = self.lock();
        if list.draining {
            return Err(Refusal::unavailable("the server is ending"));
        }
        match list.entries.first() {
            Some(Entry { state: State::Wrong(why), .. }) if !self.several => Err(wrong(why)),
            Some(Entry { seen: false, .. }) if !self.several => Err(Refusal::unavailable("the model is being loaded")),
            _ => Ok(()),
        }
    }

    /// A model, to be used. Where it is not there it is loaded, if `load` says so, and waited for; where there is no place for it, a
    /// model goes that nobody uses.
    ///
    /// # Errors
    /// If it is not loaded and not to be, cannot be, is computed wrongly here, or the server is about to end.
    pub async fn hold(self: &Arc<Registry>, number: usize, load: bool) -> Result<Arc<Held>, Refusal> {
        let mut changed = self.changed.subscribe();
        let failed = self.lock().entries[number].failures.0;
        let mut waiting = Waiting { registry: self, number, ticket: None, awaits: false };
        loop {
            if let Some(served) = self.look(load, failed, &mut waiting)? {
                return Ok(Arc::new(Held { registry: self.clone(), number, served }));
            }
            // The sender is here: it is not gone before.
            let _ = changed.changed().await;
        }
    }

    /// The model, where it may be used now; what can be done for it is begun. `failed` is how often it had failed before.
    fn look(&self, load: bool, failed: u64, waiting: &mut Waiting) -> Result<Option<Arc<Served>>, Refusal> {
        self.ready()?;
        let mut list = self.lock();
        let number = waiting.number;
        let passes = waiting.awaits || waiting.is_first(&list) || !self.is_overdue(&list);
        let entry = &mut list.entries[number];
        match &entry.state {
            State::Wrong(why) => return Err(self.of(number, wrong(why))),
            State::Loaded(served) if passes => {
                let served = served.clone();
                entry.users += 1;
                waiting.leave(&mut list);
                return Ok(Some(served));
            }
            State::Unloaded if entry.failures.0 > failed => {
                let why = entry.failures.1.clone().unwrap_or_default();
                return Err(self.of(number, Refusal::unavailable(why)));
            }
            State::Unloaded if !load => {
                return Err(Refusal::field("model", "this model is not loaded: POST /models/load does so"));
            }
            State::Loading => {
                waiting.awaits(&mut list);
                return Ok(None);
            }
            State::Loaded(_) | State::Leaving => return Ok(None),
            State::Unloaded => {}
        }
        waiting.queue(&mut list);
        if waiting.is_first(&list) && self.room(&mut list) {
            list.entries[number].state = State::Loading;
            waiting.awaits(&mut list);
            if let Err(error) = (self.start)(number) {
                list.entries[number].fail(error.to_string());
            }
        }
        Ok(None)
    }

    /// Whether a request has waited for a place for so long that others have to wait for it.
    fn is_overdue(&self, list: &List) -> bool {
        list.waiting.front().is_some_and(|(_, since)| since.elapsed() >= self.patience)
    }

    /// Whether there is room for another model; otherwise one that nobody uses is sent away.
    fn room(&self, list: &mut List) -> bool {
        let there = |entry: &&mut Entry| !matches!(entry.state, State::Unloaded | State::Wrong(_));
        if self.most == 0 || list.entries.iter_mut().filter(there).count() < self.most {
            return true;
        }
        let leaving = list.entries.iter().any(|entry| matches!(entry.state, State::Leaving));
        let idle = list.entries.iter_mut().filter(|entry| entry.is_idle());
        if let (false, Some(entry)) = (leaving, idle.min_by_key(|entry| entry.used)) {
            entry.state = State::Leaving;
        }
        false
    }

    /// Loads the model of this number, which nobody asked for yet.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn begin(&self, number: usize) -> io::Result<()> {
        self.lock().entries[number].state = State::Loading;
        (self.start)(number)
    }

    /// A model answers from now on, or is never to: this machine computes it wrongly.
    pub fn loaded(&self, number: usize, served: Result<Served, String>) {
        let entry = &mut self.lock().entries[number];
        (entry.used, entry.failures.1) = (Instant::now(), None);
        entry.state = match served {
            Ok(served) => {
                entry.seen = true;
                if std::mem::take(&mut entry.passing) {
                    served.stay(Some(Duration::ZERO));
                }
                State::Loaded(Arc::new(served))
            }
            Err(why) => State::Wrong(why),
        };
        self.changed.send_replace(());
    }

    /// The thread of a model has ended; why, if it should not have.
    pub fn ended(&self, number: usize, failure: Option<String>) {
        let entry = &mut self.lock().entries[number];
        match failure {
            Some(why) => entry.fail(why),
            None if matches!(entry.state, State::Wrong(_)) => {}
            None => entry.state = State::Unloaded,
        }
        self.changed.send_replace(());
    }

    /// Has a model go once nobody uses it.
    pub fn unload(&self, number: usize) {
        let entry = &mut self.lock().entries[number];
        match &entry.state {
            State::Loaded(served) => served.stay(Some(Duration::ZERO)),
            State::Loading => entry.passing = true,
            _ => {}
        }
        self.changed.send_replace(());
    }

    /// Sends models away that were not used for as long as they stay; ends never.
    pub async fn sweep(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            // The sender is here: it is not gone before.
            let _ = match self.expire() {
                Some(next) => timeout_at(next.into(), changed.changed()).await.unwrap_or(Ok(())),
                None => changed.changed().await,
            };
        }
    }

    /// Sends away those whose time is over; when the next one's is.
    fn expire(&self) -> Option<Instant> {
        let (mut next, now) = (None, Instant::now());
        for entry in self.lock().entries.iter_mut().filter(|entry| entry.is_idle()) {
            let State::Loaded(served) = &entry.state else { continue };
            let Some(end) = served.stays().and_then(|stays| entry.used.checked_add(stays)) else { continue };
            if end <= now {
                entry.state = State::Leaving;
            } else {
                next = Some(next.map_or(end, |next: Instant| next.min(end)));
            }
        }
        next
    }

    /// Takes no requests any more.
    pub fn drain(&self) {
        self.lock().draining = true;
        self.changed.send_replace(());
    }

    /// Waits until nobody uses any model.
    pub async fn idle(&self) {
        self.wait(|list| list.entries.iter().all(|entry| entry.users == 0)).await;
    }

    /// Waits until it is known whether the one model is served.
    pub async fn settled(&self) {
        let is_settled = |entry: &Entry| entry.seen || matches!(entry.state, State::Wrong(_));
        self.wait(|list| list.entries.first().is_some_and(is_settled)).await;
    }

    async fn wait(&self, until: impl Fn(&List) -> bool) {
        let mut changed = self.changed.subscribe();
        while !until(&self.lock()) {
            let _ = changed.changed().await;
        }
    }

    /// A refusal that says which model it is about, where there are several.
    fn of(&self, number: usize, refusal: Refusal) -> Refusal {
        if self.several { refusal.about(&self.names[number].name) } else { refusal }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long requests of loaded models pass one that waits for a place.
const PATIENCE: Duration = Duration::from_secs(5);

fn wrong(why: &str) -> Refusal {
    Refusal::unavailable(format!("this machine computes the model wrongly: {why}"))
}

impl Entry {
    fn new() -> Entry {
        Entry {
            state: State::Unloaded,
            users: 0,
            awaited: 0,
            used: Instant::now(),
            failures: (0, None),
            seen: false,
            passing: false,
        }
    }

    /// Whether it is loaded, and nobody uses it or is about to.
    fn is_idle(&self) -> bool {
        self.users + self.awaited == 0 && matches!(self.state, State::Loaded(_))
    }

    fn fail(&mut self, why: String) {
        self.state = State::Unloaded;
        self.failures = (self.failures.0 + 1, Some(why));
    }
}

impl Waiting<'_> {
    /// Gets in line for a place.
    fn queue(&mut self, list: &mut List) {
        if self.ticket.is_none() {
            list.waiting.push_back((list.waited, Instant::now()));
            self.ticket = Some(list.waited);
            list.waited += 1;
        }
    }

    /// Whether it is the first in that line.
    fn is_first(&self, list: &List) -> bool {
        self.ticket.is_some() && list.waiting.front().map(|(ticket, _)| *ticket) == self.ticket
    }

    /// Has the model that is being loaded wait for it.
    fn awaits(&mut self, list: &mut List) {
        self.leave(list);
        list.entries[self.number].awaited += 1;
        self.awaits = true;
    }

    /// Waits for nothing any more.
    fn leave(&mut self, list: &mut List) {
        if let Some(own) = self.ticket.take() {
            list.waiting.retain(|(ticket, _)| *ticket != own);
            self.registry.changed.send_replace(());
        }
        if std::mem::take(&mut self.awaits) {
            list.entries[self.number].awaited -= 1;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let registry = self.registry;
        self.leave(&mut registry.lock());
        registry.changed.send_replace(());
    }
}

impl Deref for Held {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.served
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let entry = &mut self.registry.lock().entries[self.number];
        entry.users -= 1;
        entry.used = Instant::now();
        self.registry.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::{Pin, pin},
        task::Poll,
    };

    use candor::{Gguf, LoadOptions, Model};
    use candor_testing::Tiny;

    use super::*;
    use crate::{
        app::{Does, runtime},
        config::Config,
    };

    /// Two models that are loaded by hand, one at once.
    fn registry() -> Arc<Registry> {
        let names = ["first", "second"].map(|name| (name.to_owned(), None)).into();
        Arc::new(Registry::new(names, true, 1, Box::new(|_| Ok(()))))
    }

    fn load(registry: &Registry, number: usize) {
        let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
        let model = Model::from_gguf(gguf, &LoadOptions::default().threads(1)).unwrap();
        let (served, _) = Served::new(model, &registry.names[number], Does::Answers, &Config::default(), true);
        registry.loaded(number, Ok(served));
    }

    /// How a request is now.
    async fn look<F: Future>(request: &mut Pin<&mut F>) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await
    }

    /// Requests for a loaded model pass one that waits for its place, but not for ever.
    #[test]
    fn a_request_that_waits_gets_its_place() {
        for (patience, passes) in [(PATIENCE, true), (Duration::ZERO, false)] {
            let mut registry = registry();
            Arc::get_mut(&mut registry).unwrap().patience = patience;
            runtime().unwrap().block_on(async {
                let mut first = pin!(registry.hold(0, true));
                assert!(look(&mut first).await.is_pending());
                load(&registry, 0);
                let first = first.await.unwrap();
                let mut second = pin!(registry.hold(1, true));
                assert!(look(&mut second).await.is_pending());
                let mut late = pin!(registry.hold(0, true));
                assert_eq!(look(&mut late).await.is_ready(), passes);
                drop(first);
                if passes {
                    return;
                }
                // The model goes for the one that came before, and comes back.
                assert!(look(&mut second).await.is_pending());
                assert_eq!(registry.status(0).value, "unloading");
                registry.ended(0, None);
                assert!(look(&mut second).await.is_pending() && look(&mut late).await.is_pending());
                assert_eq!((registry.status(0).value, registry.status(1).value), ("unloaded", "loading"));
                load(&registry, 1);
                // It does not go before who waited has used it.
                assert!(look(&mut late).await.is_pending());
                assert_eq!(registry.status(1).value, "loaded");
                drop(second.await.unwrap());
                assert!(look(&mut late).await.is_pending());
                assert_eq!(registry.status(1).value, "unloading");
            });
        }
    }
}

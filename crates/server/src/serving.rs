//! Serving, from the address to the end.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use candor::Error;
use futures_util::future::{Either, select};
use tokio::{net::TcpListener, runtime, sync::oneshot, time};

use crate::{
    app::{App, Served, now},
    config::{Config, Ready},
    routes::routes,
    shape::Tokens,
    stop::Stop,
    template::Template,
    worker,
};

/// Why serving ended otherwise than it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Failure<E> {
    /// The address cannot be listened at.
    #[error("{address}: {error}")]
    Address {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system gives no thread or no events.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The model cannot be loaded.
    #[error("{0}")]
    Load(E),
    /// The model failed while it answered.
    #[error(transparent)]
    Model(#[from] Error),
    /// The thread of the model has panicked.
    #[error("the model's thread has ended: this is a bug")]
    Panicked,
}

/// How long connections may last after the last answer.
const PARTING: Duration = Duration::from_secs(2);

/// Listens, loads a model, and answers until `stop` ends it. `listening` hears the address, before the model is loaded: requests are
/// refused with 503 until then.
///
/// # Errors
/// If the address is taken, the model cannot be loaded, or its device fails.
pub fn serve<E: Send + 'static>(
    config: Config,
    load: impl FnOnce() -> Result<Ready, E> + Send + 'static,
    stop: &Stop,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), Failure<E>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = (config.host.clone(), config.port);
        let refused = |error| Failure::Address { address: format!("{}:{}", config.host, config.port), error };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        listening(listener.local_addr()?);
        let (orders, taken) = mpsc::sync_channel(config.queue.max(1));
        let app = Arc::new(App::new(config, orders));
        let ended = work(app.clone(), load, taken)?;
        let (drained, parting) = oneshot::channel();
        let shut = {
            let (app, stop) = (app.clone(), stop.clone());
            async move {
                stop.asked().await;
                app.drain();
                app.idle().await;
                let _ = drained.send(());
            }
        };
        let serving = axum::serve(listener, routes(app)).with_graceful_shutdown(shut);
        let part = async {
            let _ = parting.await;
            time::sleep(PARTING).await;
        };
        let serving = async {
            match select(pin!(serving.into_future()), pin!(part)).await {
                Either::Left((served, _)) => served,
                Either::Right(_) => Ok(()),
            }
        };
        match select(pin!(serving), pin!(ended)).await {
            Either::Left((served, _)) => Ok(served?),
            Either::Right((Ok(ended), _)) => ended,
            Either::Right((Err(_), _)) => Err(Failure::Panicked),
        }
    })
}

/// Starts the thread that owns the model; it says why it ended.
fn work<E: Send + 'static>(
    app: Arc<App>,
    load: impl FnOnce() -> Result<Ready, E> + Send + 'static,
    orders: mpsc::Receiver<worker::Order>,
) -> io::Result<oneshot::Receiver<Result<(), Failure<E>>>> {
    let (end, ended) = oneshot::channel();
    thread::Builder::new().name("model".to_owned()).spawn(move || {
        let done = answer(app, load, &orders);
        // Nobody listens where serving has ended before.
        let _ = end.send(done);
    })?;
    Ok(ended)
}

fn answer<E>(
    app: Arc<App>,
    load: impl FnOnce() -> Result<Ready, E>,
    orders: &mpsc::Receiver<worker::Order>,
) -> Result<(), Failure<E>> {
    let Ready { mut engine, name, template } = load().map_err(Failure::Load)?;
    let model = engine.model().clone();
    let template = Template::of(&model, template)?;
    let (context, sequences) = (engine.context(), engine.sequences());
    app.begin(Served { model, name, template, tokens: Tokens::default(), context, sequences, created: now() });
    let queue = app.config.queue;
    // What this thread has of it would keep the orders open.
    drop(app);
    Ok(worker::work(&mut engine, orders, queue)?)
}

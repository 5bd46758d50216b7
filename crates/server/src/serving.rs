//! Serving, from the address to the end.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, mpsc},
    thread,
};

use futures_util::future::{Either, select};
use tokio::{net::TcpListener, runtime, sync::oneshot};

use crate::{
    app::{App, Served, now},
    config::{Config, Loaded, Ready},
    connections,
    failure::Failure,
    routes::routes,
    stop::Stop,
    template::Template,
    worker,
};

/// Listens, loads a model, and answers until `stop` ends it. `listening` hears the address, before the model is loaded: requests are
/// refused with 503 until then, and for good where it is [`Loaded::Wrong`].
///
/// # Errors
/// If the address is taken, the model cannot be loaded, or its device fails.
pub fn serve<E: Send + 'static>(
    config: Config,
    load: impl FnOnce() -> Result<Loaded, E> + Send + 'static,
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
        let shut = async {
            stop.asked().await;
            app.drain();
            app.idle().await;
        };
        let serving = connections::serve(listener, routes(app.clone()), &app.config, shut);
        match select(pin!(serving), pin!(ended)).await {
            Either::Left(_) => Ok(()),
            Either::Right((Ok(ended), _)) => ended,
            Either::Right((Err(_), _)) => Err(Failure::Panicked),
        }
    })
}

/// Starts the thread that owns the model; it says why it ended.
pub(crate) fn work<E: Send + 'static>(
    app: Arc<App>,
    load: impl FnOnce() -> Result<Loaded, E> + Send + 'static,
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
    load: impl FnOnce() -> Result<Loaded, E>,
    orders: &mpsc::Receiver<worker::Order>,
) -> Result<(), Failure<E>> {
    let ready = match load().map_err(Failure::Load)? {
        Loaded::Ready(ready) => ready,
        Loaded::Wrong(failure) => {
            app.fail(failure);
            drop(app);
            // Requests are refused before they order anything. This ends with the server.
            while orders.recv().is_ok() {}
            return Ok(());
        }
    };
    let Ready { mut engine, name, path, template } = *ready;
    let model = engine.model().clone();
    let template = Template::of(&model, template)?;
    let (context, sequences) = (engine.context(), engine.sequences());
    app.begin(Served { model, name, path, template, context, sequences, created: now() });
    let queue = app.config.queue;
    // What this thread has of it would keep the orders open.
    drop(app);
    Ok(worker::work(&mut engine, orders, queue)?)
}

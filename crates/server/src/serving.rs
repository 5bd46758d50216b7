//! Serving, from the address to the end.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, thread};

use futures_util::future::{Either, select};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    app::{App, Does, Served, Taken, runtime},
    config::{Config, Loaded, Ready, Work},
    connections,
    failure::Failure,
    routes::routes,
    stop::Stop,
    template::Template,
    texts, tls, worker,
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
    runtime()?.block_on(async {
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose();
        let acceptor = acceptor.map_err(|(path, message)| Failure::Tls { path, message })?;
        let address = (config.host.clone(), config.port);
        let refused = |error| Failure::Address { address: format!("{}:{}", config.host, config.port), error };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        listening(listener.local_addr()?);
        let (app, taken) = App::new(config);
        let app = Arc::new(app);
        let ended = work(app.clone(), load, taken)?;
        let shut = async {
            stop.asked().await;
            app.drain();
            app.idle().await;
        };
        let serving = connections::serve(listener, acceptor, routes(app.clone()), &app.config, shut);
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
    taken: Taken,
) -> io::Result<oneshot::Receiver<Result<(), Failure<E>>>> {
    let (end, ended) = oneshot::channel();
    thread::Builder::new().name("model".to_owned()).spawn(move || {
        let done = answer(app, load, taken);
        // Nobody listens where serving has ended before.
        let _ = end.send(done);
    })?;
    Ok(ended)
}

fn answer<E>(
    app: Arc<App>,
    load: impl FnOnce() -> Result<Loaded, E>,
    Taken { orders, texts }: Taken,
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
    let Ready { work, name, path, template, diagnose } = *ready;
    let mut served = match &work {
        Work::Answers(engine) => {
            let mut served = Served::new(engine.model().clone(), name, path, Does::Answers);
            (served.context, served.sequences) = (engine.context(), engine.sequences());
            (served.formats, served.diagnose) = (engine.cache_formats(), diagnose);
            served
        }
        Work::Vectors(embedder) => {
            let (pooling, width, scaling) = (embedder.pooling(), embedder.width(), embedder.scaling());
            Served::new(embedder.model().clone(), name, path, Does::Vectors { pooling, width, scaling })
        }
    };
    served.template = Template::of(&served.model, template)?;
    app.begin(served);
    let (queue, counters) = (app.config.queue, app.counters.clone());
    // What this thread has of it would keep the orders open.
    drop(app);
    match work {
        Work::Answers(mut engine) => worker::work(&mut engine, &orders, queue, &counters)?,
        Work::Vectors(mut embedder) => texts::work(&mut embedder, &texts),
    }
    Ok(())
}

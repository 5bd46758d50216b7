//! Serving, from the address to the end.

use std::{
    fmt::Display,
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
};

use candor::Pooling;
use futures_util::future::{Either, select};
use tokio::{net::TcpListener, sync::mpsc};

use crate::{
    app::{App, Does, Served, Taken, runtime},
    config::{Ability, Config, Load, Loaded, Models, News, Ready, Work},
    connections,
    failure::Failure,
    native,
    routes::routes,
    stop::Stop,
    template::Template,
    texts, tls, worker,
};

/// Listens, loads models, and answers until `stop` ends it. `listening` hears the address, before a model is loaded. Requests of
/// [`Models::One`] are refused with 503 until it is loaded, and for good where it is [`Loaded::Wrong`].
///
/// # Errors
/// If the address is taken, or the one model cannot be loaded or its device fails.
pub fn serve<E: Display + Send + 'static>(
    config: Config,
    models: Models<E>,
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
        let (app, mut failed) = open(config, models)?;
        let models = app.models.clone();
        tokio::spawn(async move { models.sweep().await });
        let shut = async {
            stop.asked().await;
            app.tell(&News::Ending);
            app.models.drain();
            app.models.idle().await;
        };
        let serving = connections::serve(listener, acceptor, routes(app.clone()), &app.config, shut);
        match select(pin!(serving), pin!(failed.recv())).await {
            Either::Right((Some(failure), _)) => Err(failure),
            Either::Left(_) | Either::Right((None, _)) => Ok(()),
        }
    })
}

/// What all requests share. Where there is one model it is loaded, and its failures are heard of.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn open<E: Display + Send + 'static>(
    config: Config,
    models: Models<E>,
) -> io::Result<(Arc<App>, mpsc::UnboundedReceiver<Failure<E>>)> {
    let (listed, several) = match models {
        Models::One(listed) => (vec![listed], false),
        Models::Several(listed) => (listed, true),
    };
    let (mut names, mut loads) = (Vec::new(), Vec::new());
    for one in listed {
        names.push((one.name, one.path));
        loads.push(Arc::new(Mutex::new(one.load)));
    }
    let (fails, failed) = mpsc::unbounded_channel();
    let app = Arc::new_cyclic(|app: &Weak<App>| {
        let app = app.clone();
        let start = move |number: usize| {
            let (app, load, fails) = (app.clone(), loads[number].clone(), fails.clone());
            let thread = thread::Builder::new().name("model".to_owned());
            thread.spawn(move || host(&app, number, &load, &fails)).map(drop)
        };
        App::new(config, names, several, Box::new(start))
    });
    if !several {
        app.models.begin(0)?;
    }
    Ok((app, failed))
}

/// What the thread of a model does, from its loading to its end. It holds nothing of the server where it waits: that may end before.
fn host<E: Display>(app: &Weak<App>, number: usize, load: &Mutex<Load<E>>, fails: &mpsc::UnboundedSender<Failure<E>>) {
    let done = catch_unwind(AssertUnwindSafe(|| answer(app, number, load)));
    let failure = done.unwrap_or(Err(Failure::Panicked)).err();
    let Some(app) = app.upgrade() else { return };
    let name = &app.models.names()[number];
    name.counters.rest();
    let why = failure.as_ref().map(ToString::to_string);
    if app.models.several() || failure.is_none() {
        // Before another model takes its place, so that what is said is in the order of what happened.
        app.tell(&match &why {
            Some(why) => News::Failed { name: &name.name, why },
            None => News::Unloaded { name: &name.name },
        });
    }
    app.models.ended(number, why);
    if let (Some(failure), false) = (failure, app.models.several()) {
        // Who serves it hears of it, and may be gone.
        let _ = fails.send(failure);
    }
}

fn answer<E>(app: &Weak<App>, number: usize, load: &Mutex<Load<E>>) -> Result<(), Failure<E>> {
    let loaded = load.lock().unwrap_or_else(PoisonError::into_inner)().map_err(Failure::Load)?;
    let Some(app) = app.upgrade() else { return Ok(()) };
    let ready = match loaded {
        Loaded::Ready(ready) => ready,
        Loaded::Wrong(failure) => {
            app.models.loaded(number, Err(failure));
            return Ok(());
        }
    };
    let name = &app.models.names()[number];
    let Ready { work, template, diagnose } = *ready;
    let (model, does) = match &work {
        Work::Answers(engine) => (engine.model(), Does::Answers),
        Work::Vectors(embedder) => {
            let (pooling, width, scaling) = (embedder.pooling(), embedder.width(), embedder.scaling());
            (embedder.model(), Does::Vectors { pooling, width, scaling })
        }
    };
    let (mut served, taken) = Served::new(model.clone(), name, does, &app.config, app.models.several());
    if let Work::Answers(engine) = &work {
        (served.context, served.sequences) = (engine.context(), engine.sequences());
        (served.formats, served.diagnose) = (engine.cache_formats(), diagnose);
    }
    served.template = Template::of(&served.model, template)?;
    *name.props.lock().unwrap_or_else(PoisonError::into_inner) = Some(native::props(&app, &served));
    let news = News::Ready { name: &name.name, does: ability(&served), context: served.context };
    app.models.loaded(number, Ok(served));
    app.tell(&news);
    let (queue, counters) = (app.config.queue, name.counters.clone());
    drop(app);
    let Taken { orders, texts } = taken;
    match work {
        Work::Answers(mut engine) => worker::work(&mut engine, &orders, queue, &counters)?,
        Work::Vectors(mut embedder) => texts::work(&mut embedder, &texts),
    }
    Ok(())
}

fn ability(served: &Served) -> Ability {
    match served.does {
        Does::Answers => Ability::Answers(served.sequences),
        Does::Vectors { pooling: Pooling::Rank, .. } => Ability::Scores,
        Does::Vectors { width, .. } => Ability::Vectors(width),
    }
}

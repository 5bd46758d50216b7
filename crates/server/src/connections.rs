//! Connections: each is served until it ends, or the server does.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::Router;
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::config::Config;

/// How long connections may last after the last answer.
const PARTING: Duration = Duration::from_secs(2);
/// How long to wait where the system gives no connection, such as for too many open files: others end meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// What a connection is served with.
struct Talk {
    router: Router,
    patience: Duration,
    watcher: Watcher,
}

impl Talk {
    fn new(router: &Router, config: &Config, graceful: &GracefulShutdown) -> Talk {
        Talk { router: router.clone(), patience: config.patience, watcher: graceful.watcher() }
    }

    /// Answers requests until the client or the server ends.
    async fn over(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.patience);
        let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router));
        // How a client ended is its own affair.
        let _ = self.watcher.watch(served).await;
    }
}

/// Serves connections until `end`, then closes them. With `tls` they are encrypted.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    config: &Config,
    end: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(config.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut end = pin!(end);
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        match select(pin!(next), &mut end).await {
            Either::Left(((Ok((stream, _)), place), _)) => {
                // Each token is sent at once. Where the system refuses that, tokens arrive later.
                let _ = stream.set_nodelay(true);
                let (tls, talk) = (tls.clone(), Talk::new(&router, config, &graceful));
                tokio::spawn(async move {
                    match tls {
                        None => talk.over(stream).await,
                        Some(tls) => {
                            if let Ok(Ok(stream)) = time::timeout(talk.patience, tls.accept(stream)).await {
                                talk.over(stream).await;
                            }
                        }
                    }
                    drop(place);
                });
            }
            Either::Left(((Err(_), _), _)) => time::sleep(PAUSE).await,
            Either::Right(_) => break,
        }
    }
    drop(listener);
    let _ = time::timeout(PARTING, graceful.shutdown()).await;
}

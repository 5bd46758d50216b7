//! When to stop serving.

use std::sync::Arc;

use tokio::sync::watch;

/// Ends [`serve`](crate::serve): it takes no new requests, and returns once those that it has are answered. Clones end the same.
#[derive(Clone, Debug)]
pub struct Stop {
    asked: Arc<watch::Sender<bool>>,
    signals: bool,
}

impl Stop {
    /// Ends where [`Stop::now`] is called.
    pub fn new() -> Stop {
        Stop { asked: Arc::new(watch::Sender::new(false)), signals: false }
    }

    /// Ends there, and where the system asks the program to end: Ctrl-C, and SIGTERM on Unix.
    pub fn on_signals() -> Stop {
        Stop { signals: true, ..Stop::new() }
    }

    /// Ends it.
    pub fn now(&self) {
        self.asked.send_replace(true);
    }

    /// Waits for the end.
    pub(crate) async fn asked(&self) {
        if self.signals {
            let asked = self.asked.clone();
            tokio::spawn(async move {
                signalled().await;
                asked.send_replace(true);
            });
        }
        // The sender is here: it is not gone before.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }
}

impl Default for Stop {
    fn default() -> Stop {
        Stop::new()
    }
}

#[cfg(unix)]
async fn signalled() {
    use std::pin::pin;

    use futures_util::future::select;
    use tokio::signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    };

    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            select(pin!(ctrl_c()), pin!(terminate.recv())).await;
        }
        Err(_) => {
            let _ = ctrl_c().await;
        }
    }
}

#[cfg(not(unix))]
async fn signalled() {
    let _ = tokio::signal::ctrl_c().await;
}

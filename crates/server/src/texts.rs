//! The thread that owns an embedder: requests take turns, so that a short one does not wait for all texts of a long one.

use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, TryRecvError},
};

use candor::{Embedder, Error, Scaling};
use tokio::sync::oneshot;

/// The texts of a request.
pub struct Texts {
    /// Those that are to be computed, by their ids.
    left: VecDeque<Vec<u32>>,
    scaling: Scaling,
    /// Those that were.
    vectors: Vec<Vec<f32>>,
    made: oneshot::Sender<Result<Vec<Vec<f32>>, Error>>,
}

/// Texts of a request that are computed at a turn.
const TURN: usize = 16;

/// Requests that take turns; others wait for their end.
const BESIDE: usize = 8;

impl Texts {
    /// Texts to be scaled so; `made` hears of their vectors, or why there are none.
    pub fn new(ids: Vec<Vec<u32>>, scaling: Scaling, made: oneshot::Sender<Result<Vec<Vec<f32>>, Error>>) -> Texts {
        Texts { left: ids.into(), scaling, vectors: Vec::new(), made }
    }

    /// Computes some; itself, where there are more.
    fn turn(mut self, embedder: &mut Embedder) -> Option<Texts> {
        if self.made.is_closed() {
            return None;
        }
        let now: Vec<Vec<u32>> = self.left.drain(..self.left.len().min(TURN)).collect();
        embedder.scale(self.scaling);
        match embedder.embed(&now, |_| ()) {
            Ok(vectors) => self.vectors.extend(vectors),
            // Who asked may be gone.
            Err(error) => return self.made.send(Err(error)).err().and(None),
        }
        if self.left.is_empty() {
            let _ = self.made.send(Ok(self.vectors));
            return None;
        }
        Some(self)
    }
}

/// Makes vectors until nobody can ask for any more.
pub fn work(embedder: &mut Embedder, asked: &Receiver<Texts>) {
    let mut waiting = VecDeque::new();
    loop {
        let next = match waiting.len() {
            0 => asked.recv().map_err(|_| TryRecvError::Disconnected),
            BESIDE.. => Err(TryRecvError::Empty),
            _ => asked.try_recv(),
        };
        match next {
            Ok(texts) => waiting.extend(admitted(embedder, texts)),
            Err(TryRecvError::Disconnected) if waiting.is_empty() => return,
            Err(_) => {
                let texts: Option<Texts> = waiting.pop_front();
                waiting.extend(texts.and_then(|texts| texts.turn(embedder)));
            }
        }
    }
}

/// Texts that can all be computed; an error counts them from the request's first.
fn admitted(embedder: &Embedder, mut texts: Texts) -> Option<Texts> {
    match embedder.fits(texts.left.make_contiguous()) {
        Ok(()) => Some(texts),
        Err(error) => texts.made.send(Err(error)).err().and(None),
    }
}

//! The thread that owns the engine: it takes orders, makes steps, and hands the pieces of answers out.

use std::{
    collections::{HashMap, VecDeque},
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    time::Duration,
};

use candor::{Engine, Error, Event, GenerateOptions, Reuse, Ticket};
use tokio::sync::{mpsc, oneshot};

use crate::counters::{Clock, Counters};

/// A prompt to answer.
pub struct Order {
    pub prompt: Vec<u32>,
    pub options: GenerateOptions,
    pub reuse: Reuse,
    /// By how much each adapter changes the model.
    pub scales: Vec<f32>,
    /// Which of its request's answers it is.
    pub index: usize,
    /// Where its events go. If nobody listens any more, the answer is cancelled.
    pub events: mpsc::Sender<(usize, Event)>,
    /// Hears whether the order was taken.
    pub taken: oneshot::Sender<Result<(), Untaken>>,
}

/// Why an order was not taken.
pub enum Untaken {
    /// As many wait already.
    Full(usize),
    /// The prompt or the options are wrong.
    Wrong(Error),
}

/// Where the events of an answer go.
struct Outlet {
    index: usize,
    events: mpsc::Sender<(usize, Event)>,
    /// Events for which there was no room: their reader is slow.
    backlog: VecDeque<Event>,
    ended: bool,
    clock: Clock,
}

/// How long to wait for a slow reader before it is asked again.
const PATIENCE: Duration = Duration::from_millis(10);

/// Answers orders until nobody can give any more, and all are answered. `queue` answers may wait for a sequence.
///
/// # Errors
/// If the device fails.
pub fn work(engine: &mut Engine, orders: &Receiver<Order>, queue: usize, counters: &Counters) -> Result<(), Error> {
    let mut outlets: HashMap<Ticket, Outlet> = HashMap::new();
    let (mut idle, mut closed) = (true, false);
    loop {
        while let Some(order) = next(orders, idle, outlets.is_empty(), &mut closed) {
            idle = false;
            take(engine, &mut outlets, order, queue);
        }
        if closed && outlets.is_empty() {
            return Ok(());
        }
        for (&ticket, outlet) in &mut outlets {
            outlet.flush();
            engine.hold(ticket, !outlet.backlog.is_empty());
            if outlet.events.is_closed() {
                engine.cancel(ticket);
            }
        }
        outlets.retain(|_, outlet| !outlet.is_over());
        idle = !engine.step(&mut |ticket, event| {
            if let Some(outlet) = outlets.get_mut(&ticket) {
                counters.event(&mut outlet.clock, &event);
                outlet.put(event);
            }
        })?;
        match idle {
            true => counters.note(engine.load()),
            false => counters.step(engine.load()),
        }
    }
}

/// The next order: waits for one where there is nothing else to do.
fn next(orders: &Receiver<Order>, idle: bool, empty: bool, closed: &mut bool) -> Option<Order> {
    match (idle, empty) {
        _ if *closed && !idle => None,
        (true, true) => orders.recv().map_err(|_| *closed = true).ok(),
        (true, false) => match orders.recv_timeout(PATIENCE) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                *closed = true;
                std::thread::sleep(PATIENCE);
                None
            }
        },
        (false, _) => match orders.try_recv() {
            Ok(order) => Some(order),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                *closed = true;
                None
            }
        },
    }
}

fn take(engine: &mut Engine, outlets: &mut HashMap<Ticket, Outlet>, order: Order, queue: usize) {
    let Order { prompt, options, reuse, scales, index, events, taken } = order;
    let waiting = engine.load().waiting;
    let answer = if waiting >= queue {
        Err(Untaken::Full(waiting))
    } else {
        let submitted = engine.submit(prompt, &options, reuse);
        let scaled = submitted.and_then(|ticket| engine.scale_adapters(ticket, &scales).map(|()| ticket));
        scaled.map_err(Untaken::Wrong)
    };
    let answer = answer.map(|ticket| {
        outlets
            .insert(ticket, Outlet { index, events, backlog: VecDeque::new(), ended: false, clock: Clock::default() });
    });
    // Who asked may be gone; then the outlet is closed, too.
    let _ = taken.send(answer);
}

impl Outlet {
    fn put(&mut self, event: Event) {
        self.ended |= matches!(event, Event::Done(_) | Event::Failed(_));
        self.backlog.push_back(event);
        self.flush();
    }

    /// Hands out what there is room for.
    fn flush(&mut self) {
        while !self.backlog.is_empty() {
            let Ok(room) = self.events.try_reserve() else { return };
            if let Some(event) = self.backlog.pop_front() {
                room.send((self.index, event));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ended && (self.backlog.is_empty() || self.events.is_closed())
    }
}

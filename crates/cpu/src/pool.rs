//! A pool of threads that share the pieces of one job at a time.
//!
//! Handing over costs under a microsecond while the workers are awake: they spin, then yield, and sleep only when
//! there has been nothing to do for about a millisecond. Pieces are claimed one by one, so a thread that the system
//! has set aside holds up no more than the piece it is working on; one that has not woken yet holds up nothing.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{hint, ptr, thread};

use candor_ops::Stop;

use crate::Cpus;
use crate::spawn::{Join, Spawn};
use crate::split::Split;

/// WebAssembly has no instruction that spins, and no call that lets other threads run but to sleep.
const WASM: bool = cfg!(target_family = "wasm");
/// Turns of the waiting loop that spin, some 50 microseconds. Miri, whose threads take turns, would do little else.
const SPINS: u32 = if cfg!(miri) {
    5
} else if WASM {
    30_000
} else {
    1500
};
/// Turns after those that let other threads run, some milliseconds at most.
const YIELDS: u32 = if cfg!(miri) {
    5
} else if WASM {
    0
} else {
    1000
};
/// How long a thread sleeps at a time that lets others run so.
const NAP: Duration = Duration::from_micros(50);

/// Low bits of [`Shared::state`]: workers that take part in the current job.
const JOINED: u64 = 0xffff;
/// Bit of [`Shared::state`]: the job takes more workers.
const OPEN: u64 = 1 << 16;
/// One job in the high bits of [`Shared::state`], which number the jobs.
const GENERATION: u64 = 1 << 17;
/// The state that ends the workers.
const STOP: u64 = u64::MAX;

thread_local! {
    /// Whether this thread is inside a piece of a job.
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// The pieces of one job. Lives on the stack of the thread that runs it.
struct Job<'a> {
    piece: &'a (dyn Fn(usize) + Sync),
    count: usize,
    next: AtomicUsize,
}

impl Job<'_> {
    /// Runs pieces until none are left.
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            (self.piece)(index);
        }
    }

    /// [`Job::work`], handing back a panic.
    fn work_caught(&self) -> Result<(), Box<dyn Any + Send>> {
        WORKING.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| self.work()));
        WORKING.set(false);
        result
    }
}

/// What the workers see.
struct Shared {
    /// Workers that are wanted: those with a lower number. The others sleep until more are.
    wanted: AtomicUsize,
    /// The number of the job, whether it is open, and how many workers have joined it.
    state: AtomicU64,
    /// The current job; good for workers that have joined it.
    job: AtomicPtr<Job<'static>>,
    /// Workers that have left the current job.
    left: AtomicU64,
    /// The first panic of a worker.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Workers asleep or about to be.
    sleepers: Mutex<()>,
    sleeping: AtomicUsize,
    wake: Condvar,
    /// What workers that are not wanted wait for.
    called: Condvar,
}

/// A pool of threads, and how many of them this handle uses. Clones share the threads.
#[derive(Clone)]
pub(crate) struct Pool {
    team: Arc<Team>,
    threads: usize,
    /// Pieces are left out once this is due.
    stop: Option<Stop>,
}

/// The threads of a pool.
struct Team {
    shared: Arc<Shared>,
    workers: Vec<Join>,
    cpus: Option<Cpus>,
    /// Held by the thread whose job runs.
    turn: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here leaves a value half changed, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One turn of a waiting loop.
fn relax(turn: &mut u32) {
    if *turn < SPINS {
        hint::spin_loop();
    } else if WASM {
        thread::sleep(NAP);
    } else {
        thread::yield_now();
    }
    *turn = turn.saturating_add(1);
}

impl Shared {
    /// Waits for a state of another job than `seen`, and for the worker of this number to be wanted.
    fn next_state(&self, seen: u64, number: usize) -> u64 {
        loop {
            if let Some(state) = self.awaited(seen, number) {
                return state;
            }
            let mut guard = lock(&self.sleepers);
            while self.is_idle(number) && self.state.load(Ordering::SeqCst) != STOP {
                guard = self.called.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Whether fewer workers are wanted than would include this one.
    fn is_idle(&self, number: usize) -> bool {
        number >= self.wanted.load(Ordering::Relaxed)
    }

    /// Waits as [`Shared::next_state`] does; `None` once the worker is not wanted.
    fn awaited(&self, seen: u64, number: usize) -> Option<u64> {
        let fresh = |state: u64| state / GENERATION != seen / GENERATION;
        let mut turn = 0;
        while turn < SPINS + YIELDS {
            let state = self.state.load(Ordering::Acquire);
            if state == STOP || (fresh(state) && !self.is_idle(number)) {
                return Some(state);
            }
            relax(&mut turn);
        }
        let mut guard = lock(&self.sleepers);
        // Sequentially consistent with the store of a new state and the load of `sleeping` after it: either this
        // thread sees the new state, or that one sees a sleeper and wakes it.
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        loop {
            let state = self.state.load(Ordering::SeqCst);
            let idle = self.is_idle(number) && state != STOP;
            if fresh(state) || idle {
                self.sleeping.fetch_sub(1, Ordering::SeqCst);
                return (!idle).then_some(state);
            }
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Changes how many workers are wanted.
    fn want(&self, workers: usize) {
        if self.wanted.load(Ordering::Relaxed) != workers {
            let guard = lock(&self.sleepers);
            self.wanted.store(workers, Ordering::Relaxed);
            drop(guard);
            self.called.notify_all();
        }
    }

    /// Publishes a state and wakes the threads that sleep.
    fn publish(&self, state: u64) {
        self.state.store(state, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.sleepers));
            self.wake.notify_all();
        }
    }

    /// Takes part in a job if it is still open.
    fn join(&self, mut state: u64) -> bool {
        let generation = state / GENERATION;
        while state & OPEN != 0 && state / GENERATION == generation {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    fn worker(&self, number: usize) {
        let mut state = 0;
        loop {
            state = self.next_state(state, number);
            if state == STOP {
                return;
            }
            if self.join(state) {
                let job = self.job.load(Ordering::Acquire);
                // SAFETY: `Pool::run` stored a pointer to its live job before it opened the state that was joined
                // here, and does not return before every worker that joined has counted itself in `left`.
                let job = unsafe { &*job };
                if let Err(payload) = job.work_caught() {
                    lock(&self.panic).get_or_insert(payload);
                }
                self.left.fetch_add(1, Ordering::Release);
            }
        }
    }
}

impl Pool {
    /// A pool of `threads`, of which the calling thread of each job is one, and `spawn` gives the others. Where it gives
    /// fewer, the pool has fewer. All of them keep to `cpus`, the calling ones from their first job on.
    pub(crate) fn new(threads: usize, cpus: Option<Cpus>, spawn: Spawn) -> Pool {
        let shared = Arc::new(Shared {
            wanted: AtomicUsize::new(threads.saturating_sub(1)),
            state: AtomicU64::new(0),
            job: AtomicPtr::new(ptr::null_mut()),
            left: AtomicU64::new(0),
            panic: Mutex::new(None),
            sleepers: Mutex::new(()),
            sleeping: AtomicUsize::new(0),
            wake: Condvar::new(),
            called: Condvar::new(),
        });
        let start = |index: usize| {
            let (shared, cpus) = (Arc::clone(&shared), cpus.clone());
            let work = move || {
                cpus.iter().for_each(|cpus| cpus.keep(index));
                shared.worker(index - 1);
            };
            (spawn.0)(index, Box::new(work))
        };
        let workers: Vec<_> = (1..threads.min(JOINED as usize)).map_while(start).collect();
        let threads = workers.len() + 1;
        Pool { team: Arc::new(Team { shared, workers, cpus, turn: Mutex::new(()) }), threads, stop: None }
    }

    /// Threads that can work on a job of this handle.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// How many of `threads` there are.
    pub(crate) fn among(&self, threads: usize) -> usize {
        threads.clamp(1, self.team.workers.len() + 1)
    }

    /// Uses at most `threads` from now on; the others sleep as long as no handle with more runs a job.
    pub(crate) fn limit(&mut self, threads: usize) {
        self.threads = self.among(threads);
    }

    /// Leaves out pieces of jobs of this handle once `stop` is due.
    pub(crate) fn stop_at(&mut self, stop: Option<Stop>) {
        self.stop = stop;
    }

    /// Calls `piece` once with every index below `count`, on whichever threads are free, and returns when all have
    /// returned; with fewer where a stop is due. Calls from several threads take turns; a call from inside a piece runs on its own thread alone.
    ///
    /// # Panics
    /// If a piece does, after all threads have left the job. Which pieces then have run is not said.
    pub(crate) fn run(&self, count: usize, piece: &(dyn Fn(usize) + Sync)) {
        let Some(stop) = &self.stop else { return self.run_all(count, piece) };
        self.run_all(count, &|index| {
            if !stop.is_due() {
                piece(index);
            }
        });
    }

    fn run_all(&self, count: usize, piece: &(dyn Fn(usize) + Sync)) {
        if count <= 1 || self.threads == 1 || WORKING.get() {
            (0..count).for_each(piece);
            return;
        }
        let Team { shared, cpus, turn, .. } = &*self.team;
        let turn = lock(turn);
        cpus.iter().for_each(Cpus::keep_caller);
        let job = Job { piece, count, next: AtomicUsize::new(0) };
        shared.want(self.threads - 1);
        shared.job.store(ptr::from_ref(&job).cast_mut().cast(), Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        let generation = shared.state.load(Ordering::Relaxed) / GENERATION + 1;
        shared.publish((generation * GENERATION) | OPEN);
        let mine = job.work_caught();
        let joined = shared.state.fetch_and(!OPEN, Ordering::AcqRel) & JOINED;
        let mut waited = 0;
        while shared.left.load(Ordering::Acquire) != joined {
            relax(&mut waited);
        }
        let theirs = lock(&shared.panic).take();
        drop(turn);
        if let Some(payload) = mine.err().or(theirs) {
            resume_unwind(payload);
        }
    }

    /// Cuts `values` into pieces of `size` elements, the last one shorter, and calls `piece` with each and its index.
    pub(crate) fn chunks<T: Send>(&self, values: &mut [T], size: usize, piece: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let len = values.len();
        let split = Split::new(values, len);
        self.run(len.div_ceil(size), &|index| {
            let columns = index * size..len.min((index + 1) * size);
            // SAFETY: each index is run once, and the ranges of different indices do not overlap.
            piece(index, unsafe { split.cell(0, columns) });
        });
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.publish(STOP);
        drop(lock(&self.shared.sleepers));
        self.shared.called.notify_all();
        self.workers.drain(..).for_each(|join| join());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};

    use super::*;

    /// The number of rounds; Miri takes a thousand times as long, and tries other orders of threads in each.
    fn rounds(usual: usize) -> usize {
        if cfg!(miri) { usual.min(1000) / 100 + 3 } else { usual }
    }

    fn count_runs(pool: &Pool, count: usize) -> Vec<u32> {
        let runs: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
        pool.run(count, &|index| {
            runs[index].fetch_add(1, Ordering::Relaxed);
        });
        runs.into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn every_piece_runs_once() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads, None, Spawn::default());
            assert_eq!(pool.threads(), threads);
            for job in 0..rounds(10_000) {
                let count = job % 7;
                assert_eq!(count_runs(&pool, count), vec![1; count], "{threads} threads, job {job}");
            }
        }
    }

    #[test]
    fn pieces_are_left_out_once_a_stop_is_due() {
        for threads in [1, 3] {
            let mut pool = Pool::new(threads, None, Spawn::default());
            let (started, flag) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
            pool.stop_at(Some(Stop::at(Arc::clone(&flag))));
            for _ in 0..2 {
                pool.run(1000, &|_| {
                    if started.fetch_add(1, Ordering::SeqCst) == 9 {
                        flag.store(true, Ordering::SeqCst);
                    }
                });
                // Others may have been past the question when the tenth set it.
                assert!((10..1000).contains(&started.load(Ordering::SeqCst)), "{started:?}");
            }
            pool.stop_at(None);
            assert_eq!(count_runs(&pool, 7), [1; 7]);
        }
    }

    #[test]
    fn idle_workers_sleep_and_wake() {
        let pool = Pool::new(3, None, Spawn::default());
        for _ in 0..5 {
            while pool.team.shared.sleeping.load(Ordering::SeqCst) < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            let arrived = AtomicUsize::new(0);
            // Each piece waits for the others, so three threads must come.
            pool.run(3, &|_| {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 3 {
                    thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn several_callers_take_turns() {
        let pool = Pool::new(3, None, Spawn::default());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..rounds(2000)).for_each(|job| assert_eq!(count_runs(&pool, job % 5), vec![1; job % 5]))
                });
            }
        });
    }

    #[test]
    fn a_panic_comes_back_and_the_pool_lives_on() {
        let pool = Pool::new(3, None, Spawn::default());
        let caller = thread::current().id();
        for round in 0..rounds(200) {
            let arrived = AtomicUsize::new(0);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                // Each piece waits for the others: every thread has one.
                pool.run(3, &|_| {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    while arrived.load(Ordering::SeqCst) < 3 {
                        thread::yield_now();
                    }
                    let mine = thread::current().id() == caller;
                    assert_ne!(mine, round % 2 == 0, "a piece fails");
                });
            }));
            let payload = panic.expect_err("the caller's piece panics, or those of both workers");
            let message = payload.downcast_ref::<String>().expect("assert_ne formats its message");
            assert!(message.contains("a piece fails"), "{message}");
            assert_eq!(count_runs(&pool, 6), [1; 6]);
        }
    }

    #[test]
    fn a_job_within_a_piece_runs_on_its_own_thread() {
        let pool = Pool::new(3, None, Spawn::default());
        let sum = AtomicUsize::new(0);
        pool.run(6, &|outer| {
            let here = thread::current().id();
            pool.run(5, &|inner| {
                assert_eq!(thread::current().id(), here);
                sum.fetch_add(outer * inner, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), 15 * 10);
    }

    #[test]
    fn chunks_cover_a_slice() {
        let pool = Pool::new(3, None, Spawn::default());
        for (len, size) in [(0, 4), (1, 4), (4, 4), (9, 4), (1000, 7)] {
            let mut values = vec![0; len];
            pool.chunks(&mut values, size, &|index, chunk| {
                for (i, value) in chunk.iter_mut().enumerate() {
                    *value += index * size + i + 1;
                }
            });
            assert_eq!(values, (1..=len).collect::<Vec<_>>(), "{len} in chunks of {size}");
        }
    }

    #[test]
    fn a_handle_uses_as_many_threads_as_it_may_and_the_others_sleep() {
        let pool = Pool::new(4, None, Spawn::default());
        let mut few = pool.clone();
        few.limit(2);
        assert_eq!((pool.threads(), few.threads()), (4, 2));
        let seen = |pool: &Pool| {
            let threads = Mutex::new(std::collections::HashSet::new());
            for _ in 0..rounds(200) {
                pool.run(8, &|_| {
                    threads.lock().unwrap().insert(thread::current().id());
                    thread::yield_now();
                });
            }
            threads.into_inner().unwrap().len()
        };
        for _ in 0..rounds(20) {
            // Each piece waits for the others, so four threads must come, whichever of them slept.
            let arrived = AtomicUsize::new(0);
            pool.run(4, &|_| {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 4 {
                    thread::yield_now();
                }
            });
            // One that had joined the last job may still be on its way out of it.
            assert_eq!(count_runs(&few, 6), [1; 6]);
            assert!(seen(&few) <= 2);
        }
        few.limit(1);
        assert_eq!(seen(&few), 1);
        few.limit(9);
        assert_eq!(few.threads(), 4);
    }

    /// `cargo test --release -p candor-cpu -- --ignored --nocapture handing_over`
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_handing_over() {
        for threads in [1, 2, 4] {
            let pool = Pool::new(threads, None, Spawn::default());
            let time = |pieces: usize, jobs: u32| {
                let start = std::time::Instant::now();
                (0..jobs).for_each(|_| pool.run(pieces, &|index| _ = hint::black_box(index)));
                start.elapsed().as_nanos() as f64 / f64::from(jobs)
            };
            time(threads, 1000);
            let mut runs: Vec<f64> = (0..50).map(|_| time(threads, 1000)).collect();
            runs.sort_by(f64::total_cmp);
            println!(
                "{threads} threads: {:.0} ns for a job of {threads} empty pieces (best of 50 times 1000), median {:.0}",
                runs[0], runs[25]
            );
            let mut asleep = Vec::new();
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(50));
                asleep.push(time(threads, 1));
            }
            asleep.sort_by(f64::total_cmp);
            println!("{threads} threads: {:.0} ns where they sleep, median of 20", asleep[10]);
        }
    }
}

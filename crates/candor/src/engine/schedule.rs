//! Which rows the next step of an [`Engine`](crate::Engine) computes, and which answers wait for it: a function of numbers.

/// What is known of an answer that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its tokens: the prompt, and what was chosen.
    pub tokens: usize,
    /// How many of them memory holds; fewer than `tokens`.
    pub read: usize,
    /// Whether it has a sequence.
    pub seated: bool,
    /// Whether others have the page of its next position, too: it is copied then.
    pub shared: bool,
    /// How many of its tokens it would not have to read if it were given a sequence now; fewer than `tokens`.
    pub reused: usize,
    /// How many of its tokens it would not have to read once an older job, which is not held, has read them. It has no sequence before.
    pub coming: usize,
    /// Whether it is to wait for its reader.
    pub held: bool,
    /// The step in which it was last given rows to read, or in which it came.
    pub turn: u64,
}

/// What a step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows of a step at most.
    pub rows: usize,
    /// Rows of prompts at most where answers decode, and what a prompt is given at once where others wait to be read.
    pub quantum: usize,
    /// Answers that can have a sequence at once.
    pub sequences: usize,
    /// Positions of a page.
    pub page: usize,
    /// Pages that there are.
    pub pages: usize,
}

/// What there is for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Pages that no sequence has.
    pub free: usize,
    /// Sequences that neither an answer nor the beginning of a prompt has.
    pub sequences: usize,
    /// Beginnings of prompts that are kept.
    pub kept: usize,
    /// Whether answers may be seated: not where one was set back just now.
    pub seats: bool,
}

/// How there comes to be room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The beginning that was not used for the longest time is forgotten.
    Forget,
    /// A job's memory is given back: it is read again later.
    SetBack(usize),
}

/// What the next step does; jobs by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is done first. How much room that makes is seen then, and another plan is made: there is no more in this one.
    pub way: Option<Way>,
    /// Those that are given a sequence.
    pub seat: Vec<usize>,
    /// Those with rows, and how many.
    pub rows: Vec<(usize, usize)>,
}

impl Limits {
    /// Pages of as many tokens.
    pub fn pages_of(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.page)
    }
}

impl Job {
    fn left(&self) -> usize {
        self.tokens - self.read
    }
}

/// Plans a step for jobs in the order of their age, the oldest first.
///
/// Each job that lacks one row gets it: these are the answers that decode. Where pages run out, beginnings of prompts are
/// forgotten, then those that are held are set back, then the youngest. Prompts share the rest of the step in turns of a quantum, so
/// that a short one passes a long one. A job is seated once there are pages for all its tokens, in the order of age, and once what it
/// shares with an older one is read. A plan is empty
/// only where all jobs are held, or there are none.
pub fn schedule(jobs: &[Job], limits: &Limits, room: &Room) -> Plan {
    let mut step = Step::new(jobs, limits, room);
    match step.plan() {
        Ok(()) => step.plan,
        Err(way) => Plan { way: Some(way), ..Plan::default() },
    }
}

/// A plan in the making.
struct Step<'a> {
    jobs: &'a [Job],
    limits: &'a Limits,
    room: &'a Room,
    plan: Plan,
    seated: Vec<bool>,
    /// Pages that no sequence has.
    free: usize,
    /// Rows that are given.
    taken: usize,
}

impl<'a> Step<'a> {
    fn new(jobs: &'a [Job], limits: &'a Limits, room: &'a Room) -> Step<'a> {
        let seated = jobs.iter().map(|job| job.seated).collect();
        Step { jobs, limits, room, plan: Plan::default(), seated, free: room.free, taken: 0 }
    }

    fn plan(&mut self) -> Result<(), Way> {
        self.decode()?;
        if self.room.seats {
            self.seat()?;
        }
        self.read()?;
        if self.plan.rows.is_empty() && self.room.seats { self.make_way() } else { Ok(()) }
    }

    /// Rows that a job has in the plan.
    fn given(&self, job: usize) -> usize {
        self.plan.rows.iter().find(|(other, _)| *other == job).map_or(0, |(_, rows)| *rows)
    }

    /// Tokens that memory holds of a job once the plan is done, so far.
    fn reads(&self, job: usize) -> usize {
        let Job { seated, read, reused, .. } = self.jobs[job];
        self.given(job) + if seated { read } else { reused }
    }

    /// Pages that are copied as soon as a job has rows.
    fn copies(&self, job: usize) -> usize {
        let Job { seated, shared, .. } = self.jobs[job];
        let within = !self.reads(job).is_multiple_of(self.limits.page);
        usize::from(within && self.given(job) == 0 && (shared || !seated))
    }

    /// Pages that a job needs for as many rows more.
    fn needs(&self, job: usize, rows: usize) -> usize {
        let read = self.reads(job);
        let copies = if rows > 0 { self.copies(job) } else { 0 };
        self.limits.pages_of(read + rows) - self.limits.pages_of(read) + copies
    }

    fn give(&mut self, job: usize, rows: usize) {
        self.free -= self.needs(job, rows);
        self.taken += rows;
        match self.plan.rows.iter_mut().find(|(other, _)| *other == job) {
            Some((_, had)) => *had += rows,
            None => self.plan.rows.push((job, rows)),
        }
    }

    /// The job to set back first: of those that are held, else of all, the youngest.
    fn victim(&self) -> Option<Way> {
        let seated = |&job: &usize| self.seated[job];
        let held = (0..self.jobs.len()).rev().filter(seated).find(|&job| self.jobs[job].held);
        held.or_else(|| (0..self.jobs.len()).rev().find(seated)).map(Way::SetBack)
    }

    /// What makes room for pages.
    fn way(&self) -> Option<Way> {
        if self.room.kept > 0 { Some(Way::Forget) } else { self.victim() }
    }

    fn decode(&mut self) -> Result<(), Way> {
        for job in 0..self.jobs.len() {
            let decodes = self.seated[job] && !self.jobs[job].held && self.jobs[job].left() == 1;
            if !decodes || self.taken == self.limits.rows {
                continue;
            }
            if self.needs(job, 1) > self.free {
                return self.way().map_or(Ok(()), Err);
            }
            self.give(job, 1);
        }
        Ok(())
    }

    fn seat(&mut self) -> Result<(), Way> {
        let had = self.seated.iter().filter(|&&seated| seated).count();
        let (mut seats, mut sequences) = (self.limits.sequences.saturating_sub(had), self.room.sequences);
        // What was promised to those that are being read, and what they take if they share nothing.
        let [mut promised, mut apart] = [0, 0];
        for job in (0..self.jobs.len()).filter(|&job| self.seated[job]) {
            promised += self.needs(job, self.jobs[job].left() - self.given(job));
            apart += self.limits.pages_of(self.jobs[job].tokens);
        }
        for job in 0..self.jobs.len() {
            if self.seated[job] || self.jobs[job].held {
                continue;
            }
            let Job { tokens, reused, coming, .. } = self.jobs[job];
            // What it waits for is being read. Nobody who came later takes its seat.
            if coming > reused && seats > 0 {
                seats -= 1;
                continue;
            }
            let (alone, needed) = (self.limits.pages_of(tokens), self.needs(job, tokens - reused));
            // Without what is kept there are at least the pages that those which share nothing leave.
            let fits = apart + alone <= self.limits.pages || promised + needed <= self.free;
            if seats == 0 || !fits {
                break;
            }
            if sequences == 0 {
                return if self.room.kept > 0 { Err(Way::Forget) } else { Ok(()) };
            }
            (seats, sequences) = (seats - 1, sequences - 1);
            (promised, apart) = (promised + needed, apart + alone);
            self.seated[job] = true;
            self.plan.seat.push(job);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Way> {
        let decoding = self.taken > 0;
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|&job| self.is_read(job)).collect();
        order.sort_by_key(|&job| (self.jobs[job].turn, self.reads(job), job));
        let most = if decoding { self.limits.rows.min(self.taken + self.limits.quantum) } else { self.limits.rows };
        for turn in [self.limits.quantum, usize::MAX] {
            for &job in &order {
                let read = self.reads(job);
                let rows = (self.jobs[job].tokens - read).min(turn).min(most - self.taken);
                if self.room.kept > 0 && self.needs(job, rows) > self.free {
                    return Err(Way::Forget);
                }
                let rows = rows.min(self.fits(job));
                if rows > 0 {
                    self.give(job, rows);
                }
            }
        }
        Ok(())
    }

    /// Rows of a job that there are pages for.
    fn fits(&self, job: usize) -> usize {
        let (read, free) = (self.reads(job), self.free.checked_sub(self.copies(job)));
        let places = |free| self.limits.page.saturating_mul(self.limits.pages_of(read).saturating_add(free)) - read;
        free.map_or(0, places)
    }

    /// Whether a job is read in this step. One that was seated just now may lack a single row.
    fn is_read(&self, job: usize) -> bool {
        self.seated[job] && !self.jobs[job].held && self.given(job) == 0
    }

    /// Nothing can go on: those that are held, or too many that were begun, have all memory.
    fn make_way(&mut self) -> Result<(), Way> {
        let had = self.seated.iter().filter(|&&seated| seated).count();
        let way = if had < self.limits.sequences { self.way() } else { self.victim() };
        match way {
            Some(way) if self.jobs.iter().any(|job| !job.held) => Err(way),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { rows: 100, quantum: 10, sequences: 4, page: 16, pages: 20 };

    fn job(tokens: usize, read: usize) -> Job {
        Job { tokens, read, seated: true, shared: false, reused: 0, coming: 0, held: false, turn: 0 }
    }

    fn waiting(tokens: usize) -> Job {
        Job { seated: false, ..job(tokens, 0) }
    }

    /// The room where nothing is shared or kept.
    fn room(jobs: &[Job], limits: &Limits) -> Room {
        let seated = || jobs.iter().filter(|job| job.seated);
        let used: usize = seated().map(|job| limits.pages_of(job.read)).sum();
        Room { free: limits.pages - used, sequences: limits.sequences - seated().count(), kept: 0, seats: true }
    }

    /// Those that are set back, and the plan after that, where nothing is shared or kept.
    fn plan(jobs: &[Job], limits: &Limits) -> (Vec<usize>, Plan) {
        let (mut jobs, mut set_back) = (jobs.to_vec(), Vec::new());
        loop {
            let room = Room { seats: set_back.is_empty(), ..room(&jobs, limits) };
            let plan = schedule(&jobs, limits, &room);
            let Some(Way::SetBack(job)) = plan.way else { return (set_back, plan) };
            assert!(plan.rows.is_empty() && plan.seat.is_empty());
            (jobs[job].seated, jobs[job].read) = (false, 0);
            set_back.push(job);
        }
    }

    #[test]
    fn decoding_answers_get_a_row_each_and_prompts_a_quantum() {
        let (_, plan) = plan(&[job(31, 30), job(80, 20), job(8, 7)], &LIMITS);
        assert_eq!(plan, Plan { rows: vec![(0, 1), (2, 1), (1, 10)], ..Plan::default() });
    }

    #[test]
    fn a_step_without_decoding_is_full() {
        let rows = |jobs: &[Job]| plan(jobs, &LIMITS).1.rows;
        // A quantum each, by what is read, then what is left in the same order.
        assert_eq!(rows(&[job(180, 20), job(50, 30)]), [(0, 90), (1, 10)]);
        assert_eq!(rows(&[job(180, 20)]), [(0, 100)]);
    }

    #[test]
    fn short_prompts_pass_long_ones_by_a_quantum() {
        let long = Job { turn: 7, ..job(90, 40) };
        let short = Job { turn: 7, ..waiting(8) };
        let (_, found) = plan(&[job(31, 30), long, short], &LIMITS);
        assert_eq!(found, Plan { seat: vec![2], rows: vec![(0, 1), (2, 8), (1, 2)], ..Plan::default() });
        // One that waits longer comes first all the same.
        let long = Job { turn: 6, ..long };
        assert_eq!(plan(&[job(31, 30), long, short], &LIMITS).1.rows, [(0, 1), (1, 10)]);
    }

    #[test]
    fn jobs_are_seated_by_age_while_seats_and_pages_are_free() {
        // 2 pages are had, 4 promised to the one that is being read; 14 of 20 are left.
        let jobs = [job(96, 32), waiting(160), waiting(100), waiting(1)];
        assert_eq!(plan(&jobs, &LIMITS).1.seat, [1], "the third needs 7 of 4 pages, and is not passed");
        let jobs = [job(3, 2), waiting(1), waiting(1), waiting(1), waiting(1)];
        assert_eq!(plan(&jobs, &LIMITS).1.seat, [1, 2, 3], "4 sequences");
        let jobs = [Job { held: true, ..waiting(1) }, waiting(2)];
        assert_eq!(plan(&jobs, &LIMITS).1.seat, [1]);
    }

    #[test]
    fn the_youngest_is_set_back_where_pages_run_out() {
        let limits = Limits { pages: 3, ..LIMITS };
        // The second finds no page behind the first, and nobody younger.
        let (set_back, plan) = plan(&[job(17, 16), job(17, 16), job(5, 4)], &limits);
        assert_eq!((set_back, plan.rows), (vec![2, 1], vec![(0, 1)]));
    }

    #[test]
    fn those_that_are_held_are_set_back_first() {
        let limits = Limits { pages: 3, ..LIMITS };
        let held = Job { held: true, ..job(5, 4) };
        let (set_back, found) = plan(&[held, job(17, 16), job(9, 8)], &limits);
        assert_eq!((set_back, found.rows), (vec![0], vec![(1, 1), (2, 1)]));
        // Only where somebody waits for what they have.
        assert_eq!(plan(&[held], &limits), (Vec::new(), Plan::default()));
        let large = Job { held: true, ..job(48, 40) };
        assert_eq!(plan(&[large, waiting(1)], &limits), (vec![0], Plan::default()));
    }

    #[test]
    fn beginnings_are_forgotten_before_anything_is_set_back() {
        let jobs = [job(17, 16), job(5, 4)];
        let full = Room { free: 0, sequences: 2, kept: 1, seats: true };
        let forget = Plan { way: Some(Way::Forget), ..Plan::default() };
        assert_eq!(schedule(&jobs, &LIMITS, &full), forget);
        assert_eq!(schedule(&jobs, &LIMITS, &Room { kept: 0, ..full }).way, Some(Way::SetBack(1)));
        // Prompts need their pages as much, and a sequence.
        assert_eq!(schedule(&[job(30, 16)], &LIMITS, &full), forget);
        assert_eq!(schedule(&[waiting(3)], &LIMITS, &Room { free: 9, sequences: 0, ..full }), forget);
        // What needs no page takes none.
        let inside = schedule(&[job(15, 14)], &LIMITS, &full);
        assert_eq!(inside.rows, [(0, 1)]);
        // Seats are not had by forgetting.
        let held = Job { held: true, ..job(5, 4) };
        let seats = Limits { sequences: 1, ..LIMITS };
        assert_eq!(schedule(&[held, waiting(3)], &seats, &full).way, Some(Way::SetBack(0)));
    }

    #[test]
    fn what_is_shared_needs_no_pages_but_a_copy_of_the_last() {
        let room = Room { free: 1, sequences: 2, kept: 0, seats: true };
        let shared = Job { shared: true, ..job(15, 14) };
        assert_eq!(schedule(&[shared], &LIMITS, &room).rows, [(0, 1)]);
        assert_eq!(schedule(&[shared], &LIMITS, &Room { free: 0, ..room }).way, Some(Way::SetBack(0)));
        // At the end of a page there is nothing to copy, and the next one is new.
        let whole = Job { shared: true, ..job(17, 16) };
        assert_eq!(schedule(&[whole], &LIMITS, &room).rows, [(0, 1)]);
        // 18 of 20 pages are promised; one that reuses 4 needs 2, and one that reuses less than 4 needs 3.
        let long = Job { seated: true, ..job(18 * 16, 17 * 16) };
        let room = Room { free: 3, sequences: 2, kept: 1, seats: true };
        let seat = |reused| schedule(&[long, Job { reused, ..waiting(6 * 16) }], &LIMITS, &room).seat;
        assert_eq!((seat(64), seat(63)), (vec![1], vec![]));
        assert_eq!(schedule(&[Job { reused: 90, ..waiting(96) }], &LIMITS, &room).rows, [(0, 6)]);
    }

    #[test]
    fn a_job_waits_for_what_another_reads_of_it() {
        let limits = Limits { sequences: 3, ..LIMITS };
        let room = Room { free: 20, sequences: 3, kept: 0, seats: true };
        let reading = Job { turn: 1, ..job(40, 8) };
        let waits = Job { reused: 8, coming: 30, ..waiting(35) };
        // Nobody takes its seat, and all rows are the reader's.
        let plan = |waits: Job| schedule(&[reading, waits, waiting(9), waiting(9)], &limits, &room);
        assert_eq!(plan(waits).seat, [2]);
        assert_eq!(schedule(&[reading, waits], &limits, &room).rows, [(0, 32)]);
        assert_eq!(plan(Job { reused: 30, ..waits }).seat, [1, 2]);
    }

    /// Pages by their numbers, each with how many have it.
    struct Pool {
        users: Vec<usize>,
    }

    impl Pool {
        fn free(&self) -> usize {
            self.users.iter().filter(|&&users| users == 0).count()
        }

        /// A page; there has to be one.
        fn take(&mut self) -> usize {
            let page = self.users.iter().position(|&users| users == 0).expect("the plan counts pages");
            self.users[page] = 1;
            page
        }

        fn give_back(&mut self, pages: Vec<usize>) {
            pages.into_iter().for_each(|page| self.users[page] -= 1);
        }

        fn share(&mut self, pages: &[usize]) -> Vec<usize> {
            pages.iter().for_each(|&page| self.users[page] += 1);
            pages.to_vec()
        }
    }

    /// Jobs that begin alike, whose ends are kept: no page is lacking that a plan counted on, and all come to their end.
    #[test]
    fn any_jobs_go_on() {
        let mut random = 1u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        let [mut reused, mut forgotten, mut set_back] = [0; 3];
        for _ in 0..2000 {
            let limits = Limits {
                rows: 4 + below(60),
                quantum: 1 + below(20),
                sequences: 1 + below(4),
                page: 16,
                pages: 4 + below(8),
            };
            let sequences = limits.sequences + below(4);
            let mut pool = Pool { users: vec![0; limits.pages] };
            let mut jobs: Vec<Job> = (0..1 + below(6)).map(|_| waiting(1 + below(64))).collect();
            let mut pages = vec![Vec::new(); jobs.len()];
            let mut chosen = vec![0; jobs.len()];
            // Beginnings with their pages, the oldest first.
            let mut kept: Vec<(usize, Vec<usize>)> = Vec::new();
            for turn in 1.. {
                assert!(turn < 3000, "{limits:?} {jobs:?}");
                for job in &mut jobs {
                    // A reader that waits for a while does not wait forever.
                    job.held = turn < 200 && below(4) == 0;
                }
                let mut seats = true;
                let (plan, decoding) = loop {
                    for (job, pages) in jobs.iter_mut().zip(&pages) {
                        let longest = kept.iter().map(|(tokens, _)| *tokens).max().unwrap_or(0);
                        job.reused = if job.seated { 0 } else { longest.min(job.tokens - 1) };
                        job.shared = pages.get(job.read / 16).is_some_and(|&page: &usize| pool.users[page] > 1);
                    }
                    for number in 0..jobs.len() {
                        let older = jobs[..number].iter().filter(|job| !job.held).map(|job| job.tokens).max();
                        let waits = turn < 200 && !jobs[number].seated && below(3) == 0;
                        let alike = older.unwrap_or(0).min(jobs[number].tokens - 1);
                        jobs[number].coming = if waits { alike } else { 0 };
                    }
                    let seated = jobs.iter().filter(|job| job.seated).count();
                    let sequences = sequences - seated - kept.len();
                    let room = Room { free: pool.free(), sequences, kept: kept.len(), seats };
                    let plan = schedule(&jobs, &limits, &room);
                    match plan.way {
                        None => {
                            break (plan, jobs.iter().map(|job| job.seated && job.left() == 1).collect::<Vec<bool>>());
                        }
                        Some(Way::Forget) => {
                            pool.give_back(kept.remove(0).1);
                            forgotten += 1;
                        }
                        Some(Way::SetBack(job)) => {
                            assert!(jobs[job].seated);
                            (jobs[job].seated, jobs[job].read, seats) = (false, 0, false);
                            pool.give_back(std::mem::take(&mut pages[job]));
                            set_back += 1;
                        }
                    }
                };
                for &job in &plan.seat {
                    assert!(!jobs[job].seated && !jobs[job].held && seats);
                    (jobs[job].seated, jobs[job].read) = (true, jobs[job].reused);
                    if let Some((_, of)) = kept.iter().max_by_key(|(tokens, _)| *tokens) {
                        pages[job] = pool.share(&of[..limits.pages_of(jobs[job].read)]);
                    }
                    reused += jobs[job].read;
                }
                assert!(jobs.iter().filter(|job| job.seated).count() <= limits.sequences);
                for &(job, rows) in &plan.rows {
                    assert!(jobs[job].seated && !jobs[job].held && rows > 0 && rows <= jobs[job].left());
                    let from = jobs[job].read;
                    jobs[job].read += rows;
                    for number in from / 16..limits.pages_of(jobs[job].read) {
                        match pages[job].get(number) {
                            None => pages[job].push(pool.take()),
                            Some(&page) if pool.users[page] > 1 => {
                                pages[job][number] = pool.take();
                                pool.users[page] -= 1;
                            }
                            Some(_) => {}
                        }
                    }
                }
                let rows: usize = plan.rows.iter().map(|(_, rows)| rows).sum();
                let prompts: usize = plan.rows.iter().filter(|(job, _)| !decoding[*job]).map(|(_, rows)| rows).sum();
                assert!(rows <= limits.rows && (rows == prompts || prompts <= limits.quantum));
                for &(job, _) in &plan.rows {
                    jobs[job].turn = turn;
                    if jobs[job].left() == 0 {
                        (chosen[job], jobs[job].tokens) = (chosen[job] + 1, jobs[job].tokens + 1);
                    }
                }
                // Each ends after some tokens, or where memory does.
                for job in (0..jobs.len()).rev() {
                    if chosen[job] == 20 || limits.pages_of(jobs[job].tokens) > limits.pages {
                        let (ended, of) = (jobs.remove(job), pages.remove(job));
                        chosen.remove(job);
                        match ended.seated {
                            true => kept.push((ended.read, of)),
                            false => assert!(of.is_empty()),
                        }
                    }
                }
                if jobs.is_empty() {
                    break;
                }
            }
            kept.into_iter().for_each(|(_, pages)| pool.give_back(pages));
            assert_eq!(pool.free(), limits.pages);
        }
        assert!(reused > 0 && forgotten > 0 && set_back > 0, "{reused} {forgotten} {set_back}");
    }
}

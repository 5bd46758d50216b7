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
    /// Sequences that there can be.
    pub sequences: usize,
    /// Positions of a page.
    pub page: usize,
    /// Pages that there are.
    pub pages: usize,
}

/// What the next step does; jobs by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Those whose memory is given back first: they are read again later.
    pub set_back: Vec<usize>,
    /// Those that are given a sequence after that.
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
/// Each job that lacks one row gets it: these are the answers that decode. Where pages run out, those that are held are set
/// back, then the youngest. Prompts share the rest of the step in turns of a quantum, so that a short one passes a long one. A job
/// is seated once the pages of all its tokens are free, in the order of age. A plan is empty only where all jobs are held, or
/// there are none.
pub fn schedule(jobs: &[Job], limits: &Limits) -> Plan {
    let mut step = Step::new(jobs, limits);
    step.decode();
    if step.plan.set_back.is_empty() {
        step.seat();
    }
    step.read();
    if step.plan.rows.is_empty() && step.plan.set_back.is_empty() {
        step.make_way();
    }
    step.plan
}

/// A plan in the making.
struct Step<'a> {
    jobs: &'a [Job],
    limits: &'a Limits,
    plan: Plan,
    seated: Vec<bool>,
    /// Pages that no sequence has.
    free: usize,
    /// Rows that are given.
    taken: usize,
}

impl<'a> Step<'a> {
    fn new(jobs: &'a [Job], limits: &'a Limits) -> Step<'a> {
        let seated: Vec<bool> = jobs.iter().map(|job| job.seated).collect();
        let used: usize = jobs.iter().filter(|job| job.seated).map(|job| limits.pages_of(job.read)).sum();
        Step { jobs, limits, plan: Plan::default(), seated, free: limits.pages.saturating_sub(used), taken: 0 }
    }

    /// Rows that a job has in the plan.
    fn given(&self, job: usize) -> usize {
        self.plan.rows.iter().find(|(other, _)| *other == job).map_or(0, |(_, rows)| *rows)
    }

    /// Pages that a job needs for as many rows more.
    fn needs(&self, job: usize, rows: usize) -> usize {
        let read = self.jobs[job].read + self.given(job);
        self.limits.pages_of(read + rows) - self.limits.pages_of(read)
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
    fn victim(&self) -> Option<usize> {
        let seated = |&job: &usize| self.seated[job];
        let held = (0..self.jobs.len()).rev().filter(seated).find(|&job| self.jobs[job].held);
        held.or_else(|| (0..self.jobs.len()).rev().find(seated))
    }

    fn set_back(&mut self, job: usize) {
        self.seated[job] = false;
        self.free += self.limits.pages_of(self.jobs[job].read);
        self.plan.set_back.push(job);
    }

    fn decode(&mut self) {
        for job in 0..self.jobs.len() {
            if self.jobs[job].held || self.jobs[job].left() != 1 {
                continue;
            }
            while self.seated[job] && self.needs(job, 1) > self.free {
                let Some(victim) = self.victim() else { break };
                self.set_back(victim);
            }
            if self.seated[job] && self.taken < self.limits.rows {
                self.give(job, 1);
            }
        }
    }

    fn seat(&mut self) {
        let mut seats = self.limits.sequences.saturating_sub(self.seated.iter().filter(|&&seated| seated).count());
        // What was promised to those that are being read.
        let promised = |(job, _): (usize, &bool)| self.needs(job, self.jobs[job].left());
        let promised: usize = self.seated.iter().enumerate().filter(|(_, seated)| **seated).map(promised).sum();
        let mut free = self.free.saturating_sub(promised);
        for job in 0..self.jobs.len() {
            if self.seated[job] || self.jobs[job].held {
                continue;
            }
            let needed = self.limits.pages_of(self.jobs[job].tokens);
            if seats == 0 || needed > free {
                break;
            }
            (seats, free) = (seats - 1, free - needed);
            self.seated[job] = true;
            self.plan.seat.push(job);
        }
    }

    fn read(&mut self) {
        let decoding = self.taken > 0;
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|&job| self.reads(job)).collect();
        order.sort_by_key(|&job| (self.jobs[job].turn, self.jobs[job].read, job));
        let most = if decoding { self.limits.rows.min(self.taken + self.limits.quantum) } else { self.limits.rows };
        for turn in [self.limits.quantum, usize::MAX] {
            for &job in &order {
                let read = self.jobs[job].read + self.given(job);
                let fits = self.limits.page.saturating_mul(self.limits.pages_of(read).saturating_add(self.free)) - read;
                let rows = (self.jobs[job].tokens - read).min(turn).min(most - self.taken).min(fits);
                if rows > 0 {
                    self.give(job, rows);
                }
            }
        }
    }

    /// Whether a job is read in this step. One that was seated just now may lack a single row.
    fn reads(&self, job: usize) -> bool {
        self.seated[job] && !self.jobs[job].held && self.given(job) == 0
    }

    /// Nothing can go on: those that are held, or too many that were begun, have all memory.
    fn make_way(&mut self) {
        let waiting = self.jobs.iter().any(|job| !job.held);
        if let (true, Some(victim)) = (waiting, self.victim()) {
            self.set_back(victim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { rows: 100, quantum: 10, sequences: 4, page: 16, pages: 20 };

    fn job(tokens: usize, read: usize) -> Job {
        Job { tokens, read, seated: true, held: false, turn: 0 }
    }

    fn waiting(tokens: usize) -> Job {
        Job { seated: false, ..job(tokens, 0) }
    }

    #[test]
    fn decoding_answers_get_a_row_each_and_prompts_a_quantum() {
        let plan = schedule(&[job(31, 30), job(80, 20), job(8, 7)], &LIMITS);
        assert_eq!(plan, Plan { rows: vec![(0, 1), (2, 1), (1, 10)], ..Plan::default() });
    }

    #[test]
    fn a_step_without_decoding_is_full() {
        let plan = schedule(&[job(180, 20), job(50, 30)], &LIMITS);
        // A quantum each, by what is read, then what is left in the same order.
        assert_eq!(plan.rows, [(0, 90), (1, 10)]);
        let plan = schedule(&[job(180, 20)], &LIMITS);
        assert_eq!(plan.rows, [(0, 100)]);
    }

    #[test]
    fn short_prompts_pass_long_ones_by_a_quantum() {
        let long = Job { turn: 7, ..job(90, 40) };
        let short = Job { turn: 7, ..waiting(8) };
        let plan = schedule(&[job(31, 30), long, short], &LIMITS);
        assert_eq!(plan, Plan { seat: vec![2], rows: vec![(0, 1), (2, 8), (1, 2)], ..Plan::default() });
        // One that waits longer comes first all the same.
        let long = Job { turn: 6, ..long };
        assert_eq!(schedule(&[job(31, 30), long, short], &LIMITS).rows, [(0, 1), (1, 10)]);
    }

    #[test]
    fn jobs_are_seated_by_age_while_seats_and_pages_are_free() {
        // 2 pages are had, 4 promised to the one that is being read; 14 of 20 are left.
        let jobs = [job(96, 32), waiting(160), waiting(100), waiting(1)];
        assert_eq!(schedule(&jobs, &LIMITS).seat, [1], "the third needs 7 of 4 pages, and is not passed");
        let jobs = [job(3, 2), waiting(1), waiting(1), waiting(1), waiting(1)];
        assert_eq!(schedule(&jobs, &LIMITS).seat, [1, 2, 3], "4 sequences");
        let jobs = [Job { held: true, ..waiting(1) }, waiting(2)];
        assert_eq!(schedule(&jobs, &LIMITS).seat, [1]);
    }

    #[test]
    fn the_youngest_is_set_back_where_pages_run_out() {
        let limits = Limits { pages: 3, ..LIMITS };
        // The second finds no page behind the first, and nobody younger.
        let plan = schedule(&[job(17, 16), job(17, 16), job(5, 4)], &limits);
        assert_eq!(plan, Plan { set_back: vec![2, 1], rows: vec![(0, 1)], ..Plan::default() });
    }

    #[test]
    fn those_that_are_held_are_set_back_first() {
        let limits = Limits { pages: 3, ..LIMITS };
        let held = Job { held: true, ..job(5, 4) };
        let plan = schedule(&[held, job(17, 16), job(9, 8)], &limits);
        assert_eq!(plan, Plan { set_back: vec![0], rows: vec![(1, 1), (2, 1)], ..Plan::default() });
        // Only where somebody waits for what they have.
        assert_eq!(schedule(&[held], &limits), Plan::default());
        let large = Job { held: true, ..job(48, 40) };
        assert_eq!(schedule(&[large, waiting(1)], &limits).set_back, [0]);
    }

    #[test]
    fn any_jobs_go_on() {
        let mut random = 1u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        for _ in 0..2000 {
            let limits = Limits {
                rows: 4 + below(60),
                quantum: 1 + below(20),
                sequences: 1 + below(4),
                page: 16,
                pages: 4 + below(8),
            };
            let mut jobs: Vec<Job> = (0..1 + below(6)).map(|_| waiting(1 + below(64))).collect();
            let mut chosen = vec![0; jobs.len()];
            for turn in 1.. {
                assert!(turn < 3000, "{limits:?} {jobs:?}");
                for job in &mut jobs {
                    // A reader that waits for a while does not wait forever.
                    job.held = turn < 200 && below(4) == 0;
                }
                let decoding: Vec<bool> = jobs.iter().map(|job| job.seated && job.left() == 1).collect();
                let plan = schedule(&jobs, &limits);
                for &job in &plan.set_back {
                    assert!(jobs[job].seated);
                    (jobs[job].seated, jobs[job].read) = (false, 0);
                }
                for &job in &plan.seat {
                    assert!(!jobs[job].seated && !jobs[job].held);
                    jobs[job].seated = true;
                }
                for &(job, rows) in &plan.rows {
                    assert!(jobs[job].seated && !jobs[job].held && rows > 0 && rows <= jobs[job].left());
                    jobs[job].read += rows;
                }
                let rows: usize = plan.rows.iter().map(|(_, rows)| rows).sum();
                let prompts: usize = plan.rows.iter().filter(|(job, _)| !decoding[*job]).map(|(_, rows)| rows).sum();
                assert!(rows <= limits.rows && (rows == prompts || prompts <= limits.quantum));
                let pages: usize = jobs.iter().filter(|job| job.seated).map(|job| limits.pages_of(job.read)).sum();
                assert!(pages <= limits.pages, "{limits:?} {jobs:?}");
                assert!(jobs.iter().filter(|job| job.seated).count() <= limits.sequences);
                for &(job, _) in &plan.rows {
                    jobs[job].turn = turn;
                    if jobs[job].left() == 0 {
                        (chosen[job], jobs[job].tokens) = (chosen[job] + 1, jobs[job].tokens + 1);
                    }
                }
                // Each ends after some tokens, or where memory does.
                let ends = |n: &mut usize, job: &Job| *n == 20 || limits.pages_of(job.tokens) > limits.pages;
                let over: Vec<bool> = jobs.iter().zip(&mut chosen).map(|(job, n)| ends(n, job)).collect();
                let mut each = over.iter();
                jobs.retain(|_| !each.next().unwrap());
                let mut each = over.iter();
                chosen.retain(|_| !each.next().unwrap());
                if jobs.is_empty() {
                    break;
                }
            }
        }
    }
}

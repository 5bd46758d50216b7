//! Which turns of a conversation the model still sees: when the context is full, the oldest are left out as a whole, and the
//! system prompt stays. The conversation itself keeps them all.

use super::saved::{Role, Turn};
use crate::{args::Tunable, errors::Error, output::say};

/// The turns that are seen: those from the first on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Window {
    first: usize,
    /// Whether the user knows that some are left out.
    said: bool,
}

/// What a prompt may take of the context.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    context: usize,
    /// Tokens that an answer should have at least.
    answer: usize,
    /// Whether turns may be left out.
    truncate: bool,
    /// Whether a single message that is too long is shortened later.
    shift: bool,
}

impl Limits {
    /// Of a session with a context of that many tokens.
    pub fn of(context: usize, tunable: &Tunable) -> Limits {
        let predict = usize::try_from(tunable.generation.predict).unwrap_or(usize::MAX);
        let answer = predict.min(context / 4);
        let generation = &tunable.generation;
        Limits { context, answer, truncate: generation.truncate, shift: generation.context_shift }
    }
}

impl Window {
    /// Lets everything be seen again, where there is more room.
    pub fn widen(&mut self) {
        self.first = 0;
    }

    /// The prompt of a conversation, of which `tokens` renders some turns. Where it leaves no room for an answer, turns are left
    /// out until half of the context is free: the longer the part that stays the same, the less is computed again.
    ///
    /// # Errors
    /// If the last message alone is longer than the context, or cannot be rendered. The window is as before then.
    pub fn prompt(
        &mut self,
        turns: &[Turn],
        limits: Limits,
        mut tokens: impl FnMut(&[Turn]) -> Result<Vec<u32>, Error>,
    ) -> Result<Vec<u32>, Error> {
        let Limits { context, answer, truncate, shift } = limits;
        // Turns may have been taken back.
        let first = if self.first < turns.len() { self.first } else { 0 };
        let prompt = tokens(&turns[first..])?;
        let begins = |&at: &usize| turns[at].role == Role::User;
        let starts: Vec<usize> = (first + 1..turns.len()).filter(begins).collect();
        let Some(&last) = starts.last().filter(|_| truncate && prompt.len() + answer > context) else {
            self.first = first;
            return Ok(prompt);
        };
        let alone = tokens(&turns[last..])?;
        if alone.len() > context && !shift {
            return Err(candor::Error::PromptTooLong { prompt: alone.len(), context }.into());
        }
        // The first start from which on half of the context holds the turns, or the last one.
        let (mut too_long, mut kept) = (0, starts.len() - 1);
        let mut prompt = alone;
        while too_long < kept {
            let middle = too_long + (kept - too_long) / 2;
            let tried = tokens(&turns[starts[middle]..])?;
            if tried.len() <= context / 2 {
                (kept, prompt) = (middle, tried);
            } else {
                too_long = middle + 1;
            }
        }
        self.first = starts[kept];
        if !self.said {
            self.said = true;
            say!(
                "note: the context of {context} tokens is full: the oldest turns are left out from now on (/set num_ctx N \
                 makes it longer, /set truncate off makes this an error)"
            );
        }
        Ok(prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of as many tokens, the user's first.
    fn turns(lengths: &[usize]) -> Vec<Turn> {
        let role = |index: usize| if index.is_multiple_of(2) { Role::User } else { Role::Assistant };
        let turn = |(index, &length)| Turn { role: role(index), ..Turn::user(&"x".repeat(length)) };
        lengths.iter().enumerate().map(turn).collect()
    }

    /// Ten tokens of a system prompt, then those of the turns.
    fn tokens(turns: &[Turn]) -> Result<Vec<u32>, Error> {
        Ok(vec![0; 10 + turns.iter().map(|turn| turn.content.len()).sum::<usize>()])
    }

    const LIMITS: Limits = Limits { context: 100, answer: 25, truncate: true, shift: false };

    #[test]
    fn whole_turns_are_left_out_until_half_is_free() {
        let mut window = Window::default();
        let mut prompt = |lengths: &[usize]| {
            let prompt = window.prompt(&turns(lengths), LIMITS, tokens).unwrap();
            (prompt.len(), window.first)
        };
        assert_eq!(prompt(&[5, 20, 5, 30, 5]), (75, 0), "as much as leaves room for an answer");
        assert_eq!(prompt(&[5, 20, 5, 31, 5]), (15, 4), "from the second message on it would be 51");
        // What was left out stays so, and there is room for a while.
        assert_eq!(prompt(&[5, 20, 5, 31, 5, 26, 5]), (46, 4));
        assert_eq!(prompt(&[5, 20, 5, 31, 5, 26, 5, 24, 6]), (45, 6));
        // Turns were taken back, so that all may be seen again.
        assert_eq!(prompt(&[5, 20, 5]), (40, 0));
    }

    #[test]
    fn a_message_that_does_not_fit_alone_changes_nothing() {
        let mut window = Window { first: 2, said: true };
        let long = turns(&[5, 5, 5, 5, 91]);
        let error = window.prompt(&long, LIMITS, tokens).unwrap_err().to_string();
        assert_eq!(error, "the prompt has 101 tokens, the context holds 100");
        assert_eq!(window, Window { first: 2, said: true });
        // It is shortened later, or leaves no room for a long answer.
        let shift = Limits { shift: true, ..LIMITS };
        assert_eq!(window.prompt(&long, shift, tokens).unwrap().len(), 101);
        let mut window = Window::default();
        assert_eq!(window.prompt(&turns(&[5, 5, 90]), LIMITS, tokens).unwrap().len(), 100);
        assert_eq!(window.first, 2);
    }

    #[test]
    fn nothing_is_left_out_where_that_is_not_wanted() {
        let mut window = Window::default();
        let all = Limits { truncate: false, ..LIMITS };
        assert_eq!(window.prompt(&turns(&[50, 50, 5]), all, tokens).unwrap().len(), 115);
        assert_eq!(window.prompt(&turns(&[150]), LIMITS, tokens).unwrap().len(), 160, "there is nothing to leave out");
        assert_eq!(window, Window::default());
    }

    /// The window begins with a message of the user, and each of many turns is answered.
    #[test]
    fn a_long_conversation_always_fits_and_is_seldom_cut() {
        let (mut window, mut lengths, mut cuts) = (Window::default(), Vec::new(), 0);
        for number in 0..200 {
            lengths.push(1 + number % 7);
            let turns = turns(&lengths);
            let before = window.first;
            let prompt = window.prompt(&turns, LIMITS, tokens).unwrap();
            assert!(prompt.len() <= 75 && turns[window.first].role == Role::User, "{number}: {}", prompt.len());
            cuts += usize::from(window.first != before);
            lengths.push(1 + number % 5);
        }
        assert!((20..80).contains(&cuts), "{cuts}");
    }
}

//! A bar on stderr for what takes a while. It draws nothing where stderr is no terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{args::When, interrupt::Cleanup};

/// A bar that would be gone before this is not shown.
pub const AFTER: Duration = Duration::from_millis(300);

/// A bar that comes when it is due, and goes when it is dropped.
pub struct Bar {
    when: When,
    template: &'static str,
    started: Instant,
    shown: Option<(ProgressBar, Cleanup)>,
}

impl Bar {
    /// A bar of what began at `started`, drawn as indicatif's `template` says.
    pub fn new(when: When, template: &'static str, started: Instant) -> Bar {
        Bar { when, template, started, shown: None }
    }

    /// So much is done.
    pub fn set(&mut self, done: u64, total: u64) {
        if is_due(self.when, self.started.elapsed()) {
            self.shown.get_or_insert_with(|| shown(self.template, total)).0.set_position(done);
        }
    }

    /// What the template shows as `{msg}`, if the bar is there.
    pub fn say(&self, text: String) {
        if let Some((bar, _)) = &self.shown {
            bar.set_message(text);
        }
    }
}

/// Whether to show a bar after so long.
fn is_due(when: When, waited: Duration) -> bool {
    match when {
        When::Auto => waited > AFTER,
        When::Always => true,
        When::Never => false,
    }
}

/// A bar that goes with its cleanup, be that by Ctrl-C.
fn shown(template: &str, total: u64) -> (ProgressBar, Cleanup) {
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.tick();
    let cleared = bar.clone();
    (bar, Cleanup::new(move || cleared.finish_and_clear()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_comes_after_a_while() {
        let (soon, late) = (Duration::from_millis(1), Duration::from_secs(1));
        for (when, at_once, then) in
            [(When::Auto, false, true), (When::Always, true, true), (When::Never, false, false)]
        {
            assert_eq!((is_due(when, soon), is_due(when, late)), (at_once, then), "{when:?}");
        }
    }
}

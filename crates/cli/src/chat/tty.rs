//! The terminal between two lines of input: keys are neither printed into the answer nor lost, but wait for the editor.

use crate::interrupt::Cleanup;

/// Keeps the terminal so; it is as it was when this is dropped, or when Ctrl-C ends the program.
pub struct Quiet {
    _cleanup: Option<Cleanup>,
}

impl Quiet {
    /// From now on. The editor takes the terminal over as it is, and gives it back so.
    pub fn begin() -> Quiet {
        Quiet { _cleanup: system::begin() }
    }

    /// The same again, where another program may have changed it: after the job was stopped.
    pub fn again(&self) {
        system::hush();
    }
}

#[cfg(unix)]
mod system {
    use std::io;

    use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

    use crate::interrupt::Cleanup;

    pub fn begin() -> Option<Cleanup> {
        let before = hush()?;
        Some(Cleanup::new(move || {
            // A terminal that has gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }))
    }

    /// Gives what it was before.
    pub fn hush() -> Option<Termios> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut quiet = before.clone();
        // Keys wait as they were pressed: Enter is no line break, Ctrl-D no end. Ctrl-C stays a signal, and drops nothing.
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        quiet.local_modes.insert(LocalModes::NOFLSH);
        quiet.input_modes.remove(InputModes::ICRNL);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet).ok()?;
        Some(before)
    }
}

/// Elsewhere keys are printed by who reads them, and wait until then.
#[cfg(not(unix))]
mod system {
    use crate::interrupt::Cleanup;

    pub fn begin() -> Option<Cleanup> {
        None
    }

    pub fn hush() {}
}

//! The same of a file whose model is not loaded, as if all of it ran on the processor.

use candor_gguf::Gguf;
use candor_models::{Config, Decoder, Part};
use candor_ops::Shapes;

use super::{Fit, Takes};
use crate::{Error, SessionOptions, batch::Room, runner::Share};

impl Takes {
    /// What a session of a file's model takes, with all weights.
    ///
    /// # Errors
    /// If the file's model cannot be run.
    pub fn of(gguf: &Gguf, options: &SessionOptions) -> Result<Takes, Error> {
        let (config, share) = whole(gguf)?;
        Ok(share.takes(&config, &Room::planned(&config, &options.of_batch(1)), true))
    }
}

impl Fit {
    /// How long the context of a session of a file's model would be.
    ///
    /// # Errors
    /// If the file's model cannot be run, or the context does not fit.
    pub fn of(gguf: &Gguf, options: &SessionOptions) -> Result<Fit, Error> {
        let (config, share) = whole(gguf)?;
        Room::fit_shares(&config, &[share], &options.of_batch(1))
    }
}

fn whole(gguf: &Gguf) -> Result<(Config, Share), Error> {
    let config = Config::from_gguf(gguf)?;
    let part = Part::whole(config.layers);
    let mapped = Decoder::<Shapes>::part_bytes(gguf, &part)?;
    let share = Share { gpu: None, caches: vec![config.cached(&part)], logits: true, mapped };
    Ok((config, share))
}

//! Models in which some tensors have other formats, measured against the one that they come from.

use std::collections::BTreeMap;

use candor::{Gguf, LoadOptions, Model, SessionOptions};
use candor_convert::{Encoder, Importance};
use candor_gguf::Writer;

use super::{error::Error, offers::Offers};
use crate::divergence::{Base, Estimate};

/// Makes models and measures them.
pub(super) struct Trials<'a> {
    file: &'a Gguf,
    offers: &'a Offers,
    encoder: Encoder<'a>,
    threads: usize,
    load: &'a LoadOptions,
    session: SessionOptions,
    base: &'a Base<'a>,
    /// Tensors of the latest model that are encoded, each as a file of its own, by tensor and place.
    made: BTreeMap<(usize, usize), Gguf>,
}

impl<'a> Trials<'a> {
    /// Trials of the offers for a file's tensors, against its own model.
    pub(super) fn new(
        file: &'a Gguf,
        importance: Option<&'a Importance>,
        offers: &'a Offers,
        threads: usize,
        (load, session): (&'a LoadOptions, SessionOptions),
        base: &'a Base<'a>,
    ) -> Result<Trials<'a>, Error> {
        let encoder = Encoder::new(file, importance)?;
        Ok(Trials { file, offers, encoder, threads, load, session, base, made: BTreeMap::new() })
    }

    /// Mean divergence of the model with the offers of these places; tensors without one are as they were.
    pub(super) fn measure(&mut self, places: &[Option<usize>]) -> Result<Estimate, Error> {
        let wanted: Vec<(usize, usize)> = places
            .iter()
            .enumerate()
            .filter_map(|(tensor, place)| Some((tensor, (*place)?)))
            .filter(|&(tensor, place)| self.offers.offers[tensor][place].format != self.offers.sources[tensor].format)
            .collect();
        self.made.retain(|key, _| wanted.contains(key));
        let mut mixed = self.file.clone();
        for key in wanted {
            let tensor = match self.made.get(&key) {
                Some(tensor) => tensor,
                None => {
                    let tensor = self.tensor(key)?;
                    self.made.entry(key).or_insert(tensor)
                }
            };
            mixed = mixed.with_tensors_of(tensor, |_| true);
        }
        let model = Model::from_gguf(mixed, self.load)?;
        Ok(self.base.divergence(&mut model.session(&self.session)?)?.mean())
    }

    /// A file of one tensor.
    fn tensor(&self, (tensor, place): (usize, usize)) -> Result<Gguf, Error> {
        let (source, format) = (&self.offers.sources[tensor], self.offers.offers[tensor][place].format);
        let encoded = self.encoder.tensor(source, format, self.threads)?;
        let mut writer = Writer::new();
        let file = writer.tensor(&source.name, format, &source.shape, encoded).and_then(|()| writer.to_bytes());
        Ok(Gguf::from_bytes(file.map_err(candor_convert::Error::from)?).map_err(candor_convert::Error::from)?)
    }
}

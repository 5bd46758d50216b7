//! The formats that each tensor of a file may get, with their bytes and errors.

use candor::{Format, Gguf, TensorInfo};
use candor_convert::{Encoder, Importance, Model, Offer, Options, Plan, Tensor};

use super::{error::Error, limit::Limit};

/// Formats for weights of any model. Those of two and three values are left out: they are for models that were trained with them.
pub(super) const FORMATS: [Format; 14] = [
    Format::Q2K,
    Format::Q3K,
    Format::Iq4Xs,
    Format::Mxfp4,
    Format::Iq4Nl,
    Format::Q4_0,
    Format::Q4K,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5K,
    Format::Q5_1,
    Format::Q6K,
    Format::Q8_0,
    Format::F16,
];

/// What there is to choose of.
pub(super) struct Offers {
    /// The tensors that get a format.
    pub sources: Vec<TensorInfo>,
    /// Their offers; the cost is the relative squared error.
    pub offers: Vec<Vec<Offer>>,
    /// Most bytes of all offers that are chosen.
    pub budget: u64,
    /// Bytes of a file beside them.
    pub overhead: u64,
    /// Elements of all tensors, where bits for each count.
    elements: Option<u64>,
}

impl Offers {
    /// Encodes each tensor in each format that its rows allow. Columns count by `text`.
    pub(super) fn new(
        file: &Gguf,
        options: &Options,
        (limit, threads): (Limit, usize),
        text: &Importance,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Offers, Error> {
        let plan = Plan::new(file, options.clone())?;
        let mix = options.mix.as_ref().ok_or(Error::Nothing)?;
        let planned = plan.tensors();
        let shapes: Vec<Tensor<'_>> = planned
            .iter()
            .map(|tensor| Tensor { name: &tensor.name, format: tensor.source.format, shape: &tensor.source.shape })
            .collect();
        let model = Model::of(file.metadata()).map_err(candor_convert::Error::from)?;
        let decided = mix.decides(&model, &shapes);
        let alignment = match limit {
            Limit::File(_) => plan.alignment()?,
            Limit::Bits(_) => 1,
        };
        let encoder = Encoder::new(file, options.importance.as_ref())?;
        let (mut sources, mut offers, mut others) = (Vec::new(), Vec::new(), 0);
        let all = decided.iter().filter(|decided| **decided).count();
        for (tensor, decided) in planned.iter().zip(decided) {
            let source = &tensor.source;
            let bytes = |bytes: u64| bytes.next_multiple_of(alignment);
            if !decided {
                match tensor.choice.format == source.format {
                    true => others += bytes(tensor.bytes),
                    false => {
                        sources.push(source.clone());
                        let format = tensor.choice.format;
                        offers.push(vec![Offer { format, bytes: bytes(tensor.bytes), cost: 0.0 }]);
                    }
                }
                continue;
            }
            let mut own = vec![Offer { format: source.format, bytes: bytes(source.bytes), cost: 0.0 }];
            for format in FORMATS.into_iter().filter(|&format| format != source.format) {
                let whole = source.shape[0].is_multiple_of(format.block_len() as u64);
                if !whole || mix.needs_importance(&source.name, format) {
                    continue;
                }
                let encoded = encoder.tensor(source, format, threads)?;
                let cost = encoder.error(source, (format, &encoded), Some(text))?;
                own.push(Offer { format, bytes: bytes(encoded.len() as u64), cost });
            }
            offers.push(own);
            sources.push(source.clone());
            progress(offers.len(), all);
        }
        let least = |offers: &Vec<Offer>| offers.iter().map(|offer| offer.bytes).min();
        let smallest: u64 = offers.iter().filter_map(least).sum();
        let elements: u64 = planned.iter().map(|tensor| tensor.source.elements()).sum();
        let (limit, overhead, elements) = match limit {
            Limit::File(bytes) => {
                let planned: u64 = planned.iter().map(|tensor| tensor.bytes.next_multiple_of(alignment)).sum();
                (bytes, plan.file_bytes()? - planned + others, None)
            }
            Limit::Bits(bits) => ((bits * elements as f64 / 8.0) as u64, others, Some(elements)),
        };
        let mut found = Offers { sources, offers, budget: 0, overhead, elements };
        found.budget = limit
            .checked_sub(overhead)
            .filter(|&budget| budget >= smallest)
            .ok_or_else(|| Error::TooSmall { least: found.least() })?;
        Ok(found)
    }

    /// Tensors of more than one offer.
    pub(super) fn choosable(&self) -> usize {
        self.offers.iter().filter(|offers| offers.len() > 1).count()
    }

    /// The smallest size that can be asked for.
    pub(super) fn least(&self) -> Limit {
        let smallest = self.offers.iter().filter_map(|offers| offers.iter().map(|offer| offer.bytes).min());
        let bytes = self.overhead + smallest.sum::<u64>();
        match self.elements {
            None => Limit::File(bytes),
            Some(elements) => Limit::Bits(8.0 * bytes as f64 / elements.max(1) as f64),
        }
    }

    /// Bytes of a choice.
    pub(super) fn bytes(&self, places: &[usize]) -> u64 {
        self.offers.iter().zip(places).map(|(offers, &place)| offers[place].bytes).sum()
    }

    /// The choice that a plan makes, where all its formats are offered.
    pub(super) fn places(&self, plan: &Plan) -> Option<Vec<usize>> {
        let place = |(source, offers): (&TensorInfo, &Vec<Offer>)| {
            let planned = plan.tensors().iter().find(|tensor| tensor.source.name == source.name)?;
            offers.iter().position(|offer| offer.format == planned.choice.format)
        };
        self.sources.iter().zip(&self.offers).map(place).collect()
    }
}

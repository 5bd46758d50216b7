//! How long a context can be: what it takes of each memory and what there is of it go in, a length or a reason comes out.
//! What takes memory is counted by the batch and the parts of a model; what there is, the system says.

mod file;
mod promise;

use std::fmt;

use candor_cpu::{Bound, Memory};

use crate::size::Size;

pub(crate) use promise::Promise;

/// What stays free of the system's memory where the context is left open: llama.cpp's `--fit-target`.
const RESERVE: u64 = 1 << 30;

/// A context that is left open is a multiple of this, or the model's own.
const GRAIN: usize = 256;

/// Bytes that a session takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Takes {
    /// Of keys, values and states.
    pub cache: u64,
    /// Of weights that lie in a file's mapping, where they count.
    pub weights: u64,
    /// Of values in flight.
    pub buffers: u64,
}

/// A memory that bounds a context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What it is, for people to read.
    pub name: String,
    /// Bytes of it that can be had.
    pub free: u64,
}

/// How long a context is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// Positions.
    pub context: usize,
    /// The length that the model was trained on, or the most that is supported.
    pub own: usize,
    /// What made it shorter than that, where it was left open.
    pub bound: Option<Holder>,
}

/// A context that memory does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// Positions: those that were asked for, or the fewest where the length was left open.
    pub context: usize,
    /// Whether they were asked for.
    pub asked: bool,
    /// Sequences that have as many positions each.
    pub sequences: usize,
    /// What they take.
    pub takes: Takes,
    /// What does not hold it; `None` where the system refused without a number.
    pub holder: Option<Holder>,
    /// The longest context that fits, up to the model's own; 0 where there is not one.
    pub longest: usize,
}

impl Takes {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.cache.saturating_add(self.weights).saturating_add(self.buffers)
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Takes { cache, weights, buffers } = self;
        write!(f, "{} (keys and values {}, ", Size(self.total()), Size(*cache))?;
        if *weights > 0 {
            write!(f, "weights {}, ", Size(*weights))?;
        }
        write!(f, "buffers {})", Size(*buffers))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} free ({})", Size(self.free), self.name)
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { context, asked, sequences, takes, holder, .. } = self;
        let each = if *sequences > 1 { format!(" in each of {sequences} sequences") } else { String::new() };
        match asked {
            true => write!(f, "a context of {context} tokens{each} takes {takes}, ")?,
            false => write!(f, "not even a context of {context} tokens{each} fits: it takes {takes}, ")?,
        }
        match holder {
            Some(holder) => write!(f, "and there are {holder}"),
            None => f.write_str("more than can be had"),
        }
    }
}

/// A memory, and what a context of some length takes of it.
pub(crate) struct Place<'a> {
    pub(crate) holder: Holder,
    /// Bytes of what is free that stay free where the context is left open.
    pub(crate) reserve: u64,
    /// Whether what is asked for is refused where it does not fit. A GPU may be asked for more than its budget.
    pub(crate) strict: bool,
    pub(crate) takes: Box<dyn Fn(usize) -> Takes + 'a>,
}

impl Place<'_> {
    fn holds(&self, context: usize, reserve: u64) -> bool {
        (self.takes)(context).total() <= self.holder.free.saturating_sub(reserve)
    }

    /// The longest context up to `most` that it holds, with its reserve.
    fn longest(&self, most: usize) -> usize {
        longest(most, |context| self.holds(context, self.reserve))
    }
}

/// What is wanted of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Positions; 0 leaves them open.
    pub(crate) context: usize,
    /// Where they are open, fewer than this are refused, unless the model's own are fewer.
    pub(crate) least: usize,
    /// Of the model.
    pub(crate) own: usize,
    /// Whether an open length is shortened at all.
    pub(crate) shorten: bool,
    pub(crate) sequences: usize,
}

/// The context that all places hold.
///
/// # Errors
/// If one does not hold what is asked for, or too little of what is left open.
pub(crate) fn settle(wanted: Wanted, places: &[Place<'_>]) -> Result<Fit, Shortage> {
    let Wanted { context, own, sequences, .. } = wanted;
    let least = wanted.least.clamp(1, own.max(1));
    let asked = context > 0;
    let exact = if asked { context } else { own };
    let shortage = |context, place: &Place<'_>| Shortage {
        context,
        asked,
        sequences,
        takes: (place.takes)(context),
        holder: Some(place.holder.clone()),
        longest: places
            .iter()
            .filter(|place| place.strict)
            .map(|place| place.longest(exact.min(own)))
            .min()
            .unwrap_or(0),
    };
    if asked || !wanted.shorten {
        return match places.iter().find(|place| place.strict && !place.holds(exact, 0)) {
            Some(place) => Err(Shortage { asked: true, ..shortage(exact, place) }),
            None => Ok(Fit { context: exact, own, bound: None }),
        };
    }
    // A GPU that was given more than its budget bounds nothing.
    let bounding = places.iter().filter(|place| place.strict || place.holds(least, place.reserve));
    let bounds = bounding.map(|place| (place.longest(own), place)).min_by_key(|(longest, _)| *longest);
    match bounds {
        Some((longest, place)) if longest < least => Err(shortage(least, place)),
        Some((longest, place)) if longest < own => Ok(Fit { context: longest, own, bound: Some(place.holder.clone()) }),
        _ => Ok(Fit { context: own, own, bound: None }),
    }
}

/// The longest context up to `own` for which `holds` is true, as it is for all shorter ones: `own` or a multiple of [`GRAIN`].
pub(crate) fn longest(own: usize, holds: impl Fn(usize) -> bool) -> usize {
    if holds(own) {
        return own;
    }
    let (mut held, mut too_long) = (0, own.div_ceil(GRAIN));
    while too_long - held > 1 {
        let middle = held + (too_long - held) / 2;
        *(if holds(middle * GRAIN) { &mut held } else { &mut too_long }) = middle;
    }
    held * GRAIN
}

/// What there is of the system's memory, less what was promised to others of this process and is not touched yet; `pages` says
/// whether pages of mapped files take of it.
pub(crate) fn system() -> Vec<(Holder, bool)> {
    let memory = Memory::now();
    let untouched = promise::untouched(memory.touched);
    let holders = memory.free.iter().map(|free| {
        let pages = free.bound.counts_pages();
        let promised = if pages { untouched } else { 0 };
        (Holder { name: name(free.bound).to_owned(), free: free.bytes.saturating_sub(promised) }, pages)
    });
    holders.collect()
}

/// What stays free of so much, where a context is left open.
pub(crate) fn reserve(free: u64) -> u64 {
    RESERVE.min(free / 4)
}

/// Whether weights of that many bytes can be read into memory.
///
/// # Errors
/// With what does not hold them.
pub(crate) fn holds_weights(bytes: u64) -> Result<(), crate::Error> {
    let few = system().into_iter().map(|(holder, _)| holder).min_by_key(|holder| holder.free);
    match few.filter(|holder| holder.free < bytes) {
        Some(holder) => Err(crate::Error::WeightsMemory { bytes, holder }),
        None => Ok(()),
    }
}

fn name(bound: Bound) -> &'static str {
    match bound {
        Bound::Group => "control group",
        Bound::Addresses if cfg!(target_arch = "wasm32") => "addresses",
        Bound::Addresses => "addresses, ulimit -v",
        Bound::Data => "data, ulimit -d",
        _ => "memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// 1 MB for each position, and 100 MB of weights and 10 of buffers whatever the length.
    fn place(name: &str, free: u64, reserve: u64, strict: bool) -> Place<'static> {
        let holder = Holder { name: name.to_owned(), free: free * MB };
        let takes = |context| Takes { cache: context as u64 * MB, weights: 100 * MB, buffers: 10 * MB };
        Place { holder, reserve: reserve * MB, strict, takes: Box::new(takes) }
    }

    fn wanted(context: usize) -> Wanted {
        Wanted { context, least: 4096, own: 131_072, shorten: true, sequences: 1 }
    }

    #[test]
    fn an_open_context_is_the_models_own_or_what_fits() {
        let fit = |free| settle(wanted(0), &[place("memory", free, 90, true)]);
        assert_eq!(fit(140_000), Ok(Fit { context: 131_072, own: 131_072, bound: None }));
        assert_eq!(fit(131_072 + 200), Ok(Fit { context: 131_072, own: 131_072, bound: None }));
        let less = fit(131_072 + 199).unwrap();
        assert_eq!((less.context, less.bound.map(|holder| holder.name)), (131_072 - 256, Some("memory".into())));
        assert_eq!(fit(4096 + 200).unwrap().context, 4096);
        let none = fit(4096 + 199).unwrap_err();
        assert_eq!((none.context, none.asked, none.longest), (4096, false, 3840));
        assert_eq!(
            none.to_string(),
            "not even a context of 4096 tokens fits: it takes 4.2 GB (keys and values 4.1 GB, weights 100 MB, buffers \
             10 MB), and there are 4.3 GB free (memory)"
        );
    }

    #[test]
    fn a_short_model_needs_no_more_than_its_own() {
        let short = Wanted { own: 300, ..wanted(0) };
        assert_eq!(settle(short, &[place("memory", 410, 0, true)]).unwrap().context, 300);
        assert_eq!(settle(short, &[place("memory", 409, 0, true)]).unwrap_err().context, 300);
        let least = Wanted { least: 0, ..wanted(0) };
        assert_eq!(settle(least, &[place("memory", 366, 0, true)]).unwrap().context, 256);
    }

    #[test]
    fn what_is_asked_for_is_given_or_refused_and_needs_no_reserve() {
        let fit = |free| settle(wanted(8192), &[place("memory", free, 90, true)]);
        assert_eq!(fit(8302), Ok(Fit { context: 8192, own: 131_072, bound: None }));
        let none = fit(8301).unwrap_err();
        assert_eq!((none.context, none.asked, none.longest), (8192, true, 7936));
        assert!(none.to_string().starts_with("a context of 8192 tokens takes 8.3 GB (keys and values 8.2 GB, "));
        let open = Wanted { shorten: false, ..wanted(0) };
        let none = settle(open, &[place("memory", 8301, 0, true)]).unwrap_err();
        assert_eq!((none.context, none.asked), (131_072, true));
        assert_eq!(settle(wanted(8192), &[]).unwrap().context, 8192);
        assert_eq!(settle(wanted(0), &[]).unwrap().context, 131_072);
    }

    #[test]
    fn the_tightest_place_bounds_and_a_gpu_only_what_is_open() {
        let places = |gpu| [place("memory", 30_000, 0, true), place("X", gpu, 0, false)];
        let fit = settle(wanted(0), &places(20_110)).unwrap();
        assert_eq!((fit.context, fit.bound.unwrap().name.as_str()), (19_968, "X"));
        // It was given more than its budget, since somebody asked for that.
        let fit = settle(wanted(0), &places(4_000)).unwrap();
        assert_eq!((fit.context, fit.bound.unwrap().name.as_str()), (29_696, "memory"));
        assert_eq!(settle(wanted(25_000), &places(20_110)).unwrap().context, 25_000);
        let none = settle(wanted(30_000), &places(20_110)).unwrap_err();
        assert_eq!((none.holder.unwrap().name.as_str(), none.longest), ("memory", 29_696));
    }

    #[test]
    fn the_longest_is_found_between_grains() {
        for own in [1, 255, 256, 257, 1000, 4096] {
            for limit in 0..=own {
                let expected = if limit == own { own } else { limit / GRAIN * GRAIN };
                assert_eq!(longest(own, |context| context <= limit), expected, "{limit} of {own}");
            }
        }
    }

    #[test]
    fn several_sequences_are_named() {
        let several = Wanted { sequences: 3, ..wanted(8192) };
        let message = settle(several, &[place("memory", 1, 0, true)]).unwrap_err().to_string();
        assert!(message.starts_with("a context of 8192 tokens in each of 3 sequences takes 8.3 GB ("), "{message}");
        let unknown = Shortage { holder: None, ..settle(several, &[place("memory", 1, 0, true)]).unwrap_err() };
        assert!(unknown.to_string().ends_with(", more than can be had"), "{unknown}");
    }
}

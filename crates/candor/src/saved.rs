//! A sequence in a file: its tokens, its keys, values and states, and what they belong to. Little-endian throughout:
//!
//! ```text
//! "candorpc"  version u32  model u64  shape: u32, text
//! reached u64  tokens: u64, u32 each  roles: u64, u8 each  logits: u64, f32 each  best: u64, u32 and f32 each
//! each layer: u64, bytes
//! sum of all before, u64
//! ```
//!
//! `roles` say of each token whether it was read (0) or continued the text (1): see [`crate::Role`].
//! `best` are the greatest logits, each after its token and the greatest first, where a device returned no others.
//! `model` is a hash of metadata, tensor directory and the first bytes of each tensor; `shape` says in words what else must
//! be the same: formats of the cache, windows, adapters, and whether bits were promised. Layers are as every backend
//! understands them ([`candor_ops::Stored`]), so a session may go on elsewhere; what it computes there differs by rounding
//! from what it would have here.

mod hash;

use std::{
    future::poll_fn,
    io::{self, Write},
};

use candor_gguf::Gguf;
use candor_ops::{Prefix, Ranked, Stored, better_first};

use crate::{Activations, Batch, Role, SequenceId, Session, now::now, past::Past};
use hash::Hash;

/// What a file begins with.
const MAGIC: &[u8; 8] = b"candorpc";

/// Changes with the meaning of the bytes.
const VERSION: u32 = 4;

/// Ends the shape where a session was asked for one arithmetic for all rows, and has it. Such a session takes no other bits; all
/// others take these, and those of other devices.
const INVARIANT: &str = ", the same in all batches";
/// The same of sessions whose products take f32 activations.
const EXACT: &str = ", f32 activations";

/// Bytes of each tensor that say whether it is the same: two models may differ in nothing else.
const SAMPLE: u64 = 256;

/// Why a session cannot be saved or taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backend has no way to read its cache.
    #[error("{device}: keys and values cannot be saved from there or put back")]
    Device {
        /// Where the model runs.
        device: String,
    },
    /// Something else than a saved session.
    #[error("expected a saved session, which begins with {:?}", "candorpc")]
    Magic,
    /// A version that this program does not know.
    #[error("expected version {VERSION} of saved sessions, got {got}")]
    Version {
        /// The file's.
        got: u32,
    },
    /// The file was cut or changed.
    #[error("the file is damaged: its end or its sum is not as it was written")]
    Damaged,
    /// It was made with another model.
    #[error("it belongs to another model")]
    Model,
    /// It was made with other settings.
    #[error("expected {expected}, got {got}")]
    Shape {
        /// The session's.
        expected: String,
        /// The file's.
        got: String,
    },
    /// There are more positions in it than in the session.
    #[error("it has {tokens} tokens, the context holds {context}")]
    TooLong {
        /// Tokens of the file.
        tokens: usize,
        /// Positions of the session.
        context: usize,
    },
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A writer that sums up what passes.
struct Summed<'w> {
    out: &'w mut dyn Write,
    sum: Hash,
}

impl Summed<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sum.update(bytes);
        Ok(self.out.write_all(bytes)?)
    }

    /// A length and what is as long, in pieces of `size` bytes.
    fn put_sized(&mut self, bytes: &[u8], size: usize) -> Result<(), Error> {
        self.put(&(bytes.len() as u64 / size as u64).to_le_bytes())?;
        self.put(bytes)
    }
}

/// What is left of a file.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (front, back) = self.0.split_at_checked(len).ok_or(Error::Damaged)?;
        self.0 = back;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| Error::Damaged)
    }

    fn number(&mut self) -> Result<usize, Error> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| Error::Damaged)
    }

    /// As many pieces of `N` bytes as a number says.
    fn sized<const N: usize>(&mut self) -> Result<impl Iterator<Item = [u8; N]> + use<'a, N>, Error> {
        let bytes = self.number()?.checked_mul(N).ok_or(Error::Damaged)?;
        Ok(self.take(bytes)?.as_chunks().0.iter().copied())
    }
}

/// What a file has besides caches.
struct Read {
    tokens: Vec<u32>,
    roles: Vec<Role>,
    logits: Vec<f32>,
    best: Vec<Ranked>,
    reached: usize,
}

/// The logits of a session's last token, all or the best.
type Known = (Vec<f32>, Vec<Ranked>);

impl Session {
    /// Writes the session: what [`Session::load`] takes back, to the bit.
    ///
    /// # Errors
    /// If the model runs where that is not possible, writing fails, or the device does.
    pub fn save(&mut self, out: &mut dyn Write) -> Result<(), crate::Error> {
        now(self.save_body(out))
    }

    /// What [`Self::save`] does.
    pub(crate) async fn save_body(&mut self, out: &mut dyn Write) -> Result<(), crate::Error> {
        self.catch_up().await?;
        let (batch, id, logits, best) = self.parts();
        batch.save_with(id, (logits, best), out).await
    }

    /// Takes back what [`Session::save`] wrote and forgets what was there before; how many tokens that are. After an error
    /// the session is empty.
    ///
    /// # Errors
    /// If it is no saved session, or one of another model or of other settings; or the model runs where that is not possible, or
    /// the device fails.
    pub fn load(&mut self, bytes: &[u8]) -> Result<usize, crate::Error> {
        self.model().refuse_answers("a saved session")?;
        self.truncate(0);
        let (batch, id, ..) = self.parts();
        let known = batch.load_with(id, bytes)?;
        self.know(known);
        Ok(self.tokens().len())
    }
}

impl Batch {
    /// Writes a sequence: what [`Batch::load`] takes back, to the bit.
    ///
    /// # Errors
    /// If there is no such sequence, the model runs where that is not possible, writing fails, or the device does.
    pub fn save(&mut self, id: SequenceId, out: &mut dyn Write) -> Result<(), crate::Error> {
        now(self.save_body(id, out))
    }

    /// What [`Self::save`] does.
    pub(crate) async fn save_body(&mut self, id: SequenceId, out: &mut dyn Write) -> Result<(), crate::Error> {
        while self.catch_up_once_body(id).await? {}
        self.save_with(id, (&[], &[]), out).await
    }

    /// Takes back what [`Batch::save`] or [`Session::save`] wrote as the tokens of a sequence, which forgets what it had; after an
    /// error it is empty.
    ///
    /// # Errors
    /// If there is no such sequence; otherwise as [`Session::load`].
    pub fn load(&mut self, id: SequenceId, bytes: &[u8]) -> Result<(), crate::Error> {
        self.model().refuse_answers("a saved session")?;
        self.truncate(id, 0)?;
        self.load_with(id, bytes).map(drop)
    }

    async fn save_with(
        &mut self,
        id: SequenceId,
        (logits, best): (&[f32], &[Ranked]),
        out: &mut dyn Write,
    ) -> Result<(), crate::Error> {
        self.model().refuse_answers("a saved session")?;
        let (slot, own) = (self.slot(id)?, self.sequence(id)?);
        let shape = self.shape(&own.scales)?;
        let positions = own.tokens().len();
        let mut file = Summed { out, sum: Hash::default() };
        file.put(MAGIC)?;
        file.put(&VERSION.to_le_bytes())?;
        file.put(&fingerprint(self.model().gguf())?.to_le_bytes())?;
        file.put(&(shape.len() as u32).to_le_bytes())?;
        file.put(shape.as_bytes())?;
        file.put(&(own.past.reached() as u64).to_le_bytes())?;
        let tokens: Vec<u8> = own.tokens().iter().flat_map(|token| token.to_le_bytes()).collect();
        file.put_sized(&tokens, 4)?;
        let roles: Vec<u8> = own.roles().iter().map(|&role| u8::from(role == Role::Decode)).collect();
        file.put_sized(&roles, 1)?;
        let logits: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        file.put_sized(&logits, 4)?;
        let pair = |(token, logit): &Ranked| [token.to_le_bytes(), logit.to_le_bytes()].concat();
        let best: Vec<u8> = best.iter().flat_map(pair).collect();
        file.put_sized(&best, 8)?;
        let mut bytes = Vec::new();
        for cache in self.caches()? {
            for layer in 0..cache.layers() {
                bytes.clear();
                let kept = Prefix { layer, sequence: slot, positions };
                cache.begin_save(kept).map_err(candor_models::Error::from)?;
                let saved = poll_fn(|cx| cache.poll_save(&mut bytes, kept, cx)).await;
                saved.map_err(candor_models::Error::from)?;
                file.put_sized(&bytes, 1)?;
            }
        }
        let sum = file.sum.finish();
        Ok(out.write_all(&sum.to_le_bytes()).map_err(Error::Io)?)
    }

    fn load_with(&mut self, id: SequenceId, bytes: &[u8]) -> Result<Known, crate::Error> {
        let slot = self.slot(id)?;
        let shape = self.shape(self.adapter_scales(id)?)?;
        let Read { tokens, roles, logits, best, reached } = self.read(slot, &shape, bytes)?;
        let past = Past::of(tokens.len(), reached);
        self.restore(id, (tokens, roles), past)?;
        Ok((logits, best))
    }

    /// The caches' contents.
    fn caches(&mut self) -> Result<Vec<&mut dyn Stored>, crate::Error> {
        let device = self.model().device_label().to_owned();
        self.stored().ok_or_else(|| Error::Device { device }.into())
    }

    /// Puts a file's keys, values and states into the cache, and gives the rest.
    fn read(&mut self, slot: usize, shape: &str, bytes: &[u8]) -> Result<Read, crate::Error> {
        let Some((contents, sum)) = bytes.split_last_chunk().filter(|(contents, _)| contents.starts_with(MAGIC)) else {
            return Err(Error::Magic.into());
        };
        let mut rest = Rest(&contents[MAGIC.len()..]);
        let got = u32::from_le_bytes(rest.array()?);
        if got != VERSION {
            return Err(Error::Version { got }.into());
        }
        let mut found = Hash::default();
        found.update(contents);
        if found.finish() != u64::from_le_bytes(*sum) {
            return Err(Error::Damaged.into());
        }
        if u64::from_le_bytes(rest.array()?) != fingerprint(self.model().gguf())? {
            return Err(Error::Model.into());
        }
        let len = u32::from_le_bytes(rest.array()?) as usize;
        let got = String::from_utf8_lossy(rest.take(len)?);
        if !fits(&got, shape) {
            return Err(Error::Shape { expected: shape.to_owned(), got: got.into_owned() }.into());
        }
        let reached = rest.number()?;
        let tokens: Vec<u32> = rest.sized()?.map(u32::from_le_bytes).collect();
        let role = |[role]: [u8; 1]| match role {
            0 => Ok(Role::Prefill),
            1 => Ok(Role::Decode),
            _ => Err(Error::Damaged),
        };
        let roles = rest.sized()?.map(role).collect::<Result<Vec<Role>, Error>>()?;
        let logits: Vec<f32> = rest.sized()?.map(f32::from_le_bytes).collect();
        let pair = |bytes: [u8; 8]| {
            let pair = u64::from_le_bytes(bytes);
            (pair as u32, f32::from_bits((pair >> 32) as u32))
        };
        let best: Vec<Ranked> = rest.sized()?.map(pair).collect();
        let (context, outputs) = (self.context(), self.model().config().outputs());
        if tokens.len().max(reached) > context {
            return Err(Error::TooLong { tokens: tokens.len().max(reached), context }.into());
        }
        let vocab = self.model().config().vocab;
        let known = tokens.iter().all(|&token| (token as usize) < vocab);
        let in_order = best.is_sorted_by(|a, b| better_first(a, b).is_lt() && !b.1.is_nan());
        let best_is_known = best.iter().all(|&(token, _)| (token as usize) < outputs && !tokens.is_empty())
            && in_order
            && (best.is_empty() || logits.is_empty());
        if !known
            || roles.len() != tokens.len()
            || !best_is_known
            || !(logits.is_empty() || logits.len() == outputs && !tokens.is_empty())
        {
            return Err(Error::Damaged.into());
        }
        for cache in self.caches()? {
            for layer in 0..cache.layers() {
                let len = rest.number()?;
                let kept = Prefix { layer, sequence: slot, positions: tokens.len() };
                cache.load(rest.take(len)?, kept).map_err(|error| match error {
                    // The file's fault, not the device's.
                    candor_ops::Error::Stored { .. } => crate::Error::from(Error::Damaged),
                    error => candor_models::Error::from(error).into(),
                })?;
            }
        }
        if !rest.0.is_empty() {
            return Err(Error::Damaged.into());
        }
        Ok(Read { tokens, roles, logits, best, reached })
    }

    /// What must be the same for caches to be, besides the model.
    fn shape(&self, scales: &[f32]) -> Result<String, crate::Error> {
        let plan = self.plan();
        let (keys, values) = (plan.keys.format().name(), plan.values.format().name());
        // Rotation of longer contexts may be another one.
        let far =
            if plan.context > self.model().config().original_context() { ", beyond the trained context" } else { "" };
        // Layers with a window may keep the last positions alone, by how long steps are.
        let mut rings: Vec<usize> = (0..plan.layers.len()).map(|layer| plan.kept(layer)).collect();
        rings.retain(|&kept| kept < plan.context);
        rings.dedup();
        let rings: String = rings.iter().map(|kept| format!(", {kept} positions of windows")).collect();
        let adapters = self.model().adapters().iter().zip(scales).filter(|(_, scale)| **scale != 0.0);
        // The bits of a scale, since all of its digits count.
        let adapters: String = adapters
            .map(|(adapter, scale)| {
                let own = fingerprint(adapter.gguf())?;
                Ok(format!(", adapter {own:016x} by {scale} ({:08x})", scale.to_bits()))
            })
            .collect::<Result<_, crate::Error>>()?;
        let promised = if self.model().promises_same_bits() { INVARIANT } else { "" };
        let exact = if self.model().activations() == Activations::F32 { EXACT } else { "" };
        Ok(format!("keys {keys}, values {values}{far}{rings}{adapters}{promised}{exact}"))
    }
}

/// Whether caches of the shape `got` are what a session of the shape `wanted` takes: they may keep promises that it does not ask for.
fn fits(got: &str, wanted: &str) -> bool {
    let apart = |shape: &str, promise: &str| match shape.strip_suffix(promise) {
        Some(rest) => (rest.to_owned(), true),
        None => (shape.to_owned(), false),
    };
    let parts = |shape: &str| {
        let (shape, exact) = apart(shape, EXACT);
        let (shape, invariant) = apart(&shape, INVARIANT);
        (shape, invariant, exact)
    };
    let (got, wanted) = (parts(got), parts(wanted));
    got.0 == wanted.0 && got.1 >= wanted.1 && got.2 >= wanted.2
}

/// A number that two models hardly share.
fn fingerprint(gguf: &Gguf) -> Result<u64, crate::Error> {
    use std::fmt::Write as _;
    let mut hash = Hash::default();
    // Writing into a hash cannot fail.
    for (key, value) in gguf.metadata().iter() {
        let _ = writeln!(hash, "{key} {value:?}");
    }
    for tensor in gguf.tensors() {
        let _ = writeln!(hash, "{} {} {:?} {}", tensor.name, tensor.format.name(), tensor.shape, tensor.offset());
        hash.update(&gguf.read_head(tensor, SAMPLE)?);
    }
    Ok(hash.finish())
}

#[cfg(test)]
mod tests {
    use candor_testing::{Random, Tiny};

    use super::*;
    use crate::{Model, SessionOptions};

    /// A session of three tokens, and its file.
    fn saved() -> (Session, Vec<u8>) {
        let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
        let model = Model::from_gguf(gguf, &Default::default()).unwrap();
        let mut session = model.session(&SessionOptions::default().context(16)).unwrap();
        session.evaluate(&[1, 2, 3]).unwrap();
        let mut file = Vec::new();
        session.save(&mut file).unwrap();
        (session, file)
    }

    /// Contents with their right sum.
    fn summed(mut contents: Vec<u8>) -> Vec<u8> {
        let mut hash = Hash::default();
        hash.update(&contents);
        contents.extend(hash.finish().to_le_bytes());
        contents
    }

    /// Where the best logits begin, after all of them.
    fn best_at(session: &Session, file: &[u8]) -> usize {
        let shape = u32::from_le_bytes(file[20..24].try_into().unwrap()) as usize;
        let tokens = session.tokens().len();
        24 + shape + 8 + 8 + tokens * 4 + 8 + tokens + 8 + session.logits().len() * 4
    }

    /// Files that were changed by somebody who knows how to sum up.
    #[test]
    fn wrong_contents_with_a_right_sum_are_harmless() {
        let (mut session, file) = saved();
        let mut random = Random(11);
        let mut refused = 0;
        for round in 0..4000 {
            let mut contents = file[..file.len() - 8].to_vec();
            // Lengths and tokens come early.
            let within = if round % 2 == 0 { 160 } else { contents.len() };
            for _ in 0..1 + random.below(3) {
                let at = random.below(within);
                contents[at] = [0, 1, 0x7f, 0xff, random.bits() as u8][random.below(5)];
            }
            if round % 7 == 0 {
                contents.truncate(random.below(contents.len()));
            }
            match session.load(&summed(contents)) {
                Ok(_) => drop(session.evaluate(&[5, 6])),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 1000, "{refused}");
        assert_eq!(session.load(&file).unwrap(), 3);
    }

    /// What a step may leave: all logits or the best of them, these in order.
    #[test]
    fn best_logits_are_in_order_and_have_no_others_beside_them() {
        let (mut session, file) = saved();
        let best = best_at(&session, &file);
        let logits = best - session.logits().len() * 4 - 8;
        let mut load = |with_logits: bool, pairs: &[Ranked]| {
            let mut contents = file[..logits].to_vec();
            contents.extend(if with_logits { &file[logits..best] } else { &[0; 8] });
            contents.extend((pairs.len() as u64).to_le_bytes());
            contents
                .extend(pairs.iter().flat_map(|(token, logit)| [token.to_le_bytes(), logit.to_le_bytes()].concat()));
            contents.extend(&file[best + 8..file.len() - 8]);
            session.load(&summed(contents)).is_ok()
        };
        assert!(load(true, &[]));
        assert!(load(false, &[(7, 2.0), (3, 1.0), (9, 1.0)]));
        assert!(!load(true, &[(7, 2.0)]), "both");
        assert!(!load(false, &[(3, 1.0), (7, 2.0)]), "the worse first");
        assert!(!load(false, &[(9, 1.0), (3, 1.0)]), "equals in the wrong order");
        assert!(!load(false, &[(3, 1.0), (3, 1.0)]), "a token twice");
        assert!(!load(false, &[(3, 1.0), (7, -f32::NAN)]), "what is no number after one");
    }

    /// The file is to blame, not what the model runs on.
    #[test]
    fn a_layer_of_another_length_is_damage() {
        let (mut session, file) = saved();
        let layer = best_at(&session, &file) + 8;
        let len = u64::from_le_bytes(file[layer..layer + 8].try_into().unwrap());
        let mut contents = file[..layer].to_vec();
        contents.extend((len - 4).to_le_bytes());
        contents.extend(&file[layer + 12..file.len() - 8]);
        let error = session.load(&summed(contents)).unwrap_err();
        assert!(matches!(error, crate::Error::Saved(Error::Damaged)), "{error}");
    }

    #[test]
    fn caches_may_keep_promises_that_nobody_asks_for() {
        let shape = |promises: [&str; 2]| format!("keys F16, values F16{}", promises.concat());
        let all = [["", ""], [INVARIANT, ""], ["", EXACT], [INVARIANT, EXACT]];
        for got in all {
            for wanted in all {
                let kept = got.iter().zip(wanted).all(|(got, wanted)| wanted.is_empty() || *got == wanted);
                assert_eq!(fits(&shape(got), &shape(wanted)), kept, "{got:?} where {wanted:?} is wanted");
            }
        }
        assert!(!fits("keys F16, values F32", "keys F16, values F16"));
    }
}

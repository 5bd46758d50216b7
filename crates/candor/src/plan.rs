//! How many layers go where: numbers in, a layout and the reason for it out. Nothing is asked of a device here.

use std::ops::Range;

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Error, Part};
use candor_ops::{KvPlan, Shapes};

use crate::{Device, GpuLayers, fit, size::Size};

/// Bytes that a model's parts take on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Weights of the embedding.
    pub(crate) embedding: u64,
    /// Weights of each layer.
    pub(crate) layers: Vec<u64>,
    /// Weights after the last layer.
    pub(crate) head: u64,
    /// What embedding and head have in common: a part with both holds it once.
    pub(crate) shared: u64,
    /// Keys and values of a layer.
    pub(crate) cache: Vec<u64>,
    /// What is kept beside the layers' keys and values: an encoder's, and what layers see of its text. It lies with the embedding.
    pub(crate) beyond: u64,
    /// Values in flight, of every part.
    pub(crate) scratch: u64,
    /// The logits of a step.
    pub(crate) logits: u64,
    /// Whether it all lies on one device: layers hand on more than the stream.
    pub(crate) undivided: bool,
}

/// A GPU to plan for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    /// What it is called.
    pub(crate) name: String,
    /// Bytes that it may hold; `None` where nobody knows.
    pub(crate) bytes: Option<u64>,
    /// Its share of the layers.
    pub(crate) share: f32,
}

/// Where a part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Cpu,
    Reference,
    /// By its number among those that were planned for.
    Gpu(usize),
}

/// What goes where, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The parts in their order.
    pub(crate) parts: Vec<(Target, Part)>,
    /// The decision, for people to read.
    pub(crate) reason: String,
    /// Whether a GPU holds more than its budget, because that was asked for.
    pub(crate) over_budget: bool,
}

impl Needs {
    /// Of a file's model, for sessions without a cache.
    ///
    /// # Errors
    /// If the file's model cannot be run.
    pub(crate) fn of(gguf: &Gguf) -> Result<Needs, Error> {
        let config = Config::from_gguf(gguf)?;
        let bytes = |begin, layers, end| Decoder::<Shapes>::part_bytes(gguf, &Part { begin, layers, end });
        let layers = (0..config.layers).map(|i| bytes(Begin::Stream, i..i + 1, End::Stream));
        let embedding = bytes(Begin::Tokens, 0..0, End::Stream)?;
        let head = bytes(Begin::Stream, 0..0, End::Logits)?;
        let both = bytes(Begin::Tokens, 0..0, End::Logits)?;
        Ok(Needs {
            embedding,
            layers: layers.collect::<Result<_, _>>()?,
            head,
            shared: (embedding + head).saturating_sub(both),
            cache: vec![0; config.layers],
            beyond: 0,
            scratch: 0,
            logits: 0,
            undivided: config.crosses(),
        })
    }

    /// The same for sessions with a cache of that plan and steps of `rows` tokens and `outputs` rows of logits.
    pub(crate) fn with(&self, config: &Config, cache: &KvPlan, rows: usize, outputs: usize) -> Needs {
        let bytes = |cache: &KvPlan| cache.checked_bytes().map_or(u64::MAX, |bytes| bytes as u64);
        let kept = |i: usize| bytes(&cache.part(i..i + 1));
        Needs {
            cache: (0..config.layers).map(kept).collect(),
            beyond: bytes(cache).saturating_sub((0..config.layers).map(kept).fold(0, u64::saturating_add)),
            scratch: config.scratch_bytes(rows, 0),
            logits: config.scratch_bytes(0, outputs),
            ..self.clone()
        }
    }

    /// Bytes of a part.
    fn part(&self, part: &Part) -> u64 {
        let layers = part.layers.clone().map(|i| self.layers[i].saturating_add(self.cache[i]));
        let embedding = self.embedding.saturating_add(self.beyond);
        let [embedding, head, logits, shared] = match (part.begin, part.end) {
            (Begin::Tokens, End::Logits) => [embedding, self.head, self.logits, self.shared],
            (Begin::Tokens, End::Stream) => [embedding, 0, 0, 0],
            (Begin::Stream, End::Logits) => [0, self.head, self.logits, 0],
            (Begin::Stream, End::Stream) => [0; 4],
        };
        let all = layers.chain([embedding, head, logits, self.scratch]);
        all.fold(0, u64::saturating_add).saturating_sub(shared)
    }

    /// Bytes of a part's weights; these are needs without a cache.
    pub(crate) fn weights(&self, part: &Part) -> u64 {
        self.part(part)
    }
}

/// The layout for a context of `least` to `own` positions that is left open: that of the shortest one, and the longest one
/// with which it stays so and within the budgets.
pub(crate) fn plan_open(
    needs: impl Fn(usize) -> Needs,
    (least, own): (usize, usize),
    gpus: &[Budget],
    wanted: GpuLayers,
) -> Plan {
    let least = least.clamp(1, own.max(1));
    let short = plan(&needs(least), gpus, wanted);
    let stays = |context: usize| {
        let plan = plan(&needs(context), gpus, wanted);
        plan.parts == short.parts && !plan.over_budget
    };
    match fit::longest(own, stays) {
        longest if longest > least => plan(&needs(longest), gpus, wanted),
        _ => short,
    }
}

/// Lays a model out over GPUs, and the processor for the rest. The GPUs take the last layers, as many as are wanted or fit;
/// after all layers come the output and then the embedding. A model that cannot be divided lies on the GPU with the most room, if it
/// fits. The shares of the GPUs must not all be 0.
pub(crate) fn plan(needs: &Needs, gpus: &[Budget], wanted: GpuLayers) -> Plan {
    let alone = needs.undivided.then(|| roomiest(gpus));
    let gpus = alone.as_deref().unwrap_or(gpus);
    // What GPUs take, as a number: layers from the end; one more is the output, and one more the embedding.
    let layers = needs.layers.len();
    let whole = layers + 2;
    let fits = |taken: usize| {
        lay_out(layers, gpus, taken).iter().all(|(target, part)| match target {
            Target::Gpu(gpu) => gpus[*gpu].bytes.is_none_or(|budget| needs.part(part) <= budget),
            Target::Cpu | Target::Reference => true,
        })
    };
    let taken = match wanted {
        GpuLayers::Auto if needs.undivided => {
            if fits(whole) {
                whole
            } else {
                0
            }
        }
        GpuLayers::Auto => (0..=whole).rev().find(|&taken| fits(taken)).unwrap_or(0),
        GpuLayers::All => whole,
        GpuLayers::Count(count) if count > layers => whole,
        GpuLayers::Count(count) => count,
    };
    let parts = lay_out(layers, gpus, taken);
    let reason = reason(needs, gpus, wanted, &parts);
    let over_budget = !fits(taken);
    Plan { parts, reason, over_budget }
}

/// How a model keeps to a limit of memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stream {
    /// Layers that are taken from the file for each step: the last ones, as few as it takes.
    pub(crate) layers: Range<usize>,
    /// The decision, for people to read.
    pub(crate) reason: String,
}

/// Lays a model out on one device that may hold `limit` bytes; `None` where it holds all. A layer that passes takes its own room,
/// and the one after it, which comes meanwhile, as much. `once` says that parts hold together what they have in common, as those
/// of the processor do.
///
/// # Errors
/// The bytes that it takes at least, if they are more.
pub(crate) fn stream(needs: &Needs, limit: u64, once: bool) -> Result<Option<Stream>, u64> {
    let layers = needs.layers.len();
    let whole = needs.part(&Part::whole(layers));
    if whole <= limit {
        return Ok(None);
    }
    let bytes = |kept: usize| {
        let first = needs.part(&Part { begin: Begin::Tokens, layers: 0..kept, end: End::Stream });
        let last = needs.part(&Part { begin: Begin::Stream, layers: layers..layers, end: End::Logits });
        let caches = needs.cache[kept..].iter().copied().fold(needs.scratch, u64::saturating_add);
        let largest = needs.layers[kept..].iter().copied().max().unwrap_or(0);
        let all = [first, last, caches, largest, largest].into_iter().fold(0, u64::saturating_add);
        all.saturating_sub(if once { needs.shared } else { 0 })
    };
    if needs.undivided {
        return Err(whole);
    }
    let kept = (0..layers).rev().find(|&kept| bytes(kept) <= limit).ok_or_else(|| whole.min(bytes(0)))?;
    let read = needs.layers[kept..].iter().copied().fold(0, u64::saturating_add);
    let reason = format!("{kept} of {layers} layers stay in {}; {} are read for each step", Size(limit), Size(read));
    Ok(Some(Stream { layers: kept..layers, reason }))
}

/// The parts before, of and after layers that pass.
pub(crate) fn around(layers: &Range<usize>, target: Target, all: usize) -> Vec<(Target, Part)> {
    let parts = [
        Part { begin: Begin::Tokens, layers: 0..layers.start, end: End::Stream },
        Part { begin: Begin::Stream, layers: layers.clone(), end: End::Stream },
        Part { begin: Begin::Stream, layers: layers.end..all, end: End::Logits },
    ];
    parts.map(|part| (target, part)).into()
}

/// Whether a part of [`around`] is the one that passes.
pub(crate) fn passes(part: &Part, stream: &Stream) -> bool {
    part.begin == Begin::Stream && part.layers == stream.layers
}

/// The same GPUs, of which the one with the most room takes all.
fn roomiest(gpus: &[Budget]) -> Vec<Budget> {
    let room = |gpu: &Budget| gpu.bytes.unwrap_or(u64::MAX);
    let most = gpus.iter().map(room).max();
    let taker = gpus.iter().position(|gpu| Some(room(gpu)) == most);
    let share = |number| if Some(number) == taker { 1.0 } else { 0.0 };
    gpus.iter().enumerate().map(|(number, gpu)| Budget { share: share(number), ..gpu.clone() }).collect()
}

/// The parts where GPUs take so much. A GPU without layers gets no part.
fn lay_out(layers: usize, gpus: &[Budget], taken: usize) -> Vec<(Target, Part)> {
    let first = layers - taken.min(layers);
    let sum: f32 = gpus.iter().map(|gpu| gpu.share).sum();
    let mut parts: Vec<(Target, Part)> = Vec::new();
    let mut push = |target, layers| parts.push((target, Part { begin: Begin::Stream, layers, end: End::Stream }));
    if taken <= layers + 1 {
        push(Target::Cpu, 0..first);
    }
    let (mut start, mut shares) = (first, 0.0);
    for (number, gpu) in gpus.iter().enumerate() {
        shares += gpu.share;
        let is_last = number + 1 == gpus.len();
        let to = if is_last { layers } else { first + ((layers - first) as f32 * shares / sum).round() as usize };
        let to = to.clamp(start, layers);
        if to > start {
            push(Target::Gpu(number), start..to);
        }
        start = to;
    }
    // The processor's layers and its output are one part where no GPU is between them.
    if taken <= layers && taken > 0 {
        push(Target::Cpu, layers..layers);
    }
    if let Some((_, part)) = parts.first_mut() {
        part.begin = Begin::Tokens;
    }
    if let Some((_, part)) = parts.last_mut() {
        part.end = End::Logits;
    }
    parts
}

/// The parts of a list of devices and layers.
///
/// # Errors
/// If the layers do not follow each other from the first to the last, or if a device is `Auto`.
pub(crate) fn listed(list: &[(Device, Range<usize>)], layers: usize) -> Result<Vec<(Target, Part)>, crate::Error> {
    let mut next = 0;
    let mut parts = Vec::with_capacity(list.len());
    for (number, (device, range)) in list.iter().enumerate() {
        let target = match device {
            Device::Cpu => Target::Cpu,
            Device::Reference => Target::Reference,
            Device::Gpu => Target::Gpu(0),
            Device::Auto => return Err(crate::Error::Parts { layers }),
        };
        if range.start != next || range.end < next {
            return Err(crate::Error::Parts { layers });
        }
        next = range.end;
        let begin = if number == 0 { Begin::Tokens } else { Begin::Stream };
        let end = if number + 1 == list.len() { End::Logits } else { End::Stream };
        parts.push((target, Part { begin, layers: range.clone(), end }));
    }
    match next == layers && !parts.is_empty() {
        true => Ok(parts),
        false => Err(crate::Error::Parts { layers }),
    }
}

fn reason(needs: &Needs, gpus: &[Budget], wanted: GpuLayers, parts: &[(Target, Part)]) -> String {
    let layers = needs.layers.len();
    let on_gpus = parts.iter().filter_map(|(target, part)| match target {
        Target::Gpu(gpu) => Some((&gpus[*gpu], part)),
        Target::Cpu | Target::Reference => None,
    });
    let all = on_gpus.clone().map(|(_, part)| part.layers.len()).sum::<usize>() == layers;
    let spilt = wanted == GpuLayers::Auto && !(all && parts.last().is_some_and(|(target, _)| *target != Target::Cpu));
    let each = on_gpus.map(|(gpu, part)| {
        let output = if part.end == End::Logits { " and the output" } else { "" };
        let head = format!("{} of {layers} layers{output} on {}", part.layers.len(), gpu.name);
        let needed = needs.part(part);
        match gpu.bytes {
            None => format!("{head}: {}", Size(needed)),
            Some(budget) if needed > budget => {
                format!("{head}: {}, more than the budget of {}", Size(needed), Size(budget))
            }
            Some(budget) if spilt => format!("{head}: {}, the budget of {} holds no more", Size(needed), Size(budget)),
            Some(budget) => format!("{head}: {} of {}", Size(needed), Size(budget)),
        }
    });
    let each: Vec<String> = each.collect();
    if !each.is_empty() {
        return each.join("; ");
    }
    let none = gpus.iter().map(|gpu| match gpu.bytes {
        Some(budget) if spilt && needs.undivided => {
            format!(
                "0 of {layers} layers on {}: the budget of {} does not hold all, and this model cannot be divided",
                gpu.name,
                Size(budget)
            )
        }
        Some(budget) if spilt => {
            format!("0 of {layers} layers on {}: the budget of {} holds none", gpu.name, Size(budget))
        }
        _ => format!("0 of {layers} layers on {}", gpu.name),
    });
    none.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// Ten layers of 100 MB with caches of 10 MB, an embedding of 50 MB that is also most of the head.
    fn needs() -> Needs {
        Needs {
            embedding: 50 * MB,
            layers: vec![100 * MB; 10],
            head: 51 * MB,
            shared: 50 * MB,
            cache: vec![10 * MB; 10],
            beyond: 0,
            scratch: 5 * MB,
            logits: 4 * MB,
            undivided: false,
        }
    }

    fn gpu(name: &str, bytes: u64, share: f32) -> Budget {
        Budget { name: name.to_owned(), bytes: Some(bytes), share }
    }

    #[test]
    fn the_last_layers_pass_where_not_all_fit() {
        let kept =
            |limit, once| stream(&needs(), limit * MB, once).map(|stream| stream.map(|stream| stream.layers.start));
        // The whole is 1051 MB of weights, 100 of caches, 9 in flight.
        assert_eq!(kept(1160, false), Ok(None));
        // 101 of embedding and head, 100 of caches, 14 of two parts and the passing layers in flight, 4 of logits, two layers.
        let bare = 101 + 100 + 15 + 4 + 200;
        assert_eq!(kept(bare, false), Ok(Some(0)));
        assert_eq!(kept(bare - 1, false), Err(bare * MB));
        assert_eq!(kept(bare + 299, false), Ok(Some(2)));
        assert_eq!(kept(bare - 50, true), Ok(Some(0)));
        assert_eq!(stream(&Needs { undivided: true, ..needs() }, bare * MB, false), Err(1160 * MB));
        let stream = stream(&needs(), (bare + 299) * MB, false).unwrap().unwrap();
        assert_eq!(stream.reason, "2 of 10 layers stay in 719 MB; 800 MB are read for each step");
        let parts = around(&stream.layers, Target::Cpu, 10);
        let plan = Plan { parts, reason: String::new(), over_budget: false };
        assert_eq!(short(&plan), "c:E0-2 c:2-10 c:O");
        assert_eq!(plan.parts.iter().filter(|(_, part)| passes(part, &stream)).count(), 1);
    }

    /// A plan in short: `c:E0-4 g0:4-10 c:O`, where E is the embedding and O the output.
    fn short(plan: &Plan) -> String {
        let part = |(target, part): &(Target, Part)| {
            let target = match target {
                Target::Cpu => "c".to_owned(),
                Target::Reference => "r".to_owned(),
                Target::Gpu(gpu) => format!("g{gpu}"),
            };
            let embedding = if part.begin == Begin::Tokens { "E" } else { "" };
            let output = if part.end == End::Logits { "O" } else { "" };
            let layers = match part.layers.is_empty() {
                true => String::new(),
                false => format!("{}-{}", part.layers.start, part.layers.end),
            };
            format!("{target}:{embedding}{layers}{output}")
        };
        plan.parts.iter().map(part).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn auto_takes_what_the_budget_holds() {
        let whole = 10 * 110 + 51 + 4 + 5;
        for (budget, layout, reason) in [
            (8000, "g0:E0-10O", "10 of 10 layers and the output on X: 1.2 GB of 8.0 GB"),
            (whole, "g0:E0-10O", "10 of 10 layers and the output on X: 1.2 GB of 1.2 GB"),
            // The embedding shares the head's bytes, so it is both or neither.
            (whole - 1, "c:E g0:0-10 c:O", "10 of 10 layers on X: 1.1 GB, the budget of 1.2 GB holds no more"),
            (1105, "c:E g0:0-10 c:O", "10 of 10 layers on X: 1.1 GB, the budget of 1.1 GB holds no more"),
            (1104, "c:E0-1 g0:1-10 c:O", "9 of 10 layers on X: 995 MB, the budget of 1.1 GB holds no more"),
            (115, "c:E0-9 g0:9-10 c:O", "1 of 10 layers on X: 115 MB, the budget of 115 MB holds no more"),
            (114, "c:E0-10O", "0 of 10 layers on X: the budget of 114 MB holds none"),
            (0, "c:E0-10O", "0 of 10 layers on X: the budget of 0.00 MB holds none"),
        ] {
            let plan = plan(&needs(), &[gpu("X", budget * MB, 1.0)], GpuLayers::Auto);
            assert_eq!((short(&plan).as_str(), plan.reason.as_str()), (layout, reason), "{budget} MB");
        }
        // With a head of its own there is a budget that holds the output and not the embedding.
        let own = Needs { shared: 0, ..needs() };
        let plan = plan(&own, &[gpu("X", (whole + 49) * MB, 1.0)], GpuLayers::Auto);
        assert_eq!(short(&plan), "c:E g0:0-10O");
        assert_eq!(plan.reason, "10 of 10 layers and the output on X: 1.2 GB of 1.2 GB");
    }

    #[test]
    fn what_cannot_be_divided_lies_on_the_roomiest_gpu_or_on_none() {
        let needs = Needs { undivided: true, ..needs() };
        let both = |bytes: u64| [gpu("X", 300 * MB, 3.0), gpu("Y", bytes * MB, 1.0), gpu("Z", 200 * MB, 1.0)];
        assert_eq!(short(&plan(&needs, &both(1160), GpuLayers::Auto)), "g1:E0-10O");
        assert_eq!(short(&plan(&needs, &both(200), GpuLayers::All)), "g0:E0-10O");
        let none = plan(&needs, &both(1159)[1..2], GpuLayers::Auto);
        assert_eq!(short(&none), "c:E0-10O");
        let reason = "0 of 10 layers on Y: the budget of 1.2 GB does not hold all, and this model cannot be divided";
        assert_eq!(none.reason, reason);
    }

    #[test]
    fn a_number_is_taken_at_its_word() {
        for (wanted, layout, reason) in [
            (GpuLayers::Count(0), "c:E0-10O", "0 of 10 layers on X"),
            (GpuLayers::Count(1), "c:E0-9 g0:9-10 c:O", "1 of 10 layers on X: 115 MB of 200 MB"),
            (GpuLayers::Count(10), "c:E g0:0-10 c:O", "10 of 10 layers on X: 1.1 GB, more than the budget of 200 MB"),
            (
                GpuLayers::Count(11),
                "g0:E0-10O",
                "10 of 10 layers and the output on X: 1.2 GB, more than the budget of 200 MB",
            ),
            (
                GpuLayers::All,
                "g0:E0-10O",
                "10 of 10 layers and the output on X: 1.2 GB, more than the budget of 200 MB",
            ),
        ] {
            let plan = plan(&needs(), &[gpu("X", 200 * MB, 1.0)], wanted);
            assert_eq!(plan.over_budget, plan.reason.contains("more than the budget"), "{wanted:?}");
            assert_eq!((short(&plan).as_str(), plan.reason.as_str()), (layout, reason), "{wanted:?}");
        }
        let unknown = Budget { bytes: None, ..gpu("X", 0, 1.0) };
        let plan = plan(&needs(), &[unknown], GpuLayers::Auto);
        assert_eq!(
            (short(&plan).as_str(), plan.reason.as_str()),
            ("g0:E0-10O", "10 of 10 layers and the output on X: 1.2 GB")
        );
    }

    /// The cache of a layer takes 1 MB for 256 positions.
    #[test]
    fn an_open_context_leaves_layers_on_the_gpu_and_grows_into_what_is_left() {
        let sized = |context: usize| Needs { cache: vec![context as u64 * MB / 256; 10], ..needs() };
        let open = |budget: u64, wanted| plan_open(sized, (1024, 8192), &[gpu("X", budget * MB, 1.0)], wanted);
        // 1,060 MB of weights and the like, and 10 MB for each 256 positions.
        for (budget, wanted, layout, reason) in [
            (8000, GpuLayers::Auto, "g0:E0-10O", "10 of 10 layers and the output on X: 1.4 GB of 8.0 GB"),
            (1160, GpuLayers::Auto, "g0:E0-10O", "10 of 10 layers and the output on X: 1.2 GB of 1.2 GB"),
            (1100, GpuLayers::Auto, "g0:E0-10O", "10 of 10 layers and the output on X: 1.1 GB of 1.1 GB"),
            // The shortest context does not leave room for all layers: the rest of the GPU is for the cache of those.
            (
                500,
                GpuLayers::Auto,
                "c:E0-6 g0:6-10 c:O",
                "4 of 10 layers on X: 497 MB, the budget of 500 MB holds no more",
            ),
            (50, GpuLayers::Auto, "c:E0-10O", "0 of 10 layers on X: the budget of 50 MB holds none"),
            (1100, GpuLayers::Count(4), "c:E0-6 g0:6-10 c:O", "4 of 10 layers on X: 533 MB of 1.1 GB"),
            (
                400,
                GpuLayers::Count(4),
                "c:E0-6 g0:6-10 c:O",
                "4 of 10 layers on X: 421 MB, more than the budget of 400 MB",
            ),
        ] {
            let plan = open(budget, wanted);
            assert_eq!((short(&plan).as_str(), plan.reason.as_str()), (layout, reason), "{budget} MB");
        }
        // What is planned is what the model's own length would get where that fits.
        assert_eq!(open(8000, GpuLayers::Auto), plan(&sized(8192), &[gpu("X", 8000 * MB, 1.0)], GpuLayers::Auto));
    }

    #[test]
    fn several_gpus_take_their_shares() {
        let pair = |bytes: [u64; 2], shares: [f32; 2]| {
            let [a, b] = bytes;
            [gpu("A", a * MB, shares[0]), gpu("B", b * MB, shares[1])]
        };
        for (gpus, wanted, layout) in [
            (pair([8000, 8000], [1.0, 1.0]), GpuLayers::Auto, "g0:E0-5 g1:5-10O"),
            (pair([8000, 8000], [3.0, 1.0]), GpuLayers::Auto, "g0:E0-8 g1:8-10O"),
            (pair([8000, 8000], [1.0, 0.0]), GpuLayers::Auto, "g0:E0-10O"),
            (pair([8000, 8000], [0.0, 1.0]), GpuLayers::All, "g1:E0-10O"),
            (pair([8000, 8000], [1.0, 1.0]), GpuLayers::Count(4), "c:E0-6 g0:6-8 g1:8-10 c:O"),
            (pair([8000, 8000], [1.0, 1.0]), GpuLayers::Count(1), "c:E0-9 g0:9-10 c:O"),
            (pair([400, 400], [1.0, 1.0]), GpuLayers::Auto, "c:E0-4 g0:4-7 g1:7-10 c:O"),
        ] {
            let plan = plan(&needs(), &gpus, wanted);
            assert_eq!(short(&plan), layout, "{gpus:?} {wanted:?}");
        }
        let plan = plan(&needs(), &pair([400, 400], [1.0, 1.0]), GpuLayers::Auto);
        assert_eq!(
            plan.reason,
            "3 of 10 layers on A: 335 MB, the budget of 400 MB holds no more; \
             3 of 10 layers on B: 335 MB, the budget of 400 MB holds no more"
        );
    }
}

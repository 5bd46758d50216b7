//! The backends that options choose: made when first needed, shared by the parts of a model that run on them.

use std::{collections::BTreeSet, sync::Arc};

use candor_cpu::{Batching, Cpu, CpuOptions, huge_pages};
use candor_gguf::Gguf;
#[cfg(feature = "gpu")]
use candor_gpu::{AdapterChoice, Gpu, GpuOptions};
use candor_kernels::Kernels;
use candor_models::{Config, Decoder, End, Part};
use candor_ops::{Ops, Shapes};

use crate::{
    Activations, Adapter, Device, DeviceInfo, Error, LoadOptions, Placement,
    adapter::Fitted,
    batch::{Room, own},
    fit::{self, Holder},
    gpus::{self, Found},
    now::now,
    part::{self, Changes},
    plan::{self, Budget, Needs, Plan, Stream, Target},
    rounding::Arithmetic,
    runner::{Loaded, LoadedPart, Share},
    streamed,
    trust::{self, Trust},
};

/// Something to do with the backend that options choose, whatever its type.
pub trait BackendVisitor {
    /// What comes of it.
    type Output;
    /// `label` is for people to read: `cpu, avx2 kernels, 8 threads`.
    fn visit<B>(self, ops: B, label: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static;
}

/// Makes the backend that `options` choose for a whole model and hands it to the visitor. A GPU is not verified.
///
/// # Errors
/// If `CANDOR_ISA` names no instruction set of this machine, huge pages are asked for where there are none, or a GPU is.
pub fn visit_backend<V: BackendVisitor>(options: &LoadOptions, visitor: V) -> Result<V::Output, Error> {
    now(visit_backend_body(options, visitor))
}

/// What [`visit_backend`] does.
pub(crate) async fn visit_backend_body<V: BackendVisitor>(
    options: &LoadOptions,
    visitor: V,
) -> Result<V::Output, Error> {
    let mut backends = Backends::new(options).await?;
    let target = backends.first();
    backends.visit(target, visitor).await
}

/// The devices of this machine, the processor first.
///
/// # Errors
/// If `CANDOR_ISA` names no instruction set of this machine.
pub fn devices() -> Result<Vec<DeviceInfo>, Error> {
    now(devices_body())
}

/// What [`devices`] does.
pub(crate) async fn devices_body() -> Result<Vec<DeviceInfo>, Error> {
    let driver = format!("{} kernels", Kernels::from_env()?.name);
    let description = format!("processor, {} cores", candor_cpu::physical_cores());
    let (total_bytes, free_bytes, budget_bytes) = (None, None, None);
    let name = "cpu".to_owned();
    let mut devices = vec![DeviceInfo { name, description, driver, total_bytes, free_bytes, budget_bytes }];
    devices.extend(gpus::all().await.into_iter().map(|gpu| gpu.info));
    Ok(devices)
}

/// The GPUs that options choose; none where they ask for none, or [`Device::Auto`] finds none.
///
/// # Errors
/// If a GPU is asked for by a name that fits none.
pub fn chosen_gpus(options: &LoadOptions) -> Result<Vec<DeviceInfo>, Error> {
    now(chosen_gpus_body(options))
}

/// What [`chosen_gpus`] does.
pub(crate) async fn chosen_gpus_body(options: &LoadOptions) -> Result<Vec<DeviceInfo>, Error> {
    match options.device {
        Device::Auto | Device::Gpu => Ok(gpus::chosen(options).await?.into_iter().map(|gpu| gpu.info).collect()),
        Device::Cpu | Device::Reference => Ok(Vec::new()),
    }
}

/// Operations of a file's model that GPUs do not have: it runs on the processor then.
///
/// # Errors
/// If the file's model cannot be run, or an adapter is of another model.
pub fn missing_on_gpus(gguf: &Gguf, adapters: &[Adapter]) -> Result<Vec<&'static str>, Error> {
    let mut used = Decoder::<Shapes>::operations(gguf)?;
    if !adapters.is_empty() {
        used.extend(Fitted::new(gguf, adapters)?.operations);
    }
    Ok(without(&used))
}

/// Those of some operations that GPUs do not have.
fn without(used: &BTreeSet<&'static str>) -> Vec<&'static str> {
    #[cfg(feature = "gpu")]
    let without = <Gpu as candor_ops::Prims>::WITHOUT;
    #[cfg(not(feature = "gpu"))]
    let without: &[&str] = &[];
    without.iter().copied().filter(|operation| used.contains(operation)).collect()
}

/// A model on its backends, and what there is to say of it.
pub(crate) struct Placed {
    pub(crate) loaded: Loaded,
    pub(crate) label: String,
    /// How the GPU is opened on which all of it lies.
    #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
    pub(crate) only_gpu: Option<GpuOptions>,
    /// How that GPU computes.
    #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
    pub(crate) variant: Option<candor_gpu::Variant>,
    /// What was found out of GPUs.
    pub(crate) trust: Trust,
    /// Why it lies where it lies, where that was a decision.
    pub(crate) reason: Option<String>,
    /// Whether a GPU was given more than its budget.
    pub(crate) over_budget: bool,
    /// Whether the bits of a token follow from its role, however many are computed at once.
    pub(crate) batch_invariant: bool,
    /// Whether both roles have the same arithmetic.
    pub(crate) one_arithmetic: bool,
    /// What was asked for of the inputs of products.
    pub(crate) activations: Activations,
    /// Of the processor, where it computes alone.
    pub(crate) arithmetic: Option<Arithmetic>,
}

/// Loads a model where options say.
pub(crate) async fn load(gguf: &Gguf, options: &LoadOptions) -> Result<Placed, Error> {
    let config = Config::from_gguf(gguf)?;
    let mut backends = Backends::new(options).await?;
    let adapters = &options.adapters;
    let fitted = Fitted::new(gguf, adapters)?;
    let missing = if backends.gpus.is_empty() { Vec::new() } else { without(&fitted.operations) };
    let on_cpu = (!missing.is_empty()).then(|| {
        format!("this model has operations that GPUs do not have here ({}): using the processor", missing.join(", "))
    });
    if on_cpu.is_some() {
        if options.device != Device::Auto || matches!(options.placement, Placement::Parts(_)) {
            return Err(Error::MissingOnGpu { operations: missing });
        }
        backends.gpus.clear();
    }
    let trust = trust::settle(gguf, &mut backends.options, &mut backends.gpus).await?;
    let stream = match options.placement {
        Placement::Planned => backends.stream(gguf, &config, fitted.bytes)?,
        Placement::Parts(_) if options.memory.is_some() => return Err(Error::LimitedParts),
        Placement::Parts(_) => None,
    };
    let (parts, decision) = match (&options.placement, &stream) {
        (Placement::Planned, Some(Stream { layers, reason })) => {
            (plan::around(layers, backends.first(), config.layers), Some((reason.clone(), false)))
        }
        (Placement::Planned, None) if backends.gpus.is_empty() => {
            (vec![(backends.first(), Part::whole(config.layers))], None)
        }
        (Placement::Planned, None) => {
            let Plan { parts, reason, over_budget } = backends.plan(gguf, &config, fitted.bytes)?;
            (parts, Some((reason, over_budget)))
        }
        (Placement::Parts(listed), _) => (plan::listed(listed, config.layers)?, None),
    };
    if parts.iter().any(|(target, _)| *target == Target::Reference) {
        let elements = gguf.tensors().iter().fold(0, |sum: u64, tensor| sum.saturating_add(tensor.elements()));
        fit::holds_weights(elements.saturating_mul(4))?;
    }
    let scales: Vec<f32> = adapters.iter().map(Adapter::scale).collect();
    let changes = Changes { all: &fitted.changes, scales: &scales };
    let (mut loaded, mut labels) = (Vec::new(), Vec::<String>::new());
    for (target, part) in &parts {
        let passes = stream.as_ref().is_some_and(|stream| plan::passes(part, stream));
        let (part, label) = backends.visit(*target, Load { gguf, part, changes, passes }).await??;
        loaded.push(part);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let batch_invariant = backends.batch_invariant(gguf, parts.iter().map(|(target, _)| *target))?;
    // GPUs multiply the rows of prompts in tiles, whatever was asked for.
    let one_arithmetic =
        options.batching == Batching::Invariant && !parts.iter().any(|(target, _)| matches!(target, Target::Gpu(_)));
    let alone = parts.iter().all(|(target, _)| *target == Target::Cpu);
    let arithmetic =
        alone.then(|| options.table()).transpose()?.map(|kernels| Arithmetic { kernels, batching: options.batching });
    let over_budget = decision.as_ref().is_some_and(|(_, over_budget)| *over_budget);
    let shares = backends.shares(gguf, &config, &parts, fitted.bytes)?;
    let (loaded, label) = (Loaded::new(config, loaded, shares), labels.join("; "));
    let reason = decision.map(|(reason, _)| reason).or(on_cpu);
    #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
    let (only_gpu, variant) = match only_gpu(parts.iter().map(|(target, _)| *target)) {
        Some(gpu) => (Some(backends.gpu_options(gpu)?), Some(backends.gpu(gpu).await?.variant())),
        None => (None, None),
    };
    Ok(Placed {
        loaded,
        label,
        #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
        only_gpu,
        #[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
        variant,
        trust,
        reason,
        over_budget,
        batch_invariant,
        one_arithmetic,
        activations: options.activations,
        arithmetic,
    })
}

/// Loads a part where options say, without adapters.
///
/// # Errors
/// As [`visit_backend`]; if the part cannot be loaded.
pub(crate) fn load_part(gguf: &Gguf, options: &LoadOptions, part: &Part) -> Result<Arc<dyn LoadedPart>, Error> {
    let changes = Changes { all: &Arc::default(), scales: &[] };
    let (part, _) = visit_backend(options, Load { gguf, part, changes, passes: false })??;
    Ok(part)
}

/// The GPU to which all parts go, however many there were to choose from.
#[cfg(all(feature = "gpu", not(target_arch = "wasm32")))]
fn only_gpu(mut targets: impl Iterator<Item = Target>) -> Option<usize> {
    let first = targets.next()?;
    match first {
        Target::Gpu(gpu) if targets.all(|target| target == first) => Some(gpu),
        _ => None,
    }
}

/// Loads a part.
struct Load<'a> {
    gguf: &'a Gguf,
    part: &'a Part,
    changes: Changes<'a>,
    /// Whether its layers are taken from the file for each step.
    passes: bool,
}

impl BackendVisitor for Load<'_> {
    type Output = Result<(Arc<dyn LoadedPart>, String), candor_models::Error>;

    fn visit<B>(self, ops: B, label: String) -> Self::Output
    where
        B: Ops<Weight: Send + Sync, Buf: Send, Kv: Send, Snapshot: Send, Rope: Send + Sync, Routes: Send>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let Load { gguf, part, changes, passes } = self;
        let loaded = if passes {
            streamed::load(gguf, ops, part.layers.clone(), changes)
        } else {
            part::load(gguf, ops, part, changes)?
        };
        Ok((loaded, label))
    }
}

/// What options choose among, made where it was needed.
struct Backends {
    options: LoadOptions,
    cpu: Option<Cpu>,
    /// Those that the options ask for.
    gpus: Vec<Found>,
}

impl Backends {
    async fn new(options: &LoadOptions) -> Result<Backends, Error> {
        let listed = |device| match &options.placement {
            Placement::Planned => options.device == device,
            Placement::Parts(parts) => parts.iter().any(|(of_part, _)| *of_part == device),
        };
        let gpus = match (listed(Device::Gpu), listed(Device::Auto)) {
            (false, false) => Vec::new(),
            _ => gpus::chosen(options).await?,
        };
        if gpus.is_empty() && listed(Device::Gpu) {
            return Err(if cfg!(feature = "gpu") { Error::NoGpu } else { Error::BuiltWithoutGpu });
        }
        #[cfg_attr(not(feature = "gpu"), allow(unused_mut, reason = "GPUs alone have options of their own"))]
        let mut options = options.clone();
        #[cfg(feature = "gpu")]
        if options.activations == Activations::F32 {
            options.gpu = options.gpu.exact(true);
        }
        Ok(Backends { options, cpu: None, gpus })
    }

    /// Where a model runs that is not divided.
    fn first(&self) -> Target {
        match self.options.device {
            Device::Reference => Target::Reference,
            Device::Cpu => Target::Cpu,
            Device::Auto | Device::Gpu if self.gpus.is_empty() => Target::Cpu,
            Device::Auto | Device::Gpu => Target::Gpu(0),
        }
    }

    /// The layout over GPUs and the processor, with room for the sessions that the options describe and for `adapters` bytes
    /// of adapters: who knows how many of them go where.
    fn plan(&self, gguf: &Gguf, config: &Config, adapters: u64) -> Result<Plan, Error> {
        let (options, layers) = (self.options.session.of_batch(1), self.options.offload.layers);
        let weights = Needs::of(gguf)?;
        let needs = |context: usize| {
            let room = Room::planned(config, &options.context(context));
            weights.with(config, &room.plan, room.rows, room.outputs)
        };
        let budgets = self.budgets(adapters);
        Ok(match options.context {
            0 if options.fit => plan::plan_open(needs, (options.least_context, own(config)), &budgets, layers),
            context => plan::plan(&needs(context), &budgets, layers),
        })
    }

    /// How the model keeps to the limit of memory that options name, with room for their session and for `adapters` bytes of
    /// adapters.
    fn stream(&self, gguf: &Gguf, config: &Config, adapters: u64) -> Result<Option<Stream>, Error> {
        let Some(limit) = self.options.memory else { return Ok(None) };
        let mut session = self.options.session.of_batch(1);
        if session.context == 0 && session.fit {
            session.context = session.least_context.clamp(1, own(config).max(1));
        }
        let room = Room::planned(config, &session);
        let needs = Needs::of(gguf)?.with(config, &room.plan, room.rows, room.outputs);
        // Where a file's bytes are multiplied as they lie, a tensor is there once.
        let once = self.first() == Target::Cpu;
        plan::stream(&needs, limit.saturating_sub(adapters), once).map_err(|needed| Error::Limit {
            needed: needed.saturating_add(adapters),
            limit,
            divides: !needs.undivided,
        })
    }

    /// What GPUs may hold beside adapters of as many bytes.
    fn budgets(&self, adapters: u64) -> Vec<Budget> {
        let asked = &self.options.offload;
        let shares = asked.split.iter().copied().map(Some).chain(std::iter::repeat(None));
        let budgets = self.gpus.iter().zip(shares).map(|(gpu, share)| {
            let bytes = [gpu.info.budget_bytes, asked.memory].into_iter().flatten().min();
            let bytes = bytes.map(|bytes| bytes.saturating_sub(adapters));
            let share = share.unwrap_or_else(|| bytes.map_or(1.0, |bytes| bytes as f32));
            Budget { name: gpu.info.description.clone(), bytes, share }
        });
        budgets.collect()
    }

    /// What each memory has of a model whose parts are laid out.
    fn shares(
        &self,
        gguf: &Gguf,
        config: &Config,
        parts: &[(Target, Part)],
        adapters: u64,
    ) -> Result<Vec<Share>, Error> {
        let budgets = self.budgets(adapters);
        let weights = if budgets.is_empty() { None } else { Some(Needs::of(gguf)?) };
        let mapped = gguf.is_mapped();
        let mut shares: Vec<(Option<usize>, Share)> = Vec::new();
        for (target, part) in parts {
            let gpu = match target {
                Target::Gpu(number) => Some(*number),
                Target::Cpu | Target::Reference => None,
            };
            let at = shares.iter().position(|(of, _)| *of == gpu).unwrap_or_else(|| {
                let budget = |number: usize| budgets.get(number).and_then(|budget| budget.bytes).unwrap_or(u64::MAX);
                let name = |number: usize| budgets.get(number).map(|budget| budget.name.clone()).unwrap_or_default();
                let gpu_left = gpu.map(|number| Holder { name: name(number), free: budget(number) });
                shares.push((gpu, Share { gpu: gpu_left, caches: Vec::new(), logits: false, mapped: 0 }));
                shares.len() - 1
            });
            let share = &mut shares[at].1;
            share.caches.push(config.cached(part));
            share.logits |= part.end == End::Logits;
            match (&mut share.gpu, &weights) {
                (Some(left), Some(weights)) => left.free = left.free.saturating_sub(weights.weights(part)),
                (None, _) if mapped && *target == Target::Cpu => {
                    share.mapped = share.mapped.saturating_add(Decoder::<Shapes>::part_bytes(gguf, part)?);
                }
                _ => {}
            }
        }
        Ok(shares.into_iter().map(|(_, share)| share).collect())
    }

    async fn visit<V: BackendVisitor>(&mut self, target: Target, visitor: V) -> Result<V::Output, Error> {
        Ok(match target {
            Target::Cpu => {
                let cpu = self.cpu()?;
                let (one, several) = (cpu.threads(), cpu.threads_batch());
                let prompts = if several == one { String::new() } else { format!(" ({several} for prompts)") };
                let label = format!("cpu, {} kernels, {one} threads{prompts}", cpu.kernels().name);
                visitor.visit(cpu, label)
            }
            #[cfg(feature = "reference")]
            Target::Reference => visitor.visit(candor_ops::Reference, "reference".to_owned()),
            #[cfg(not(feature = "reference"))]
            Target::Reference => return Err(Error::BuiltWithoutReference),
            #[cfg(feature = "gpu")]
            Target::Gpu(number) => {
                let gpu = self.gpu(number).await?;
                let label = format!("gpu, {}", gpu.label());
                let output = visitor.visit(gpu.clone(), label);
                gpu.settled().await.map_err(candor_models::Error::from)?;
                output
            }
            #[cfg(not(feature = "gpu"))]
            Target::Gpu(_) => return Err(Error::BuiltWithoutGpu),
        })
    }

    /// A GPU; those who have opened it already share it.
    #[cfg(feature = "gpu")]
    async fn gpu(&self, number: usize) -> Result<Gpu, Error> {
        Ok(Gpu::open(&self.gpu_options(number)?).await?)
    }

    /// How a GPU is opened.
    #[cfg(feature = "gpu")]
    fn gpu_options(&self, number: usize) -> Result<GpuOptions, Error> {
        let index = self.gpus.get(number).ok_or(Error::NoGpu)?.index;
        Ok(self.options.gpu.clone().adapter(AdapterChoice::Index(index)))
    }

    /// The processor, with one pool of threads for all that it computes.
    fn cpu(&mut self) -> Result<Cpu, Error> {
        if let Some(cpu) = &self.cpu {
            return Ok(cpu.clone());
        }
        let kernels = self.options.table()?;
        if self.options.huge_pages {
            huge_pages()?;
        }
        let LoadOptions { threads, threads_batch, batching, huge_pages, spawn, .. } = self.options;
        let cpus = self.options.cpus.clone();
        let cpu = Cpu::new(CpuOptions { threads, threads_batch, cpus, huge_pages, kernels, batching, spawn });
        Ok(self.cpu.insert(cpu).clone())
    }

    /// Whether the bits that these compute of a token follow from its role, however many are computed at once.
    fn batch_invariant(&self, gguf: &Gguf, targets: impl IntoIterator<Item = Target>) -> Result<bool, Error> {
        let kernels = self.options.table()?;
        let many =
            gguf.tensors().iter().any(|tensor| tensor.shape.len() > 1 && (kernels.batch)(tensor.format).is_some());
        let on_cpu = self.options.batching != Batching::Fastest || !many;
        Ok(targets.into_iter().all(|target| match target {
            Target::Cpu => on_cpu,
            Target::Reference | Target::Gpu(_) => true,
        }))
    }
}

#[cfg(all(test, feature = "gpu", not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn the_only_gpu_is_the_one_of_all_parts() {
        let only = |targets: &[Target]| only_gpu(targets.iter().copied());
        assert_eq!(only(&[Target::Gpu(0)]), Some(0));
        assert_eq!(only(&[Target::Gpu(1), Target::Gpu(1)]), Some(1));
        assert_eq!(only(&[Target::Gpu(0), Target::Gpu(1)]), None);
        assert_eq!(only(&[Target::Cpu, Target::Gpu(0)]), None);
        assert_eq!(only(&[Target::Gpu(0), Target::Cpu]), None);
        assert_eq!(only(&[Target::Cpu]), None);
    }
}

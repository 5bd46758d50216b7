//! What a test gave: its samples, what it worked on, and the figures that follow from both.

use candor::{Ceilings, Gguf, GpuCeilings, Model};
use candor_ops::Work;

use super::plan::{Setup, Site, Test};
use crate::show::summary::Summary;

/// The model that was measured.
pub struct Subject {
    /// The path, as it was given.
    pub filename: String,
    /// Architecture, size and format: `llama 1.1B Q4_K`.
    pub kind: String,
    /// Bytes of all tensors.
    pub size: u64,
    /// Elements of all tensors.
    pub parameters: u64,
}

/// Where it ran.
pub struct Place {
    /// The processor's name.
    pub cpu: String,
    /// Kernels, threads, and what they can do at most.
    pub ceilings: Ceilings,
    /// The same of the GPU, where one computes alone and could be measured.
    pub gpu: Option<GpuCeilings>,
    /// As it was asked for.
    pub site: Site,
    pub runner: Runner,
    pub memory: Memory,
}

/// What holds the weights and buffers, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Whether weights are mapped from the file; else they are read.
    pub mapped: bool,
    /// Whether huge pages are asked for, for buffers and for weights that are read.
    pub huge_pages: bool,
}

/// What computes: the model's own words, and whether the processor alone does.
pub struct Runner {
    label: String,
    gpu: bool,
    cpu: bool,
}

/// What a device can do at most per second, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes that it reads.
    pub read: Option<f64>,
    /// Multiplications and additions.
    pub multiply: Option<f64>,
}

impl Limits {
    /// For people to read, behind what they are of.
    fn text(self, numbers: &str) -> String {
        let read = self.read.map(|read| format!("reads {:.1} GB/s", read / 1e9));
        let peak = self.multiply.map(|multiply| format!("peak {:.3} TOPS{numbers}", multiply / 1e12));
        let known: Vec<String> = [read, peak].into_iter().flatten().collect();
        if known.is_empty() { String::new() } else { format!(": {}", known.join(", ")) }
    }
}

/// A test and what it gave.
pub struct Measured<'a> {
    pub subject: &'a Subject,
    pub place: &'a Place,
    pub setup: Setup,
    pub test: Test,
    /// What a run has to do.
    pub work: Work,
    /// Nanoseconds of each run.
    pub samples: Vec<u64>,
    /// The part of the weights' memory that lay in huge pages, where the system tells.
    pub huge_share: Option<f64>,
    /// When it was measured, in UTC.
    pub time: String,
}

/// A mean and the deviation of its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub value: f64,
    /// Of a sample, 0 where there is only one.
    pub deviation: f64,
}

impl Mean {
    fn of(samples: &[f64]) -> Mean {
        let count = samples.len() as f64;
        let value = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - value).powi(2)).sum();
        Mean { value, deviation: if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 } }
    }
}

impl Subject {
    /// What a file says of itself.
    pub fn of(filename: String, gguf: &Gguf) -> Subject {
        let summary = Summary::of(gguf);
        let format = summary.formats.first().map_or("", |share| share.format.name());
        let architecture = summary.architecture.as_deref().unwrap_or("unknown");
        let kind = format!("{architecture} {} {format}", short(summary.parameters));
        Subject { filename, kind, size: summary.tensor_bytes, parameters: summary.parameters }
    }
}

impl Runner {
    /// Of a loaded model.
    pub fn of(model: &Model) -> Runner {
        let label = model.device_label().to_owned();
        let has = |prefix| label.split("; ").any(|part| part.starts_with(prefix));
        Runner { gpu: has("gpu, "), cpu: has("cpu, "), label }
    }

    /// Whether a GPU computes alone.
    pub fn is_gpu(&self) -> bool {
        self.gpu && !self.cpu
    }
}

impl Place {
    /// llama-bench's field: the sorts of devices.
    pub fn backends(&self) -> &'static str {
        match (self.runner.gpu, self.runner.cpu) {
            (false, true) => "CPU",
            (false, false) => "reference",
            (true, false) => "GPU",
            (true, true) => "GPU,CPU",
        }
    }

    /// The model's own words for what computes.
    pub fn device(&self) -> &str {
        &self.runner.label
    }

    /// llama-bench's column.
    pub fn backend(&self) -> String {
        let isa = self.ceilings.isa;
        match (self.runner.gpu, self.runner.cpu) {
            (false, true) => format!("CPU {isa}"),
            (false, false) => "reference".to_owned(),
            (true, false) => "GPU".to_owned(),
            (true, true) => format!("GPU, CPU {isa}"),
        }
    }

    /// The limits of what computes alone: the processor or a GPU. Of several devices together nothing is known.
    pub fn limits(&self) -> Option<Limits> {
        let Ceilings { read, multiply, .. } = self.ceilings;
        match (self.runner.gpu, self.runner.cpu) {
            (false, true) => Some(Limits { read: Some(read), multiply: Some(multiply) }),
            (true, false) => self.gpu.map(|GpuCeilings { read, multiply, .. }| Limits { read, multiply }),
            _ => None,
        }
    }

    /// What the shares of the table are of, or what computed where there are none.
    pub fn note(&self) -> String {
        let Some(limits) = self.limits() else { return self.runner.label.clone() };
        match self.gpu {
            Some(gpu) => format!("{}{}", self.runner.label, limits.text(&format!(" with {}", gpu.numbers))),
            None => {
                let Ceilings { isa, threads, numbers, .. } = self.ceilings;
                let noun = if threads == 1 { "thread" } else { "threads" };
                format!("{}, {isa}, {threads} {noun}{}", self.cpu, limits.text(&format!(" with {numbers}")))
            }
        }
    }
}

/// A number of parameters as people name models: `1.1B`, `360M`.
fn short(parameters: u64) -> String {
    let millions = parameters as f64 / 1e6;
    match millions {
        m if m >= 999.5 => format!("{:.1}B", m / 1e3),
        m if m >= 9.95 => format!("{m:.0}M"),
        m => format!("{m:.1}M"),
    }
}

impl Measured<'_> {
    /// Nanoseconds of a run.
    pub fn nanoseconds(&self) -> Mean {
        Mean::of(&self.samples.iter().map(|&sample| sample as f64).collect::<Vec<_>>())
    }

    /// Tokens per second of each run.
    pub fn speeds(&self) -> Vec<f64> {
        self.samples.iter().map(|&sample| 1e9 * self.test.tokens() as f64 / sample.max(1) as f64).collect()
    }

    /// Tokens per second.
    pub fn speed(&self) -> Mean {
        Mean::of(&self.speeds())
    }

    /// Bytes of weights and cache read per second, where tokens are generated one by one.
    pub fn bytes_per_second(&self) -> Option<f64> {
        let bytes = self.work.weight_bytes.saturating_add(self.work.kv_bytes) as f64;
        (self.test.prompt == 0).then(|| 1e9 * bytes / self.nanoseconds().value.max(1.0))
    }

    /// The part of the machine's read speed that this is.
    pub fn share_of_read(&self) -> Option<f64> {
        Some(self.bytes_per_second()? / self.place.limits()?.read?)
    }

    /// The part of the kernels' peak that [`Measured::operations_per_second`] is.
    pub fn share_of_peak(&self) -> Option<f64> {
        Some(self.operations_per_second()? / self.place.limits()?.multiply?)
    }

    /// Multiplications and additions per second, where several tokens share a weight.
    pub fn operations_per_second(&self) -> Option<f64> {
        let shared = self.test.generated == 0 || self.test.sequences > 1;
        shared.then(|| 1e9 * self.work.flops as f64 / self.nanoseconds().value.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations() {
        assert_eq!(Mean::of(&[3.0]), Mean { value: 3.0, deviation: 0.0 });
        assert_eq!(Mean::of(&[2.0, 4.0, 6.0]), Mean { value: 4.0, deviation: 2.0 });
    }

    #[test]
    fn limits_that_are_known() {
        let text = |read, multiply| Limits { read, multiply }.text(" with bytes");
        assert_eq!(text(Some(2e9), Some(3e12)), ": reads 2.0 GB/s, peak 3.000 TOPS with bytes");
        assert_eq!(text(Some(2e9), None), ": reads 2.0 GB/s");
        assert_eq!(text(None, Some(3e12)), ": peak 3.000 TOPS with bytes");
        assert_eq!(text(None, None), "");
    }

    #[test]
    fn sizes_as_people_name_them() {
        for (parameters, name) in [
            (1_185_376, "1.2M"),
            (361_000_000, "361M"),
            (999_600_000, "1.0B"),
            (1_100_048_384, "1.1B"),
            (70_600_000_000, "70.6B"),
        ] {
            assert_eq!(short(parameters), name);
        }
    }
}

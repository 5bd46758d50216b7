//! Which ways of computing a device is asked for, and which an adapter has.

use wgpu::{Adapter, DeviceType, Features};

use crate::{Cooperative, Error, cooperative, packed};

/// Ways of computing. Sums differ in their order; 8-bit and half inputs also round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Sums within subgroups by the device's own instructions, not through workgroup memory.
    pub subgroups: bool,
    /// Inputs of quantized weights are rounded to 8 bits in blocks of 32, as on the CPU, and multiplied as integers.
    pub int8_dot: bool,
    /// Many inputs of a product, and the weights, are held as halves in workgroup memory, but where they are rounded to 8 bits.
    pub f16: bool,
    /// Many inputs of a product, and the weights, are halves, and multiplied as cooperative matrices; bytes and plain halves are
    /// then left to few inputs. `None` does without.
    pub cooperative: Option<Cooperative>,
}

impl Variant {
    /// What the adapter has and is quick at.
    ///
    /// A processor that plays GPU is no quicker with bytes or halves, and stays exact.
    pub(crate) fn of(adapter: &Adapter) -> Variant {
        let (info, features) = (adapter.get_info(), adapter.features());
        let hardware = info.device_type != DeviceType::Cpu;
        Variant {
            subgroups: features.contains(Features::SUBGROUP),
            int8_dot: packed::multiplies_bytes(adapter) && hardware,
            f16: hardware && features.contains(Features::SHADER_F16),
            cooperative: Cooperative::of(adapter).filter(|_| hardware),
        }
    }

    /// The same without what rounds inputs.
    pub(crate) fn exact(self) -> Variant {
        Variant { subgroups: self.subgroups, int8_dot: false, f16: false, cooperative: None }
    }

    /// The features that it needs, if the adapter has them.
    pub(crate) fn features(self, adapter: &Adapter) -> Result<Features, Error> {
        let needed = [
            (self.subgroups, Features::SUBGROUP, "subgroup operations"),
            (self.f16, Features::SHADER_F16, "half precision"),
        ];
        // Where it is there, it costs nothing.
        let mut features = adapter.features() & Features::PIPELINE_CACHE;
        for (wanted, flag, feature) in needed {
            if wanted && !adapter.features().contains(flag) {
                return Err(Error::Feature { adapter: adapter.get_info().name, feature });
            }
            features.set(flag, wanted);
        }
        if self.cooperative.is_some() {
            if self.cooperative != Cooperative::of(adapter) {
                let feature = "cooperative matrices of that size";
                return Err(Error::Feature { adapter: adapter.get_info().name, feature });
            }
            features |= cooperative::FEATURES;
        }
        Ok(features)
    }
}

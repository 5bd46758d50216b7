//! Every shader is valid, and can be translated for every interface.

use std::collections::HashSet;

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::*;
use crate::cooperative::{ATTENTION_MEMORY, memory};
use crate::{Cooperative, Variant, format};

/// Numbers are multiplied as they are.
fn inputs_of(format: Format) -> Vec<Inputs> {
    if format.block_len() == 1 { vec![Inputs::Floats] } else { vec![Inputs::Floats, Inputs::Bytes] }
}

fn tiles_of(format: Format) -> impl Iterator<Item = Tile> {
    let bytes = (format.block_len() > 1).then_some(Tile::Bytes);
    let cooperative = [false, true].map(|tall| Tile::Cooperative { tall });
    [Tile::Floats, Tile::Halves].into_iter().chain(cooperative).chain(bytes)
}

const FUNCTIONS: [Function; 14] = [
    Function::Silu,
    Function::Gelu,
    Function::GeluErf,
    Function::GeluQuick,
    Function::Relu,
    Function::ReluSquared,
    Function::Sigmoid,
    Function::Tanh,
    Function::Softplus,
    Function::Exp,
    Function::Affine,
    Function::Clamp,
    Function::SoftCap,
    Function::Xielu,
];

pub(super) fn all() -> Vec<Kernel> {
    let mut kernels = vec![
        Kernel::Round,
        Kernel::Narrow,
        Kernel::RmsNorm,
        Kernel::RmsNormRounded,
        Kernel::HeadNorm,
        Kernel::Mul,
        Kernel::MulColumns,
        Kernel::Add,
        Kernel::AddBias,
        Kernel::Swiglu,
        Kernel::SwigluRounded,
        Kernel::Rope,
        Kernel::Columns,
        Kernel::ScaleGroups,
        Kernel::DotGroups,
        Kernel::Gather,
        Kernel::Merge,
        Kernel::MergeRounded,
        Kernel::Relative,
        Kernel::Conv,
        Kernel::Keep,
        Kernel::Join,
        Kernel::Pad,
        Kernel::Group { experts: 128 },
        Kernel::ExpertRows(ExpertRows::AddBias),
        Kernel::ExpertRows(ExpertRows::Scale),
        Kernel::SumExperts,
        Kernel::Probe(Probe::Fill),
        Kernel::Probe(Probe::Read),
    ];
    kernels.extend([Numbers::Floats, Numbers::Halves, Numbers::Bytes].map(|n| Kernel::Probe(Probe::Multiply(n))));
    for format in format::DECODERS.iter().map(|decoder| decoder.format) {
        kernels.extend([Kernel::Embed(format), Kernel::AddPositions(format), Kernel::Unpack(format)]);
        for inputs in inputs_of(format) {
            kernels.push(Kernel::ExpertVec { format, inputs });
            kernels.extend([1, 8].map(|rows| Kernel::HeadVec { format, rows, inputs }));
        }
        for tile in tiles_of(format) {
            kernels.extend([Kernel::ExpertMul { format, tile }, Kernel::HeadMul { format, tile }]);
        }
        for store in [Store::Set, Store::Add] {
            for inputs in inputs_of(format) {
                let rows = 1..=MAT_VEC_ROWS as u32;
                kernels.extend(rows.map(|rows| Kernel::MatVec { format, rows, inputs, store }));
            }
            kernels.extend(tiles_of(format).map(|tile| Kernel::MatMul { format, tile, store }));
        }
    }
    kernels.extend(FUNCTIONS.map(Kernel::Unary));
    kernels.extend([1, 2, 64, 256].into_iter().flat_map(|k| [Kernel::TopSlice { k }, Kernel::TopMerge { k }]));
    for kind in [NormKind::Rms, NormKind::Layer, NormKind::L2] {
        let parts = [(false, false), (true, false), (false, true), (true, true)];
        kernels.extend(parts.map(|(weight, bias)| Kernel::Norm(Norm { kind, weight, bias, group: 64 })));
    }
    for gate in [GateKind::Softmax, GateKind::SoftmaxOfChosen, GateKind::Sigmoid, GateKind::SparseMixer] {
        let route = |biased| Kernel::Route(Route { gate, experts: EXPERTS as u32, used: 8, biased });
        kernels.extend([false, true].map(route));
    }
    for fading in [Fading::Keys, Fading::Heads, Fading::Rates] {
        for (erase, bonus) in [(false, false), (true, false), (false, true), (true, true)] {
            kernels.extend([1, 16, 128, 2000].map(|keys| Kernel::Recur(Recur { keys, fading, erase, bonus })));
        }
    }
    let kinds = [KvKind::F32, KvKind::F16, KvKind::Q8_0, KvKind::Q4_0];
    let pairs = kinds.into_iter().flat_map(|keys| kinds.map(|values| (keys, values)));
    kernels.extend(pairs.clone().flat_map(|(keys, values)| {
        let paged = keys == values;
        [Kernel::KvWrite { keys, values, paged }, Kernel::TurnAndWrite { keys, values, paged: !paged }]
    }));
    let attend = |(keys, values): (KvKind, KvKind), (rows, heads), dim: usize, output, sight, extras, paged| {
        let chunks = (dim / (4 * keys.per_word())) as u32;
        let words = (dim / values.per_word() * values.shares()).div_ceil(64) as u32;
        let rounds = output == Output::Whole && rows == 2;
        let cooperative = false;
        Kernel::Attend(Attend {
            cooperative,
            keys,
            values,
            rows,
            heads,
            chunks,
            words,
            output,
            sight,
            extras,
            paged,
            rounds,
        })
    };
    for pair in pairs {
        for (rows, heads, output) in [(1, 8, Output::Split), (2, 7, Output::Whole)] {
            kernels.push(attend(pair, (rows, heads), 128, output, Sight::Causal, Extras::default(), rows == 1));
        }
    }
    for (rows, heads, dim) in
        [(1, 1, 64), (16, 1, 64), (1, 4, 128), (4, 4, 128), (16, 1, 128), (1, 4, 256), (2, 4, 256)]
    {
        let pair = (KvKind::F16, KvKind::F16);
        kernels.push(attend(pair, (rows, heads), dim, Output::Whole, Sight::Causal, Extras::default(), false));
    }
    let kind = KvKind::F16;
    for (bits, sight) in
        (0..16).zip([Sight::Causal, Sight::Window, Sight::Chunk, Sight::Whole, Sight::Around].into_iter().cycle())
    {
        let [cap, slopes, sinks, relative] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        let (extras, paged) = (Extras { cap, slopes, sinks, relative }, bits % 3 == 0);
        kernels.push(attend((kind, kind), (2, 4), 128, Output::Split, sight, extras, paged));
        kernels.push(attend_matrices(
            [64, 128][bits % 2],
            [Output::Split, Output::Whole][bits / 8],
            sight,
            extras,
            paged,
        ));
    }
    kernels
}

fn attend_matrices(dim: u32, output: Output, sight: Sight, extras: Extras, paged: bool) -> Kernel {
    let (keys, values) = (KvKind::F16, KvKind::F16);
    let (rows, heads, chunks, words, cooperative) = (21, 3, dim / 8, dim / 2, true);
    let rounds = false;
    Kernel::Attend(Attend {
        keys,
        values,
        rows,
        heads,
        chunks,
        words,
        cooperative,
        output,
        sight,
        extras,
        paged,
        rounds,
    })
}

#[test]
fn every_shader_is_valid_for_vulkan_metal_and_dx12() {
    let mut seen = HashSet::new();
    for kernel in all() {
        for bits in 0..16 {
            let [subgroups, int8_dot, f16, large] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let (side, subgroup) = if large { (16, 32) } else { (8, 8) };
            let cooperative = Some(Cooperative { side, subgroup, memory: 48 << 10 });
            let source = kernel.source(Variant { subgroups, int8_dot, f16, cooperative });
            if !seen.insert(source.clone()) {
                continue;
            }
            let module = naga::front::wgsl::parse_str(&source)
                .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
            let info = Validator::new(
                ValidationFlags::all(),
                Capabilities::SUBGROUP
                    | Capabilities::SHADER_FLOAT16_IN_FLOAT32
                    | Capabilities::SHADER_FLOAT16
                    | Capabilities::COOPERATIVE_MATRIX,
            )
            .validate(&module)
            .unwrap_or_else(|error| panic!("{kernel:?}: {error:?}"));
            let spirv = spv::Options { lang_version: (1, 3), ..spv::Options::default() };
            spv::write_vec(&module, &info, &spirv, None).unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
            // DX12 has no cooperative matrices, and Metal's are read from scalars: neither is offered them.
            if kernel.is_cooperative() {
                continue;
            }
            let metal = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
            msl::write_string(&module, &info, &metal, &msl::PipelineOptions::default())
                .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
            let dx12 = hlsl::Options {
                shader_model: hlsl::ShaderModel::V6_6,
                fake_missing_bindings: true,
                ..hlsl::Options::default()
            };
            let mut text = String::new();
            hlsl::Writer::new(&mut text, &dx12, &hlsl::PipelineOptions::default())
                .write(&module, &info, None)
                .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
        }
    }
}

/// What tests of products need not try.
#[test]
fn few_inputs_have_nothing_to_do_with_halves_nor_many_with_subgroups() {
    let plain = Variant::default();
    for kernel in all() {
        let other = match kernel {
            Kernel::MatVec { .. } | Kernel::ExpertVec { .. } | Kernel::HeadVec { .. } => Variant { f16: true, ..plain },
            Kernel::MatMul { .. } | Kernel::ExpertMul { .. } | Kernel::HeadMul { .. } => {
                Variant { subgroups: true, ..plain }
            }
            _ => continue,
        };
        assert_eq!(kernel.source(other), kernel.source(plain), "{kernel:?}");
    }
}

/// As much workgroup memory as adapters are asked for, and the least of it no more than every device has.
#[test]
fn cooperative_matrices_fit_workgroup_memory() {
    let bytes = |kernel: Kernel, side, memory| {
        let variant = Variant { cooperative: Some(Cooperative { side, subgroup: 32, memory }), ..Variant::default() };
        let module = naga::front::wgsl::parse_str(&kernel.source(variant)).unwrap();
        let shared = module.global_variables.iter().filter(|(_, global)| global.space == naga::AddressSpace::WorkGroup);
        shared.map(|(_, global)| module.types[global.ty].inner.size(module.to_ctx())).sum::<u32>()
    };
    let attention = attend_matrices(128, Output::Split, Sight::Causal, Extras::default(), true);
    for side in [8, 16] {
        for tall in [false, true] {
            let tile = Tile::Cooperative { tall };
            let product = Kernel::MatMul { format: Format::Q4K, tile, store: Store::Set };
            assert_eq!(bytes(product, side, 48 << 10), memory(tile.rows()), "{side}, {tile:?}");
        }
        assert!(bytes(attention, side, 48 << 10) <= ATTENTION_MEMORY);
    }
    assert!(memory(TILE) <= wgpu::Limits::defaults().max_compute_workgroup_storage_size);
}

#[test]
fn bindings_are_read_from_the_source() {
    let rope = bindings(&Kernel::Rope.source(Variant::default()));
    assert_eq!(rope, [(1, Access::Read), (2, Access::Read), (3, Access::Write)]);
    let norm = Norm { kind: NormKind::Layer, weight: false, bias: true, group: 64 };
    assert_eq!(bindings(&Kernel::Norm(norm).source(Variant::default())), [(1, Access::Write), (3, Access::Read)]);
}

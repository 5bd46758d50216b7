//! Cooperative matrices: which an adapter has, and how wgpu is asked for them.
#![allow(unsafe_code)]

use wgpu::{
    Adapter, Backend, CooperativeMatrixProperties, CooperativeScalarType, ExperimentalFeatures, Features, Limits,
};

use crate::kernel::TILE;

/// Square matrices of halves that the invocations of a subgroup multiply together, and sum as floats.
///
/// A shader's workgroup is as many of the largest subgroups as it has work for, so that there are enough subgroups, and whole
/// ones, however large a driver makes them; those that are too many only fetch weights and inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cooperative {
    /// Rows and columns of a matrix: 8 or 16.
    pub side: u32,
    /// Most invocations of a subgroup.
    pub subgroup: u32,
    /// Most bytes of workgroup memory.
    pub memory: u32,
}

/// Bytes of workgroup memory that a product takes in tiles of `rows` inputs: for each of a tile's rows, of the matrix and of the
/// inputs, the halves of a stage and 8 more, and a matrix of floats for each subgroup that sums.
pub(crate) const fn memory(rows: u32) -> u32 {
    (TILE + rows) * (32 * RUNS + 16) + TILE * TILE
}

/// Matrices of inputs that a subgroup multiplies by two of weights.
pub(crate) fn down(tall: bool) -> u32 {
    if tall { 4 } else { 2 }
}

/// Bytes of workgroup memory that attention takes.
pub(crate) const ATTENTION_MEMORY: u32 = 32 << 10;

/// Elements of a key, and of a value, at most, so that this is enough.
const ATTENTION_DIM: usize = 128;

/// Queries of a workgroup of attention.
pub(crate) const ATTENTION_QUERIES: u32 = 64;

/// Positions that attention goes through at a time.
pub(crate) const ATTENTION_KEYS: u32 = 32;

/// Runs of 16 columns that a product goes through at a time. With four an H200 took half as long again.
pub(crate) const RUNS: u32 = 2;

impl Cooperative {
    /// The largest that the adapter has and the shader fits.
    ///
    /// Vulkan's alone: DX12 and browsers have none through wgpu, and Metal's are read from scalars, not vectors.
    pub(crate) fn of(adapter: &Adapter) -> Option<Cooperative> {
        let info = adapter.get_info();
        if info.backend != Backend::Vulkan || !adapter.features().contains(FEATURES) {
            return None;
        }
        Cooperative::among(&adapter.cooperative_matrix_properties(), info.subgroup_max_size, &adapter.limits())
    }

    fn among(has: &[CooperativeMatrixProperties], subgroup: u32, limits: &Limits) -> Option<Cooperative> {
        let most = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
        let memory = limits.max_compute_workgroup_storage_size;
        let sides = [16, 8].into_iter().filter(|_| self::memory(TILE) <= memory);
        sides.map(|side| Cooperative { side, subgroup, memory }).find(|found| {
            let is_it = |matrix: &CooperativeMatrixProperties| {
                [matrix.m_size, matrix.n_size, matrix.k_size] == [found.side; 3]
                    && (matrix.ab_type, matrix.cr_type) == (CooperativeScalarType::F16, CooperativeScalarType::F32)
                    && !matrix.saturating_accumulation
            };
            found.invocations() <= most && has.iter().any(is_it)
        })
    }

    /// Runs of the matrix and of `rows` inputs that an invocation has of a stage.
    pub(crate) fn own_of_stage(self, rows: u32) -> [u32; 2] {
        [TILE, rows].map(|rows| (rows * RUNS).div_ceil(self.invocations()))
    }

    /// Pieces of keys, of 8 elements, and of values, of 4, that an invocation of attention fetches at a time.
    pub(crate) fn own_of_attention(self, key_dim: u32, value_dim: u32) -> [u32; 2] {
        [key_dim / 8, value_dim / 4].map(|pieces| (ATTENTION_KEYS * pieces).div_ceil(self.attention_invocations()))
    }

    /// Whether there is room for tall tiles.
    pub(crate) fn is_tall(self) -> bool {
        memory(2 * TILE) <= self.memory
    }

    /// Whether attention of keys and values with these numbers of elements multiplies matrices.
    pub(crate) fn attends(self, dims: [usize; 2]) -> bool {
        let fits = |dim: usize| dim.is_multiple_of(self.side.max(16) as usize) && dim <= ATTENTION_DIM;
        let enough = self.attention_invocations() >= ATTENTION_QUERIES;
        enough && ATTENTION_MEMORY <= self.memory && dims.into_iter().all(fits)
    }

    /// Invocations of a workgroup of attention: a subgroup has `side` queries.
    pub(crate) fn attention_invocations(self) -> u32 {
        ATTENTION_QUERIES / self.side * self.subgroup
    }

    /// Invocations of a workgroup: a subgroup sums two by two matrices of a tile, or four by two of a tall one.
    pub(crate) fn invocations(self) -> u32 {
        (TILE / (2 * self.side)).pow(2) * self.subgroup
    }
}

/// What a device must have for it: subgroups are counted, and weights are halves.
pub(crate) const FEATURES: Features =
    Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(Features::SUBGROUP).union(Features::SHADER_F16);

/// What wgpu must be given before it compiles shaders with cooperative matrices.
pub(crate) fn experimental(cooperative: Option<Cooperative>) -> ExperimentalFeatures {
    if cooperative.is_none() {
        return ExperimentalFeatures::disabled();
    }
    // SAFETY: what wgpu does not check is that a matrix lies within the memory that it is loaded from or stored to. The two
    // shaders that have such matrices have them in workgroup memory alone, at places that follow from constants and the number of
    // the subgroup, which is checked; nothing from outside moves them.
    unsafe { ExperimentalFeatures::enabled() }
}

#[cfg(test)]
mod tests {
    use CooperativeScalarType::{F16, F32, I32};

    use super::*;

    fn matrix(
        [m, n, k]: [u32; 3],
        ab: CooperativeScalarType,
        cr: CooperativeScalarType,
    ) -> CooperativeMatrixProperties {
        let (m_size, n_size, k_size) = (m, n, k);
        CooperativeMatrixProperties { m_size, n_size, k_size, ab_type: ab, cr_type: cr, saturating_accumulation: false }
    }

    #[test]
    fn the_largest_square_ones_of_halves_summed_as_floats_are_taken() {
        let limits = Limits::defaults();
        let among = |has: &[CooperativeMatrixProperties], subgroup| Cooperative::among(has, subgroup, &limits);
        let (large, small) = (matrix([16; 3], F16, F32), matrix([8; 3], F16, F32));
        let room = limits.max_compute_workgroup_storage_size;
        let found = |side, subgroup| Some(Cooperative { side, subgroup, memory: room });
        assert_eq!(among(&[small, matrix([16; 3], F16, F16), large], 32), found(16, 32));
        assert_eq!(among(&[large], 64), found(16, 64));
        assert_eq!(among(&[large, small], 8), found(16, 8));
        assert_eq!(among(&[small], 8), found(8, 8));
        // 16 subgroups of 32 and four of 128 are more invocations than a workgroup has by these limits.
        assert_eq!(among(&[small], 32), None);
        assert_eq!(among(&[large], 128), None);
        for other in [
            matrix([16; 3], F16, F16),
            matrix([16; 3], F32, F32),
            matrix([16; 3], I32, I32),
            matrix([8, 16, 16], F16, F32),
            matrix([16, 8, 16], F16, F32),
            matrix([16, 16, 8], F16, F32),
            CooperativeMatrixProperties { saturating_accumulation: true, ..large },
        ] {
            assert_eq!(among(&[other], 32), None, "{other:?}");
        }
        let little = Limits { max_compute_workgroup_storage_size: memory(TILE) - 1, ..limits.clone() };
        assert_eq!(Cooperative::among(&[large], 32, &little), None);
    }
}

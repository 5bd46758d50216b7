//! One position's key in a panel: how its blocks are spread over it, and brought together again.

use crate::{AttentionKernels, PANEL};

impl AttentionKernels {
    /// A position's key out of its lane of a panel, in the format's blocks.
    pub fn take_key(&self, key: &mut [u8], panel: &[u8], lane: usize) {
        let bytes = self.format.block_bytes();
        for (block, group) in key.chunks_exact_mut(bytes).zip(panel.chunks_exact(bytes * PANEL)) {
            match self.format.block_len() {
                1 if bytes == 2 => take::<2>(block, group, lane),
                1 => take::<4>(block, group, lane),
                _ => {
                    let ((scale, quants), (scales, all)) = (block.split_at_mut(2), group.split_at(2 * PANEL));
                    take::<2>(scale, scales, lane);
                    take::<1>(quants, all, lane);
                }
            }
        }
    }

    /// The same the other way: a key in the format's blocks into its lane of a panel.
    pub fn give_key(&self, panel: &mut [u8], lane: usize, key: &[u8]) {
        let bytes = self.format.block_bytes();
        for (block, group) in key.chunks_exact(bytes).zip(panel.chunks_exact_mut(bytes * PANEL)) {
            match self.format.block_len() {
                1 if bytes == 2 => give::<2>(group, lane, block),
                1 => give::<4>(group, lane, block),
                _ => {
                    let ((scale, quants), (scales, all)) = (block.split_at(2), group.split_at_mut(2 * PANEL));
                    give::<2>(scales, lane, scale);
                    give::<1>(all, lane, quants);
                }
            }
        }
    }
}

/// Every piece of `N` bytes from among those of all lanes.
fn take<const N: usize>(pieces: &mut [u8], all: &[u8], lane: usize) {
    let of_lane = all.as_chunks::<N>().0.iter().skip(lane).step_by(PANEL);
    pieces.as_chunks_mut::<N>().0.iter_mut().zip(of_lane).for_each(|(piece, from)| *piece = *from);
}

fn give<const N: usize>(all: &mut [u8], lane: usize, pieces: &[u8]) {
    let of_lane = all.as_chunks_mut::<N>().0.iter_mut().skip(lane).step_by(PANEL);
    of_lane.zip(pieces.as_chunks::<N>().0).for_each(|(to, piece)| *to = *piece);
}

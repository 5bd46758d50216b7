//! Faults of dequantization: nibbles, scales, strides (section A2 of the catalogue). Bytes are changed to what the
//! faulty reader would have needed to see, and decoded rightly.

use candor_gguf::{Format, half};

use super::{
    row::{ROW, any},
    weights::{raw, scale_fields},
};
use crate::fault::{Edit, Fault};
use crate::replay::{Matrix, Place};

/// Decodes the weight after a change of each block's bytes; `false` from the change leaves everything.
fn blocks(w: &mut Matrix, place: &Place<'_>, mut change: impl FnMut(Format, &mut [u8]) -> bool) -> bool {
    let Some((format, bytes)) = raw(place) else { return false };
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        if !change(format, block) {
            return false;
        }
    }
    w.read(&bytes);
    true
}

/// First byte, length and count of the runs of bytes whose low nibbles come before their high ones.
fn nibble_runs(format: Format) -> Option<(usize, usize, usize)> {
    Some(match format {
        Format::Q4_0 | Format::Iq4Nl => (2, 16, 1),
        Format::Q4_1 => (4, 16, 1),
        Format::Q5_0 => (6, 16, 1),
        Format::Q5_1 => (8, 16, 1),
        Format::Q4K => (16, 32, 4),
        Format::Q5K => (48, 32, 4),
        Format::Iq4Xs => (8, 16, 8),
        _ => return None,
    })
}

/// The quants of a Q6_K block, -32..31, in order.
fn q6_k_quants(block: &[u8]) -> [i32; 256] {
    let mut out = [0; 256];
    for half in 0..2 {
        let (low, high) = (&block[half * 64..], &block[128 + half * 32..]);
        for l in 0..32 {
            for (part, out) in [0, 1, 2, 3].into_iter().zip(out[half * 128 + l..].iter_mut().step_by(32)) {
                let nibble = low[l + 32 * (part % 2)] >> (4 * (part / 2)) & 15;
                *out = i32::from(nibble | (high[l] >> (2 * part) & 3) << 4) - 32;
            }
        }
    }
    out
}

/// Decodes Q6_K with a choice of which quant and which scale an element takes.
fn q6_k(w: &mut Matrix, place: &Place<'_>, quant: fn(usize) -> usize, scale: fn(usize) -> usize) -> bool {
    let Some((Format::Q6K, bytes)) = raw(place) else { return false };
    for (block, out) in bytes.chunks_exact(210).zip(w.values.chunks_exact_mut(256)) {
        let quants = q6_k_quants(block);
        let d = half::f16_to_f32(u16::from_le_bytes([block[208], block[209]]));
        for (i, out) in out.iter_mut().enumerate() {
            *out = d * f32::from(block[192 + scale(i)] as i8) * quants[quant(i)] as f32;
        }
    }
    true
}

/// Adds a multiple of each block's scale.
fn add_scales(w: &mut Matrix, place: &Place<'_>, formats: &[Format], add: fn(f32, f32, f32) -> f32) -> bool {
    let Some((format, bytes)) = raw(place) else { return false };
    if !formats.contains(&format) {
        return false;
    }
    for (block, out) in bytes.chunks_exact(format.block_bytes()).zip(w.values.chunks_exact_mut(format.block_len())) {
        let d = half::f16_to_f32(u16::from_le_bytes([block[0], block[1]]));
        out.iter_mut().for_each(|x| *x = add(*x, d, place.variant as f32));
    }
    true
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "nibbles-in-sequence",
        entry: "16",
        variants: &[0.0, 1.0],
        wants: |place| raw(place).is_some_and(|(format, _)| nibble_runs(format).is_some()),
        edits: &[Edit::Weight(|w, place| {
            if place.variant == 1.0 {
                // Each half of a run keeps its own scale, which is the same for both where there is one run.
                let Some((_, len, 2..)) = raw(place).and_then(|(format, _)| nibble_runs(format)) else { return false };
                for run in w.values.chunks_exact_mut(2 * len) {
                    let (low, high) = run.split_at(len);
                    let pairs: Vec<f32> = low.iter().zip(high).flat_map(|(&low, &high)| [low, high]).collect();
                    run.copy_from_slice(&pairs);
                }
                return true;
            }
            blocks(w, place, |format, block| {
                let Some((first, len, runs)) = nibble_runs(format) else { return false };
                for run in block[first..first + len * runs].chunks_exact_mut(len) {
                    let nibbles: Vec<u8> = run.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect();
                    for (i, byte) in run.iter_mut().enumerate() {
                        *byte = nibbles[i] | nibbles[len + i] << 4;
                    }
                }
                true
            })
        })],
        cause: "the two nibbles of a byte are taken as neighbours (1: each with its own scale); in ggml's formats all low nibbles come first, then all high ones",
        remedy: "byte i holds elements i and i + half of the block",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "nibbles-exchanged",
        entry: "16",
        wants: |place| raw(place).is_some_and(|(format, _)| nibble_runs(format).is_some()),
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |format, block| {
                let Some((first, len, runs)) = nibble_runs(format) else { return false };
                block[first..first + len * runs].iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
                true
            })
        })],
        cause: "the high nibble of a byte is taken before the low one",
        remedy: "low nibbles come first: byte i holds element i in its lower half",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "k-scales-high-bits-lost",
        entry: "17",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |format, block| {
                let fits = matches!(format, Format::Q4K | Format::Q5K);
                if fits {
                    block[4..12].iter_mut().for_each(|byte| *byte &= 0x3f);
                }
                fits
            })
        })],
        cause: "the 6-bit scales of sub-blocks 4 to 7 lose their two upper bits",
        remedy: "for j >= 4 the upper bits of scale and minimum are the upper two bits of bytes j-4 and j",
        source: "paiml/aprender#2141, chrishayuk/larql#24",
        ..ROW
    },
    Fault {
        name: "k-scales-over-63",
        entry: "17",
        wants: |place| raw(place).is_some_and(|(format, _)| matches!(format, Format::Q4K | Format::Q5K)),
        edits: &[Edit::Weight(|w, _| {
            w.values.iter_mut().for_each(|x| *x /= 63.0);
            true
        })],
        cause: "the 6-bit scales are divided by 63",
        remedy: "scales are integers: multiply them with d as they are",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "block-minimum-omitted",
        entry: "18",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |format, block| match format {
                Format::Q4K | Format::Q5K | Format::Q4_1 | Format::Q5_1 => {
                    block[2..4].fill(0);
                    true
                }
                Format::Q2K => {
                    block[82..84].fill(0);
                    true
                }
                _ => false,
            })
        })],
        cause: "the blocks' minimum is left out",
        remedy: "Q4_1 and Q5_1 add m, K-quants subtract dmin times the sub-block's minimum",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "block-minimum-sign",
        entry: "18",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |format, block| {
                let at = match format {
                    Format::Q4K | Format::Q5K | Format::Q4_1 | Format::Q5_1 => 3,
                    Format::Q2K => 83,
                    _ => return false,
                };
                block[at] ^= 0x80;
                true
            })
        })],
        cause: "the blocks' minimum has the wrong sign",
        remedy: "K-quants: d * scale * q - dmin * min; Q4_1 and Q5_1: d * q + m",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "q6-k-in-sequence",
        entry: "19",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::Q6K),
        edits: &[Edit::Weight(|w, place| q6_k(w, place, |i| i / 128 * 128 + i % 4 * 32 + i % 128 / 4, |i| i / 16))],
        cause: "the elements of a Q6_K block are taken in sequence",
        remedy: "position l of a half holds elements l, l + 32, l + 64 and l + 96",
        source: "the RusTorch and wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "q6-k-scale-index",
        entry: "19",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::Q6K),
        edits: &[Edit::Weight(|w, place| q6_k(w, place, |i| i, |i| i / 128 * 8 + i % 32 / 16))],
        cause: "all four quarters of a Q6_K half use the scales of the first",
        remedy: "the scale index is l / 16 plus 0, 2, 4, 6 for the four quarters",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "q2-k-scale-nibbles",
        entry: "20",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::Q2K),
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |_, block| {
                block[..16].iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
                true
            })
        })],
        cause: "scale and minimum of Q2_K's sub-blocks are exchanged",
        remedy: "the low nibble is the scale, the high one the minimum",
        source: "paiml/aprender#2115",
        ..ROW
    },
    Fault {
        name: "q3-k-scales-high-bits-lost",
        entry: "20",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::Q3K),
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |_, block| {
                block[104..108].fill(0);
                true
            })
        })],
        cause: "the 6-bit scales of Q3_K lose their two upper bits",
        remedy: "the last four of the twelve scale bytes hold the upper bits of all sixteen scales",
        source: "paiml/aprender#1924",
        ..ROW
    },
    Fault {
        name: "block-stride",
        entry: "21",
        variants: &[-2.0, -1.0, 1.0, 2.0, 4.0],
        wants: |place| raw(place).is_some_and(|(format, _)| format.block_len() > 1),
        edits: &[Edit::Weight(|w, place| {
            let Some((format, bytes)) = raw(place) else { return false };
            let size = format.block_bytes();
            let Some(stride) = size.checked_add_signed(place.variant as isize) else { return false };
            let mut moved = Vec::with_capacity(bytes.len());
            for block in 0..bytes.len() / size {
                moved.extend((block * stride..block * stride + size).map(|at| bytes.get(at).copied().unwrap_or(0)));
            }
            w.read(&moved);
            true
        })],
        cause: "blocks are read with a stride that is off by {} bytes",
        remedy: "bytes per block: Q4_0 18, Q4_1 20, Q5_0 22, Q5_1 24, Q8_0 34, Q2_K 84, Q3_K 110, Q4_K 144, Q5_K 176, Q6_K 210",
        source: "ml-explore/mlx#3664, chrishayuk/larql#24",
        ..ROW
    },
    Fault {
        name: "scale-as-f32",
        entry: "22",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::Q8_0),
        edits: &[Edit::Weight(|w, place| {
            let Some((_, bytes)) = raw(place) else { return false };
            for (block, out) in w.values.chunks_exact_mut(32).enumerate() {
                let at = |i: usize| bytes.get(block * 36 + i).copied().unwrap_or(0);
                let d = f32::from_le_bytes([at(0), at(1), at(2), at(3)]);
                out.iter_mut().enumerate().for_each(|(i, out)| *out = d * f32::from(at(4 + i) as i8));
            }
            true
        })],
        cause: "the scale of a block is read as f32, so blocks are taken to be 36 bytes",
        remedy: "the scale is an F16 number of two bytes",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "first-scale-for-all",
        entry: "23",
        wants: |place| raw(place).is_some_and(|(format, _)| format.block_len() > 1 && !scale_fields(format).is_empty()),
        edits: &[Edit::Weight(|w, place| {
            let Some((format, bytes)) = raw(place) else { return false };
            let mut bytes = bytes.to_vec();
            let row = w.cols / format.block_len() * format.block_bytes();
            if w.cols <= format.block_len() {
                return false;
            }
            for row in bytes.chunks_exact_mut(row) {
                for &field in scale_fields(format) {
                    let first = [row[field], row[field + 1]];
                    for block in row.chunks_exact_mut(format.block_bytes()) {
                        block[field..field + 2].copy_from_slice(&first);
                    }
                }
            }
            w.read(&bytes);
            true
        })],
        cause: "every block of a row uses the first block's scale: the block index is missing",
        remedy: "step the scale pointer with the blocks",
        source: "1bit-MONSTER/1bit-MONSTER#153",
        ..ROW
    },
    Fault {
        name: "zero-point",
        entry: "24",
        variants: &[1.0, -1.0, 8.0, 16.0],
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            add_scales(w, place, &[Format::Q4_0, Format::Q5_0], |x, d, variant| x + d * variant)
        })],
        cause: "quants are {} too large: the zero point is wrong",
        remedy: "Q4_0 subtracts 8, Q5_0 16",
        source: "a fault of quantized formats in general",
        ..ROW
    },
    Fault {
        name: "signed-as-unsigned",
        entry: "24",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            add_scales(w, place, &[Format::Q8_0], |x, d, _| if x * d.signum() < 0.0 { x + 256.0 * d } else { x })
        })],
        cause: "8-bit quants are read as unsigned",
        remedy: "Q8_0's quants are signed bytes",
        source: "a fault of quantized formats in general",
        ..ROW
    },
    Fault {
        name: "fifth-bit-lost",
        entry: "16",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |format, block| {
                let bits = match format {
                    Format::Q5_0 => 2..6,
                    Format::Q5_1 => 4..8,
                    Format::Q5K => 16..48,
                    Format::Q6K => 128..192,
                    Format::Q3K => 0..32,
                    _ => return false,
                };
                block[bits].fill(0);
                true
            })
        })],
        cause: "the bits above the nibbles are not added",
        remedy: "Q5 and Q6 formats keep their upper bits in bytes of their own (qh), Q3_K in hmask",
        source: "a fault of quantized formats in general",
        ..ROW
    },
    Fault {
        name: "scale-of-next-block",
        entry: "23",
        wants: |place| raw(place).is_some_and(|(format, _)| format.block_len() > 1 && !scale_fields(format).is_empty()),
        edits: &[Edit::Weight(|w, place| {
            let Some((format, bytes)) = raw(place) else { return false };
            let (size, mut new) = (format.block_bytes(), bytes.to_vec());
            let count = bytes.len() / size;
            for (at, block) in new.chunks_exact_mut(size).enumerate() {
                let next = &bytes[(at + 1) % count * size..][..size];
                scale_fields(format).iter().for_each(|&at| block[at..at + 2].copy_from_slice(&next[at..at + 2]));
            }
            w.read(&new);
            count > 1
        })],
        cause: "each block has the scale of the one behind it",
        remedy: "step quants and scales together",
        source: "a fault of quantized formats in general",
        ..ROW
    },
    Fault {
        name: "k-scale-and-minimum-exchanged",
        entry: "17",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            blocks(w, place, |format, block| {
                let fits = matches!(format, Format::Q4K | Format::Q5K);
                if fits {
                    block[..4].rotate_left(2);
                }
                fits
            })
        })],
        cause: "the factor of a superblock's scales is taken for that of its minima, and the reverse",
        remedy: "d comes first, then dmin",
        source: "ggml: block_q4_K",
        ..ROW
    },
    Fault {
        name: "q6-k-scales-unsigned",
        entry: "17",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            let Some((Format::Q6K, bytes)) = raw(place) else { return false };
            let mut hit = false;
            for (block, out) in bytes.chunks_exact(210).zip(w.values.chunks_exact_mut(256)) {
                for (&scale, out) in block[192..208].iter().zip(out.chunks_exact_mut(16)) {
                    let signed = scale as i8;
                    if signed < 0 {
                        hit = true;
                        out.iter_mut().for_each(|x| *x *= f32::from(scale) / f32::from(signed));
                    }
                }
            }
            hit
        })],
        cause: "the scales of Q6_K are read as unsigned bytes",
        remedy: "they are int8_t",
        source: "ggml: block_q6_K",
        ..ROW
    },
];

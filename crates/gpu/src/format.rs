//! The tensor formats that shaders decode: which source decodes each, and how its rows lie in a storage buffer.
//!
//! Shaders read `vec4<u32>`, and a row's decoder gives 16 weights at a time. Where a file's blocks are no multiple of 16
//! bytes, rows are rearranged on their way up: first the bodies of all blocks (their quants), then the tails (their
//! scales). Every load of quants is then one aligned vector, which reading 34-byte blocks in place would not be.

use candor_quant::Format;

/// Weights that a decoder gives at once.
pub(crate) const RUN: usize = 16;

/// Bytes of a `vec4<u32>`.
pub(crate) const QUAD: usize = 16;

/// A piece of a block: where it begins and how long it is.
type Piece = (usize, usize);

/// How the rows of a format lie in a buffer.
#[derive(Debug)]
pub(crate) enum Layout {
    /// Numbers of this number of bytes, as in the file; the row is filled up with zeros to a whole run.
    Plain(usize),
    /// The bodies of all blocks, then the tails of all, each of them filled up to `tail_bytes`.
    Blocks { body: &'static [Piece], tail: &'static [Piece], tail_bytes: usize },
}

/// A format that shaders decode.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) format: Format,
    pub(crate) layout: Layout,
    /// Shader source with a `decode`.
    pub(crate) source: &'static [&'static str],
}

macro_rules! source {
    ($($file:literal)*) => { &[$(include_str!(concat!("shaders/formats/", $file, ".wgsl")),)*] };
}

/// The table.
pub(crate) static DECODERS: &[Decoder] = &[
    Decoder { format: Format::F32, layout: Layout::Plain(4), source: source!["f32"] },
    Decoder { format: Format::F16, layout: Layout::Plain(2), source: source!["f16"] },
    Decoder { format: Format::Bf16, layout: Layout::Plain(2), source: source!["bf16"] },
    Decoder {
        format: Format::Q4_0,
        layout: Layout::Blocks { body: &[(2, 16)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "q4_0"],
    },
    Decoder {
        format: Format::Q4_1,
        layout: Layout::Blocks { body: &[(4, 16)], tail: &[(0, 4)], tail_bytes: 4 },
        source: source!["common" "bytes" "q4_1"],
    },
    Decoder {
        format: Format::Q5_0,
        layout: Layout::Blocks { body: &[(6, 16)], tail: &[(2, 4), (0, 2)], tail_bytes: 8 },
        source: source!["common" "bytes" "five" "q5_0"],
    },
    Decoder {
        format: Format::Q5_1,
        layout: Layout::Blocks { body: &[(8, 16)], tail: &[(0, 8)], tail_bytes: 8 },
        source: source!["common" "bytes" "five" "q5_1"],
    },
    Decoder {
        format: Format::Q8_0,
        layout: Layout::Blocks { body: &[(2, 32)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "q8_0"],
    },
    Decoder {
        format: Format::Q2K,
        layout: Layout::Blocks { body: &[(0, 80)], tail: &[(80, 4)], tail_bytes: 4 },
        source: source!["common" "bytes" "q2_k"],
    },
    Decoder {
        format: Format::Q3K,
        layout: Layout::Blocks { body: &[(0, 96)], tail: &[(96, 14)], tail_bytes: 16 },
        source: source!["common" "bytes" "q3_k"],
    },
    Decoder {
        format: Format::Q4K,
        layout: Layout::Blocks { body: &[(0, 144)], tail: &[], tail_bytes: 0 },
        source: source!["common" "bytes" "six_bits" "q4_k"],
    },
    Decoder {
        format: Format::Q5K,
        layout: Layout::Blocks { body: &[(0, 176)], tail: &[], tail_bytes: 0 },
        source: source!["common" "bytes" "six_bits" "q5_k"],
    },
    Decoder {
        format: Format::Q6K,
        layout: Layout::Blocks { body: &[(0, 208)], tail: &[(208, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "q6_k"],
    },
    Decoder {
        format: Format::Iq4Nl,
        layout: Layout::Blocks { body: &[(2, 16)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "values_nl" "iq4_nl"],
    },
    Decoder {
        format: Format::Iq4Xs,
        layout: Layout::Blocks { body: &[(8, 128)], tail: &[(0, 8)], tail_bytes: 8 },
        source: source!["common" "values_nl" "iq4_xs"],
    },
    Decoder {
        format: Format::Mxfp4,
        layout: Layout::Blocks { body: &[(1, 16)], tail: &[(0, 1)], tail_bytes: 1 },
        source: source!["common" "bytes" "values_fp4" "table" "mxfp4"],
    },
    Decoder {
        format: Format::Nvfp4,
        layout: Layout::Blocks { body: &[(4, 32)], tail: &[(0, 4)], tail_bytes: 4 },
        source: source!["common" "bytes" "values_fp4" "table" "nvfp4"],
    },
    Decoder {
        format: Format::Iq1S,
        layout: Layout::Blocks { body: &[(2, 48)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "shifted" "iq1_s"],
    },
    Decoder {
        format: Format::Iq1M,
        layout: Layout::Blocks { body: &[(0, 48)], tail: &[(48, 8)], tail_bytes: 8 },
        source: source!["common" "bytes" "shifted" "iq1_m"],
    },
    Decoder {
        format: Format::Iq2Xxs,
        layout: Layout::Blocks { body: &[(2, 64)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "points" "eights" "iq2_xxs"],
    },
    Decoder {
        format: Format::Iq2Xs,
        layout: Layout::Blocks { body: &[(2, 64)], tail: &[(0, 2), (66, 8)], tail_bytes: 10 },
        source: source!["common" "bytes" "points" "eights" "iq2_xs"],
    },
    Decoder {
        format: Format::Iq2S,
        layout: Layout::Blocks { body: &[(2, 80)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "points" "eights" "iq2_s"],
    },
    Decoder {
        format: Format::Iq3Xxs,
        layout: Layout::Blocks { body: &[(2, 96)], tail: &[(0, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "points" "fours" "iq3_xxs"],
    },
    Decoder {
        format: Format::Iq3S,
        layout: Layout::Blocks { body: &[(2, 64), (74, 32)], tail: &[(0, 2), (66, 8), (106, 4)], tail_bytes: 14 },
        source: source!["common" "bytes" "points" "fours" "iq3_s"],
    },
    Decoder {
        format: Format::Tq1_0,
        layout: Layout::Blocks { body: &[(0, 48)], tail: &[(48, 6)], tail_bytes: 6 },
        source: source!["common" "bytes" "ternary" "tq1_0"],
    },
    Decoder {
        format: Format::Tq2_0,
        layout: Layout::Blocks { body: &[(0, 64)], tail: &[(64, 2)], tail_bytes: 2 },
        source: source!["common" "bytes" "ternary" "tq2_0"],
    },
];

/// The decoder of a format, if there is one.
pub(crate) fn decoder(format: Format) -> Option<&'static Decoder> {
    DECODERS.iter().find(|decoder| decoder.format == format)
}

impl Decoder {
    /// Where the tails of a row of `cols` begin, in `vec4`s from the row's start.
    pub(crate) fn tails(&self, cols: usize) -> usize {
        match &self.layout {
            Layout::Plain(bytes) => cols.next_multiple_of(RUN) * bytes / QUAD,
            Layout::Blocks { body, .. } => cols / self.format.block_len() * length(body) / QUAD,
        }
    }

    /// `vec4`s of a row of `cols`.
    pub(crate) fn stride(&self, cols: usize) -> usize {
        let tail = match &self.layout {
            Layout::Plain(_) => 0,
            Layout::Blocks { tail_bytes, .. } => cols / self.format.block_len() * tail_bytes,
        };
        self.tails(cols) + tail.div_ceil(QUAD)
    }

    /// Whether a row of `cols` goes up as it is in the file.
    pub(crate) fn is_verbatim(&self, cols: usize) -> bool {
        match &self.layout {
            Layout::Plain(_) => cols.is_multiple_of(RUN),
            Layout::Blocks { tail, .. } => tail.is_empty(),
        }
    }

    /// Rearranges a row of `cols` into `out`, which holds zeros and is as long as the row's stride.
    pub(crate) fn arrange(&self, row: &[u8], cols: usize, out: &mut [u8]) {
        let Layout::Blocks { body, tail, tail_bytes } = &self.layout else {
            out[..row.len()].copy_from_slice(row);
            return;
        };
        let (bodies, tails) = out.split_at_mut(self.tails(cols) * QUAD);
        let tails = tails.chunks_exact_mut((*tail_bytes).max(1));
        let blocks = row.chunks_exact(self.format.block_bytes());
        for ((block, out), tail_out) in blocks.zip(bodies.chunks_exact_mut(length(body))).zip(tails) {
            pick(block, body, out);
            pick(block, tail, tail_out);
        }
    }
}

fn length(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.1).sum()
}

fn pick(block: &[u8], pieces: &[Piece], out: &mut [u8]) {
    let mut at = 0;
    for &(from, len) in pieces {
        out[at..at + len].copy_from_slice(&block[from..from + len]);
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_block_goes_up_once() {
        for decoder in DECODERS {
            let Layout::Blocks { body, tail, tail_bytes } = &decoder.layout else { continue };
            let mut seen = vec![0; decoder.format.block_bytes()];
            body.iter().chain(*tail).for_each(|&(from, len)| seen[from..from + len].iter_mut().for_each(|n| *n += 1));
            assert!(seen.iter().all(|&n| n == 1), "{}: {seen:?}", decoder.format.name());
            assert!(length(body).is_multiple_of(QUAD) && length(tail) <= *tail_bytes, "{}", decoder.format.name());
        }
    }

    /// What fits a device is reckoned by the file's bytes. Only Q5_0 and Q3_K have tails with something to fill up.
    #[test]
    fn rows_are_hardly_longer_than_in_the_file() {
        for decoder in DECODERS {
            let (there, here) = (decoder.stride(4096) * QUAD, decoder.format.row_bytes(4096).expect("whole blocks"));
            let filled = matches!(decoder.format, Format::Q5_0 | Format::Q3K);
            let most = if filled { here * 11 / 10 } else { here.next_multiple_of(QUAD) };
            assert!((here..=most).contains(&there), "{}: {there} bytes for {here}", decoder.format.name());
        }
    }

    #[test]
    fn rows_are_bodies_then_tails() {
        let decoder = decoder(Format::Q4_0).expect("in the table");
        let row: Vec<u8> = (0..36).collect();
        let mut out = vec![0; decoder.stride(64) * QUAD];
        decoder.arrange(&row, 64, &mut out);
        let expected: Vec<u8> = (2..18).chain(20..36).chain([0, 1, 18, 19]).chain([0; 12]).collect();
        assert_eq!(out, expected);
    }
}

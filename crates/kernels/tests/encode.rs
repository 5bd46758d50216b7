//! Encoders of every table against `candor_quant`'s, byte by byte.

use candor_kernels::Kernels;
use candor_quant::Format;

/// Rows that encoders take differently: by magnitude, with groups of zeros, with ties, and where scales over- and underflow.
fn rows() -> Vec<Vec<f32>> {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let shapes: [fn(f32, usize) -> f32; 8] = [
        |x, _| x * 0.03,
        |x, _| x.powi(9),
        |x, i| if (i / 16) % 3 == 0 { 0.0 } else { x },
        |x, i| x * (i / 32) as f32 + (i / 16) as f32 - 9.0,
        |x, _| (x * 8.0).round() / 4.0,
        |x, _| x * 1e-39,
        |x, _| x * 1e30,
        |_, i| if i < 512 { 0.5 } else { -0.25 },
    ];
    shapes.iter().map(|shape| (0..1024).map(|i| shape(random(), i)).collect()).collect()
}

#[test]
fn encoders_make_the_bytes_of_their_definition() {
    let importance: Vec<f32> = (0..1024).map(|i| ((i * 37) % 101) as f32 * 0.01 + 1e-5).collect();
    for table in Kernels::all() {
        for &format in Format::ALL {
            let Some(encode) = (table.f32.encode)(format) else { continue };
            for (n, row) in rows().iter().enumerate() {
                for importance in [None, Some(&importance[..])] {
                    let mut bytes = vec![0; format.row_bytes(row.len()).expect("whole blocks")];
                    let mut expected = bytes.clone();
                    encode(row, importance, &mut bytes);
                    format.encode_by(row, importance, &mut expected).expect("an encoder");
                    let how = if importance.is_some() { "with importance" } else { "alone" };
                    assert!(bytes == expected, "{}: {format}, row {n} {how}", table.name);
                }
            }
        }
    }
}

/// The formats that are slow to make have encoders of their own where there are vectors.
#[test]
#[cfg(target_arch = "x86_64")]
fn vectors_have_encoders() {
    for table in Kernels::available().filter(|table| table.name != "scalar") {
        for format in
            [Format::Q2K, Format::Q3K, Format::Q4K, Format::Q5K, Format::Q6K, Format::Iq4Xs, Format::Iq1S, Format::Iq3S]
        {
            assert!((table.f32.encode)(format).is_some(), "{}: {format}", table.name);
        }
    }
}

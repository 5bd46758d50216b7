use candor_quant::Format;

use super::*;
use crate::{Heads, Pairing, Plain};

fn matrix(cols: usize, values: &[f32]) -> Matrix {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let rows = values.len() / cols;
    Reference
        .weight(Tensor { name: "w".into(), format: Format::F32, rows, cols, bytes: bytes.into() })
        .expect("a whole number of rows")
}

fn rows(width: usize, values: &[f32]) -> Rows {
    Rows { rows: values.len() / width, width, values: values.to_vec() }
}

fn step<'a>(tokens: &'a [u32], positions: &'a [u32], sequences: &'a [u32], outputs: &'a [u32]) -> Step<'a> {
    Step { tokens, positions, sequences, outputs, decoding: 0 }
}

#[test]
fn embed_copies_the_rows_of_the_tokens() {
    let mut out = Reference.buffer(4, 2);
    Reference.embed(&mut out, &matrix(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &step(&[2, 0], &[0, 1], &[0, 0], &[]));
    assert_eq!(out.live(), [5.0, 6.0, 1.0, 2.0]);
}

#[test]
fn rms_norm_divides_by_the_root_of_the_mean_square() {
    let mut out = Reference.buffer(1, 2);
    // Mean square (1 + 49) / 2 = 25.
    Reference.rms_norm(&mut out, &rows(2, &[1.0, 7.0]), &matrix(2, &[10.0, 1.0]), 0.0);
    assert_eq!(out.live(), [2.0, 1.4]);
    Reference.rms_norm(&mut out, &rows(2, &[1.0, 7.0]), &matrix(2, &[10.0, 1.0]), 75.0);
    assert_eq!(out.live(), [1.0, 0.7]);
}

#[test]
fn norm_takes_each_run_by_itself() {
    let rms = Norm { kind: NormKind::Rms, run: 2, eps: 0.0 };
    let mut x = rows(4, &[1.0, 7.0, 0.0, 2.0]);
    Reference.norm(&mut x, rms, Some(&matrix(2, &[5.0, 10.0])), None);
    assert_eq!(x.live(), [1.0, 14.0, 0.0, 10.0 * 2f64.sqrt() as f32]);
    let mut x = rows(4, &[1.0, 7.0, 1.0, 7.0]);
    Reference.norm(&mut x, rms, Some(&matrix(4, &[5.0, 10.0, 1.0, 2.0])), Some(&matrix(2, &[1.0, 0.0])));
    assert_eq!(x.live(), [2.0, 14.0, 1.2, 2.8], "a weight of the whole row, a bias of a run");
    let mut x = rows(2, &[1.0, 7.0]);
    Reference.norm(&mut x, Norm { kind: NormKind::Layer, ..rms }, None, Some(&matrix(2, &[10.0, 10.0])));
    assert_eq!(x.live(), [9.0, 11.0]);
    let mut x = rows(2, &[3.0, 4.0]);
    Reference.norm(&mut x, Norm { kind: NormKind::L2, eps: 75.0, ..rms }, None, None);
    assert_eq!(x.live(), [0.3, 0.4]);
}

#[test]
fn matmul_takes_a_row_of_the_matrix_per_output() {
    let (mut out, w) = (Reference.buffer(3, 3), matrix(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let x = rows(2, &[1.0, 10.0, -1.0, 0.5]);
    Reference.matmul(&mut out, &x, &w);
    assert_eq!(out.live(), [21.0, 43.0, 65.0, 0.0, -1.0, -2.0]);
    Reference.matmul_rows(&mut out, &x, &w, &step(&[0, 0], &[0, 1], &[0, 0], &[1]));
    assert_eq!(out.live(), [0.0, -1.0, -2.0]);
}

#[test]
fn fusions_are_their_definitions() {
    let w = matrix(2, &[1.0, 2.0, 3.0, 4.0]);
    let (mut x, mut product) = (rows(2, &[100.0, 200.0]), Reference.buffer(1, 2));
    Plain(Reference).matmul_add(&mut x, &rows(2, &[1.0, 1.0]), &w, &mut product);
    assert_eq!(x.live(), [103.0, 207.0]);
    let (mut a, mut b, mut c) = (Reference.buffer(1, 2), Reference.buffer(1, 2), Reference.buffer(1, 2));
    Reference.matmul3((&mut a, &w), (&mut b, &w), (&mut c, &w), &rows(2, &[1.0, 0.0]));
    assert_eq!([a.live(), b.live(), c.live()], [[1.0, 3.0]; 3]);
}

#[test]
fn elementwise() {
    let mut x = rows(2, &[1.0, 2.0, 3.0, 4.0]);
    Reference.add_bias(&mut x, &matrix(2, &[10.0, 20.0]));
    assert_eq!(x.live(), [11.0, 22.0, 13.0, 24.0]);
    Reference.add(&mut x, &rows(2, &[1.0, 0.0, -1.0, 0.0]));
    assert_eq!(x.live(), [12.0, 22.0, 12.0, 24.0]);
    Reference.mul(&mut x, &rows(2, &[0.5, 1.0, -1.0, 0.0]));
    assert_eq!(x.live(), [6.0, 22.0, -12.0, 0.0]);
    let mut x = rows(1, &[0.0, 3f32.ln(), -3f32.ln()]);
    Reference.unary(&mut x, Unary::Silu);
    // ln 3 * 3/4 and -ln 3 * 1/4
    assert!((x.values[1] - 0.823_959_2).abs() < 1e-7 && (x.values[2] + 0.274_653_07).abs() < 1e-7, "{x:?}");
    assert_eq!(x.values[0], 0.0);
}

#[test]
fn rope_turns_pairs_and_leaves_the_rest() {
    let quarter = std::f64::consts::FRAC_PI_2;
    let places = step(&[0, 0], &[0, 1], &[0, 0], &[]);
    for (pairing, expected) in [
        (Pairing::Norm, [-2.0, 1.0, -3.0, -4.0, 5.0]), // 90 and 180 degrees
        (Pairing::Neox, [-3.0, -2.0, 1.0, -4.0, 5.0]),
    ] {
        let rope = Rope { pairing, frequencies: vec![quarter, 2.0 * quarter], magnitude: 1.0 };
        let mut x = rows(5, &[1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        Reference.rope(&mut x, &rope, 5, &places);
        assert_eq!(x.row(0), [1.0, 2.0, 3.0, 4.0, 5.0], "position 0 stays");
        for (got, want) in x.row(1).iter().zip(expected) {
            assert!((got - want).abs() < 1e-6, "{pairing:?}: {:?}", x.row(1));
        }
    }
}

fn plan(format: KvFormat) -> KvPlan {
    let (keys, values) = (format, format);
    KvPlan {
        layers: vec![LayerCache::attention(2, 1, 2); 2],
        context: 3,
        step: 3,
        sequences: 2,
        pool: None,
        keys,
        values,
    }
}

#[test]
fn attend_sees_its_own_sequence_up_to_its_position() {
    let heads = Heads { heads: 4, kv_heads: 2, key_dim: 1, value_dim: 2, scale: 0.5 };
    let mut kv = Reference.kv(&plan(KvFormat::F32));
    // Sequence 1 holds two positions, sequence 0 one, all in layer 1; layer 0 stays empty.
    let places = step(&[0; 3], &[0, 1, 0], &[1, 1, 0], &[]);
    let ln3 = 3f32.ln();
    let k = rows(2, &[0.0, 0.0, 2.0 * ln3, 0.0, 0.0, 0.0]);
    let v = rows(4, &[0.0, 4.0, 1.0, 1.0, 8.0, 0.0, 3.0, 5.0, 7.0, 7.0, 9.0, 9.0]);
    Reference.kv_write(&mut kv, 1, &k, &v, &places);
    let mut out = Reference.buffer(3, 8);
    let q = rows(4, &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    Reference.attend(&mut out, &q, &kv, 1, Attention::causal(heads), &places);
    assert_eq!(out.row(0), [0.0, 4.0, 0.0, 4.0, 1.0, 1.0, 1.0, 1.0], "one position: its value");
    // Head 0: weights 1/4 and 3/4; the others 1/2 and 1/2; heads 2 and 3 read the second key and value head.
    for (got, want) in out.row(1).iter().zip([6.0, 1.0, 4.0, 2.0, 2.0, 3.0, 2.0, 3.0]) {
        assert!((got - want).abs() < 1e-6, "{:?}", out.row(1));
    }
    assert_eq!(out.row(2), [7.0, 7.0, 7.0, 7.0, 9.0, 9.0, 9.0, 9.0]);
}

#[test]
fn a_half_precision_cache_rounds() {
    let heads = Heads { heads: 2, kv_heads: 2, key_dim: 1, value_dim: 2, scale: 1.0 };
    let mut kv = Reference.kv(&plan(KvFormat::F16));
    let places = step(&[0], &[0], &[0], &[]);
    Reference.kv_write(&mut kv, 0, &rows(2, &[1.0, 1.0]), &rows(4, &[2049.0, 0.1, 1e-8, 1.0]), &places);
    let mut out = Reference.buffer(1, 4);
    Reference.attend(&mut out, &rows(2, &[1.0, 1.0]), &kv, 0, Attention::causal(heads), &places);
    assert_eq!(out.live(), [2048.0, 0.099_975_586, 0.0, 1.0]);
}

#[test]
fn an_8_bit_cache_rounds_to_its_blocks_scale() {
    let heads = Heads { heads: 1, kv_heads: 1, key_dim: 32, value_dim: 64, scale: 1.0 };
    let (keys, values) = (KvFormat::Q8_0, KvFormat::Q8_0);
    let layers = vec![LayerCache::attention(1, 32, 64)];
    let plan = KvPlan { layers, context: 1, step: 1, sequences: 1, pool: None, keys, values };
    let mut kv = Reference.kv(&plan);
    let places = step(&[0], &[0], &[0], &[]);
    let mut value = [0.0; 64];
    // The largest is 127 steps of the scale, which is itself a half.
    (value[0], value[1], value[2]) = (127.0, -0.6, 0.4);
    (value[32], value[33], value[34]) = (-254.0, 3.0, 0.9);
    Reference.kv_write(&mut kv, 0, &rows(32, &[1.0; 32]), &rows(64, &value), &places);
    let mut out = Reference.buffer(1, 64);
    Reference.attend(&mut out, &rows(32, &[1.0; 32]), &kv, 0, Attention::causal(heads), &places);
    assert_eq!((&out.live()[..3], &out.live()[32..35]), (&[127.0, -1.0, 0.0][..], &[-254.0, 4.0, 0.0][..]));
}

#[test]
fn a_snapshot_is_a_copy_of_the_rows_in_flight() {
    let mut x = rows(2, &[1.0, 2.0, 3.0, 4.0]);
    x.rows = 1;
    let snapshot = Reference.snapshot(&x);
    x.values[0] = 9.0;
    let mut out = vec![7.0; 5];
    Reference.download(&snapshot, &mut out);
    assert_eq!(out, [1.0, 2.0]);
}

#[test]
fn a_weight_with_the_wrong_number_of_bytes_is_refused() {
    let tensor = Tensor { name: "w".into(), format: Format::F16, rows: 2, cols: 3, bytes: vec![0; 10].into() };
    let message = Reference.weight(tensor).expect_err("two bytes short").to_string();
    assert_eq!(message, "bytes of w: expected [2, 6], got [2, 5]");
}

#[test]
fn products_in_several_threads_have_the_bits_of_one_sum_each() {
    let (cols, outputs) = (1024, 2051);
    let number = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
    let mut values: Vec<f32> = (0..cols * outputs).map(number).collect();
    values[cols * 7..cols * 8].fill(-0.0);
    let (w, x) = (Matrix { cols, values }, rows(cols, &(0..cols).map(|i| number(i + 99)).collect::<Vec<_>>()));
    let mut out = Reference.buffer(1, outputs);
    Reference.matmul(&mut out, &x, &w);
    let expected = (0..outputs).map(|o| (dot(w.row(o), x.row(0)) as f32).to_bits());
    assert!(out.live().iter().map(|x| x.to_bits()).eq(expected));
}

//! Steps of linear recurrences, written once as the loops of `lanes` are: no fused multiply-add, and one sum per element in
//! the order of keys, so that bits depend on no width of registers.

use crate::lanes::exp;

/// What a row brings to the state of a head.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// `[K]`.
    pub q: &'a [f32],
    /// `[K]`.
    pub k: &'a [f32],
    /// `[V]`.
    pub v: &'a [f32],
    /// The factor of each key's row of the state, `[K]`.
    pub fade: &'a [f32],
    /// What is read from the state before, and what is added for it, `[K]` each.
    pub erase: Option<(&'a [f32], &'a [f32])>,
    /// The weight of the row itself in its output, which then sees the state before it fades, `[K]`.
    pub bonus: Option<&'a [f32]>,
}

/// What a row brings to many heads with values of one number and with one key for all.
#[derive(Clone, Copy, Debug)]
pub struct KeyScan<'a> {
    /// `[K]`.
    pub q: &'a [f32],
    /// `[K]`.
    pub k: &'a [f32],
    /// A number of each head, `[H]`.
    pub v: &'a [f32],
    /// Each head's time, `[H]`.
    pub time: &'a [f32],
    /// How fast each element fades, `[K][H]`.
    pub rate: &'a [f32],
}

/// `S = diag(fade) S + erase.1 (erase.0 S) + k v`, `out = q S`, with the state `[K][V]`.
#[inline(always)]
pub fn scan(out: &mut [f32], state: &mut [f32], row: Scan<'_>) {
    let (keys, values) = (row.k.len(), row.v.len());
    let wide =
        [row.q, row.fade].into_iter().chain(row.erase.map(|e| e.0)).chain(row.erase.map(|e| e.1)).chain(row.bonus);
    assert!(wide.into_iter().all(|x| x.len() == keys), "scan: keys of {keys}");
    assert!(out.len() == values && state.len() == keys * values, "scan: {keys} by {values}");
    let mut first = 0;
    while first + 32 <= values {
        columns::<32>(out, state, row, first);
        first += 32;
    }
    while first + 16 <= values {
        columns::<16>(out, state, row, first);
        first += 16;
    }
    while first < values {
        columns::<1>(out, state, row, first);
        first += 1;
    }
}

/// `N` columns of the state: what is summed stays in registers.
#[inline(always)]
fn columns<const N: usize>(out: &mut [f32], state: &mut [f32], row: Scan<'_>, first: usize) {
    let values = row.v.len();
    let at = |i: usize| i * values + first..i * values + first + N;
    let mut v = [0.0; N];
    v.copy_from_slice(&row.v[first..first + N]);
    let mut erased = [0.0; N];
    if let Some((a, _)) = row.erase {
        for (i, a) in a.iter().enumerate() {
            let state = &state[at(i)];
            for n in 0..N {
                erased[n] += a * state[n];
            }
        }
    }
    let mut sums = [0.0; N];
    for i in 0..row.k.len() {
        let state = &mut state[at(i)];
        let (q, k, fade) = (row.q[i], row.k[i], row.fade[i]);
        let back = row.erase.map_or(0.0, |(_, b)| b[i]);
        if let Some(bonus) = row.bonus {
            let bonus = bonus[i];
            for n in 0..N {
                let added = k * v[n];
                sums[n] += q * (state[n] + bonus * added);
                state[n] = state[n] * fade + back * erased[n] + added;
            }
        } else {
            for n in 0..N {
                state[n] = state[n] * fade + back * erased[n] + k * v[n];
                sums[n] += q * state[n];
            }
        }
    }
    out[first..first + N].copy_from_slice(&sums);
}

/// `S = exp(time * rate) S + k v`, `out = q S`, with the state `[K][H]`: lane = head.
#[inline(always)]
pub fn scan_keys(out: &mut [f32], state: &mut [f32], row: KeyScan<'_>) {
    let (heads, keys) = (out.len(), row.k.len());
    assert!(row.q.len() == keys && [row.v.len(), row.time.len()] == [heads; 2], "scan_keys: {keys} by {heads}");
    assert!([state.len(), row.rate.len()] == [keys * heads; 2], "scan_keys: {keys} by {heads}");
    let mut first = 0;
    while first + 16 <= heads {
        some_heads::<16>(out, state, row, first);
        first += 16;
    }
    while first < heads {
        some_heads::<1>(out, state, row, first);
        first += 1;
    }
}

#[inline(always)]
fn some_heads<const N: usize>(out: &mut [f32], state: &mut [f32], row: KeyScan<'_>, first: usize) {
    let heads = out.len();
    let (mut v, mut time, mut sums) = ([0.0; N], [0.0; N], [0.0; N]);
    v.copy_from_slice(&row.v[first..first + N]);
    time.copy_from_slice(&row.time[first..first + N]);
    for (i, (q, k)) in row.q.iter().zip(row.k).enumerate() {
        let at = i * heads + first..i * heads + first + N;
        let (state, rate) = (&mut state[at.clone()], &row.rate[at]);
        for n in 0..N {
            state[n] = state[n] * exp(time[n] * rate[n]) + k * v[n];
            sums[n] += q * state[n];
        }
    }
    out[first..first + N].copy_from_slice(&sums);
}

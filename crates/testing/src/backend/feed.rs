//! Two sequences cut into steps.

/// What a step brings: sequence, position, and the row of what is fed.
pub type Places = Vec<(u32, usize, usize)>;

/// Feeds the sequences 0 and 2, `chunk(start)` positions of each at a time, alternating within a step. The rows of sequence
/// 0 come first.
pub fn steps(lengths: [usize; 2], chunk: impl Fn(usize) -> usize) -> Vec<Places> {
    let (mut all, mut next) = (Vec::new(), 0);
    while next < lengths[0].max(lengths[1]) {
        let start = next;
        next += chunk(start);
        let mut places = Places::new();
        for position in start..next {
            if position < lengths[0] {
                places.push((0, position, position));
            }
            if position < lengths[1] {
                places.push((2, position, lengths[0] + position));
            }
        }
        all.push(places);
    }
    all
}

/// The rows of a step.
pub fn picked(places: &Places, all: &[f32], width: usize) -> Vec<f32> {
    places.iter().flat_map(|&(_, _, row)| &all[row * width..][..width]).copied().collect()
}

/// Puts a step's results where its rows came from.
pub fn put(places: &Places, out: &mut [f32], results: &[f32], width: usize) {
    for (&(_, _, row), result) in places.iter().zip(results.chunks_exact(width)) {
        out[row * width..][..width].copy_from_slice(result);
    }
}

/// Positions and sequences of a step.
pub fn numbers(places: &Places) -> (Vec<u32>, Vec<u32>) {
    (places.iter().map(|place| place.1 as u32).collect(), places.iter().map(|place| place.0).collect())
}

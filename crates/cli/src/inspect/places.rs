//! Names of values in few words: `Qcur, Kcur in layers 0-5`.

use std::collections::BTreeSet;

use candor_inspect::Key;

/// Names with the same layers together, in the order in which they first come.
pub fn grouped<'k>(keys: impl IntoIterator<Item = &'k Key>) -> String {
    let mut names: Vec<(&str, BTreeSet<usize>)> = Vec::new();
    for Key { name, layer } in keys {
        let at = names.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            names.push((name, BTreeSet::new()));
            names.len() - 1
        });
        names[at].1.extend(layer);
    }
    let mut groups: Vec<(BTreeSet<usize>, Vec<&str>)> = Vec::new();
    for (name, layers) in names {
        match groups.iter_mut().find(|(other, _)| *other == layers) {
            Some((_, members)) => members.push(name),
            None => groups.push((layers, vec![name])),
        }
    }
    let text = |(layers, names): &(BTreeSet<usize>, Vec<&str>)| match layers.len() {
        0 => names.join(", "),
        1 => format!("{} in layer {}", names.join(", "), ranges(layers)),
        _ => format!("{} in layers {}", names.join(", "), ranges(layers)),
    };
    groups.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// `0-3, 7`.
fn ranges(layers: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &layer in layers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == layer => *last = layer,
            _ => ranges.push((layer, layer)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_the_same_layers_go_together() {
        for (keys, expected) in [
            ("", ""),
            ("inp_embd", "inp_embd"),
            ("Qcur-0", "Qcur in layer 0"),
            ("Qcur-0 Kcur-0 Qcur-1 Kcur-1 Qcur-2 Kcur-2", "Qcur, Kcur in layers 0-2"),
            ("Qcur-0 Qcur-2 Qcur-3 l_out-3", "Qcur in layers 0, 2-3; l_out in layer 3"),
            ("inp_embd Qcur-0 result_norm", "inp_embd, result_norm; Qcur in layer 0"),
        ] {
            let keys: Vec<Key> = keys.split_whitespace().map(|key| key.parse().unwrap()).collect();
            assert_eq!(grouped(&keys), expected);
        }
    }
}

// Chooses experts for a row. Grid: rows. From outside: WG, EXPERTS, USED, `highest` and `total` (reduce_plain or
// reduce_subgroup), `exponential` (math), the gate (SOFTMAX, SIGMOID, of the chosen: OF_CHOSEN, one after the other:
// MIXER), BIASED and `bias`. Of equals the first is taken.
struct P {
    stride: u32,
    groups: u32,
    groups_used: u32,
    normalized: u32,
    scale: f32,
    share: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> choices: array<vec2<u32>>;

const LOWEST = -3.0e38;
// Of what is taken or not allowed.
const OUT = -3.3e38;

var<workgroup> weights: array<f32, EXPERTS>;
// What experts are chosen by.
var<workgroup> keys: array<f32, EXPERTS>;
// Scores of groups.
var<workgroup> scores: array<f32, EXPERTS>;
var<workgroup> chosen: array<u32, USED>;
var<workgroup> shares: array<f32, USED>;
var<workgroup> place: atomic<u32>;

fn power(x: f32) -> f32 {
    return exponential(vec4<f32>(x)).x;
}

// What is no number comes last.
fn sortable(x: f32) -> f32 {
    let is_number = (bitcast<u32>(x) & 0x7fffffffu) <= 0x7f800000u;
    return select(LOWEST, max(x, LOWEST), is_number);
}

// The sum of a group's two best.
fn score(group: u32) -> f32 {
    let size = EXPERTS / p.groups;
    var best = LOWEST;
    var second = LOWEST;
    for (var i = group * size; i < (group + 1u) * size; i++) {
        let value = sortable(weights[i] + bias(i));
        if value > best {
            second = best;
            best = value;
        } else if value > second {
            second = value;
        }
    }
    return select(best + second, best, size == 1u);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, member: Member) {
    let lid = member.lid;
    let row = group.x * p.stride;
    var most = 0.0;
    var sum = 1.0;
    if SOFTMAX {
        var own = LOWEST;
        for (var i = lid; i < EXPERTS; i += WG) {
            own = max(own, logits[row + i]);
        }
        most = highest(own, member);
        var part = 0.0;
        for (var i = lid; i < EXPERTS; i += WG) {
            part += power(logits[row + i] - most);
        }
        sum = total(part, member);
    }
    for (var i = lid; i < EXPERTS; i += WG) {
        let logit = logits[row + i];
        var weight = logit;
        // Logits are in the weights' order, and tell apart what weights of 32 bits do not. Those above this one have a
        // sigmoid of 1 in 64 bits too.
        var key = logit;
        if SOFTMAX {
            weight = power(logit - most) / sum;
        }
        if SIGMOID {
            weight = 1.0 / (1.0 + power(-logit));
            key = select(logit, 36.7368, logit > 36.7368);
        }
        if BIASED {
            key = weight + bias(i);
        }
        weights[i] = weight;
        keys[i] = sortable(key);
    }
    if p.groups > 1u {
        workgroupBarrier();
        for (var g = lid; g < p.groups; g += WG) {
            scores[g] = score(g);
        }
        workgroupBarrier();
        for (var i = lid; i < EXPERTS; i += WG) {
            let own = i / (EXPERTS / p.groups);
            var better = 0u;
            for (var g = 0u; g < p.groups; g++) {
                if scores[g] > scores[own] || (scores[g] == scores[own] && g < own) {
                    better += 1u;
                }
            }
            if better >= p.groups_used {
                keys[i] = OUT;
            }
        }
    }
    for (var c = 0u; c < USED; c++) {
        // Every invocation looks at the keys that it has written.
        var at = EXPERTS - 1u;
        var value = -3.4e38;
        for (var i = lid; i < EXPERTS; i += WG) {
            if keys[i] > value {
                value = keys[i];
                at = i;
            }
        }
        if lid == 0u {
            atomicStore(&place, EXPERTS - 1u);
        }
        // Its barriers come between the store above and the others' turn.
        let best = highest(value, member);
        if value == best {
            atomicMin(&place, at);
        }
        workgroupBarrier();
        let expert = atomicLoad(&place);
        var share = 0.0;
        if MIXER {
            var part = 0.0;
            for (var i = lid; i < EXPERTS; i += WG) {
                if keys[i] != OUT && (best - keys[i]) / max(abs(logits[row + i]), best) <= p.share {
                    part += power(keys[i] - best);
                }
            }
            share = 1.0 / total(part, member);
        }
        workgroupBarrier();
        if expert % WG == lid {
            keys[expert] = OUT;
            chosen[c] = expert;
            shares[c] = select(weights[expert], share, MIXER);
        }
    }
    workgroupBarrier();
    if lid == 0u {
        if OF_CHOSEN {
            var top = LOWEST;
            for (var c = 0u; c < USED; c++) {
                top = max(top, shares[c]);
            }
            var all = 0.0;
            for (var c = 0u; c < USED; c++) {
                shares[c] = power(shares[c] - top);
                all += shares[c];
            }
            for (var c = 0u; c < USED; c++) {
                shares[c] /= all;
            }
        }
        var factor = p.scale;
        var divisor = 1.0;
        if p.normalized == 1u && !MIXER {
            divisor = 0.0;
            for (var c = 0u; c < USED; c++) {
                divisor += shares[c];
            }
            divisor = max(divisor, 6.1035156e-5);
        }
        for (var c = 0u; c < USED; c++) {
            var weight = shares[c];
            if !MIXER {
                weight = weight / divisor * factor;
            }
            choices[group.x * USED + c] = vec2<u32>(chosen[c], bitcast<u32>(weight));
        }
    }
}

// A linear recurrence: each column of a head's state, `[sequence][head][key][value]`, goes through all rows of its sequence.
// Grid: (columns of all heads / COLUMNS, sequences); PARTS invocations share a column, each with ELEMENTS of its keys.
// From outside: KEYS, PARTS, ELEMENTS, COLUMNS, ERASE, what the state fades by (`fading`), what is seen of the present
// (`seen`), and where inputs lie (recur_apart or recur_joined).
struct P {
    group: u32, // heads with the same queries and keys
    value_dim: u32,
    columns: u32,
    v_stride: u32,
    out_stride: u32,
    key_stride: u32,
    fade_stride: u32,
    k_at: u32, // where inputs begin that lie in one buffer
    fade_at: u32,
    a_at: u32,
    b_at: u32,
    rate_cols: u32,
    rate_stride: u32,
    bonus_cols: u32,
    bonus_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> v: array<f32>;
@group(0) @binding(2) var<storage, read_write> state: array<f32>;
@group(0) @binding(3) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

const WG = PARTS * COLUMNS;

// Whether everyone has as many keys: loops have bounds that are known, so that what they keep lies in registers.
const WHOLE = KEYS == PARTS * ELEMENTS;

var<workgroup> shares: array<f32, WG>;

// The sum over those who share a column, for all of them.
fn together(value: f32, lid: u32) -> f32 {
    if PARTS == 1u {
        return value;
    }
    workgroupBarrier();
    shares[lid] = value;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < PARTS; i++) {
        sum += shares[i * COLUMNS + lid % COLUMNS];
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let links = step[0].z + 1u;
    let first = step[links + group.y].w;
    let place = step[first + 1u];
    let own = group.x * COLUMNS + lid % COLUMNS;
    let is_there = own < p.columns;
    // Those beyond the last column do its work once more, and keep nothing.
    let column = min(own, p.columns - 1u);
    let head = column / p.value_dim;
    let begin = lid / COLUMNS * ELEMENTS;
    let count = min(ELEMENTS, KEYS - min(KEYS, begin));
    let keys = head * KEYS + begin;
    let kin = head / p.group * KEYS + begin;
    let at = place.z * p.columns * KEYS + keys * p.value_dim + column % p.value_dim;
    var s: array<f32, ELEMENTS>;
    var rates: array<f32, ELEMENTS>;
    var bonuses: array<f32, ELEMENTS>;
    for (var i = 0u; i < ELEMENTS; i++) {
        if WHOLE || i < count {
            if place.y > 0u {
                s[i] = state[at + i * p.value_dim];
            }
            rates[i] = rate(keys + i);
            bonuses[i] = bonus(keys + i);
        }
    }
    var row = first;
    loop {
        let value = v[row * p.v_stride + column];
        var erased = 0.0;
        if ERASE {
            for (var i = 0u; i < ELEMENTS; i++) {
                if WHOLE || i < count {
                    erased += erase_at(row, keys + i) * s[i];
                }
            }
            erased = together(erased, lid);
        }
        var sum = 0.0;
        for (var i = 0u; i < ELEMENTS; i++) {
            if WHOLE || i < count {
                let old = s[i];
                let added = key_at(row, kin + i) * value;
                var now = old * fading(row, head, keys + i, rates[i]) + added;
                if ERASE {
                    now += back_at(row, keys + i) * erased;
                }
                s[i] = now;
                sum += query_at(row, kin + i) * seen(now, old, added, bonuses[i]);
            }
        }
        sum = together(sum, lid);
        if is_there && begin == 0u {
            out[row * p.out_stride + column] = sum;
        }
        let next = step[links + row].z;
        if next == 0u {
            break;
        }
        row = next - 1u;
    }
    if is_there {
        for (var i = 0u; i < ELEMENTS; i++) {
            if WHOLE || i < count {
                state[at + i * p.value_dim] = s[i];
            }
        }
    }
}

// Multiplies and adds on registers: p.steps times 16 chains of 4 numbers. From outside: `V`, `start`, `next`, `fold`.
struct P { steps: u32, factor: u32 }
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let m = start(p.factor);
    let first = (id.x & 127u) * 16u;
    var a = start(first); var b = start(first + 1u); var c = start(first + 2u); var d = start(first + 3u);
    var e = start(first + 4u); var f = start(first + 5u); var g = start(first + 6u); var h = start(first + 7u);
    var i = start(first + 8u); var j = start(first + 9u); var k = start(first + 10u); var l = start(first + 11u);
    var n = start(first + 12u); var o = start(first + 13u); var q = start(first + 14u); var r = start(first + 15u);
    for (var s = 0u; s < p.steps; s++) {
        a = next(a, m); b = next(b, m); c = next(c, m); d = next(d, m);
        e = next(e, m); f = next(f, m); g = next(g, m); h = next(h, m);
        i = next(i, m); j = next(j, m); k = next(k, m); l = next(l, m);
        n = next(n, m); o = next(o, m); q = next(q, m); r = next(r, m);
    }
    out[id.x] = fold(a + b + c + d + e + f + g + h + i + j + k + l + n + o + q + r);
}

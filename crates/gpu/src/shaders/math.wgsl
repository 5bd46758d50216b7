// Functions of four numbers, within about two units in the last place: WGSL promises less of its own.
fn above_zero(x: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(0.0), x, x > vec4<f32>(0.0));
}

// The polynomial of Cephes' expf (Moshier) within half of ln 2: (e^r - 1 - r) / r^2.
fn exponential_near(r: vec4<f32>) -> vec4<f32> {
    var s = vec4<f32>(1.9875692e-4);
    s = s * r + vec4<f32>(1.3982e-3);
    s = s * r + vec4<f32>(8.333452e-3);
    s = s * r + vec4<f32>(4.1665796e-2);
    s = s * r + vec4<f32>(1.6666665e-1);
    return s * r + vec4<f32>(0.5);
}

fn power_of_two(n: vec4<i32>) -> vec4<f32> {
    return bitcast<vec4<f32>>((n + vec4<i32>(127)) << vec4<u32>(23u));
}

// e^x = 2^n e^r; 2^n in two factors, so that both ends of the range come out right.
fn exponential(x: vec4<f32>) -> vec4<f32> {
    let low = select(x, vec4<f32>(89.0), x > vec4<f32>(89.0));
    let y = select(low, vec4<f32>(-104.0), low < vec4<f32>(-104.0));
    let n = round(y * 1.442695);
    // ln 2 in two parts, the first with so few bits that n times it is exact.
    let r = y - n * 0.693359375 + n * 2.1219444e-4;
    let whole = vec4<i32>(n);
    let half = whole >> vec4<u32>(1u);
    return (exponential_near(r) * (r * r) + r + 1.0) * power_of_two(half) * power_of_two(whole - half);
}

// e^x - 1
fn exponential_less(x: vec4<f32>) -> vec4<f32> {
    return select(exponential(x) - 1.0, exponential_near(x) * (x * x) + x, abs(x) < vec4<f32>(0.34));
}

fn sigmoid(x: vec4<f32>) -> vec4<f32> {
    return 1.0 / (1.0 + exponential(-x));
}

// The hyperbolic tangent: near zero the polynomial of Cephes' tanhf.
fn tangent(x: vec4<f32>) -> vec4<f32> {
    let z = x * x;
    var s = vec4<f32>(-5.7049887e-3);
    s = s * z + vec4<f32>(2.063909e-2);
    s = s * z - vec4<f32>(5.3739716e-2);
    s = s * z + vec4<f32>(1.3331442e-1);
    s = s * z - vec4<f32>(3.333328e-1);
    let away = 1.0 - 2.0 / (exponential(2.0 * abs(x)) + 1.0);
    return select(select(away, -away, x < vec4<f32>(0.0)), s * z * x + x, abs(x) < vec4<f32>(0.625));
}

// ln(1 + u) of u within 0 and 1, as 2 artanh(u / (2 + u)) by its series.
fn log_of_more(u: vec4<f32>) -> vec4<f32> {
    let t = u / (2.0 + u);
    let z = t * t;
    var s = vec4<f32>(6.6666667e-2);
    s = s * z + vec4<f32>(7.6923077e-2);
    s = s * z + vec4<f32>(9.0909091e-2);
    s = s * z + vec4<f32>(1.1111111e-1);
    s = s * z + vec4<f32>(1.4285714e-1);
    s = s * z + vec4<f32>(0.2);
    s = s * z + vec4<f32>(3.3333333e-1);
    return 2.0 * (t + t * z * s);
}

// Phi(x), the share of a normal distribution below x. With z = |x| / sqrt(2), e^(z^2) erfc(z) is a polynomial of
// 1 / (1 + z / 2), fitted from z = 0 to 10; z^2 is taken in two parts, the first of them exact.
fn normal(x: vec4<f32>) -> vec4<f32> {
    // From there on the tail is nothing.
    let size = select(abs(x), vec4<f32>(30.0), abs(x) > vec4<f32>(30.0));
    let t = 1.0 / (1.0 + size * 0.35355339);
    var s = vec4<f32>(-4.736162e-2);
    s = s * t + vec4<f32>(2.2448739e-1);
    s = s * t - vec4<f32>(3.5468093e-1);
    s = s * t + vec4<f32>(1.1377152e-1);
    s = s * t + vec4<f32>(9.9131125e-2);
    s = s * t + vec4<f32>(1.4127366e-1);
    s = s * t + vec4<f32>(2.6217358e-1);
    s = s * t + vec4<f32>(2.7875532e-1);
    s = s * t + vec4<f32>(2.824668e-1);
    s = s * t - vec4<f32>(1.6840977e-5);
    let high = bitcast<vec4<f32>>(bitcast<vec4<u32>>(size) & vec4<u32>(0xfffff000u));
    let tail = 0.5 * s * exponential(-0.5 * high * high) * exponential(-0.5 * (size - high) * (size + high));
    return select(1.0 - tail, tail, x < vec4<f32>(0.0));
}

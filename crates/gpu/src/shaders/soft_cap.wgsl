// cap * tanh(x / cap): near zero by the polynomial of Cephes' tanhf (Moshier).
fn capped(score: f32) -> f32 {
    let x = score / p.cap;
    let z = x * x;
    var s = -5.7049887e-3;
    s = s * z + 2.063909e-2;
    s = s * z - 5.3739716e-2;
    s = s * z + 1.3331442e-1;
    s = s * z - 3.333328e-1;
    let away = 1.0 - 2.0 / (exp(2.0 * min(abs(x), 20.0)) + 1.0);
    return p.cap * select(select(away, -away, x < 0.0), s * z * x + x, abs(x) < 0.625);
}

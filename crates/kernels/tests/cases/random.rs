//! Numbers that are the same each time.

/// A generator of numbers from a seed that failures print.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32 ^ (self.0 >> 51) as u32
    }

    /// -1..1
    pub fn signed(&mut self) -> f32 {
        (self.bits() & 0xff_ffff) as f32 / (1 << 23) as f32 - 1.0
    }
}

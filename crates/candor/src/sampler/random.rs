//! Random numbers with the same values everywhere: MT19937 and the two conversions to [0, 1) of libstdc++.
//!
//! Matsumoto and Nishimura, "Mersenne Twister" (1998), as C++ fixes it for std::mt19937. Not for secrets.

use std::hash::{BuildHasher, RandomState};

const LENGTH: usize = 624;

#[derive(Clone, Debug)]
pub(super) struct Mt19937 {
    state: Box<[u32; LENGTH]>,
    next: usize,
}

impl Mt19937 {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = Box::new([seed; LENGTH]);
        for i in 1..LENGTH {
            let last = state[i - 1];
            state[i] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, next: LENGTH }
    }

    fn draw(&mut self) -> u32 {
        if self.next == LENGTH {
            for i in 0..LENGTH {
                let bits = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % LENGTH] & 0x7fff_ffff);
                let odd = if bits & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % LENGTH] ^ (bits >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number in [0, 1) of two draws, the first being the low half.
    pub(super) fn uniform(&mut self) -> f64 {
        const TWO_32: f64 = 4_294_967_296.0;
        let low = f64::from(self.draw());
        let sum = low + f64::from(self.draw()) * TWO_32;
        // Rounding can reach 1: then the number below it.
        (sum / (TWO_32 * TWO_32)).min(1.0 - f64::EPSILON / 2.0)
    }

    /// A number in [0, 1) of one draw.
    pub(super) fn uniform_f32(&mut self) -> f32 {
        (self.draw() as f32 / 4_294_967_296.0).min(1.0 - f32::EPSILON / 2.0)
    }
}

/// A seed for who gave none, never `u32::MAX`. The standard library's hasher asks the system for random keys; in a
/// browser, where std has none, it is fixed, and the caller should give a seed.
pub(super) fn entropy() -> u32 {
    let bits = RandomState::new().hash_one(0u8);
    ((bits ^ (bits >> 32)) as u32) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_s_check_value() {
        // [rand.predef]: the 10000th draw of a default-constructed std::mt19937, whose seed is 5489.
        let mut random = Mt19937::new(5489);
        let last = (0..10_000).map(|_| random.draw()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn uniform_numbers_are_below_one() {
        let mut random = Mt19937::new(1);
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&random.uniform()));
            assert!((0.0..1.0).contains(&random.uniform_f32()));
        }
    }
}

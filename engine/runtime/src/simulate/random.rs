/// A small generator with a seed: SplitMix64, as in [`tidegate_api::hash::mix`].
#[derive(Debug, Clone)]
pub struct SimRandom(u64);

/// One step of the generator's mixing.
pub(super) fn mix(value: u64) -> u64 {
    tidegate_api::hash::mix(value)
}

impl SimRandom {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        SimRandom(mix(seed))
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }

    /// True once in `n` on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

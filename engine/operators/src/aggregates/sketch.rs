//! `approxCountDistinct`: exact up to 1,024 values, then a HyperLogLog of 16,384 registers with a standard error of 0.8 %.
//!
//! What a sketch holds depends on the set of values alone, so neither the order of rows nor the cut of batches moves the
//! result. The estimator is Ertl's (2017), which needs no correction for small or great numbers.

use super::{Accumulator, Finished, each_valid, foreign, gathered};
use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, Int64Array, UInt64Array};
use arrow::datatypes::UInt64Type;
use std::sync::Arc;
use tidegate_api::{Result, hash};

const BITS: u32 = 14;
const REGISTERS: usize = 1 << BITS;
const EXACT: usize = 1024;

/// The values' hashes, which is all that a sketch sees.
///
/// # Errors
/// `Config` for a type that cannot be hashed.
pub(super) fn prepared(column: &ArrayRef) -> Result<ArrayRef> {
    let mut hashes = Vec::new();
    hash::hash_rows(std::slice::from_ref(column), column.len(), &mut hashes)?;
    Ok(Arc::new(UInt64Array::new(hashes.into(), column.logical_nulls())))
}

#[derive(Debug, Clone)]
enum Sketch {
    /// The hashes themselves, in order.
    Exact(Vec<u64>),
    Registers(Box<[u8]>),
}

impl Sketch {
    fn add(&mut self, hash: u64) {
        match self {
            Sketch::Exact(hashes) => {
                let Err(place) = hashes.binary_search(&hash) else { return };
                if hashes.len() < EXACT {
                    hashes.insert(place, hash);
                    return;
                }
                let mut registers = vec![0; REGISTERS].into_boxed_slice();
                hashes.iter().chain([&hash]).for_each(|hash| raise(&mut registers, *hash));
                *self = Sketch::Registers(registers);
            }
            Sketch::Registers(registers) => raise(registers, hash),
        }
    }

    fn write(&self) -> Vec<u8> {
        match self {
            Sketch::Exact(hashes) => hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect(),
            Sketch::Registers(registers) => registers.to_vec(),
        }
    }

    /// Takes in what another one wrote.
    fn merge(&mut self, written: &[u8]) -> Result<()> {
        if written.len() <= EXACT * 8 {
            let (hashes, rest) = written.as_chunks::<8>();
            if !rest.is_empty() {
                return Err(foreign());
            }
            hashes.iter().for_each(|hash| self.add(u64::from_le_bytes(*hash)));
            return Ok(());
        }
        if written.len() != REGISTERS {
            return Err(foreign());
        }
        match self {
            Sketch::Registers(registers) => {
                registers.iter_mut().zip(written).for_each(|(ours, theirs)| *ours = (*ours).max((*theirs).min(65)));
            }
            Sketch::Exact(hashes) => {
                let mut registers: Box<[u8]> = written.iter().map(|rank| (*rank).min(65)).collect();
                hashes.iter().for_each(|hash| raise(&mut registers, *hash));
                *self = Sketch::Registers(registers);
            }
        }
        Ok(())
    }

    fn count(&self) -> i64 {
        match self {
            Sketch::Exact(hashes) => hashes.len() as i64,
            Sketch::Registers(registers) => estimate(registers),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Sketch>()
            + match self {
                Sketch::Exact(hashes) => hashes.capacity() * 8,
                Sketch::Registers(_) => REGISTERS,
            }
    }
}

/// The upper bits name a register; it keeps the greatest number of leading zeros, plus one, met in the others.
#[inline(always)]
fn raise(registers: &mut [u8], hash: u64) {
    let register = &mut registers[(hash >> (64 - BITS)) as usize];
    // The bit set last bounds the count.
    let rank = ((hash << BITS) | (1 << (BITS - 1))).leading_zeros() as u8 + 1;
    *register = (*register).max(rank);
}

fn estimate(registers: &[u8]) -> i64 {
    const MOST: usize = (64 - BITS) as usize;
    let mut counts = [0u32; MOST + 2];
    registers.iter().for_each(|rank| counts[usize::from(*rank).min(MOST + 1)] += 1);
    let size = REGISTERS as f64;
    let mut z = size * tau(1.0 - f64::from(counts[MOST + 1]) / size);
    for count in counts[1..=MOST].iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += size * sigma(f64::from(counts[0]) / size);
    (size * size / (2.0 * std::f64::consts::LN_2 * z)).round() as i64
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        let before = z;
        x *= x;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        let before = z;
        x = x.sqrt();
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ApproxDistinct {
    sketches: Vec<Sketch>,
}

impl ApproxDistinct {
    fn resize(&mut self, total: usize) {
        self.sketches.resize(total, Sketch::Exact(Vec::new()));
    }
}

impl Accumulator for ApproxDistinct {
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()> {
        self.resize(total);
        if let Some(hashes) = values.and_then(|values| values.as_primitive_opt::<UInt64Type>()) {
            each_valid(groups, hashes.values(), hashes.nulls(), |group, hash| self.sketches[group].add(hash));
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()> {
        self.resize(total);
        let written = state.first().and_then(|array| array.as_binary_view_opt()).ok_or_else(foreign)?;
        groups.iter().zip(written.iter()).try_for_each(|(group, written)| self.sketches[*group as usize].merge(written.unwrap_or_default()))
    }

    fn state(&self) -> Result<Vec<ArrayRef>> {
        let mut builder = BinaryViewBuilder::with_capacity(self.sketches.len());
        self.sketches.iter().for_each(|sketch| builder.append_value(sketch.write()));
        Ok(vec![Arc::new(builder.finish())])
    }

    fn finish(&self) -> Result<Finished> {
        Ok(Finished::fitting(Arc::new(self.sketches.iter().map(|sketch| Some(sketch.count())).collect::<Int64Array>())))
    }

    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(ApproxDistinct { sketches: gathered(&self.sketches, groups) }))
    }

    fn clear(&mut self) {
        self.sketches.clear();
    }

    fn bytes(&self) -> usize {
        self.sketches.iter().map(Sketch::bytes).sum()
    }
}

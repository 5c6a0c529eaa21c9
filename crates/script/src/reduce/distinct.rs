//! `_approx_count_distinct`: estimates the number of distinct keys with a HyperLogLog of 2,048 registers.
//!
//! A reduction lists the nonzero registers (two bytes for the index, one for the rank) while the list is shorter than
//! all registers. The error is about 2 percent.

use super::ReduceRow;
use xxhash_rust::xxh3::xxh3_64;

/// How many bits of the hash select the register.
const BITS: u32 = 11;
const REGISTERS: usize = 1 << BITS;
/// The maximum number of listed registers.
const MOST_LISTED: usize = REGISTERS / 3;

pub(super) fn rows<'a>(rows: &mut dyn Iterator<Item = ReduceRow<'a>>) -> Vec<u8> {
    let mut registers = vec![0; REGISTERS];
    for row in rows {
        let hash = xxh3_64(row.key.as_bytes());
        let place = (hash >> (64 - BITS)) as usize;
        let rank = ((hash << BITS | 1 << (BITS - 1)).leading_zeros() + 1) as u8;
        registers[place] = rank.max(registers[place]);
    }
    encode(&registers)
}

pub(super) fn merge(parts: &[&[u8]]) -> Vec<u8> {
    let mut registers = vec![0; REGISTERS];
    parts.iter().for_each(|part| decode(part, &mut registers));
    encode(&registers)
}

pub(super) fn finish(reduction: &[u8]) -> u64 {
    let mut registers = vec![0; REGISTERS];
    decode(reduction, &mut registers);
    let count = REGISTERS as f64;
    let empty = registers.iter().filter(|rank| **rank == 0).count();
    let harmonic: f64 = registers.iter().map(|rank| 2f64.powi(-i32::from(*rank))).sum();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / harmonic;
    // While many registers are empty, counting those gives a better estimate.
    let estimate = if empty > 0 && raw <= 2.5 * count { count * (count / empty as f64).ln() } else { raw };
    estimate.round() as u64
}

fn encode(registers: &[u8]) -> Vec<u8> {
    let used = registers.iter().filter(|rank| **rank > 0).count();
    if used > MOST_LISTED {
        return registers.to_vec();
    }
    let mut out = Vec::with_capacity(used * 3);
    for (place, rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        out.extend_from_slice(&(place as u16).to_be_bytes());
        out.push(*rank);
    }
    out
}

/// Updates each register to the greater rank.
fn decode(part: &[u8], registers: &mut [u8]) {
    if part.len() == REGISTERS {
        for (register, rank) in registers.iter_mut().zip(part) {
            *register = (*rank).max(*register);
        }
        return;
    }
    for entry in part.chunks_exact(3) {
        if let Some(register) = registers.get_mut(usize::from(entry[0]) << 8 | usize::from(entry[1])) {
            *register = entry[2].max(*register);
        }
    }
}

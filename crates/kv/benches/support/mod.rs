//! Common parts of the benches: documents in the store's layout, and a meter.

use diwan_kv::{Batch, Space};
use std::time::{Duration, Instant};

/// A document of about 100 bytes, its entry in the change log, and one in an index.
pub fn document(numbers: std::ops::Range<u64>) -> Batch {
    let mut batch = Batch::with_capacity(3 * (numbers.end - numbers.start) as usize);
    for n in numbers {
        let random = scrambled(n);
        let body = format!(
            "{{\"name\":\"{:x}\",\"age\":{},\"city\":\"city {}\",\"mail\":\"{:x}@example.org\"}}",
            random >> 20,
            random % 90,
            random % 1000,
            random >> 8
        );
        batch.put(Space::Records, key(n), body.into_bytes());
        batch.put(Space::Log, [b"coll".as_slice(), &n.to_be_bytes()].concat(), key(n)[4..].to_vec());
        let index = [b"coll/age".as_slice(), &(random % 90).to_be_bytes(), &key(n)[4..]].concat();
        batch.put(Space::Indexes, index, *b"");
    }
    batch
}

/// Like a collection's prefix and an ObjectId.
pub fn key(n: u64) -> Vec<u8> {
    [b"coll".as_slice(), &[0x65, 0x5f, 0x10, 0x20], &n.to_be_bytes()].concat()
}

/// A number that looks random, the same for the same `n`.
pub fn scrambled(n: u64) -> u64 {
    let z = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

/// Measures wall and CPU time from `start` to `report`.
pub struct Meter {
    begun: Instant,
    cpu: Duration,
}

impl Meter {
    pub fn start() -> Self {
        Self { begun: Instant::now(), cpu: cpu_time() }
    }

    pub fn report(self, what: &str, operations: u64) {
        let (wall, cpu) = (self.begun.elapsed(), cpu_time() - self.cpu);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / operations as f64;
        println!("{what:<40} {:>12.3} µs wall {:>12.3} µs CPU  ×{operations}", each(wall), each(cpu));
    }
}

/// The process's CPU time so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

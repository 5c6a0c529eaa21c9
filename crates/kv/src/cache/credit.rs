//! Whether pages for short reads pay.
//!
//! A long scan has a page's pairs in its hands and packs them for little. A read of one key, or of a short range, has to
//! read on for a page, which costs as much as several such reads, and pays only if others soon read nearby. Nobody
//! knows that beforehand, so what is spent on pages for short reads is what reads have saved by pages, with a credit to
//! begin with; when it is used up, a few are made still, lest a change for the better go unnoticed.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What a page for a short read costs, in reads that find a page.
const PRICE: i64 = 16;
/// The credit at the beginning, and the most that is saved up, or owed: what pays again is noticed soon.
const MOST: i64 = 1024 * PRICE;
/// When there is no credit, one of 64 short reads that find no page leaves one.
const SELDOM: u64 = 1;

/// What finds no page.
#[derive(Clone, Copy)]
pub(super) enum Miss {
    /// A read of one key. The engine is quick at that, so a page saves little.
    Key,
    /// A scan: it costs the engine several times as much to begin one.
    Scan,
}

impl Miss {
    /// Of 64 such reads, how many leave a page, while there is credit.
    fn often(self) -> u64 {
        match self {
            Miss::Key => 4,
            Miss::Scan => 16,
        }
    }
}

pub(super) struct Credit {
    balance: AtomicI64,
    misses: AtomicU64,
}

impl Default for Credit {
    fn default() -> Self {
        Self { balance: AtomicI64::new(MOST), misses: AtomicU64::new(0) }
    }
}

impl Credit {
    /// A read found a page.
    pub fn hit(&self) {
        // Mostly full, and then this is a look at what no other core changes.
        if self.balance.load(Ordering::Relaxed) < MOST {
            self.balance.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A short read found none. Returns whether it should leave one behind.
    pub fn miss(&self, miss: Miss) -> bool {
        let number = self.misses.fetch_add(1, Ordering::Relaxed);
        let of_64 = if self.balance.load(Ordering::Relaxed) > 0 { miss.often() } else { SELDOM };
        // Multiples of an odd fraction of 2^64 spread evenly, whatever the rhythm of the reads.
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 < of_64
    }

    /// A page was made for a short read, and there was room for it or not.
    pub fn spend(&self, found_room: bool) {
        if self.balance.load(Ordering::Relaxed) > -MOST {
            let price = if found_room { PRICE } else { 16 * PRICE };
            self.balance.fetch_sub(price, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(credit: &Credit, misses: usize) -> usize {
        (0..misses).filter(|_| credit.miss(Miss::Scan)).count()
    }

    #[test]
    fn a_share_of_misses_leaves_pages_as_long_as_it_pays() {
        let credit = Credit::default();
        assert!((240..=260).contains(&pages(&credit, 1000)));
        assert!((60..=65).contains(&(0..1000).filter(|_| credit.miss(Miss::Key)).count()));
        (0..1024).for_each(|_| credit.spend(true));
        assert!((14..=17).contains(&pages(&credit, 1000)));
        credit.hit();
        assert!((240..=260).contains(&pages(&credit, 1000)));
    }

    #[test]
    fn no_rhythm_of_reads_goes_without() {
        // Each request reads twice: both kinds of reads have their share.
        let credit = Credit::default();
        let made: Vec<bool> = (0..1000).map(|_| credit.miss(Miss::Scan)).collect();
        for kind in 0..2 {
            let share = made.iter().skip(kind).step_by(2).filter(|made| **made).count();
            assert!((100..=150).contains(&share), "{share}");
        }
    }

    #[test]
    fn pages_that_find_no_room_cost_more_and_no_more_is_saved_than_the_most() {
        let credit = Credit::default();
        credit.hit();
        (0..64).for_each(|_| credit.spend(false));
        assert!(pages(&credit, 640) < 20);
    }

    #[test]
    fn what_is_owed_has_an_end() {
        let credit = Credit::default();
        (0..1_000_000).for_each(|_| credit.spend(false));
        assert!(pages(&credit, 640) < 20);
        (0..2 * MOST).for_each(|_| credit.hit());
        assert!(pages(&credit, 640) > 100);
    }
}

//! The first bytes of a page's keys, in a layout that a search reads with few cache misses.

use crate::Bytes;
use crate::split::leading_number;
use std::cmp::Ordering;
use std::ops::Range;

/// How many numbers a cache line of the CPU has.
const LINE: usize = 8;

/// Enough for every page: a position among its bytes has four bytes, so a page has fewer than 2^32 keys.
const MOST_LEVELS: usize = 12;

/// A cache line of the CPU: reading one of its numbers loads all of them.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE]);

/// The bytes that distinguish most of a page's keys, stored close together: a search among whole keys would have a cache
/// miss at each step.
///
/// The lowest level has a number for each key. The level above has the first number of each line, and so on up to a single
/// line: a static B-tree. A search reads one line of each level, where a binary search would read another line at nearly
/// each step.
pub(super) struct Heads {
    /// The prefix that all keys share.
    shared: Bytes,
    /// How many keys there are.
    count: usize,
    /// The levels, from the highest down. The lowest has the eight bytes of each key after the shared ones, as a number in
    /// the keys' order; short keys end in zeros.
    lines: Box<[Line]>,
    /// The first line of each level. Not behind a pointer, which would cost another cache miss.
    begins: [u32; MOST_LEVELS],
    /// How many levels there are.
    depth: usize,
}

impl Heads {
    /// The heads of keys in ascending order.
    pub fn of<'a>(keys: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Heads {
        let (first, last) = (keys.clone().next(), keys.clone().next_back());
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let shared = first.iter().zip(last).take_while(|(one, other)| one == other).count();
        let heads: Vec<u64> = keys.map(|key| leading_number(&key[shared..])).collect();
        let mut levels = vec![lines_of(&heads)];
        while let [.., highest] = &levels[..]
            && highest.len() > 1
        {
            let firsts: Vec<u64> = highest.iter().map(|line| line.0[0]).collect();
            levels.push(lines_of(&firsts));
        }
        levels.reverse();
        let mut begins = [0; MOST_LEVELS];
        for (at, level) in levels.iter().enumerate() {
            begins[at + 1] = begins[at] + level.len() as u32;
        }
        Heads {
            shared: first[..shared].into(),
            count: heads.len(),
            begins,
            depth: levels.len(),
            lines: levels.concat().into(),
        }
    }

    /// The range of places where a key belongs: the key is greater than all keys before the range, and not greater than those
    /// after it. The range has the keys with the same head, usually none or one.
    pub fn candidates(&self, key: &[u8]) -> Range<usize> {
        match key.get(..self.shared.len()).unwrap_or(key).cmp(&self.shared) {
            Ordering::Less => return 0..0,
            Ordering::Greater => return self.count..self.count,
            Ordering::Equal => {}
        }
        if self.count == 0 {
            return 0..0;
        }
        let head = leading_number(&key[self.shared.len()..]);
        let first = self.place(head);
        let same = |at: usize| at < self.count && self.at(at) == head;
        let end = match (same(first), same(first + 1)) {
            (false, _) => first,
            (true, false) => first + 1,
            (true, true) => head.checked_add(1).map_or(self.count, |next| self.place(next)),
        };
        first..end
    }

    /// How many heads are less than this one.
    fn place(&self, head: u64) -> usize {
        let mut line = 0;
        let mut place = 0;
        for begin in &self.begins[..self.depth] {
            let Line(numbers) = &self.lines[*begin as usize + line];
            let less = numbers.iter().map(|number| usize::from(*number < head)).sum::<usize>();
            place = line * LINE + less;
            // On the level below, the place is in the last line that begins with a smaller number, or at its end.
            line = place.saturating_sub(1);
        }
        place
    }

    fn at(&self, place: usize) -> u64 {
        let lowest = self.begins[self.depth - 1] as usize;
        self.lines[lowest + place / LINE].0[place % LINE]
    }

    /// How many bytes of memory the heads take.
    pub fn cost(&self) -> usize {
        size_of_val(&*self.lines) + self.shared.len()
    }
}

/// The numbers in lines; the last one is padded with the greatest number, which no search passes.
fn lines_of(numbers: &[u64]) -> Vec<Line> {
    let line = |numbers: &[u64]| {
        let mut line = [u64::MAX; LINE];
        line[..numbers.len()].copy_from_slice(numbers);
        Line(line)
    };
    numbers.chunks(LINE).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of a key among others, found by comparing the whole keys of the candidates.
    fn place(keys: &[Vec<u8>], heads: &Heads, key: &[u8]) -> usize {
        let candidates = heads.candidates(key);
        candidates.start + keys[candidates].partition_point(|other| other.as_slice() < key)
    }

    #[test]
    fn candidates_contain_the_place_of_every_kind_of_key() {
        let numbers = |step: u64, count: u64| (0..count).map(move |n| (n * step).to_be_bytes().to_vec());
        let mut kinds: Vec<Vec<Vec<u8>>> = vec![vec![], vec![vec![]], vec![vec![0xff; 12]]];
        for count in [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4097] {
            kinds.push(numbers(3, count).collect());
            kinds.push(numbers(u64::MAX / count, count).collect());
            // Many keys that share their first eight bytes, also the greatest ones.
            kinds.push(numbers(1, count).map(|key| [&[7; 9], &key[..]].concat()).collect());
            kinds.push(
                numbers(1, count).map(|key| [&[0xff; 9], &key[..]].concat()).chain([vec![0]]).collect(),
            );
            // Short keys that end in zeros or are prefixes of others.
            kinds
                .push((0..count as usize).map(|n| [vec![5; n / 40 + 1], vec![0; n % 40]].concat()).collect());
        }
        for mut keys in kinds {
            keys.sort();
            keys.dedup();
            let heads = Heads::of(keys.iter().map(Vec::as_slice));
            let near = keys.iter().flat_map(|key| {
                let shorter = key[..key.len().saturating_sub(1)].to_vec();
                [key.clone(), [&key[..], &[0]].concat(), [&key[..], &[0xff]].concat(), shorter]
            });
            for key in near.chain([vec![], vec![0xff; 30]]) {
                let expected = keys.partition_point(|other| *other < key);
                assert_eq!(place(&keys, &heads, &key), expected, "{key:?} among {}", keys.len());
            }
        }
    }
}

//! Random numbers, documents and filters for randomized tests. A failure can be repeated with its seed.

use diwan_value::{ArrayBuilder, DocBuf, DocBuilder, Value, array, doc};

/// A generator of random numbers, documents and filters.
pub struct Random(u64);

impl Random {
    /// A generator that depends on the seed only.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// An index below `n`.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True once in `n` times, on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the given values.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Appends a value of a random type. It may have arrays in arrays, and numeric field names.
    pub fn append(&mut self, doc: &mut DocBuilder, name: &str, depth: u32) {
        _ = match self.below(if depth > 0 { 14 } else { 9 }) {
            0 => doc.append(name, Value::Null),
            1 | 2 => doc.append(name, self.below(6) as i32),
            3 => doc.append(name, [0.5, 2.0, f64::NAN, f64::NEG_INFINITY][self.below(4) as usize]),
            4 => doc.append(name, self.below(6) as i64),
            5 | 6 => doc.append(name, self.pick(&["", "a", "A", "b", "ab", "b\0"])),
            7 => doc.append(name, self.one_in(2)),
            8 => doc.append(name, Value::DateTime(self.below(4) as i64 - 2)),
            9..=11 => {
                doc.begin_array(name);
                for at in 0..self.below(4) {
                    self.append(doc, &at.to_string(), depth - 1);
                }
                doc.end()
            }
            _ => {
                doc.begin_document(name);
                for inner in ["x", "y", "1", "0"] {
                    if self.one_in(if inner < "a" { 6 } else { 2 }) {
                        self.append(doc, inner, depth - 1);
                    }
                }
                doc.end()
            }
        };
    }

    /// A document with some of the fields `a`, `b` and `c`.
    pub fn document(&mut self, id: i32) -> DocBuf {
        let mut doc = DocBuilder::new();
        doc.append("_id", id);
        for name in ["a", "b", "c"] {
            if !self.one_in(5) {
                self.append(&mut doc, name, if name == "c" { 0 } else { 3 });
            }
        }
        doc.finish()
    }

    /// A document of one field with a value of a random type.
    pub fn holder(&mut self, name: &str, depth: u32) -> DocBuf {
        let mut doc = DocBuilder::new();
        self.append(&mut doc, name, depth);
        doc.finish()
    }

    /// The operand of a condition on one field of a filter.
    pub fn operand(&mut self, depth: u32) -> DocBuf {
        let operators = [
            "$eq",
            "$ne",
            "$gt",
            "$gte",
            "$lt",
            "$lte",
            "$in",
            "$nin",
            "$all",
            "$exists",
            "$type",
            "$elemMatch",
            "$elemMatch",
            "$size",
            "$not",
            "$mod",
            "$regex",
            "$bitsAnySet",
        ];
        let mut out = DocBuilder::new();
        let operator = self.pick(&operators);
        match operator {
            "$in" | "$nin" | "$all" => {
                let of_elements = operator == "$all" && depth > 0 && self.one_in(2);
                out.begin_array(operator);
                for at in 0..1 + self.below(3) {
                    if of_elements {
                        out.append(&at.to_string(), doc! { "$elemMatch": self.element(depth - 1) });
                    } else {
                        self.append(&mut out, &at.to_string(), 2);
                    }
                }
                out.end();
            }
            "$exists" => drop(out.append("$exists", self.one_in(2))),
            "$type" => {
                let names = ["string", "number", "array", "null", "object", "bool"];
                out.append("$type", self.pick(&names));
            }
            "$elemMatch" if depth > 0 => drop(out.append("$elemMatch", self.element(depth - 1))),
            "$size" | "$elemMatch" => drop(out.append("$size", self.below(3) as i32)),
            "$not" if depth > 0 => drop(out.append("$not", self.operand(depth - 1))),
            "$mod" | "$not" => {
                out.begin_array("$mod").append("0", 2).append("1", self.below(2) as i32).end();
            }
            "$regex" => drop(out.append("$regex", self.pick(&["^a", "b", "^", "(?i)^A"]))),
            "$bitsAnySet" => drop(out.append("$bitsAnySet", 1 + self.below(3) as i32)),
            name => self.append(&mut out, name, 2),
        }
        let other = self.pick(&["$gt", "$gte", "$lt", "$lte"]);
        if other != operator && self.one_in(4) {
            self.append(&mut out, other, 0);
        }
        out.finish()
    }

    /// The operand of a condition on one field of a CouchDB selector.
    pub fn selector(&mut self, depth: u32) -> DocBuf {
        let operators = [
            "$eq",
            "$ne",
            "$gt",
            "$gte",
            "$lt",
            "$lte",
            "$in",
            "$nin",
            "$all",
            "$exists",
            "$type",
            "$elemMatch",
            "$allMatch",
            "$keyMapMatch",
            "$size",
            "$not",
            "$mod",
            "$regex",
            "$beginsWith",
        ];
        let mut out = DocBuilder::new();
        let operator = self.pick(&operators);
        match operator {
            "$in" | "$nin" | "$all" => {
                out.begin_array(operator);
                for at in 0..1 + self.below(3) {
                    self.append(&mut out, &at.to_string(), 2);
                }
                out.end();
            }
            "$exists" => drop(out.append("$exists", self.one_in(2))),
            "$type" => {
                let names = ["string", "number", "array", "null", "object", "boolean"];
                out.append("$type", self.pick(&names));
            }
            "$elemMatch" | "$allMatch" if depth > 0 => {
                let inner = match self.below(4) {
                    0 => doc! { "$or": [(self.selector(depth - 1)), (self.selector(0))] },
                    1 => doc! { "$and": [(self.selector(depth - 1)), { "$not": self.selector(0) }] },
                    2 => {
                        let mut inner = DocBuilder::new();
                        inner.append(self.pick(&["x", "y", "0"]), self.selector(depth - 1));
                        inner.finish()
                    }
                    _ => self.selector(depth - 1),
                };
                out.append(operator, inner);
            }
            "$keyMapMatch" => drop(out.append(operator, doc! { "$eq": self.pick(&["x", "1"]) })),
            "$not" if depth > 0 => drop(out.append("$not", self.selector(depth - 1))),
            "$size" | "$elemMatch" | "$allMatch" | "$not" => drop(out.append("$size", self.below(3) as i32)),
            "$mod" => drop(out.begin_array("$mod").append("0", 2).append("1", self.below(2) as i32).end()),
            "$regex" => drop(out.append("$regex", self.pick(&["^a", "b", "^"]))),
            "$beginsWith" => drop(out.append("$beginsWith", self.pick(&["", "a", "b"]))),
            name => self.append(&mut out, name, 2),
        }
        let other = self.pick(&["$gt", "$gte", "$lt", "$lte"]);
        if other != operator && self.one_in(3) {
            self.append(&mut out, other, 1);
        }
        out.finish()
    }

    /// A filter of up to three conditions.
    pub fn filter(&mut self) -> DocBuf {
        let mut all = ArrayBuilder::new();
        for _ in 0..1 + self.below(3) {
            all.push(self.condition());
        }
        match self.below(6) {
            0 => doc! { "$or": all },
            1 => doc! { "$nor": all },
            2 => doc! { "$or": all, "$and": array![(self.condition())] },
            3 => self.condition(),
            _ => doc! { "$and": all },
        }
    }

    /// A filter of one condition on a path: an operator, a literal, an `$expr` or one of CouchDB's selectors.
    fn condition(&mut self) -> DocBuf {
        let mut out = DocBuilder::new();
        match self.below(8) {
            0 => {
                let operator = self.pick(&["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
                let path = format!("${}", self.path());
                let mut call = DocBuilder::new();
                call.append(operator, array![(path.as_str()), (self.holder("$literal", 1))]);
                out.append("$expr", call.finish());
            }
            1 | 2 => {
                let mut selector = DocBuilder::new();
                selector.append(self.path(), self.selector(2));
                out.append("$mango", selector.finish());
            }
            3 => {
                let path = self.path();
                self.append(&mut out, path, 2);
            }
            _ => drop(out.append(self.path(), self.operand(2))),
        }
        out.finish()
    }

    fn path(&mut self) -> &'static str {
        self.pick(&[
            "a", "a", "a", "b", "c", "a.x", "a.x", "a.y", "a.1", "b.0", "b.1", "a.1.x", "a.x.1", "a.0.x",
            "_id",
        ])
    }

    /// The operand of an `$elemMatch`.
    fn element(&mut self, depth: u32) -> DocBuf {
        if self.one_in(2) {
            return self.operand(depth);
        }
        let mut out = DocBuilder::new();
        out.append(self.pick(&["x", "y", "1", "0", "x.y"]), self.operand(depth));
        out.finish()
    }
}

//! The limit of a reduction: it must not grow with the number of rows.

/// What happens to a reduction that does not shrink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// An error takes its place.
    #[default]
    Refuse,
    /// It is logged.
    Log,
    /// Nothing.
    Ignore,
}

/// The limit: CouchDB's settings `reduce_limit`, `reduce_limit_threshold` and `reduce_limit_ratio`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReduceLimit {
    /// What happens beyond it.
    pub overflow: Overflow,
    /// Smaller results are always allowed.
    pub threshold: usize,
    /// The result must be this many times smaller than its input.
    pub ratio: f64,
}

impl Default for ReduceLimit {
    fn default() -> ReduceLimit {
        ReduceLimit { overflow: Overflow::Refuse, threshold: 5000, ratio: 2.0 }
    }
}

impl ReduceLimit {
    /// The reason to refuse a result of this size from an input of this size.
    pub(super) fn check(&self, input: usize, output: usize) -> Option<String> {
        let overflows = output > self.threshold && output as f64 * self.ratio > input as f64;
        if !overflows || self.overflow == Overflow::Ignore {
            return None;
        }
        let text =
            format!("Reduce output must shrink more rapidly: input size: {input} output size: {output}");
        match self.overflow {
            Overflow::Refuse => Some(text),
            Overflow::Log | Overflow::Ignore => {
                tracing::info!(target: "diwan::script", "reduce_overflow_error: {text}");
                None
            }
        }
    }
}

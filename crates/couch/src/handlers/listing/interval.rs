//! Intervals of ids, compared by their text.

/// An interval of ids, compared by text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    /// The lower end; `None` if unbounded.
    pub(crate) low: Option<Edge>,
    /// The upper end; `None` if unbounded.
    pub(crate) high: Option<Edge>,
}

/// One end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The text.
    pub(crate) text: String,
    /// Whether an id with exactly this text is included.
    pub(crate) inclusive: bool,
}

impl Edge {
    pub(crate) fn new(text: impl Into<String>, inclusive: bool) -> Edge {
        Edge { text: text.into(), inclusive }
    }
}

impl Interval {
    /// The ids with this prefix, whose last character must have a successor in ASCII.
    pub(crate) fn prefix(prefix: &str) -> Interval {
        let mut end = prefix.to_owned();
        let last = end.pop().map_or('\u{1}', |last| char::from_u32(last as u32 + 1).unwrap_or(last));
        end.push(last);
        Interval { low: Some(Edge::new(prefix, true)), high: Some(Edge::new(end, false)) }
    }

    /// Whether the interval contains a text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let above = |edge: &Edge| text > edge.text.as_str() || (edge.inclusive && text == edge.text);
        let below = |edge: &Edge| text < edge.text.as_str() || (edge.inclusive && text == edge.text);
        self.low.as_ref().is_none_or(above) && self.high.as_ref().is_none_or(below)
    }

    /// Returns the intersection.
    pub(crate) fn within(self, outer: &Interval) -> Interval {
        let low = match (self.low, outer.low.clone()) {
            (Some(own), Some(other)) => {
                let own_is_tighter = (&own.text, !own.inclusive) >= (&other.text, !other.inclusive);
                Some(if own_is_tighter { own } else { other })
            }
            (own, other) => own.or(other),
        };
        let high = match (self.high, outer.high.clone()) {
            (Some(own), Some(other)) => {
                let own_is_tighter = (&own.text, own.inclusive) <= (&other.text, other.inclusive);
                Some(if own_is_tighter { own } else { other })
            }
            (own, other) => own.or(other),
        };
        Interval { low, high }
    }
}

//! Language-specific string order.
//!
//! A [`Collation`] is what the user specified, checked and completed with the locale's defaults. A [`Collator`] is
//! built from it and compares strings with ICU and its compiled-in Unicode data. `memcmp` of its sort keys gives the
//! same order as its comparison. Indexes store sort keys, so the version of the data is pinned like the storage
//! engine's.

mod collator;
mod locale;
mod parse;

use crate::builder::DocBuilder;
use crate::owned::DocBuf;
use std::fmt;

pub use collator::Collator;

/// The version that listed collations show. A user may ask for no other.
pub const VERSION: &str = "57.1";

/// Which letters come first where strings differ only in case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CaseFirst {
    Upper,
    Lower,
    /// The language decides.
    Off,
}

/// Which differences between characters count. Each level includes the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// Letters.
    Primary = 1,
    /// Accents.
    Secondary = 2,
    /// Case and variants.
    Tertiary = 3,
    /// Punctuation, if `alternate` is `shifted`.
    Quaternary = 4,
    /// Code points.
    Identical = 5,
}

/// Whether whitespace and punctuation count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alternate {
    /// They count as letters do.
    NonIgnorable,
    /// They count only at the fourth level.
    Shifted,
}

/// The characters that [`Alternate::Shifted`] applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxVariable {
    /// Whitespace and punctuation.
    Punct,
    /// Whitespace.
    Space,
}

/// A collation as the user specified it, checked, with the locale's defaults for the options left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collation {
    locale: String,
    case_level: bool,
    case_first: CaseFirst,
    strength: Strength,
    numeric_ordering: bool,
    alternate: Alternate,
    max_variable: MaxVariable,
    normalization: bool,
    backwards: bool,
}

impl Collation {
    /// The locale as the user wrote it.
    pub fn locale(&self) -> &str {
        &self.locale
    }

    /// Which differences count.
    pub fn strength(&self) -> Strength {
        self.strength
    }

    /// The full form with all defaults filled in, as collections and indexes list it.
    pub fn to_doc(&self) -> DocBuf {
        let mut doc = DocBuilder::new();
        doc.append("locale", &self.locale);
        doc.append("caseLevel", self.case_level);
        doc.append("caseFirst", self.case_first.name());
        doc.append("strength", self.strength as i32);
        doc.append("numericOrdering", self.numeric_ordering);
        doc.append("alternate", self.alternate.name());
        doc.append("maxVariable", self.max_variable.name());
        doc.append("normalization", self.normalization);
        doc.append("backwards", self.backwards);
        doc.append("version", VERSION);
        doc.finish()
    }
}

/// Maps an option's values to their names and back.
macro_rules! names {
    ($type:ident { $($value:ident = $name:literal),* }) => {
        impl $type {
            fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)*
                }
            }

            fn from_name(name: &str) -> Option<$type> {
                match name {
                    $($name => Some($type::$value),)*
                    _ => None,
                }
            }
        }
    };
}

names!(CaseFirst { Upper = "upper", Lower = "lower", Off = "off" });
names!(Alternate { NonIgnorable = "non-ignorable", Shifted = "shifted" });
names!(MaxVariable { Punct = "punct", Space = "space" });

/// Why a collation document is not valid: MongoDB's error code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollationError {
    /// The error code.
    pub code: i32,
    /// The text.
    pub message: String,
}

impl fmt::Display for CollationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CollationError {}

#[cfg(test)]
mod tests;

//! Language-specific string order.
//!
//! A [`Collation`] is what the user asks for, checked and completed with the locale's defaults; a [`Collator`] is
//! the same made ready to compare, by ICU with the Unicode data compiled in. Its sort keys order by `memcmp` as it
//! compares, which is what indexes hold; the data's version is therefore pinned like the storage engine's.

mod collator;
mod locale;
mod parse;

use crate::builder::DocBuilder;
use crate::owned::DocBuf;
use std::fmt;

pub use collator::Collator;

/// The version that collations are listed with, and the only one that may be asked for.
pub const VERSION: &str = "57.1";

/// Which letters come first where only case differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CaseFirst {
    Upper,
    Lower,
    /// As the language has it.
    Off,
}

/// What differences between characters count: each level counts those of the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// Letters.
    Primary = 1,
    /// Accents.
    Secondary = 2,
    /// Case and variants.
    Tertiary = 3,
    /// Punctuation, where it is shifted.
    Quaternary = 4,
    /// Code points.
    Identical = 5,
}

/// How whitespace and punctuation count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alternate {
    /// As letters do.
    NonIgnorable,
    /// Only at the fourth level.
    Shifted,
}

/// What [`Alternate::Shifted`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxVariable {
    /// Whitespace and punctuation.
    Punct,
    /// Whitespace.
    Space,
}

/// A collation as the user specified it, checked, with the locale's defaults where nothing was said.
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

    /// What differences count.
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

/// Gives an option's values their names, both ways.
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

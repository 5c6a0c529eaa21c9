//! Compares strings by a collation.

use super::{Alternate, CaseFirst, Collation, CollationError, MaxVariable, Strength, locale};
use icu_collator::CollatorBorrowed;
use icu_collator::options::{self, CollatorOptions};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use std::cmp::Ordering;
use std::fmt;

/// Compares strings by a [`Collation`], and makes their sort keys.
pub struct Collator {
    collation: Collation,
    icu: CollatorBorrowed<'static>,
}

impl Collator {
    /// Loads the collation's data, which is compiled in.
    pub fn new(collation: &Collation) -> Result<Collator, CollationError> {
        let mut preferences = locale::preferences(&collation.locale, collation.backwards)?;
        preferences.case_first = Some(match collation.case_first {
            CaseFirst::Upper => CollationCaseFirst::Upper,
            CaseFirst::Lower => CollationCaseFirst::Lower,
            CaseFirst::Off => CollationCaseFirst::False,
        });
        preferences.numeric_ordering = Some(if collation.numeric_ordering {
            CollationNumericOrdering::True
        } else {
            CollationNumericOrdering::False
        });
        let mut options = CollatorOptions::default();
        options.strength = Some(match collation.strength {
            Strength::Primary => options::Strength::Primary,
            Strength::Secondary => options::Strength::Secondary,
            Strength::Tertiary => options::Strength::Tertiary,
            Strength::Quaternary => options::Strength::Quaternary,
            Strength::Identical => options::Strength::Identical,
        });
        options.alternate_handling = Some(match collation.alternate {
            Alternate::NonIgnorable => options::AlternateHandling::NonIgnorable,
            Alternate::Shifted => options::AlternateHandling::Shifted,
        });
        options.max_variable = Some(match collation.max_variable {
            MaxVariable::Punct => options::MaxVariable::Punctuation,
            MaxVariable::Space => options::MaxVariable::Space,
        });
        options.case_level =
            Some(if collation.case_level { options::CaseLevel::On } else { options::CaseLevel::Off });
        let icu = CollatorBorrowed::try_new(preferences, options).map_err(locale::not_loaded)?;
        Ok(Collator { collation: collation.clone(), icu })
    }

    /// The collation that this collator was built from.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Compares two strings.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        self.icu.compare(a, b)
    }

    /// Bytes whose `memcmp` order is the order of the strings. They may contain any byte value.
    pub fn sort_key(&self, text: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(text.len() + 8);
        let Ok(()) = self.icu.write_sort_key_to(text, &mut key);
        key
    }
}

impl fmt::Debug for Collator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collator").field(&self.collation).finish()
    }
}

impl PartialEq for Collator {
    fn eq(&self, other: &Collator) -> bool {
        self.collation == other.collation
    }
}

//! The known locales and their defaults.
//!
//! Locales are written as ICU writes them: `de`, `fr_CA`, `zh_Hant`, `de@collation=phonebook`.

use super::{Alternate, CaseFirst, CollationError};
use icu_collator::options::{self, CollatorOptions};
use icu_collator::preferences::CollationCaseFirst;
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

/// The locales that have an order of their own or are known to use the root order.
const LOCALES: &[&str] = &[
    "af",
    "am",
    "ar",
    "as",
    "az",
    "be",
    "bg",
    "bn",
    "bo",
    "bs",
    "bs_Cyrl",
    "ca",
    "ceb",
    "chr",
    "cs",
    "cy",
    "da",
    "de",
    "de_AT",
    "dsb",
    "dz",
    "ee",
    "el",
    "en",
    "en_US",
    "en_US_POSIX",
    "eo",
    "es",
    "et",
    "fa",
    "fa_AF",
    "fi",
    "fil",
    "fo",
    "fr",
    "fr_CA",
    "ga",
    "gl",
    "gu",
    "ha",
    "haw",
    "he",
    "hi",
    "hr",
    "hsb",
    "hu",
    "hy",
    "id",
    "ig",
    "is",
    "it",
    "ja",
    "ka",
    "kk",
    "kl",
    "km",
    "kn",
    "ko",
    "kok",
    "ky",
    "lb",
    "lkt",
    "ln",
    "lo",
    "lt",
    "lv",
    "mk",
    "ml",
    "mn",
    "mr",
    "ms",
    "mt",
    "my",
    "nb",
    "ne",
    "nl",
    "nn",
    "om",
    "or",
    "pa",
    "pl",
    "ps",
    "pt",
    "ro",
    "root",
    "ru",
    "se",
    "si",
    "sk",
    "sl",
    "smn",
    "sq",
    "sr",
    "sr_Latn",
    "sv",
    "sw",
    "ta",
    "te",
    "th",
    "to",
    "tr",
    "ug",
    "uk",
    "ur",
    "vi",
    "wae",
    "yi",
    "yo",
    "zh",
    "zh_Hant",
    "zu",
];

/// The variants allowed after `@collation=`, and their names in a language tag.
const VARIANTS: &[(&str, &str)] = &[
    ("big5han", "big5han"),
    ("compat", "compat"),
    ("dictionary", "dict"),
    ("emoji", "emoji"),
    ("eor", "eor"),
    ("gb2312han", "gb2312"),
    ("phonebook", "phonebk"),
    ("phonetic", "phonetic"),
    ("pinyin", "pinyin"),
    ("reformed", "reformed"),
    ("search", "search"),
    ("searchjl", "searchjl"),
    ("standard", "standard"),
    ("stroke", "stroke"),
    ("traditional", "trad"),
    ("unihan", "unihan"),
    ("zhuyin", "zhuyin"),
];

/// The locales that use the root order. With `backwards`, they use ICU's data for Canadian French, which is the root
/// order with accents compared backwards.
const COMMON: &[&str] =
    &["root", "de", "en", "en_US", "fr", "fr_CA", "ga", "id", "it", "lb", "ms", "nl", "pt", "sw", "zu"];

/// A locale's values for options that the user leaves out.
pub(super) struct Defaults {
    pub case_first: CaseFirst,
    pub alternate: Alternate,
    pub backwards: bool,
}

/// Whether a locale is known.
pub(super) fn is_known(locale: &str) -> bool {
    match locale.split_once("@collation=") {
        None => LOCALES.contains(&locale),
        Some((base, variant)) => LOCALES.contains(&base) && VARIANTS.iter().any(|(name, _)| *name == variant),
    }
}

/// The known locale closest to an unknown one, for the error message.
pub(super) fn nearest(locale: &str) -> Option<&'static str> {
    let plain = locale.split('@').next()?.replace('-', "_");
    let mut parts: Vec<String> = plain.split('_').map(str::to_ascii_lowercase).collect();
    while !parts.is_empty() {
        let candidate = parts.join("_");
        if let Some(known) = LOCALES.iter().find(|known| known.eq_ignore_ascii_case(&candidate)) {
            return Some(known);
        }
        parts.pop();
    }
    None
}

/// The defaults of a known locale.
pub(super) fn defaults(locale: &str) -> Result<Defaults, CollationError> {
    let backwards = locale == "fr_CA";
    let icu = CollatorBorrowed::try_new(preferences(locale, backwards)?, CollatorOptions::default())
        .map_err(not_loaded)?;
    let resolved = icu.resolved_options();
    Ok(Defaults {
        case_first: match resolved.case_first {
            CollationCaseFirst::Upper => CaseFirst::Upper,
            CollationCaseFirst::Lower => CaseFirst::Lower,
            _ => CaseFirst::Off,
        },
        alternate: match resolved.alternate_handling {
            options::AlternateHandling::Shifted => Alternate::Shifted,
            _ => Alternate::NonIgnorable,
        },
        backwards,
    })
}

/// ICU's preferences for a known locale, with accents compared backwards if asked.
pub(super) fn preferences(locale: &str, backwards: bool) -> Result<CollatorPreferences, CollationError> {
    let (base, variant) = locale.split_once("@collation=").unwrap_or((locale, "standard"));
    let base = match backwards {
        false if base == "fr_CA" => "fr",
        true if COMMON.contains(&base) => "fr_CA",
        true => {
            return Err(CollationError {
                code: 2,
                message: format!("'backwards' is not supported with the locale '{locale}'"),
            });
        }
        false if base == "root" => "und",
        false => base,
    };
    let mut tag = base.replace('_', "-");
    if let Some((_, name)) = VARIANTS.iter().find(|(name, _)| *name == variant && *name != "standard") {
        tag.push_str("-u-co-");
        tag.push_str(name);
    }
    let locale: Locale = tag.parse().map_err(|_| CollationError {
        code: 2,
        message: format!("Field 'locale' is invalid in: {{ locale: \"{locale}\" }}"),
    })?;
    Ok(CollatorPreferences::from(&locale))
}

/// The error for a collation that ICU could not load.
pub(super) fn not_loaded(error: impl std::fmt::Display) -> CollationError {
    CollationError { code: 96, message: format!("Failed to create collator: {error}") }
}

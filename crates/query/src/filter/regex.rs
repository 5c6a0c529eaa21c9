//! Regular expressions with PCRE's syntax and semantics as far as users rely on them, on a library that limits
//! backtracking.
//!
//! MongoDB compiles patterns with PCRE in UTF mode. [`translate`] maps the few differences: `\d \w \s` match ASCII
//! only, `$` also matches before a final newline, brackets and set operators inside a class are literal, and a brace
//! that is not a quantifier is literal.

use crate::error::{Error, Result};
use diwan_value::{RawValue, Type, Value};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The longest pattern, in bytes: PCRE's limit.
const MAX_PATTERN_BYTES: usize = 32_764;

/// The largest compiled program, in bytes.
const MAX_PROGRAM_BYTES: usize = 10 * 1024 * 1024;

/// The backtracking limit of one match: well below a second of work.
const MAX_BACKTRACKS: usize = 1_000_000;

/// A compiled regular expression with its source. Cheap to clone.
#[derive(Clone)]
pub struct Pattern {
    source: Arc<str>,
    options: Arc<str>,
    regex: Arc<fancy_regex::Regex>,
}

impl Pattern {
    /// Compiles `source` with MongoDB's options `i m s u x`.
    pub fn new(source: &str, options: &str) -> Result<Pattern> {
        Pattern::compile(source, options, false)
    }

    /// Compiles `source` so that the extents of its matches are exact too. The program is slower if the pattern ends
    /// with `$`.
    pub(crate) fn with_exact_extents(source: &str, options: &str) -> Result<Pattern> {
        Pattern::compile(source, options, true)
    }

    fn compile(source: &str, options: &str, exact: bool) -> Result<Pattern> {
        if source.contains('\0') {
            return Err(Error::bad_value("Regular expression cannot contain an embedded null byte"));
        }
        if options.contains('\0') {
            return Err(Error::bad_value(
                "Regular expression options string cannot contain an embedded null byte",
            ));
        }
        if let Some(flag) = options.chars().find(|flag| !"imsux".contains(*flag)) {
            return Err(Error::new(51108, format!("invalid flag in regex options: {flag}")));
        }
        let invalid = |reason: &str| Error::new(51091, format!("Regular expression is invalid: {reason}"));
        if source.len() > MAX_PATTERN_BYTES {
            return Err(invalid("regular expression is too large"));
        }
        let mut program = String::with_capacity(source.len() + 8);
        let flags = options.chars().filter(|flag| *flag != 'u').collect::<String>();
        if !flags.is_empty() {
            program.push_str(&format!("(?{flags})"));
        }
        translate(source, options.contains('m'), exact, &mut program);
        let regex = fancy_regex::RegexBuilder::new(&program)
            .backtrack_limit(MAX_BACKTRACKS)
            .delegate_size_limit(MAX_PROGRAM_BYTES)
            .build()
            .map_err(|error| invalid(&reason(source, &error)))?;
        Ok(Pattern { source: source.into(), options: options.into(), regex: Arc::new(regex) })
    }

    /// The pattern as the user wrote it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The options as the user wrote them.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the expression matches anywhere in `text`.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool> {
        self.regex.is_match(text).map_err(|_| exhausted())
    }

    /// The first match at or after byte `start`: the ranges of its groups, the whole match first.
    pub(crate) fn captures_at(&self, text: &str, start: usize) -> Result<Option<Vec<Option<Range<usize>>>>> {
        let captures = self.regex.captures_from_pos(text, start).map_err(|_| exhausted())?;
        Ok(captures.map(|captures| captures.iter().map(|group| group.map(|group| group.range())).collect()))
    }

    /// Whether a field matches: a string by its text, a stored regular expression by equality.
    pub(super) fn matches(&self, raw: RawValue<'_>) -> Result<bool> {
        if !matches!(raw.tag, Type::String | Type::Symbol | Type::Regex) {
            return Ok(false);
        }
        match raw.decode() {
            Some(Value::String(text) | Value::Symbol(text)) => self.is_match(text),
            Some(Value::Regex { pattern, options }) => {
                Ok(*pattern == *self.source && *options == *self.options)
            }
            _ => Ok(false),
        }
    }

    /// The literal prefix of every match, for index bounds, and whether that prefix is the whole condition. `None` if
    /// the expression can match anywhere.
    pub fn literal_prefix(&self) -> Option<(String, bool)> {
        if self.options.contains(['i', 'm', 'x']) || self.source.contains('|') {
            return None;
        }
        let rest = self.source.strip_prefix('^').or_else(|| self.source.strip_prefix("\\A"))?;
        let mut prefix = String::new();
        let mut chars = rest.chars();
        loop {
            match chars.next() {
                None => return (!prefix.is_empty()).then_some((prefix, true)),
                Some('*' | '?' | '{') => {
                    prefix.pop();
                    break;
                }
                Some('\\') => match chars.next() {
                    Some(escaped) if !escaped.is_alphanumeric() => prefix.push(escaped),
                    _ => break,
                },
                Some('.') if chars.as_str() == "*" => {
                    // `.` does not match a newline by default, but nothing after it is anchored.
                    return (!prefix.is_empty()).then_some((prefix, true));
                }
                Some('.' | '+' | '(' | ')' | '[' | '^' | '$') => break,
                Some(literal) => prefix.push(literal),
            }
        }
        (!prefix.is_empty()).then_some((prefix, false))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/{}", self.source, self.options)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source && self.options == other.options
    }
}

/// The error for a match that exceeds the backtracking limit.
fn exhausted() -> Error {
    let text = "Error occurred while executing the regular expression. Result: match limit exceeded";
    Error::new(51156, text)
}

/// The reason why a pattern does not compile, with PCRE's text for common mistakes.
fn reason(source: &str, error: &fancy_regex::Error) -> String {
    match unbalanced(source) {
        Some(reason) => reason.to_owned(),
        None if source.starts_with(['*', '+', '?']) => {
            "quantifier does not follow a repeatable item".to_owned()
        }
        None => error.to_string(),
    }
}

/// The error text for unbalanced brackets, if they are the mistake.
fn unbalanced(source: &str) -> Option<&'static str> {
    let mut depth = 0usize;
    let mut chars = source.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.next().is_none() => return Some("\\ at end of pattern"),
            '(' => depth += 1,
            ')' if depth == 0 => return Some("unmatched closing parenthesis"),
            ')' => depth -= 1,
            '[' => {
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
                loop {
                    match chars.next() {
                        None => return Some("missing terminating ] for character class"),
                        Some('\\') => _ = chars.next(),
                        Some(']') => break,
                        Some(_) => {}
                    }
                }
            }
            _ => {}
        }
    }
    (depth > 0).then_some("missing closing parenthesis")
}

/// Translates PCRE's `source` to the library's dialect. Syntax that it does not know is passed to the library
/// unchanged.
fn translate(source: &str, multi_line: bool, exact: bool, out: &mut String) {
    let mut rest = source;
    // PCRE's verbs select UTF mode, which is always on.
    for verb in ["(*UTF8)", "(*UTF)", "(*UCP)"] {
        rest = rest.strip_prefix(verb).unwrap_or(rest);
    }
    let multi_line = multi_line || sets_multi_line(rest);
    let mut in_class = false;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '\\' => rest = escape(rest, in_class, out),
            // A `]` right after the opening bracket is literal in PCRE.
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                for first in ['^', ']'] {
                    if let Some(after) = rest.strip_prefix(first) {
                        out.push_str(if first == ']' { "\\]" } else { "^" });
                        rest = after;
                    }
                }
            }
            // A POSIX class such as `[:alpha:]` is the same in both dialects.
            '[' if rest.starts_with(':') && rest.contains(":]") => {
                let end = rest.find(":]").map_or(rest.len(), |at| at + 2);
                out.push('[');
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // In the library's dialect these characters nest classes or combine them.
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(char);
            }
            '-' if in_class && out.ends_with('-') => out.push_str("\\-"),
            // At the end of the pattern the newline may be part of the match, which keeps the program simple.
            '$' if !in_class && !multi_line && !exact && rest.is_empty() => out.push_str("(?:\\n?\\z)"),
            '$' if !in_class && !multi_line => out.push_str("(?=\\n?\\z)"),
            '{' if !in_class && !is_quantifier(rest) => out.push_str("\\{"),
            _ => out.push(char),
        }
    }
}

/// Translates `\` and the head of `rest`; returns the remaining text.
fn escape<'a>(rest: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(char) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = &rest[char.len_utf8()..];
    let members = match char.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\x0B\\f\\r\\x20",
        'h' => "\\t\\x20\\xA0",
        _ => "",
    };
    match char {
        _ if !members.is_empty() => match (char.is_ascii_lowercase(), in_class) {
            (true, true) => out.push_str(members),
            (true, false) => out.push_str(&format!("[{members}]")),
            (false, _) => out.push_str(&format!("[^{members}]")),
        },
        'Q' => {
            let (literal, after) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&fancy_regex::escape(literal));
            return after;
        }
        'E' => {}
        '<' | '>' => out.push(char),
        _ if !char.is_ascii() => out.push(char),
        _ => {
            out.push('\\');
            out.push(char);
        }
    }
    after
}

/// Whether the text after a brace makes it a quantifier: `2}`, `2,}`, `2,5}`, `,5}`.
fn is_quantifier(rest: &str) -> bool {
    let Some((range, _)) = rest.split_once('}') else { return false };
    let (low, high) = range.split_once(',').unwrap_or((range, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(low) && digits(high) && !(low.is_empty() && (high.is_empty() || !range.contains(',')))
}

/// Whether the pattern itself turns on multi-line mode: `(?m)`, `(?im:…)`.
fn sets_multi_line(source: &str) -> bool {
    source
        .match_indices("(?")
        .any(|(at, _)| source[at + 2..].bytes().take_while(u8::is_ascii_alphabetic).any(|flag| flag == b'm'))
}

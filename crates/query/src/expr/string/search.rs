//! String operators that search: positions, replacement, trimming.

use crate::error::{Error, Result};
use crate::expr::array::{index_argument, int};
use crate::expr::coerce::{Evaluated, is_nullish, null, type_name};
use crate::expr::display::Shown;
use crate::expr::{Args, EvalEnv, Expr, ParseEnv, named};
use diwan_value::Value;

/// Whether trimming removes a character by default.
fn is_blank(char: char) -> bool {
    matches!(char, '\0' | '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}')
}

/// The maximum size of the set of characters to trim.
const MAX_TRIM_BYTES: usize = 4096;

/// Both string arguments of a search; `None` if the first is null.
fn operands<'a>(args: Args<'a>, env: &EvalEnv<'a>, codes: (i32, i32)) -> Result<Option<(&'a str, &'a str)>> {
    let operator = args.operator;
    let string = |at: usize, which: &str, code: i32| {
        let value = args.eval(at, env)?;
        if at == 0 && is_nullish(value) {
            return Ok(None);
        }
        value.and_then(Value::as_str).map(Some).ok_or_else(|| {
            let found = type_name(value);
            Error::new(code, format!("{operator} requires a string as the {which} argument, found: {found}"))
        })
    };
    let Some(input) = string(0, "first", codes.0)? else { return Ok(None) };
    Ok(string(1, "second", codes.1)?.map(|token| (input, token)))
}

pub(crate) fn index_of_bytes<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((input, token)) = operands(args, env, (40091, 40092))? else { return null() };
    let start = index_argument(args, 2, "starting index", env)?.unwrap_or(0);
    let end = index_argument(args, 3, "ending index", env)?.unwrap_or(usize::MAX).min(input.len());
    let window = input.as_bytes().get(start..end);
    let found = window.and_then(|window| find(window, token.as_bytes()));
    Ok(Some(found.map_or(Value::Int32(-1), |at| int(start + at))))
}

/// Where `needle` begins in `bytes`, which may begin or end inside a character.
fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

pub(crate) fn index_of_cp<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some((input, token)) = operands(args, env, (40093, 40094))? else { return null() };
    let start = index_argument(args, 2, "starting index", env)?.unwrap_or(0);
    let end = index_argument(args, 3, "ending index", env)?.unwrap_or(usize::MAX);
    if input.is_empty() && token.is_empty() && start == 0 {
        return Ok(Some(Value::Int32(0)));
    }
    // The end limits where a match may begin, not where it ends.
    let first = input.char_indices().nth(start).map(|(at, _)| at);
    let found = first.and_then(|first| {
        let at = find(&input.as_bytes()[first..], token.as_bytes())?;
        let before = input.get(first..first + at)?;
        Some(start + before.chars().count()).filter(|found| *found < end)
    });
    Ok(Some(found.map_or(Value::Int32(-1), int)))
}

/// Parses `{input, find, replacement}`.
pub(crate) fn parse_replace(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let names = ["input", "find", "replacement"];
    let not_an_object = || {
        let found = type_name(Some(value));
        Error::new(51751, format!("{operator} requires an object as an argument, found: {found}"))
    };
    let unknown = |name: &str| Error::new(51750, format!("{operator} found an unknown argument: {name}"));
    let parts = named::parse(value, names, env, not_an_object, unknown)?;
    let mut args = Vec::new();
    for ((part, name), code) in parts.into_iter().zip(names).zip([51749, 51748, 51747]) {
        let missing = || Error::new(code, format!("{operator} requires '{name}' to be specified"));
        args.push(part.ok_or_else(missing)?);
    }
    Ok(env.fold(Expr::Call { operator, function: replace, args }))
}

fn replace<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let operator = args.operator;
    let mut null_argument = false;
    let mut texts = [""; 3];
    let names = ["input", "find", "replacement"].into_iter().zip([51746, 51745, 51744]);
    for (at, (name, code)) in names.enumerate() {
        match args.eval(at, env)? {
            Some(Value::String(text)) => texts[at] = text,
            value if is_nullish(value) => null_argument = true,
            other => {
                let message =
                    format!("{operator} requires that '{name}' be a string, found: {}", Shown(other));
                return Err(Error::new(code, message));
            }
        }
    }
    if null_argument {
        return null();
    }
    let [input, find, replacement] = texts;
    let limit = if operator == "$replaceOne" { 1 } else { usize::MAX };
    // Computes the size of the result first, because a short `find` may multiply the input.
    let count = input.match_indices(find).take(limit).count();
    if count == 0 {
        return Ok(Some(Value::String(input)));
    }
    let added = count.saturating_mul(replacement.len());
    env.check_size(input.len().saturating_add(added).saturating_sub(count * find.len()))?;
    env.string(&input.replacen(find, replacement, count)).map(Some)
}

/// Parses `{input, chars}`.
pub(crate) fn parse_trim(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let not_an_object = || {
        let found = type_name(Some(value));
        Error::new(50696, format!("{operator} only supports an object as an argument, found {found}"))
    };
    let unknown = |name: &str| Error::new(50694, format!("{operator} found an unknown argument: {name}"));
    let [input, chars] = named::parse(value, ["input", "chars"], env, not_an_object, unknown)?;
    let missing = || Error::new(50695, format!("{operator} requires an 'input' field"));
    let args = std::iter::once(input.ok_or_else(missing)?).chain(chars).collect();
    Ok(env.fold(Expr::Call { operator, function: trim, args }))
}

fn trim<'a>(args: Args<'a>, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let operator = args.operator;
    let string = |at: usize, name: &str, code: i32| {
        let value = args.eval(at, env)?;
        if is_nullish(value) {
            return Ok(None);
        }
        value.and_then(Value::as_str).map(Some).ok_or_else(|| {
            let (shown, found) = (Shown(value), type_name(value));
            Error::new(
                code,
                format!("{operator} requires {name} to be a string, got {shown} (of type {found}) instead."),
            )
        })
    };
    let Some(input) = string(0, "its input", 50699)? else { return null() };
    let trimmed = if args.len() == 1 {
        trim_ends(operator, input, is_blank)
    } else {
        let Some(chars) = string(1, "'chars'", 50700)? else { return null() };
        if chars.len() > MAX_TRIM_BYTES {
            let message = format!(
                "{operator} requires 'chars' to be not greater than {MAX_TRIM_BYTES} bytes, got {} bytes instead.",
                chars.len()
            );
            return Err(Error::new(12066800, message));
        }
        trim_ends(operator, input, |char| chars.contains(char))
    };
    Ok(Some(Value::String(trimmed)))
}

/// Removes characters that satisfy `remove` from the ends that the operator trims.
fn trim_ends<'a>(operator: &str, mut input: &'a str, remove: impl Fn(char) -> bool) -> &'a str {
    if operator != "$rtrim" {
        input = input.trim_start_matches(&remove);
    }
    if operator != "$ltrim" {
        input = input.trim_end_matches(&remove);
    }
    input
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::check;
    use diwan_value::{Value, doc};

    #[test]
    fn index_of_bytes_gives_byte_offsets() {
        check(doc! { "$indexOfBytes": ["cafés", "s"] }, Value::Int32(5));
        check(doc! { "$indexOfBytes": ["abab", "b", 2] }, Value::Int32(3));
        check(doc! { "$indexOfBytes": ["abab", "b", 2, 3] }, Value::Int32(-1));
        check(doc! { "$indexOfBytes": ["abc", "", 3] }, Value::Int32(3));
        check(doc! { "$indexOfBytes": ["abc", "", 4] }, Value::Int32(-1));
        check(doc! { "$indexOfBytes": ["abc", "c", 2, 1] }, Value::Int32(-1));
        check(doc! { "$indexOfBytes": [null, "b"] }, Value::Null);
        check(doc! { "$indexOfBytes": [1, "b"] }, 40091);
        check(doc! { "$indexOfBytes": ["a", null] }, 40092);
        check(doc! { "$indexOfBytes": ["a", "a", "x"] }, 40096);
        check(doc! { "$indexOfBytes": ["a", "a", -1] }, 40097);
        check(doc! { "$indexOfBytes": ["a"] }, 28667);
    }

    #[test]
    fn index_of_cp_gives_code_point_offsets() {
        check(doc! { "$indexOfCP": ["cafés", "s"] }, Value::Int32(4));
        check(doc! { "$indexOfCP": ["éaéa", "a", 2] }, Value::Int32(3));
        check(doc! { "$indexOfCP": ["éaéa", "a", 2, 3] }, Value::Int32(-1));
        check(doc! { "$indexOfCP": ["", ""] }, Value::Int32(0));
        check(doc! { "$indexOfCP": ["abc", "z"] }, Value::Int32(-1));
        check(doc! { "$indexOfCP": ["abc", "a", 9] }, Value::Int32(-1));
        check(doc! { "$indexOfCP": [1, "b"] }, 40093);
        check(doc! { "$indexOfCP": ["a", 1] }, 40094);
    }

    #[test]
    fn replace_operators_replace_matches() {
        let one = |input: &str| doc! { "$replaceOne": { "input": input, "find": "a", "replacement": "xy" } };
        let all = |input: &str| doc! { "$replaceAll": { "input": input, "find": "a", "replacement": "xy" } };
        check(one("banana"), "bxynana");
        check(all("banana"), "bxynxynxy");
        check(all("bcd"), "bcd");
        check(doc! { "$replaceAll": { "input": null, "find": "a", "replacement": "b" } }, Value::Null);
        check(doc! { "$replaceOne": { "input": "a", "find": "", "replacement": "b" } }, "ba");
        check(doc! { "$replaceOne": { "input": 1, "find": "a", "replacement": "b" } }, 51746);
        check(doc! { "$replaceOne": { "input": null, "find": 1, "replacement": "b" } }, 51745);
        check(doc! { "$replaceOne": { "input": "a", "find": "a", "replacement": 1 } }, 51744);
        check(doc! { "$replaceOne": { "input": "a", "find": "a" } }, 51747);
        check(doc! { "$replaceOne": { "input": "a", "replacement": "a" } }, 51748);
        check(doc! { "$replaceOne": { "find": "a", "replacement": "a" } }, 51749);
        check(doc! { "$replaceOne": { "x": "a" } }, 51750);
        check(doc! { "$replaceOne": "a" }, 51751);
    }

    #[test]
    fn replace_all_rejects_results_that_are_too_large() {
        let long = "x".repeat(1 << 20);
        let all =
            doc! { "$replaceAll": { "input": long.as_str(), "find": "x", "replacement": long.as_str() } };
        check(all, 10334);
    }

    #[test]
    fn trim_operators_remove_characters_at_the_ends() {
        check(doc! { "$trim": { "input": " \u{a0}\t a b\n\u{2003}" } }, "a b");
        check(doc! { "$ltrim": { "input": " a " } }, "a ");
        check(doc! { "$rtrim": { "input": " a " } }, " a");
        check(doc! { "$trim": { "input": "éxaxé", "chars": "xé" } }, "a");
        check(doc! { "$trim": { "input": null } }, Value::Null);
        check(doc! { "$trim": { "input": "a", "chars": null } }, Value::Null);
        check(doc! { "$trim": { "input": 1 } }, 50699);
        check(doc! { "$trim": { "input": "a", "chars": 1 } }, 50700);
        check(doc! { "$trim": { "chars": "a" } }, 50695);
        check(doc! { "$trim": { "x": "a" } }, 50694);
        check(doc! { "$trim": "a" }, 50696);
    }
}

//! `$regexMatch`, `$regexFind`, `$regexFindAll`. They use the same engine as filters, see [`Pattern`].

use crate::error::{Error, Result};
use crate::expr::array::int;
use crate::expr::coerce::{Evaluated, is_nullish, type_name};
use crate::expr::{EvalEnv, Expr, Node, ParseEnv, named};
use crate::filter::Pattern;
use diwan_value::{ArrayBuilder, DocBuilder, Value};
use std::sync::Arc;

/// A call of one of the operators.
#[derive(Debug)]
struct Regex {
    operator: &'static str,
    input: Expr,
    regex: Expr,
    options: Option<Expr>,
    /// The compiled pattern, if it is a constant. The inner `None` means that the constant is null.
    compiled: Option<Option<Pattern>>,
}

/// Parses `{input, regex, options}`.
pub(crate) fn parse_regex(operator: &'static str, value: Value<'_>, env: &ParseEnv<'_>) -> Result<Expr> {
    let not_an_object = || {
        let found = type_name(Some(value));
        Error::new(51103, format!("{operator} expects an object of named arguments but found: {found}"))
    };
    let unknown = |name: &str| Error::new(31024, format!("{operator} found an unknown argument: {name}"));
    let names = ["input", "regex", "options"];
    let [input, regex, options] = named::parse(value, names, env, not_an_object, unknown)?;
    let missing = |name, code| Error::new(code, format!("{operator} requires '{name}' parameter"));
    let input = input.ok_or_else(|| missing("input", 31022))?;
    let regex = regex.ok_or_else(|| missing("regex", 31023))?;
    let compiled = match (regex.as_literal(), options.as_ref().map(Expr::as_literal)) {
        (Some(regex), None) => Some(compile(operator, Some(regex), None)?),
        (Some(regex), Some(Some(options))) => Some(compile(operator, Some(regex), Some(options))?),
        _ => None,
    };
    Ok(Expr::Node(Arc::new(Regex { operator, input, regex, options, compiled })))
}

/// Compiles a pattern; `None` if it is null.
fn compile(operator: &str, regex: Option<Value<'_>>, options: Option<Value<'_>>) -> Result<Option<Pattern>> {
    let reject = |code, text: &str| Err(Error::new(code, format!("{operator}{text}")));
    let (source, own_options) = match regex {
        Some(Value::String(source)) => (Some(source), ""),
        Some(Value::Regex { pattern, options }) => (Some(pattern), options),
        value if is_nullish(value) => (None, ""),
        _ => return reject(51105, " needs 'regex' to be of type string or regex"),
    };
    let options = match options {
        Some(Value::String(_)) if !own_options.is_empty() => {
            return reject(51107, ": found regex option(s) specified in both 'regex' and 'option' fields");
        }
        Some(Value::String(options)) => options,
        value if is_nullish(value) => own_options,
        _ => return reject(51106, " needs 'options' to be of type string"),
    };
    if source.is_some_and(|source| source.contains('\0')) {
        return reject(51109, ": regular expression cannot contain an embedded null byte");
    }
    if options.contains('\0') {
        return reject(51110, ": regular expression options cannot contain an embedded null byte");
    }
    let pattern = source.map(|source| Pattern::with_exact_extents(source, options)).transpose();
    pattern.map_err(|error| match error.message.split_once("Regular expression is invalid: ") {
        Some((_, reason)) => Error::new(51111, format!("Invalid Regex in {operator}: {reason}")),
        None => Error::new(error.code, format!("{operator} {}", error.message)),
    })
}

impl Node for Regex {
    fn eval<'a>(&'a self, env: &EvalEnv<'a>) -> Evaluated<'a> {
        let operator = self.operator;
        let input = self.input.eval(env)?;
        let pattern = match &self.compiled {
            Some(pattern) => pattern.clone(),
            None => {
                let regex = self.regex.eval(env)?;
                let options = self.options.as_ref().map_or(Ok(None), |options| options.eval(env))?;
                compile(operator, regex, options)?
            }
        };
        let input = match input {
            Some(Value::String(input)) => Some(input),
            value if is_nullish(value) => None,
            _ => return Err(Error::new(51104, format!("{operator} needs 'input' to be of type string"))),
        };
        match (operator, input.zip(pattern)) {
            ("$regexMatch", Some((input, pattern))) => Ok(Some(Value::Boolean(pattern.is_match(input)?))),
            ("$regexMatch", None) => Ok(Some(Value::Boolean(false))),
            ("$regexFind", Some((input, pattern))) => find(input, &pattern, env),
            ("$regexFind", None) => Ok(Some(Value::Null)),
            (_, Some((input, pattern))) => find_all(input, &pattern, env),
            (_, None) => env.array(ArrayBuilder::new()).map(Some),
        }
    }

    fn children(&self) -> Vec<&Expr> {
        [&self.input, &self.regex].into_iter().chain(&self.options).collect()
    }
}

/// A match in the form of the operators' results. `index` counts code points.
fn describe(input: &str, groups: &[Option<std::ops::Range<usize>>], index: usize) -> DocBuilder {
    let mut found = DocBuilder::new();
    let text = |group: &Option<std::ops::Range<usize>>| {
        group.clone().and_then(|group| input.get(group)).map_or(Value::Null, Value::String)
    };
    let (whole, captures) =
        groups.split_first().map_or((Value::Null, groups), |(whole, rest)| (text(whole), rest));
    found.append("match", whole);
    found.append("idx", int(index));
    let mut texts = ArrayBuilder::new();
    for capture in captures {
        texts.push(text(capture));
    }
    found.append("captures", texts);
    found
}

fn find<'a>(input: &'a str, pattern: &Pattern, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let Some(groups) = pattern.captures_at(input, 0)? else { return Ok(Some(Value::Null)) };
    let start = groups.first().cloned().flatten().map_or(0, |whole| whole.start);
    let index = input.get(..start).unwrap_or_default().chars().count();
    env.document(describe(input, &groups, index)).map(Some)
}

fn find_all<'a>(input: &'a str, pattern: &Pattern, env: &EvalEnv<'a>) -> Evaluated<'a> {
    let mut all = ArrayBuilder::new();
    // The byte offset of the next search, and the number of code points before `counted`.
    let (mut at, mut counted, mut index) = (0, 0, 0);
    while let Some(groups) = pattern.captures_at(input, at)? {
        env.tick()?;
        let Some(whole) = groups.first().cloned().flatten() else { break };
        index += input.get(counted..whole.start).unwrap_or_default().chars().count();
        counted = whole.start;
        let found = describe(input, &groups, index).finish();
        all.push(Value::Document(found.as_doc()));
        env.check_size(all.len())?;
        // After an empty match the search continues behind the next character, so that it is not found again.
        let next = if whole.is_empty() {
            input.get(whole.end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
        } else {
            0
        };
        at = whole.end + next;
        if at >= input.len() {
            break;
        }
    }
    env.array(all).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::expr::testing::{check, check_over};
    use diwan_value::{Array, DocBuf, Value, array, doc};

    fn found(text: &str, index: i32, captures: DocBuf) -> DocBuf {
        let captures = captures.as_doc().get("c").expect("captures");
        doc! { "match": text, "idx": index, "captures": captures }
    }

    #[test]
    fn regex_find_gives_the_first_match() {
        let find = |input: &str, regex: &str| doc! { "$regexFind": { "input": input, "regex": regex } };
        let expected = found("b1", 2, doc! { "c": ["b", null, "1"] });
        check(find("aéb1", "(b)(c)?([0-9])"), Value::Document(expected.as_doc()));
        check(find("abc", "z"), Value::Null);
        // A newline at the end of the input is not part of the match.
        let expected = found("c", 2, doc! { "c": [] });
        check(find("abc\n", "c$"), Value::Document(expected.as_doc()));
        let folded = doc! { "$regexFind": { "input": "ABC", "regex": "b", "options": "i" } };
        let expected = found("B", 1, doc! { "c": [] });
        check(folded, Value::Document(expected.as_doc()));
        check(doc! { "$regexFind": { "input": null, "regex": "b" } }, Value::Null);
        check(doc! { "$regexFind": { "input": "a", "regex": null } }, Value::Null);
    }

    #[test]
    fn regex_find_all_gives_all_matches() {
        let find = |input: &str, regex: &str| doc! { "$regexFindAll": { "input": input, "regex": regex } };
        let none = || doc! { "c": [] };
        let all = array![(found("éa", 0, none())), (found("éa", 3, none()))];
        check(find("éaxéa", "éa"), all);
        let all = array![(found("", 0, none())), (found("", 1, none()))];
        check(find("éb", "z*"), all);
        let all = array![(found("", 0, none()))];
        check(find("", "z*"), all);
        check(find("abc", "z"), Value::Array(Array::EMPTY));
        check(doc! { "$regexFindAll": { "input": "$missing", "regex": "a" } }, Value::Array(Array::EMPTY));
    }

    #[test]
    fn regex_match_tells_whether_text_matches() {
        let regex = Value::Regex { pattern: "^B", options: "i" };
        check(doc! { "$regexMatch": { "input": "bc", "regex": regex } }, Value::Boolean(true));
        check(doc! { "$regexMatch": { "input": "ab", "regex": regex } }, Value::Boolean(false));
        check(doc! { "$regexMatch": { "input": null, "regex": regex } }, Value::Boolean(false));
        let root = doc! { "r": "b+", "o": "i" };
        let computed = doc! { "$regexMatch": { "input": "aB", "regex": "$r", "options": "$o" } };
        check_over(root.as_doc(), computed, Value::Boolean(true));
    }

    #[test]
    fn regex_operators_reject_invalid_arguments() {
        let regex = Value::Regex { pattern: "b", options: "i" };
        for (arguments, code) in [
            (doc! { "$regexFind": "a" }, 51103),
            (doc! { "$regexFind": { "x": 1 } }, 31024),
            (doc! { "$regexFind": { "regex": "a" } }, 31022),
            (doc! { "$regexFind": { "input": "a" } }, 31023),
            (doc! { "$regexFind": { "input": 1, "regex": "a" } }, 51104),
            (doc! { "$regexFind": { "input": "a", "regex": 1 } }, 51105),
            (doc! { "$regexFind": { "input": "a", "regex": "a", "options": 1 } }, 51106),
            (doc! { "$regexFind": { "input": "a", "regex": regex, "options": "i" } }, 51107),
            (doc! { "$regexFind": { "input": "a", "regex": "a", "options": "k" } }, 51108),
            (doc! { "$regexFind": { "input": "a", "regex": "\0" } }, 51109),
            (doc! { "$regexFind": { "input": "a", "regex": "a", "options": "\0" } }, 51110),
        ] {
            check(arguments, code);
        }
        let invalid = "Invalid Regex in $regexMatch: missing closing parenthesis";
        check(doc! { "$regexMatch": { "input": "a", "regex": "(" } }, (51111, invalid));
        let flag = "$regexMatch invalid flag in regex options: k";
        check(doc! { "$regexMatch": { "input": "a", "regex": "a", "options": "k" } }, (51108, flag));
    }
}

//! Writes conditions as selectors, for `explain`.

use super::condition::{Condition, Test};
use super::element::Element;
use diwan_value::json::{id_to_text, is_metadata_member};
use diwan_value::{ArrayBuilder, DocBuf, DocBuilder, Path, Value, ValueBuf, array};

impl Condition {
    /// The selector with only this condition.
    pub(crate) fn to_doc(&self, path: &Path) -> DocBuf {
        let mut name = path.as_str().to_owned();
        // Converts the name of a stored field to that of the HTTP member.
        if name.starts_with("$_") {
            name.remove(0);
        } else if is_metadata_member(path.name(0)) {
            name.insert(0, '$');
        }
        let mut builder = DocBuilder::new();
        match &self.test {
            Test::Eq(operand) | Test::Ne(operand) if name == "_id" => {
                builder.begin_document("_id").append(self.operator(), id(operand.value())).end();
            }
            Test::In(set) | Test::Nin(set) if name == "_id" => {
                let ids: Vec<ValueBuf> = set.values().iter().map(|operand| id(operand.value())).collect();
                builder.begin_document("_id").append(self.operator(), ids).end();
            }
            argument => drop(builder.append(&name, test(argument))),
        }
        builder.finish()
    }
}

/// An id as written in a selector: its text, except for an `ObjectId`.
fn id(id: Value<'_>) -> ValueBuf {
    if matches!(id, Value::ObjectId(_)) {
        return id.to_owned();
    }
    let mut text = String::new();
    id_to_text(id, &mut text);
    Value::String(&text).to_owned()
}

/// A test as an object with one operator.
fn test(test: &Test) -> DocBuf {
    let mut builder = DocBuilder::new();
    let name = test.operator();
    match test {
        Test::Eq(operand)
        | Test::Ne(operand)
        | Test::Lt(operand)
        | Test::Lte(operand)
        | Test::Gt(operand)
        | Test::Gte(operand) => builder.append(name, operand.value()),
        Test::In(set) | Test::Nin(set) => {
            builder.append(name, values(set.values().iter().map(|one| one.value())))
        }
        Test::All(all) => builder.append(name, values(all.iter().map(|one| one.value()))),
        Test::Exists(flag) => builder.append(name, *flag),
        Test::Type { name: of, .. } => builder.append(name, &**of),
        Test::Mod { divisor, remainder } => builder.append(name, array![*divisor, *remainder]),
        Test::Regex(pattern) => builder.append(name, pattern.source()),
        Test::BeginsWith(prefix) => builder.append(name, &**prefix),
        Test::Size(size) => builder.append(name, *size as i64),
        Test::ElemMatch(inner) | Test::AllMatch(inner) | Test::KeyMapMatch(inner) => {
            builder.append(name, element(inner))
        }
        Test::Not(inner) => builder.append(name, self::test(inner)),
    };
    builder.finish()
}

fn values<'v>(all: impl Iterator<Item = Value<'v>>) -> ArrayBuilder {
    let mut array = ArrayBuilder::new();
    for value in all {
        array.push(value);
    }
    array
}

fn element(of: &Element) -> DocBuf {
    let list = |name: &str, all: &[Element]| {
        let mut array = ArrayBuilder::new();
        for one in all {
            array.push(element(one));
        }
        let mut builder = DocBuilder::new();
        builder.append(name, array);
        builder.finish()
    };
    match of {
        Element::And(all) => list("$and", all),
        Element::Or(any) => list("$or", any),
        Element::Not(one) => {
            let mut builder = DocBuilder::new();
            builder.append("$not", element(one));
            builder.finish()
        }
        Element::At(None, one) => test(one),
        Element::At(Some(path), one) => {
            let mut builder = DocBuilder::new();
            builder.append(path.as_str(), test(one));
            builder.finish()
        }
    }
}

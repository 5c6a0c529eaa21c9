//! The options of a collection or view, as `create` takes and `listCollections` shows them.

use crate::error::{Error, Result};
use crate::index::{check_storage_engine, compile_collation};
use diwan_query::code;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_value::{Collation, Collator, Doc, DocBuf, DocBuilder, Value};
use std::sync::Arc;

/// How many bytes and documents a capped collection keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped {
    /// The most bytes of BSON.
    pub max_bytes: u64,
    /// The most documents.
    pub(crate) max_documents: Option<u64>,
}

/// Which writes a validator checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidationLevel {
    /// No writes.
    Off,
    /// Inserts, and updates of documents that were valid before.
    Moderate,
    /// All writes.
    Strict,
}

/// The source of a view.
#[derive(Clone, Debug)]
pub struct View {
    /// The collection or view, in the same database, that it reads.
    pub on: String,
    /// The pipeline it applies: an array's bytes under the key `pipeline`.
    pub pipeline: DocBuf,
}

/// The parsed and checked options of a collection or view.
#[derive(Clone, Debug)]
pub struct CollectionOptions {
    /// The limits of a capped collection.
    pub capped: Option<Capped>,
    /// The validator, compiled.
    pub(crate) validator: Option<Arc<Filter>>,
    /// Which writes the validator checks.
    pub(crate) validation_level: ValidationLevel,
    /// Whether a write that fails validation is refused (or else only logged).
    pub(crate) validation_refuses: bool,
    /// The default collation.
    pub collation: Option<Collation>,
    /// Compares strings by the default collation.
    pub collator: Option<Arc<Collator>>,
    /// Whether events of change streams keep the documents before and after a change.
    pub images: bool,
    /// How many seconds tombstones are kept for replicators.
    pub tombstone_seconds: u64,
    /// The source of a view; `None` for a collection.
    pub view: Option<View>,
    /// The options as `listCollections` shows them.
    document: DocBuf,
}

/// A week: long enough for a replicator that was offline.
const TOMBSTONE_SECONDS: u64 = 7 * 24 * 3600;

/// The options that Diwan supports or ignores, and MongoDB's options that it refuses.
const KNOWN: [&str; 15] = [
    "changeStreamPreAndPostImages",
    "capped",
    "size",
    "max",
    "autoIndexId",
    "storageEngine",
    "indexOptionDefaults",
    "validator",
    "validationLevel",
    "validationAction",
    "collation",
    "viewOn",
    "pipeline",
    "flags",
    "tombstoneSeconds",
];
const UNSUPPORTED: [&str; 5] =
    ["timeseries", "clusteredIndex", "expireAfterSeconds", "encryptedFields", "temp"];

impl Default for CollectionOptions {
    fn default() -> CollectionOptions {
        CollectionOptions {
            capped: None,
            validator: None,
            validation_level: ValidationLevel::Strict,
            validation_refuses: true,
            collation: None,
            collator: None,
            images: false,
            tombstone_seconds: TOMBSTONE_SECONDS,
            view: None,
            document: DocBuf::new(),
        }
    }
}

impl CollectionOptions {
    /// Parses the options of `create`, without the command's own fields. An option that is null counts as missing.
    pub fn parse(doc: Doc<'_>) -> Result<CollectionOptions> {
        let mut options = CollectionOptions::default();
        for element in doc.iter() {
            let name = element.key_str();
            if UNSUPPORTED.contains(&name) {
                return Err(Error::refused(
                    code::NOT_IMPLEMENTED,
                    format!("the option '{name}' of create is not supported by Diwan"),
                ));
            }
            if !KNOWN.contains(&name) {
                return Err(Error::refused(
                    40415,
                    format!("BSON field 'create.{name}' is an unknown field."),
                ));
            }
        }
        // Unknown names are refused above even if their value is null. From here on null means missing.
        let mut given = DocBuilder::new();
        doc.iter().filter(|element| element.value() != Value::Null).for_each(|element| {
            given.append_element(element);
        });
        let given = given.finish();
        let doc = given.as_doc();
        if let Some(engines) = doc.get("storageEngine") {
            check_storage_engine(engines)?;
        }
        if let Some(engines) =
            doc.get_doc("indexOptionDefaults").and_then(|defaults| defaults.get("storageEngine"))
        {
            check_storage_engine(engines)?;
        }
        if doc.get("autoIndexId").is_some_and(|value| matches!(value, Value::Boolean(false))) {
            return Err(Error::refused(
                code::INVALID_OPTIONS,
                "You cannot set autoIndexId to false when creating collections in databases other than local",
            ));
        }
        options.collation = match doc.get("collation") {
            None => None,
            Some(Value::Document(collation)) => {
                Collation::parse(collation).map_err(|error| Error::refused(error.code, error.message))?
            }
            Some(_) => return Err(wrong_type("collation", "object")),
        };
        // The validator is parsed with the collation, so this order matters.
        options.collator = compile_collation(options.collation.as_ref())?;
        options.capped = parse_capped(doc)?;
        options.parse_validation(doc)?;
        options.view = parse_view(doc)?;
        options.images = parse_images(doc)?;
        if let Some(seconds) = doc.get("tombstoneSeconds") {
            options.tombstone_seconds = whole_number("tombstoneSeconds", seconds)?;
        }
        options.document = options.rebuild_document(doc);
        Ok(options)
    }

    fn parse_validation(&mut self, doc: Doc<'_>) -> Result<()> {
        self.validation_level = match doc.get("validationLevel") {
            None => ValidationLevel::Strict,
            Some(Value::String("off")) => ValidationLevel::Off,
            Some(Value::String("moderate")) => ValidationLevel::Moderate,
            Some(Value::String("strict")) => ValidationLevel::Strict,
            Some(_) => {
                return Err(Error::refused(
                    code::BAD_VALUE,
                    "Enumeration value for field 'validationLevel' is not a valid value: expected off, strict or moderate",
                ));
            }
        };
        self.validation_refuses = match doc.get("validationAction") {
            None | Some(Value::String("error")) => true,
            Some(Value::String("warn")) => false,
            Some(_) => {
                return Err(Error::refused(
                    code::BAD_VALUE,
                    "Enumeration value for field 'validationAction' is not a valid value: expected error or warn",
                ));
            }
        };
        self.validator = match doc.get("validator") {
            None => None,
            Some(Value::Document(filter)) if filter.is_empty() => None,
            Some(Value::Document(filter)) => {
                let env = FilterEnv::with_collator(self.collator.clone());
                Some(Arc::new(Filter::parse(filter, &env)?))
            }
            Some(_) => return Err(wrong_type("validator", "object")),
        };
        Ok(())
    }

    /// The options as `listCollections` shows them.
    pub fn to_doc(&self) -> Doc<'_> {
        self.document.as_doc()
    }

    /// The options with some fields replaced, as `collMod` does. A change to null removes the field.
    pub fn modified(&self, changes: Doc<'_>) -> Result<CollectionOptions> {
        let mut merged = DocBuilder::new();
        for element in self.to_doc().iter() {
            if !changes.contains_key(element.key_str()) {
                merged.append_element(element);
            }
        }
        merged.append_all(changes);
        CollectionOptions::parse(merged.finish().as_doc())
    }

    /// The options in the given order, with all fields of the collation.
    fn rebuild_document(&self, doc: Doc<'_>) -> DocBuf {
        let mut out = DocBuilder::new();
        for element in doc.iter() {
            match element.key_str() {
                "flags" | "autoIndexId" => {}
                "capped" if self.capped.is_none() => {}
                "size" => {
                    let bytes = self.capped.map_or(0, |capped| capped.max_bytes);
                    match i32::try_from(bytes) {
                        Ok(bytes) => out.append("size", bytes),
                        Err(_) => out.append("size", bytes as i64),
                    };
                }
                "collation" => {
                    if let Some(collation) = &self.collation {
                        out.append("collation", collation.to_doc());
                    }
                }
                _ => {
                    out.append_element(element);
                }
            }
        }
        out.finish()
    }
}

/// Parses `changeStreamPreAndPostImages: {enabled}`.
fn parse_images(doc: Doc<'_>) -> Result<bool> {
    const NAME: &str = "changeStreamPreAndPostImages";
    match doc.get(NAME) {
        None => Ok(false),
        Some(Value::Document(images)) => match (images.get("enabled"), images.iter().count()) {
            (Some(Value::Boolean(enabled)), 1) => Ok(enabled),
            (Some(Value::Boolean(_)), _) => {
                Err(Error::refused(40415, format!("BSON field 'create.{NAME}' has an unknown field.")))
            }
            (Some(_), _) => Err(wrong_type(&format!("{NAME}.enabled"), "bool")),
            (None, _) => Err(Error::refused(
                40414,
                format!("BSON field '{NAME}.enabled' is missing but a required field"),
            )),
        },
        Some(_) => Err(wrong_type(NAME, "object")),
    }
}

fn wrong_type(field: &str, expected: &str) -> Error {
    Error::refused(
        code::TYPE_MISMATCH,
        format!("BSON field 'create.{field}' is the wrong type, expected type '{expected}'"),
    )
}

fn whole_number(field: &str, value: Value<'_>) -> Result<u64> {
    let number = match value {
        Value::Double(number) if number.is_finite() => Some(number as i64),
        value => value.as_i64_exact(),
    };
    number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| wrong_type(field, "long"))
}

fn parse_capped(doc: Doc<'_>) -> Result<Option<Capped>> {
    let capped = match doc.get("capped") {
        None => false,
        Some(Value::Boolean(flag)) => flag,
        Some(value) => value.as_i64_exact().ok_or_else(|| wrong_type("capped", "bool"))? != 0,
    };
    if !capped {
        return match doc.contains_key("max") || doc.contains_key("size") {
            true => Err(Error::refused(
                code::INVALID_OPTIONS,
                "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
            )),
            false => Ok(None),
        };
    }
    let Some(size) = doc.get("size") else {
        return Err(Error::refused(
            code::INVALID_OPTIONS,
            "the 'size' field is required when 'capped' is true",
        ));
    };
    let size = whole_number("size", size)?;
    if size == 0 || size > 1 << 50 {
        return Err(Error::refused(code::BAD_VALUE, "the 'size' field must be between 1 and 1PB"));
    }
    let max_documents = match doc.get("max") {
        None => None,
        Some(max) => Some(whole_number("max", max)?).filter(|&max| max > 0),
    };
    // MongoDB rounds sizes up to a multiple of 256, and shows the rounded size.
    Ok(Some(Capped { max_bytes: size.next_multiple_of(256), max_documents }))
}

/// MongoDB's `OptionNotSupportedOnView`.
const OPTION_NOT_SUPPORTED_ON_VIEW: i32 = 167;

fn parse_view(doc: Doc<'_>) -> Result<Option<View>> {
    let pipeline = match doc.get("pipeline") {
        None => None,
        Some(Value::Array(pipeline)) => Some(pipeline),
        Some(_) => return Err(wrong_type("pipeline", "array")),
    };
    match doc.get("viewOn") {
        None if pipeline.is_some() => {
            Err(Error::refused(code::INVALID_OPTIONS, "'pipeline' requires 'viewOn' to also be specified"))
        }
        None => Ok(None),
        Some(Value::String("")) => Err(Error::refused(code::BAD_VALUE, "'viewOn' cannot be empty")),
        Some(Value::String(on)) => {
            let pipeline = pipeline.unwrap_or(diwan_value::Array::EMPTY);
            let first = pipeline.iter().next().and_then(Value::as_doc);
            if first.is_some_and(|stage| stage.contains_key("$changeStream")) {
                let text = "$changeStream cannot be used in a view definition";
                return Err(Error::refused(OPTION_NOT_SUPPORTED_ON_VIEW, text));
            }
            let mut out = DocBuilder::new();
            out.append("pipeline", pipeline);
            Ok(Some(View { on: on.to_owned(), pipeline: out.finish() }))
        }
        Some(_) => Err(wrong_type("viewOn", "string")),
    }
}

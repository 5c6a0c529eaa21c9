//! `validate`: checks a collection's records, index entries and change log against each other.

use crate::dispatch::Context;
use crate::error::{CommandError, Result, code};
use diwan_store::validate_collection;
use diwan_value::{DocBuilder, Value, array, doc};

/// How many errors the reply lists at most.
const LISTED: usize = 100;

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let namespace = context.request.namespace()?;
    let (mut full, mut background) = (false, false);
    context.request.read(|field| {
        match field.key {
            // Every check is full, and runs beside other commands.
            "full" => full = field.flag()?,
            "background" => background = field.flag()?,
            "checkBSONConformance" => {
                field.flag()?;
            }
            "scandata" => {}
            "repair" | "fixMultikey" | "metadata" | "enforceFastCount" if !field.flag()? => {}
            "repair" | "fixMultikey" | "metadata" | "enforceFastCount" => {
                return Err(CommandError::not_implemented(format_args!("validate.{}", field.key)));
            }
            _ => return Err(field.unknown()),
        }
        Ok(())
    })?;
    if full && background {
        let text = "Running the validate command with both { background: true } and { full: true } is not supported.";
        return Err(CommandError::new(code::INVALID_OPTIONS, text));
    }
    let collection = context.store.collection(&namespace)?.ok_or_else(|| {
        let text = format!("Collection '{namespace}' does not exist to validate.");
        CommandError::new(code::NAMESPACE_NOT_FOUND, text)
    })?;
    let report = validate_collection(&collection, &context.interrupt, &mut |_| {})?;
    reply.append("ns", namespace.to_string()).append("uuid", uuid(&collection.uuid()));
    reply.append("nInvalidDocuments", report.invalid as i64);
    reply.append("nNonCompliantDocuments", report.nonconforming as i64);
    reply
        .append("nrecords", Value::integer(report.documents as i64))
        .append("nIndexes", report.indexes.len() as i32);
    reply.begin_document("keysPerIndex");
    for index in &report.indexes {
        reply.append(&index.name, Value::integer(index.entries as i64));
    }
    reply.end().begin_document("indexDetails");
    for index in &report.indexes {
        reply.append(&index.name, doc! { "valid": index.findings == 0 });
    }
    reply.end();
    let errors: Vec<String> = report.findings.listed.iter().take(LISTED).map(ToString::to_string).collect();
    let mut warnings = Vec::new();
    if report.nonconforming > 0 {
        warnings.push("Detected one or more documents not compliant with the collection's schema.");
    }
    reply.append("valid", report.findings.is_empty()).append("repaired", false);
    reply.append("warnings", warnings).append("errors", errors);
    reply.append("extraIndexEntries", array![]).append("missingIndexEntries", array![]);
    reply.append("corruptRecords", array![]);
    Ok(())
}

fn uuid(bytes: &[u8]) -> Value<'_> {
    Value::Binary { subtype: 4, bytes }
}

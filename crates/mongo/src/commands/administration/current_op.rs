//! `currentOp`: the running commands, and the transactions between two statements.

use crate::dispatch::Context;
use crate::error::Result;
use diwan_query::filter::{Filter, FilterEnv};
use diwan_value::{ArrayBuilder, DocBuilder};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let mut own = false;
    let mut filter = DocBuilder::new();
    context.request.read(|field| {
        match field.key {
            "$all" | "truncateOps" => {}
            "$ownOps" => own = field.flag()?,
            key => {
                filter.append(key, field.value());
            }
        }
        Ok(())
    })?;
    let filter = filter.finish();
    let filter = Filter::parse(filter.as_doc(), &FilterEnv::default())?;
    let mut running = ArrayBuilder::new();
    for (id, operation) in context.server.operations.list() {
        let is_own = context.caller.owns(&operation.owner)
            && (context.caller.principal().is_some() || operation.client.id == context.client.id);
        if own && !is_own {
            continue;
        }
        let shown = operation.describe(id);
        if filter.matches(shown.as_doc())? {
            running.push(shown);
        }
    }
    let server = context.server;
    let idle = server.transactions.describe_idle(&server.host(), server.parameters.transaction_lifetime());
    for (owner, shown) in idle {
        if (!own || context.caller.owns(&owner)) && filter.matches(shown.as_doc())? {
            running.push(shown);
        }
    }
    reply.append("inprog", running);
    Ok(())
}

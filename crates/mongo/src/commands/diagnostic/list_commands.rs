//! `listCommands`: the commands of the table that are implemented.

use crate::commands::{ADMIN, API, Command, END, MISSING, TABLE};
use crate::dispatch::Context;
use crate::error::Result;
use diwan_value::{DocBuilder, array};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    reply.begin_document("commands");
    let is_there = |command: &&Command| {
        command.flags & MISSING == 0
            && (command.name != "configureFailPoint" || context.server.fail_points.is_some())
    };
    for command in TABLE.iter().filter(is_there) {
        reply.begin_document(command.name);
        reply.append("help", "").append("requiresAuth", false).append("secondaryOk", true);
        reply.append("adminOnly", command.flags & ADMIN != 0);
        if command.flags & API != 0 {
            reply.append("apiVersions", array!["1"]);
        } else {
            reply.append("apiVersions", array![]);
        }
        reply.append("deprecatedApiVersions", array![]);
        reply.append("requiresTransaction", command.flags & END != 0);
        reply.end();
    }
    reply.end();
    Ok(())
}

//! `buildInfo`: the MongoDB version that the server follows, and its own version and build.

use crate::dispatch::Context;
use crate::error::Result;
use crate::server::identity::{VERSION, VERSION_PARTS};
use diwan_value::{DocBuilder, MAX_DOCUMENT_BYTES, array, doc};

pub(crate) fn run(context: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    reply.append("version", VERSION).append("gitVersion", env!("CARGO_PKG_VERSION"));
    reply.append("modules", array![]).append("allocator", "system").append("javascriptEngine", "none");
    reply.append("sysInfo", "deprecated").append("versionArray", VERSION_PARTS.to_vec());
    reply.append("openssl", doc! { "running": "disabled", "compiled": "disabled" });
    reply.append(
        "buildEnvironment",
        doc! { "target_arch": std::env::consts::ARCH, "target_os": std::env::consts::OS },
    );
    reply.append("bits", 64).append("debug", cfg!(debug_assertions));
    reply.append("maxBsonObjectSize", MAX_DOCUMENT_BYTES as i32);
    reply.append("storageEngines", array![context.server.options.storage_engine]);
    reply.append("diwan", doc! { "version": env!("CARGO_PKG_VERSION") });
    Ok(())
}

//! `hostInfo`: the machine that the server runs on.

use crate::clock::unix_millis;
use crate::dispatch::Context;
use crate::error::Result;
use crate::machine;
use diwan_value::{DocBuilder, Value, doc};

pub(super) fn run(_: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
    let memory = (machine::memory_bytes() / 1024 / 1024) as i64;
    reply.append(
        "system",
        doc! {
            "currentTime": Value::DateTime(unix_millis()),
            "hostname": machine::hostname(),
            "cpuAddrSize": 64,
            "memSizeMB": memory,
            "memLimitMB": memory,
            "numCores": machine::cores() as i32,
            "numCoresAvailableToProcess": machine::cores() as i32,
            "cpuArch": std::env::consts::ARCH,
            "numaEnabled": false
        },
    );
    let (name, version) = machine::system();
    reply.append("os", doc! { "type": machine::kind(), "name": name, "version": version });
    reply.append("extra", doc! {});
    Ok(())
}

//! `hostInfo`: the machine and the operating system that the server runs on.

use crate::dispatch::Context;
use crate::error::Result;
use crate::monitoring::machine;
use crate::server::clock::unix_millis;
use diwan_value::{DocBuilder, Value, doc};

pub(crate) fn run(_: &mut Context<'_>, reply: &mut DocBuilder) -> Result<()> {
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
    let (name, version) = machine::os_release();
    reply.append("os", doc! { "type": machine::os_family(), "name": name, "version": version });
    reply.append("extra", doc! {});
    Ok(())
}

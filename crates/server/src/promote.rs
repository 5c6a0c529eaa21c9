//! `diwan promote`: makes a follower the primary, through the server that has its directory open, or in a stopped directory.

use crate::cli::PromoteArguments;
use crate::control::{self, Handler};
use crate::place::Place;
use crate::users;
use diwan_couch::Follower;
use diwan_store::Store;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The request that goes to the server.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", tag = "command")]
enum Request {
    /// Makes it the primary.
    Promote,
}

/// Runs `diwan promote`.
pub fn run(arguments: PromoteArguments) -> Result<(), String> {
    let place = Place::of(arguments.data, None, false)?;
    let Some(directory) = place.directory() else { return Err("--data must name a directory".to_owned()) };
    if !directory.is_dir() {
        return Err(format!("there is no directory {}", directory.display()));
    }
    let answer = match control::send(directory, &Request::Promote)? {
        Some(answer) => answer,
        None => in_directory(directory)?,
    };
    println!("{answer}");
    Ok(())
}

/// Promotes a directory that no server has open.
fn in_directory(directory: &std::path::Path) -> Result<String, String> {
    let options = diwan_kv::Options { settle_in_background: false, ..diwan_kv::Options::default() };
    let engine = users::open(directory, &options)?;
    let store = Store::open(engine).map_err(|error| format!("cannot open the store: {error}"))?;
    let replica = store.replica();
    let answer = match (replica.follows(), replica.identity().complete) {
        (false, _) => Err("this directory is not that of a follower".to_owned()),
        (true, false) => {
            Err("this follower has not copied everything yet, so it cannot take its primary's place"
                .to_owned())
        }
        (true, true) => store.promote().map_err(|error| error.to_string()).map(|identity| {
            format!(
                "the server of this directory is the primary from its next start on, in term {}",
                identity.term
            )
        }),
    };
    let closed = store.close().map_err(|error| format!("cannot close the store: {error}"));
    answer.and_then(|answer| closed.map(|()| answer))
}

/// Answers requests that come to the control port of a server.
pub fn handler(follower: Option<Arc<Follower>>) -> Handler {
    Arc::new(move |request| {
        let Request::Promote = serde_json::from_value(request.clone()).ok()?;
        Some(match &follower {
            Some(follower) => follower.promote(),
            None => Err("this server is a primary already".to_owned()),
        })
    })
}

//! `POST /_diwan/follow/news`: what changed in the catalog and in the change logs. The answer waits until there is
//! something.

use super::{PROTOCOL, answer, meet, number, read, settle};
use crate::error::Result;
use crate::http::{Request, Response};
use diwan_value::{DocBuilder, Value};
use std::time::{Duration, Instant};

/// The longest wait.
const MOST: Duration = Duration::from_secs(10);

/// How often the wait looks whether somebody still waits for the answer.
const STEP: Duration = Duration::from_millis(500);

/// Answers with a report.
pub(crate) fn post(request: &mut Request) -> Result<Response> {
    let couch = request.couch.clone();
    let (store, replica) = (&couch.store, couch.store.replica());
    let asked = read(request)?;
    let doc = asked.as_doc();
    let said = meet(&couch, doc)?;
    let identity = store.identify(|_| {})?;
    // A follower cannot make the secrets that both servers need.
    for (section, key) in [("chttpd_auth", "secret"), ("mongodb", "decoySecret")] {
        couch.access.settings.secret(section, key)?;
    }
    // A server that asks for the first time may not be allowed to follow. It is a member when it does.
    let member = said.member.clone();
    if doc.get("isMember") == Some(Value::Boolean(true)) {
        replica.announce(said);
    }
    let position = number(doc, "position")?;
    let end = Instant::now() + Duration::from_millis(number(doc, "waitMillis")?).min(MOST);
    let nudged = replica.clone();
    let subscription = store.on_database_event(Box::new(move || nudged.nudge()));
    let (report, time, news) = loop {
        let (is_wanted, nudges) = replica.is_report_wanted(&member);
        // Every write that is acknowledged by now has an earlier time, and is in the report.
        let (report, time) = (replica.next_report(), store.clock().now());
        let news = store.news(position);
        let is_over = Instant::now() >= end || request.interrupt.is_killed();
        if is_wanted || news.complete || !news.names.is_empty() || is_over || replica.follows() {
            break (report, time, news);
        }
        replica.wait_for_nudge(nudges, end.min(Instant::now() + STEP));
    };
    drop(subscription);
    replica.note_sent(&member, report);
    // It may have become a follower while the request waited.
    meet(&couch, doc)?;
    settle(&couch)?;
    let (host, port) = replica.own_address();
    let mut out = DocBuilder::new();
    out.append("protocol", PROTOCOL).append("member", &*identity.member).append("set", &*identity.set);
    out.append("setName", replica.set_name()).append("term", identity.term);
    out.append("host", host.as_deref().unwrap_or_default()).append("port", i64::from(port));
    out.append("time", time.to_bits() as i64).append("report", report as i64);
    let others: Vec<String> = replica.members().into_iter().map(|member| member.host).collect();
    out.append("others", others.iter().map(String::as_str).collect::<Vec<_>>());
    news.write(&mut out);
    Ok(answer(out.finish().into_bytes()))
}

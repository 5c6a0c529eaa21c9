//! Signing in: the SCRAM conversation of a connection, and who the connection belongs to afterwards.
//!
//! A conversation is two or three commands long. A user who does not exist gets a challenge like any other one, and the
//! answer to a failure never tells which part was wrong.

use crate::dispatch::{Context, Wait};
use crate::error::{CommandError, Result, code};
use crate::server::Server;
use diwan_access::{Access, Caller, User, UserName};
use diwan_auth::{MAX_MESSAGE_LEN, Mechanism, ScramConversation, ScramVerifier};
use diwan_value::{DocBuf, Value, doc};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a conversation may stay unfinished.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of a connection's only conversation.
const CONVERSATION: i32 = 1;

/// An unfinished conversation.
pub(crate) struct SignIn {
    conversation: ScramConversation,
    name: UserName,
    /// The user, if there is one.
    user: Option<User>,
    begun: Instant,
    /// Whether the last message of the client may be left out.
    skips_empty_exchange: bool,
    /// Whether the client has proved that it knows the password.
    is_proved: bool,
}

/// The arguments of the first message.
pub(crate) struct First<'a> {
    pub mechanism: &'a str,
    pub payload: &'a [u8],
    pub database: &'a str,
    pub skips_empty_exchange: bool,
}

/// Begins a conversation. `None` if the attempt must wait first: the command runs again then, and `has_waited`.
pub(crate) fn start(
    context: &mut Context<'_>,
    first: &First<'_>,
    has_waited: bool,
) -> Result<Option<DocBuf>> {
    *context.client.sign_in.lock() = None;
    let mechanism = Mechanism::from_name(first.mechanism).ok_or_else(|| {
        CommandError::new(
            code::MECHANISM_UNAVAILABLE,
            format!("Received authentication for mechanism {} which is not enabled", first.mechanism),
        )
    })?;
    if first.payload.len() > MAX_MESSAGE_LEN {
        return Err(failed());
    }
    let mut conversation = ScramConversation::start(mechanism, first.payload).map_err(|error| {
        tracing::debug!(connection = context.client.id, %error, "a sign-in failed");
        failed()
    })?;
    let name = UserName::new(conversation.user(), first.database);
    check_first_sign_in(context, &name)?;
    if !has_waited {
        let delay = begin_attempt(context, &name)?;
        if !delay.is_zero() {
            context.wait = Some(Wait::for_time(Instant::now() + delay));
            return Ok(None);
        }
    }
    let access = &context.server.access;
    let user = access.user(&name)?;
    let verifier = user.as_ref().and_then(|user| user.credentials.scram(mechanism)).cloned();
    let (verifier, user) = match verifier {
        Some(verifier) => (verifier, user),
        None => {
            let secret = access.settings.secret("mongodb", "decoySecret")?;
            let iterations = access.scram_iterations(mechanism);
            let decoy = ScramVerifier::decoy(mechanism, &name.to_string(), secret.as_bytes());
            (ScramVerifier { iterations, ..decoy }, None)
        }
    };
    let challenge = conversation.challenge(verifier);
    *context.client.sign_in.lock() = Some(SignIn {
        conversation,
        name,
        user,
        begun: Instant::now(),
        skips_empty_exchange: first.skips_empty_exchange,
        is_proved: false,
    });
    Ok(Some(answer(false, &challenge)))
}

/// Refuses to sign in another user than the connection's.
fn check_first_sign_in(context: &Context<'_>, name: &UserName) -> Result<()> {
    let Some(user) = context.caller.principal().filter(|user| user.name != *name) else { return Ok(()) };
    Err(if user.name.database == name.database {
        let text = "Each client connection may only be authenticated once. Previously authenticated as: ";
        CommandError::new(5_626_701, format!("{text}{}", user.name))
    } else {
        let text = "Client has attempted to authenticate on multiple databases.Already authenticated as: ";
        CommandError::new(5_626_702, format!("{text}{}", user.name))
    })
}

/// Counts an attempt. Returns how long it must wait. Too many that wait already are a failure like any other.
fn begin_attempt(context: &Context<'_>, name: &UserName) -> Result<Duration> {
    let (address, attempts) = (context.client.peer.ip(), &context.server.access.attempts);
    attempts
        .begin(&name.to_string(), address, Instant::now())
        .map_err(|_| refuse(context, name, "too many attempts wait"))
}

/// Continues the conversation with the client's next message.
pub(crate) fn proceed(context: &mut Context<'_>, conversation: i32, payload: &[u8]) -> Result<DocBuf> {
    let Some(mut sign_in) = context.client.sign_in.lock().take() else {
        return Err(CommandError::new(code::PROTOCOL_ERROR, "No SASL session state found"));
    };
    if conversation != CONVERSATION {
        return Err(CommandError::new(code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    if sign_in.begun.elapsed() > PATIENCE || payload.len() > MAX_MESSAGE_LEN {
        return Err(refuse(context, &sign_in.name, "the conversation took too long"));
    }
    if sign_in.is_proved {
        // The empty exchange that ends a conversation for older drivers.
        if !payload.is_empty() {
            return Err(refuse(context, &sign_in.name, "a message after the proof"));
        }
        let user = sign_in.user.take().ok_or_else(failed)?;
        become_user(context, &user)?;
        return Ok(answer(true, b""));
    }
    let outcome = sign_in.conversation.finish(payload);
    let last = match (outcome, &sign_in.user) {
        (Ok(last), Some(_)) => last,
        (Ok(_), None) => return Err(refuse(context, &sign_in.name, "there is no such user")),
        (Err(error), _) => return Err(refuse(context, &sign_in.name, &error.to_string())),
    };
    let user = sign_in.user.as_ref().ok_or_else(failed)?;
    check_restrictions(context, user)?;
    if sign_in.skips_empty_exchange {
        become_user(context, user)?;
        return Ok(answer(true, &last));
    }
    sign_in.is_proved = true;
    *context.client.sign_in.lock() = Some(sign_in);
    Ok(answer(false, &last))
}

/// Signs in the user whose name is the subject of the connection's certificate.
pub(crate) fn by_certificate(
    context: &mut Context<'_>,
    user: Option<&str>,
    database: &str,
) -> Result<String> {
    *context.client.sign_in.lock() = None;
    if context.server.options.tls.is_none() {
        let text = "SSL support is required for the MONGODB-X509 mechanism.";
        return Err(CommandError::new(code::PROTOCOL_ERROR, text));
    }
    if database != EXTERNAL {
        let text = "X.509 authentication must always use the $external database.";
        return Err(CommandError::new(code::PROTOCOL_ERROR, text));
    }
    let Some(subject) = context.client.certificate_subject().map(str::to_owned) else {
        let name = UserName::new(user.unwrap_or_default(), EXTERNAL);
        return Err(refuse(context, &name, "the client showed no certificate"));
    };
    let name = UserName::new(&subject, EXTERNAL);
    if user.is_some_and(|user| user != subject) {
        return Err(refuse(context, &name, "the certificate is another user's"));
    }
    check_first_sign_in(context, &name)?;
    let Some(user) = context.server.access.user(&name)? else {
        return Err(refuse(context, &name, "there is no such user"));
    };
    become_user(context, &user)?;
    Ok(subject)
}

/// The database of users who sign in with a certificate.
pub(crate) const EXTERNAL: &str = "$external";

fn check_restrictions(context: &Context<'_>, user: &User) -> Result<()> {
    let (client, server) = (context.client.peer.ip(), context.client.local.ip());
    if context.server.access.may_sign_in_from(user, client, server)? {
        return Ok(());
    }
    Err(refuse(context, &user.name, "the user may not sign in from this address"))
}

/// Makes the connection the user's, who has proved that he is the one.
fn become_user(context: &Context<'_>, proved: &User) -> Result<()> {
    let access = &context.server.access;
    // The user may have changed since the conversation began.
    let is_same = |user: &User| {
        user.id == proved.id && user.credentials.fingerprint() == proved.credentials.fingerprint()
    };
    let Some(user) = access.user(&proved.name)?.filter(is_same) else {
        return Err(refuse(context, &proved.name, "the user changed meanwhile"));
    };
    check_restrictions(context, &user)?;
    let caller = Caller::User(access.principal(&user)?);
    let address = context.client.peer.ip();
    access.attempts.succeeded(&user.name.to_string(), address, Instant::now());
    access.audit.record("signIn", &caller, Some(address), json!({ "interface": "mongodb" }));
    *context.client.caller.lock() = caller;
    Ok(())
}

/// Records a failed sign-in. The client does not learn the reason.
fn refuse(context: &Context<'_>, name: &UserName, reason: &str) -> CommandError {
    tracing::info!(connection = context.client.id, user = %name, peer = %context.client.peer, reason, "a sign-in failed");
    let details =
        json!({ "interface": "mongodb", "name": name.user, "database": name.database, "reason": reason });
    let address = Some(context.client.peer.ip());
    context.server.access.audit.record("signInFailed", &Caller::Anonymous, address, details);
    failed()
}

fn failed() -> CommandError {
    Access::sign_in_failed().into()
}

fn answer(done: bool, payload: &[u8]) -> DocBuf {
    doc! {
        "conversationId": CONVERSATION, "done": done, "payload": Value::Binary { subtype: 0, bytes: payload }
    }
}

/// The names of the mechanisms of a user, for `saslSupportedMechs`. Those of a user who does not exist are those of a
/// new user.
pub(crate) fn mechanisms_of(server: &Server, name: &UserName) -> Result<Vec<&'static str>> {
    let user = server.access.user(name)?;
    let mechanisms = user.map(|user| user.credentials.mechanisms()).filter(|names| !names.is_empty());
    Ok(mechanisms.unwrap_or_else(|| vec![Mechanism::ScramSha1.name(), Mechanism::ScramSha256.name()]))
}

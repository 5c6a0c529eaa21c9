//! The server's side of SCRAM (RFC 5802, RFC 7677), without channel binding.

mod message;
#[cfg(test)]
mod tests;

use crate::digest::{equal, random};
use crate::password::{Mechanism, ScramVerifier};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use message::{ClientFinal, ClientFirst};
use std::fmt;

/// The longest message of a client, in bytes.
pub const MAX_MESSAGE_LEN: usize = 8 * 1024;

/// The random bytes of the server's nonce. The text of the nonce is longer.
const NONCE_LEN: usize = 24;

/// Why a conversation ends without a user. The text is for the server's log; a client learns only that it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The message does not follow the grammar, or demands what this server does not do.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The message belongs to another conversation: its nonce or its channel binding is not the one of this one.
    #[error("the SCRAM message does not fit the conversation: {0}")]
    Mismatch(&'static str),
    /// The client does not know the password.
    #[error("the SCRAM proof is wrong")]
    WrongProof,
    /// The message comes before the challenge, or after the end.
    #[error("the SCRAM message is out of order")]
    OutOfOrder,
    /// The operating system has no random bytes.
    #[error("the operating system has no random bytes")]
    NoRandomBytes,
}

/// One SCRAM conversation. It goes [`start`](Self::start), [`challenge`](Self::challenge), [`finish`](Self::finish); after
/// that, and after each error, it is spent.
pub struct ScramConversation {
    mechanism: Mechanism,
    user: String,
    state: State,
}

enum State {
    Started { first: ClientFirst, server_nonce: String },
    Challenged(Box<Challenged>),
    Spent,
}

/// What the last message of the client is checked against.
struct Challenged {
    verifier: ScramVerifier,
    /// The channel binding that `c=` repeats, in Base64.
    binding: String,
    /// The nonces of the client and the server.
    nonce: String,
    /// The first messages of both sides, as the proof covers them.
    begin: String,
}

impl ScramConversation {
    /// Reads the client's first message.
    pub fn start(mechanism: Mechanism, client_first: &[u8]) -> Result<ScramConversation, SaslError> {
        let random: [u8; NONCE_LEN] = random().ok_or(SaslError::NoRandomBytes)?;
        ScramConversation::start_with(mechanism, client_first, BASE64.encode(random))
    }

    fn start_with(
        mechanism: Mechanism,
        client_first: &[u8],
        server_nonce: String,
    ) -> Result<ScramConversation, SaslError> {
        let first = ClientFirst::parse(client_first)?;
        let user = first.user.clone();
        Ok(ScramConversation { mechanism, user, state: State::Started { first, server_nonce } })
    }

    /// The mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The name of the user who wants to sign in, without escapes. Nothing has proved it before
    /// [`finish`](Self::finish) returns.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The server's first message. The verifier is the one of [`user`](Self::user) and of the conversation's mechanism, or
    /// a [decoy](ScramVerifier::decoy).
    ///
    /// A conversation has one challenge: a second call spends it and returns an empty message.
    pub fn challenge(&mut self, verifier: ScramVerifier) -> Vec<u8> {
        let State::Started { first, server_nonce } = self.take_state() else { return Vec::new() };
        if verifier.mechanism != self.mechanism {
            return Vec::new();
        }
        let nonce = format!("{}{server_nonce}", first.nonce);
        let message = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        self.state = State::Challenged(Box::new(Challenged {
            verifier,
            binding: BASE64.encode(first.gs2_header),
            nonce,
            begin: format!("{},{message}", first.bare),
        }));
        message.into_bytes()
    }

    /// Reads the client's final message and returns the server's, which proves to the client that the server knows the
    /// verifier. If it returns one, the client has shown the password of [`user`](Self::user).
    pub fn finish(&mut self, client_final: &[u8]) -> Result<Vec<u8>, SaslError> {
        let State::Challenged(challenged) = self.take_state() else { return Err(SaslError::OutOfOrder) };
        let message = ClientFinal::parse(client_final)?;
        challenged.finish(&message)
    }

    /// Takes the state and leaves the conversation spent.
    fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Spent)
    }
}

impl Challenged {
    fn finish(&self, message: &ClientFinal<'_>) -> Result<Vec<u8>, SaslError> {
        if !equal(message.binding.as_bytes(), self.binding.as_bytes()) {
            return Err(SaslError::Mismatch("the channel binding differs"));
        }
        if !equal(message.nonce.as_bytes(), self.nonce.as_bytes()) {
            return Err(SaslError::Mismatch("the nonce differs"));
        }
        let verifier = &self.verifier;
        let prf = verifier.mechanism.prf();
        if message.proof.len() != prf.output_len() {
            return Err(SaslError::Malformed("the proof has a wrong length"));
        }
        let covered: [&[u8]; 3] = [self.begin.as_bytes(), b",", message.without_proof.as_bytes()];
        let signature = prf.hmac(&verifier.stored_key, &covered);
        let client_key: Vec<u8> = message.proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_signature = prf.hmac(&verifier.server_key, &covered);
        if !equal(&prf.hash(&[&client_key]), &verifier.stored_key) {
            return Err(SaslError::WrongProof);
        }
        Ok(format!("v={}", BASE64.encode(server_signature)).into_bytes())
    }
}

impl fmt::Debug for ScramConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramConversation")
            .field("mechanism", &self.mechanism)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

//! Conversations with a client that is written here, and the examples of the RFCs.

use super::*;
use crate::digest::Prf;
use md5::{Digest, Md5};

const RFC_5802_FIRST: &[u8] = b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL";
const RFC_7677_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const BOTH: [Mechanism; 2] = [Mechanism::ScramSha1, Mechanism::ScramSha256];
const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

/// The client's side, by the RFC.
struct Client {
    prf: Prf,
    /// The text that PBKDF2 hashes.
    prepared: String,
    header: &'static str,
    bare: String,
}

/// What the client sends at the end, and what it expects to hear.
struct Answer {
    without_proof: String,
    proof: Vec<u8>,
    server_final: String,
}

impl Answer {
    fn message(&self) -> String {
        format!("{},p={}", self.without_proof, BASE64.encode(&self.proof))
    }
}

impl Client {
    fn new(mechanism: Mechanism, user: &str, password: &str) -> Client {
        let prepared = match mechanism {
            Mechanism::ScramSha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                digest.iter().map(|byte| format!("{byte:02x}")).collect()
            }
            Mechanism::ScramSha256 => password.to_owned(),
        };
        let escaped = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={escaped},r={CLIENT_NONCE}");
        Client { prf: mechanism.prf(), prepared, header: "n,,", bare }
    }

    fn first(&self) -> Vec<u8> {
        format!("{}{}", self.header, self.bare).into_bytes()
    }

    fn answer(&self, server_first: &[u8]) -> Answer {
        let server_first = std::str::from_utf8(server_first).unwrap();
        let fields: Vec<&str> = server_first.splitn(3, ',').collect();
        let nonce = fields[0].strip_prefix("r=").unwrap();
        assert!(nonce.starts_with(CLIENT_NONCE) && nonce.len() > CLIENT_NONCE.len());
        let salt = BASE64.decode(fields[1].strip_prefix("s=").unwrap()).unwrap();
        let iterations = fields[2].strip_prefix("i=").unwrap().parse().unwrap();
        let without_proof = format!("c={},r={nonce}", BASE64.encode(self.header));
        let covered = format!("{},{server_first},{without_proof}", self.bare);
        let salted = self.prf.pbkdf2(self.prepared.as_bytes(), &salt, iterations);
        let client_key = self.prf.hmac(&salted, &[b"Client Key"]);
        let signature = self.prf.hmac(&self.prf.hash(&[&client_key]), &[covered.as_bytes()]);
        let server_key = self.prf.hmac(&salted, &[b"Server Key"]);
        let server_signature = self.prf.hmac(&server_key, &[covered.as_bytes()]);
        Answer {
            without_proof,
            proof: client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect(),
            server_final: format!("v={}", BASE64.encode(server_signature)),
        }
    }
}

/// A verifier whose hash is quick to compute.
fn quick(mechanism: Mechanism, client: &Client) -> ScramVerifier {
    ScramVerifier::derive(mechanism, client.prepared.as_bytes(), b"some salt", 1)
}

/// A challenged conversation, and the right answer.
fn challenged(mechanism: Mechanism) -> (ScramConversation, Answer) {
    let client = Client::new(mechanism, "ada", "secret");
    let mut conversation = ScramConversation::start(mechanism, &client.first()).unwrap();
    let server_first = conversation.challenge(quick(mechanism, &client));
    let answer = client.answer(&server_first);
    (conversation, answer)
}

fn start(message: &str) -> Result<ScramConversation, SaslError> {
    ScramConversation::start(Mechanism::ScramSha256, message.as_bytes())
}

#[test]
fn scram_sha_1_follows_the_example_of_rfc_5802() {
    let salt = BASE64.decode("QSXCR+Q6sek8bf92").unwrap();
    // The example hashes the password itself, which MongoDB's rules never do.
    let verifier = ScramVerifier::derive(Mechanism::ScramSha1, b"pencil", &salt, 4096);
    let nonce = "3rfcNHYJY1ZVvWVs7j".to_owned();
    let mut conversation =
        ScramConversation::start_with(Mechanism::ScramSha1, RFC_5802_FIRST, nonce).unwrap();
    assert_eq!(conversation.user(), "user");
    assert_eq!(
        conversation.challenge(verifier),
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    );
    let client_final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
    assert_eq!(conversation.finish(client_final).unwrap(), b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=");
}

#[test]
fn scram_sha_256_follows_the_example_of_rfc_7677() {
    let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let verifier = ScramVerifier::derive(Mechanism::ScramSha256, b"pencil", &salt, 4096);
    let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned();
    let mut conversation =
        ScramConversation::start_with(Mechanism::ScramSha256, RFC_7677_FIRST, nonce).unwrap();
    assert_eq!(
        conversation.challenge(verifier),
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );
    let client_final = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let server_final = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_eq!(conversation.finish(client_final).unwrap(), server_final);
}

#[test]
fn conversation_accepts_the_password_of_a_made_verifier() {
    for mechanism in BOTH {
        let client = Client::new(mechanism, "a=d,a", "secret");
        let mut conversation = ScramConversation::start(mechanism, &client.first()).unwrap();
        assert_eq!(conversation.user(), "a=d,a");
        let verifier = ScramVerifier::make(mechanism, conversation.user(), "secret", 5000).unwrap();
        let answer = client.answer(&conversation.challenge(verifier));
        let server_final = conversation.finish(answer.message().as_bytes()).unwrap();
        assert_eq!(server_final, answer.server_final.as_bytes());
    }
}

#[test]
fn conversation_accepts_a_client_that_knows_channel_binding() {
    let mechanism = Mechanism::ScramSha256;
    let client = Client { header: "y,a=ada,", ..Client::new(mechanism, "ada", "secret") };
    let mut conversation = ScramConversation::start(mechanism, &client.first()).unwrap();
    let answer = client.answer(&conversation.challenge(quick(mechanism, &client)));
    assert!(conversation.finish(answer.message().as_bytes()).is_ok());
}

#[test]
fn conversation_refuses_another_password() {
    for mechanism in BOTH {
        let client = Client::new(mechanism, "ada", "guess");
        let mut conversation = ScramConversation::start(mechanism, &client.first()).unwrap();
        let verifier = quick(mechanism, &Client::new(mechanism, "ada", "secret"));
        let answer = client.answer(&conversation.challenge(verifier));
        assert_eq!(conversation.finish(answer.message().as_bytes()), Err(SaslError::WrongProof));
    }
}

#[test]
fn conversation_with_a_decoy_never_succeeds() {
    for mechanism in BOTH {
        let client = Client::new(mechanism, "nobody", "");
        let mut conversation = ScramConversation::start(mechanism, &client.first()).unwrap();
        let decoy = ScramVerifier::decoy(mechanism, "nobody", b"key");
        let answer = client.answer(&conversation.challenge(decoy));
        assert_eq!(conversation.finish(answer.message().as_bytes()), Err(SaslError::WrongProof));
    }
}

#[test]
fn conversation_refuses_an_empty_verifier() {
    let mechanism = Mechanism::ScramSha256;
    let client = Client::new(mechanism, "ada", "");
    let mut conversation = ScramConversation::start(mechanism, &client.first()).unwrap();
    let mut verifier = quick(mechanism, &client);
    verifier.stored_key.clear();
    let answer = client.answer(&conversation.challenge(verifier));
    assert_eq!(conversation.finish(answer.message().as_bytes()), Err(SaslError::WrongProof));
}

#[test]
fn conversation_is_spent_after_success_and_after_failure() {
    let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
    let message = answer.message();
    conversation.finish(message.as_bytes()).unwrap();
    assert_eq!(conversation.finish(message.as_bytes()), Err(SaslError::OutOfOrder));

    let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
    assert!(matches!(conversation.finish(b"c=biws"), Err(SaslError::Malformed(_))));
    assert_eq!(conversation.finish(answer.message().as_bytes()), Err(SaslError::OutOfOrder));
}

#[test]
fn conversation_refuses_messages_out_of_order() {
    let mut conversation = start("n,,n=ada,r=12345678").unwrap();
    assert_eq!(conversation.finish(b"c=biws,r=12345678,p=AAAA"), Err(SaslError::OutOfOrder));
    let verifier = ScramVerifier::decoy(Mechanism::ScramSha256, "ada", b"key");
    assert_eq!(conversation.challenge(verifier), b"");
}

#[test]
fn conversation_has_one_challenge() {
    let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
    let again = quick(Mechanism::ScramSha256, &Client::new(Mechanism::ScramSha256, "ada", "secret"));
    assert_eq!(conversation.challenge(again), b"");
    assert_eq!(conversation.finish(answer.message().as_bytes()), Err(SaslError::OutOfOrder));
}

#[test]
fn challenge_refuses_a_verifier_of_another_mechanism() {
    let mut conversation = start("n,,n=ada,r=12345678").unwrap();
    assert_eq!(conversation.challenge(ScramVerifier::decoy(Mechanism::ScramSha1, "ada", b"key")), b"");
}

#[test]
fn finish_refuses_another_nonce_and_another_binding() {
    for (find, replace) in [("r=rO", "r=rP"), ("c=biws", "c=eSws"), ("c=biws", "c=")] {
        let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
        let message = answer.message().replacen(find, replace, 1);
        let error = conversation.finish(message.as_bytes()).unwrap_err();
        assert!(matches!(error, SaslError::Mismatch(_)), "{message}: {error}");
    }
    // The server's part of the nonce is missing.
    let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
    let message = format!("c=biws,r={CLIENT_NONCE},p={}", BASE64.encode(answer.proof));
    assert!(matches!(conversation.finish(message.as_bytes()), Err(SaslError::Mismatch(_))));
}

#[test]
fn finish_refuses_proofs_of_another_length() {
    for proof in [vec![], vec![0; 20], vec![0; 31], vec![0; 33]] {
        let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
        let message = Answer { proof, ..answer }.message();
        assert!(matches!(conversation.finish(message.as_bytes()), Err(SaslError::Malformed(_))));
    }
}

#[test]
fn finish_covers_extensions_by_the_proof() {
    let (mut conversation, answer) = challenged(Mechanism::ScramSha256);
    let without_proof = format!("{},x=more", answer.without_proof);
    let message = Answer { without_proof, ..answer }.message();
    assert_eq!(conversation.finish(message.as_bytes()), Err(SaslError::WrongProof));
}

#[test]
fn start_refuses_malformed_messages() {
    for message in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=ada",
        "n,,n=ada,",
        "n,,r=12345678,n=ada",
        "n,,n=,r=12345678",
        "n,,n=ada,r=",
        "n,,n=ada,r=1234567",
        "n,,n=ada,r=1234 5678",
        "n,,n=ada,r=1234567é",
        "n,,n=a=da,r=12345678",
        "n,,n=ada=,r=12345678",
        "n,,n=ada=2,r=12345678",
        "n,,n=ada=2c,r=12345678",
        "n,,m=must,n=ada,r=12345678",
        "n,,n=ada,r=12345678,m=must",
        "n,,n=ada,r=12345678,",
        "n,,n=ada,r=12345678,x",
        "n,,n=a\0da,r=12345678",
        "n,a=eve,n=ada,r=12345678",
        "n,ada,n=ada,r=12345678",
        "p=tls-unique,,n=ada,r=12345678",
        "q,,n=ada,r=12345678",
        "N,,n=ada,r=12345678",
    ] {
        assert!(matches!(start(message), Err(SaslError::Malformed(_))), "{message:?}");
    }
    assert!(matches!(
        ScramConversation::start(Mechanism::ScramSha1, b"n,,n=\xFF,r=12345678"),
        Err(SaslError::Malformed(_))
    ));
}

#[test]
fn start_refuses_what_is_too_long() {
    let long = |user: usize, nonce: usize, more: usize| {
        let (user, nonce, more) = ("u".repeat(user), "r".repeat(nonce), "x".repeat(more));
        start(&format!("n,,n={user},r={nonce},x={more}")).map(drop)
    };
    assert_eq!(long(1024, 256, 10), Ok(()));
    for (user, nonce, more) in [(1025, 8, 1), (1, 257, 1), (1, 8, MAX_MESSAGE_LEN)] {
        assert!(matches!(long(user, nonce, more), Err(SaslError::Malformed(_))));
    }
}

#[test]
fn start_takes_the_user_name_as_it_is() {
    for (message, user) in [
        ("n,,n=ada=2C=3D2C,r=12345678", "ada,=2C"),
        ("n,,n=I\u{AD}X,r=12345678", "I\u{AD}X"),
        ("y,,n= ,r=12345678,x=1", " "),
        ("n,a=a=3Da,n=a=3Da,r=12345678", "a=a"),
    ] {
        assert_eq!(start(message).unwrap().user(), user);
    }
}

#[test]
fn truncated_and_corrupted_messages_never_succeed() {
    let mut rng = fastrand::Rng::with_seed(7);
    for mechanism in BOTH {
        let (_, answer) = challenged(mechanism);
        for end in 0..answer.message().len() {
            let (mut conversation, answer) = challenged(mechanism);
            assert!(conversation.finish(&answer.message().as_bytes()[..end]).is_err());
        }
        for _ in 0..2000 {
            let (mut conversation, answer) = challenged(mechanism);
            let mut message = answer.message().into_bytes();
            let at = rng.usize(..message.len());
            message[at] ^= rng.u8(1..);
            assert!(conversation.finish(&message).is_err(), "{}", String::from_utf8_lossy(&message));
        }
    }
}

#[test]
fn start_never_panics() {
    let mut rng = fastrand::Rng::with_seed(8);
    let alphabet = b"n,y=pamr2C3D1234567890x\0\xC3\xA9";
    for _ in 0..20_000 {
        let mut message: Vec<u8> =
            (0..rng.usize(..40)).map(|_| alphabet[rng.usize(..alphabet.len())]).collect();
        let _ = ScramConversation::start(Mechanism::ScramSha1, &message);
        message.splice(0..0, *b"n,,n=ada,r=");
        let _ = ScramConversation::start(Mechanism::ScramSha1, &message);
        let _ = ClientFinal::parse(&message);
    }
}

#[test]
fn debug_hides_the_verifier() {
    let (conversation, _) = challenged(Mechanism::ScramSha256);
    assert_eq!(
        format!("{conversation:?}"),
        "ScramConversation { mechanism: ScramSha256, user: \"ada\", .. }"
    );
}

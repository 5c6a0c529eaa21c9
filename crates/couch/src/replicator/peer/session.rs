//! How a replication proves to a remote server who it is: by a session's cookie, or by the password in each request.
//!
//! As CouchDB does, the password is sent once to `_session`. A server without sessions, or that refuses one, gets the
//! password in each request. A cookie that the server refuses is replaced once for a request.

use super::remote::Remote;
use super::{Payload, answer_cookie};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Uri};
use parking_lot::Mutex;
use serde_json::json;

/// The proof of one peer.
pub(super) struct Session {
    /// The value of `Authorization`; `None` if the replication has no password.
    basic: Option<HeaderValue>,
    /// The body of a sign-in.
    login: Bytes,
    state: Mutex<State>,
}

enum State {
    /// Nothing is known of the server.
    New,
    /// The cookie of the current session.
    Cookie(HeaderValue),
    /// The server gets the password in each request.
    Basic,
}

impl Session {
    /// A proof by this name and password. Without `may_sign_in` the password goes with each request.
    pub(super) fn new(login: Option<(&str, &str)>, basic: Option<HeaderValue>, may_sign_in: bool) -> Session {
        let (name, password) = login.unwrap_or_default();
        Session {
            basic,
            login: json!({ "name": name, "password": password }).to_string().into(),
            state: Mutex::new(if may_sign_in { State::New } else { State::Basic }),
        }
    }

    /// The headers that prove who sends a request. The first call signs in.
    pub(super) fn proof(&self, remote: &Remote) -> HeaderMap {
        let mut proof = HeaderMap::new();
        let Some(basic) = &self.basic else { return proof };
        let mut state = self.state.lock();
        if let State::New = *state {
            *state = self.sign_in(remote, basic);
        }
        match &*state {
            State::Cookie(cookie) => proof.insert(COOKIE, cookie.clone()),
            State::Basic | State::New => proof.insert(AUTHORIZATION, basic.clone()),
        };
        proof
    }

    /// Replaces a proof that the server refused. Returns whether there is another one.
    pub(super) fn renew(&self, remote: &Remote, refused: &HeaderMap) -> bool {
        let (Some(basic), Some(used)) = (&self.basic, refused.get(COOKIE)) else { return false };
        let mut state = self.state.lock();
        // Another thread may have replaced it meanwhile.
        if matches!(&*state, State::Cookie(cookie) if cookie == used) {
            *state = self.sign_in(remote, basic);
        }
        true
    }

    /// Takes the cookie with which a server continues a session.
    pub(super) fn learn(&self, headers: &HeaderMap) {
        if let Some(cookie) = answer_cookie(headers) {
            let mut state = self.state.lock();
            if let State::Cookie(known) = &mut *state {
                *known = cookie;
            }
        }
    }

    fn sign_in(&self, remote: &Remote, basic: &HeaderValue) -> State {
        let uri = remote.origin() + "/_session";
        let Ok(uri) = uri.parse::<Uri>() else { return State::Basic };
        // Some servers require the password even there.
        for with_password in [false, true] {
            let mut headers = remote.headers().clone();
            if with_password {
                headers.insert(AUTHORIZATION, basic.clone());
            }
            let payload = Payload::Json(self.login.clone());
            let answer = remote.request("POST _session", &Method::POST, &uri, headers, payload, false);
            let Ok(answer) = answer else { return State::Basic };
            if answer.status().is_success() {
                return answer_cookie(answer.headers()).map_or(State::Basic, State::Cookie);
            }
            if answer.status() != 401 || !answer.headers().contains_key(WWW_AUTHENTICATE) {
                break;
            }
        }
        State::Basic
    }
}

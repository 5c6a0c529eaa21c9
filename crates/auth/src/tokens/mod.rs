//! What an HTTP client shows instead of a password: cookies, JSON Web Tokens and the tokens of proxies.

pub mod cookie;
pub mod jwt;
pub mod proxy;

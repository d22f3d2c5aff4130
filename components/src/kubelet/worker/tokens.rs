//! The service account tokens that the volumes of pods ask for, each fetched once and renewed in time.
//!
//! Invariant: a token is renewed while some worker holds it; the one before stays good until then.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use listwatch_proto::resource::{Kind, Object, ObjectKey, parse_time};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::super::pod::facts::{Token, TokenAsk};
use crate::client::{Api, Client};
use crate::clock::SharedClock;

/// A token is renewed when it has lived this share of its life (Kubernetes 1.36: 80 %), and after a day at the latest.
const RENEW_PERCENT: i64 = 80;
const RENEW_MAX: Duration = Duration::from_secs(24 * 3600);
/// Between attempts that failed.
const RETRY: Duration = Duration::from_secs(5);

/// For which pod, as which account, and what is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TokenKey {
    pub(super) account: ObjectKey,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) ask: TokenAsk,
}

/// All that are kept.
pub(in crate::kubelet) struct Tokens {
    accounts: Api<Object>,
    clock: SharedClock,
    held: Mutex<HashMap<TokenKey, Weak<Held>>>,
    /// Moves with every token that comes, and with every failure.
    changes: watch::Sender<u64>,
}

/// One that is kept as long as somebody holds this.
pub(super) struct Held {
    now: Arc<Mutex<Token>>,
    _renewer: AbortOnDropHandle<()>,
}

impl Held {
    /// The token as it is now.
    pub(super) fn look(&self) -> Token {
        self.now.lock().clone()
    }
}

impl Tokens {
    /// None is kept yet.
    pub(in crate::kubelet) fn new(client: &Client, clock: SharedClock) -> Self {
        let kind = Kind::by_plural("", "v1", "serviceaccounts").expect("ServiceAccount is a served kind");
        let accounts = Api::of_kind(client, kind);
        Tokens { accounts, clock, held: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Moves with every token that comes, and with every failure.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Keeps this one.
    pub(super) fn hold(&self, key: &TokenKey) -> Arc<Held> {
        let mut held = self.held.lock();
        if let Some(present) = held.get(key).and_then(Weak::upgrade) {
            return present;
        }
        held.retain(|_, one| one.strong_count() > 0);
        let now = Arc::new(Mutex::new(Token::NotYet));
        let renewer = renew(self.accounts.clone(), self.clock.clone(), key.clone(), now.clone(), self.changes.clone());
        let new = Arc::new(Held { now, _renewer: AbortOnDropHandle::new(tokio::spawn(renewer)) });
        held.insert(key.clone(), Arc::downgrade(&new));
        new
    }
}

async fn renew(
    accounts: Api<Object>,
    clock: SharedClock,
    key: TokenKey,
    now: Arc<Mutex<Token>>,
    changes: watch::Sender<u64>,
) {
    loop {
        let pause = match ask(&accounts, &key).await {
            Ok((token, expires)) => {
                *now.lock() = Token::Here(token);
                pause(clock.now(), expires)
            }
            Err(why) => {
                let mut now = now.lock();
                if !matches!(*now, Token::Here(_)) {
                    *now = Token::Failed(why);
                }
                RETRY
            }
        };
        changes.send_modify(|n| *n += 1);
        tokio::time::sleep(pause).await;
    }
}

/// How long a token of this end is good enough.
fn pause(now: Timestamp, expires: Option<Timestamp>) -> Duration {
    let life = expires.map_or(0, |expires| expires.as_second() - now.as_second());
    let good = Duration::from_secs((life.max(0) * RENEW_PERCENT / 100).unsigned_abs());
    good.clamp(RETRY, RENEW_MAX)
}

async fn ask(accounts: &Api<Object>, key: &TokenKey) -> Result<(String, Option<Timestamp>), String> {
    let mut request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": key.ask.seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": key.pod, "uid": key.uid},
        },
    });
    if !key.ask.audience.is_empty() {
        request["spec"]["audiences"] = json!([key.ask.audience]);
    }
    let request = Object::from_value(request).expect("a literal map");
    let answer = accounts.create_part(&key.account, "token", &request).await.map_err(|error| error.to_string())?;
    let token = answer.object.text(&["status", "token"]).to_owned();
    if token.is_empty() {
        return Err("the server answered without a token".to_owned());
    }
    Ok((token, parse_time(answer.object.text(&["status", "expirationTimestamp"]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let now = Timestamp::from_second(1_800_000_000).expect("in range");
        let after = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).ok();
        assert_eq!(pause(now, after(1000)), Duration::from_secs(800));
        assert_eq!(pause(now, after(365 * 86400)), RENEW_MAX);
        assert_eq!(pause(now, after(-5)), RETRY);
        assert_eq!(pause(now, None), RETRY);
    }
}

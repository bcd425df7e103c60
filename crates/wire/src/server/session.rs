//! Sessions: what belongs together among the requests of one client, found again by an unguessable id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ClientInfo;
use super::message::Key;

/// One client's session, of the caller that opened it.
pub(super) struct Session<C> {
    pub id: String,
    caller: C,
    state: Mutex<State>,
}

struct State {
    client: Option<ClientInfo>,
    calls: HashMap<Key, CancellationToken>,
    used: Instant,
}

impl<C> Session<C> {
    /// A session with a new id of 128 random bits; `None` when the system gives no randomness.
    pub fn new(caller: C, client: Option<ClientInfo>, now: Instant) -> Option<Arc<Self>> {
        let state = State { client, calls: HashMap::new(), used: now };
        Some(Arc::new(Self { id: random_id()?, caller, state: Mutex::new(state) }))
    }

    pub fn client(&self) -> Option<ClientInfo> {
        self.hold().client.clone()
    }

    pub fn set_client(&self, client: Option<ClientInfo>) {
        self.hold().client = client;
    }

    /// Notes a request as in flight until the returned value is dropped; `None` when its id is in flight already.
    pub fn enter(self: &Arc<Self>, key: &Key, cancel: CancellationToken) -> Option<InFlight<C>> {
        let mut state = self.hold();
        if state.calls.contains_key(key) {
            return None;
        }
        state.calls.insert(key.clone(), cancel);
        Some(InFlight { session: Arc::clone(self), key: key.clone() })
    }

    /// Fires the token of a request in flight, if there is one of that id.
    pub fn cancel(&self, key: &Key) {
        let cancel = self.hold().calls.get(key).cloned();
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    /// The client has just shown that it is there.
    pub fn touch(&self) {
        self.hold().used = Instant::now();
    }

    /// Since when nothing happened; `None` while a request is in flight.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.hold();
        state.calls.is_empty().then_some(state.used)
    }

    fn hold(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in flight in its session.
pub(super) struct InFlight<C> {
    session: Arc<Session<C>>,
    key: Key,
}

impl<C> Drop for InFlight<C> {
    fn drop(&mut self) {
        let mut state = self.session.hold();
        state.calls.remove(&self.key);
        state.used = Instant::now();
    }
}

/// The sessions of all HTTP clients.
pub(super) struct Sessions<C> {
    open: Mutex<HashMap<String, Arc<Session<C>>>>,
    most: usize,
    idle: Duration,
}

impl<C: Eq> Sessions<C> {
    pub fn new(most: usize, idle: Duration) -> Self {
        Self { open: Mutex::default(), most, idle }
    }

    /// Takes a session in. At the bound the one idle for longest goes; `false` when every one is at work.
    pub fn add(&self, session: &Arc<Session<C>>, now: Instant) -> bool {
        let mut open = self.hold();
        open.retain(|_, session| !self.is_stale(session, now));
        if open.len() >= self.most {
            let Some(id) = self.least_missed(&open, &session.caller) else { return false };
            open.remove(&id);
        }
        open.insert(session.id.clone(), Arc::clone(session));
        true
    }

    /// The session of that id, if `caller` opened it.
    pub fn find(&self, id: &str, caller: &C, now: Instant) -> Option<Arc<Session<C>>> {
        let mut open = self.hold();
        let session = Arc::clone(open.get(id)?);
        if self.is_stale(&session, now) {
            open.remove(id);
            return None;
        }
        if session.caller != *caller {
            return None;
        }
        session.hold().used = now;
        Some(session)
    }

    /// Ends a session; `false` if `caller` has none of that id. Its requests in flight run on.
    pub fn end(&self, id: &str, caller: &C, now: Instant) -> bool {
        self.find(id, caller, now).is_some() && self.hold().remove(id).is_some()
    }

    fn is_stale(&self, session: &Session<C>, now: Instant) -> bool {
        session.idle_since().is_some_and(|since| now.duration_since(since) > self.idle)
    }

    /// The session that goes when `caller` opens one too many: the one idle for longest, among the caller's own
    /// if it holds more than half of all, so that one caller cannot push out everyone else.
    fn least_missed(&self, open: &HashMap<String, Arc<Session<C>>>, caller: &C) -> Option<String> {
        let own = open.values().filter(|session| session.caller == *caller).count();
        let only_own = own > self.most / 2;
        open.values()
            .filter(|session| !only_own || session.caller == *caller)
            .filter_map(|session| Some((session.idle_since()?, session)))
            .min_by_key(|(since, _)| *since)
            .map(|(_, session)| session.id.clone())
    }

    fn hold(&self) -> MutexGuard<'_, HashMap<String, Arc<Session<C>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random_id() -> Option<String> {
    let mut bits = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bits).ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    fn added(sessions: &Sessions<u8>, caller: u8, now: Instant) -> Arc<Session<u8>> {
        let session = Session::new(caller, None, now).unwrap();
        assert!(sessions.add(&session, now));
        session
    }

    fn busy(session: &Arc<Session<u8>>) -> InFlight<u8> {
        session.enter(&Key::Number("1".to_owned()), CancellationToken::new()).unwrap()
    }

    #[test]
    fn an_idle_session_expires_and_a_busy_one_does_not() {
        let sessions = Sessions::new(10, HOUR);
        let begun = Instant::now();
        let (idle, working) = (added(&sessions, 1, begun), added(&sessions, 1, begun));
        let in_flight = busy(&working);
        let later = begun + HOUR + SECOND;
        assert!(sessions.find(&idle.id, &1, later).is_none());
        assert!(sessions.find(&working.id, &1, later).is_some());
        drop(in_flight);
        let ended = Instant::now();
        assert!(
            sessions.find(&working.id, &1, ended + HOUR - SECOND).is_some(),
            "an hour after its last use"
        );
        assert!(sessions.find(&working.id, &1, ended + HOUR + HOUR + SECOND).is_none());
    }

    #[test]
    fn expired_sessions_are_swept_when_another_opens() {
        let sessions = Sessions::new(10, HOUR);
        let begun = Instant::now();
        (0..5).for_each(|_| drop(added(&sessions, 1, begun)));
        added(&sessions, 1, begun + HOUR + SECOND);
        assert_eq!(sessions.hold().len(), 1);
    }

    #[test]
    fn the_session_idle_for_longest_gives_way_and_never_a_busy_one() {
        let sessions = Sessions::new(3, HOUR);
        let begun = Instant::now();
        let open: Vec<_> =
            (1..=3).map(|caller| added(&sessions, caller, begun + SECOND * caller.into())).collect();
        let _first = busy(&open[0]);
        let now = begun + SECOND * 4;
        let fourth = added(&sessions, 4, now);
        assert!(sessions.find(&open[0].id, &1, now).is_some());
        assert!(sessions.find(&open[1].id, &2, now).is_none());
        assert!(sessions.find(&open[2].id, &3, now).is_some());

        let _others = [busy(&open[2]), busy(&fourth)];
        assert!(!sessions.add(&Session::new(5, None, now).unwrap(), now), "all at work");
    }

    #[test]
    fn one_caller_does_not_push_out_the_others() {
        let sessions = Sessions::new(10, HOUR);
        let begun = Instant::now();
        let quiet: Vec<_> = (0..4).map(|_| added(&sessions, 1, begun)).collect();
        let now = begun + SECOND;
        (0..100).for_each(|_| drop(added(&sessions, 2, now)));
        assert!(quiet.iter().all(|session| sessions.find(&session.id, &1, now).is_some()));
    }

    #[test]
    fn an_id_is_in_flight_once_and_free_again_after_its_end() {
        let session = Session::new(1, None, Instant::now()).unwrap();
        let (one, text) = (Key::Number("1".to_owned()), Key::Text("1".to_owned()));
        let first = session.enter(&one, CancellationToken::new());
        assert!(first.is_some());
        assert!(session.enter(&one, CancellationToken::new()).is_none());
        let cancel = CancellationToken::new();
        let _other = session.enter(&text, cancel.clone()).unwrap();
        session.cancel(&Key::Number("2".to_owned()));
        assert!(!cancel.is_cancelled());
        session.cancel(&text);
        assert!(cancel.is_cancelled());
        drop(first);
        assert!(session.enter(&one, CancellationToken::new()).is_some());
    }

    #[test]
    fn ids_are_long_and_never_the_same() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| random_id().unwrap()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}

//! News: what a server tells its clients without being asked, over the stream that each may hold open for it.

use bytes::Bytes;
use tokio::sync::watch;

const TOOLS_CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Where news come from. Several in a row that a client has not taken yet are one for it.
pub(super) struct News(watch::Sender<State>);

#[derive(Clone, Copy, Default)]
struct State {
    tools: u64,
    ended: bool,
}

impl News {
    pub fn new() -> Self {
        Self(watch::Sender::new(State::default()))
    }

    /// The list of tools is another one now.
    pub fn tools_changed(&self) {
        self.0.send_modify(|state| state.tools += 1);
    }

    /// There will be no more: the streams end.
    pub fn end(&self) {
        self.0.send_modify(|state| state.ended = true);
    }

    /// News from now on.
    pub fn follow(&self) -> Follower {
        Follower(self.0.subscribe())
    }
}

/// One client's place among those who hear news.
pub(super) struct Follower(watch::Receiver<State>);

impl Follower {
    /// The next notification; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.0.borrow().ended {
            return None;
        }
        self.0.changed().await.ok()?;
        (!self.0.borrow().ended).then_some(Bytes::from_static(TOOLS_CHANGED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_in_a_row_are_one_and_the_end_is_the_end() {
        let news = News::new();
        news.tools_changed();
        let mut follower = news.follow();
        news.tools_changed();
        news.tools_changed();
        assert_eq!(follower.next().await.as_deref(), Some(TOOLS_CHANGED));
        news.end();
        assert_eq!(follower.next().await, None);
        assert_eq!(news.follow().next().await, None);
    }
}

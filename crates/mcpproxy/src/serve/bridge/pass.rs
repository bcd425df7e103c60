//! The holder's side: a message on its way there, and what comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use gateway::mcp::{INTERNAL_ERROR, REFUSED};
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::time::sleep;

use super::find::Greeting;
use super::link::{Link, Lost};
use super::message::{Kind, Message};
use super::{Bridge, Failure, Flight, Heir, hold, link, relay};

/// How often a message is tried before its client is told.
const ATTEMPTS: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(50);

impl<H: Heir> Bridge<H> {
    /// Opens the client's session.
    pub(super) async fn open(self: &Arc<Self>, message: &Message) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            let link = self.link();
            match link.greet(&message.line).await {
                Ok((opened, answer)) => {
                    if opened.has_session() {
                        *hold(&self.greeting) =
                            Greeting { initialize: Some(message.line.clone()), initialized: None };
                        self.use_link(opened);
                    }
                    self.pen.line(&answer).await;
                    return Ok(());
                }
                Err(Lost::Unsent(_)) => self.renew(&link).await?,
                Err(Lost::Sent(_)) => sleep(BETWEEN).await,
            }
        }
        Err(given_up())
    }

    /// Answers a request, with an error of ours if need be.
    pub(super) async fn answer(self: &Arc<Self>, message: &Message, flight: &Flight) {
        if let Err(failure) = self.pass(message, flight).await
            && !flight.cancelled.load(Ordering::Acquire)
        {
            self.say(message.id(), failure.code, &failure.text).await;
        }
    }

    /// Passes a message to whoever serves, and what comes back to the client. What nobody can have read is passed again.
    pub(super) async fn pass(self: &Arc<Self>, message: &Message, flight: &Flight) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            if flight.cancelled.load(Ordering::Acquire) {
                return Ok(());
            }
            let link = self.link();
            match link.send(Method::POST, message.line.clone()).await {
                // The session was idle for too long, or had to give way. The client cannot know.
                Ok(response) if response.status() == StatusCode::NOT_FOUND && link.has_session() => {
                    self.renew(&link).await?;
                }
                Ok(response) => return self.bring(response, message, flight, &link).await,
                Err(Lost::Unsent(_)) => self.renew(&link).await?,
                Err(Lost::Sent(_)) if message.may_be_repeated() => sleep(BETWEEN).await,
                Err(Lost::Sent(why)) => return Err(broken(&link, &why)),
            }
        }
        Err(given_up())
    }

    async fn bring(
        &self,
        response: Response<Body>,
        message: &Message,
        flight: &Flight,
        link: &Link,
    ) -> Result<(), Failure> {
        if !response.status().is_success() {
            return self.bring_refusal(response, message).await;
        }
        let events = link::has_events(&response);
        if !events && !link::has_json(&response) {
            let silence = || Failure { code: INTERNAL_ERROR, text: "mcpproxy gave no answer".to_owned() };
            return message.id().map_or(Ok(()), |_| Err(silence()));
        }
        if !events && flight.cancelled.load(Ordering::Acquire) {
            // A request that was taken back gets no answer; over HTTP it gets one if it was quick.
            return Ok(());
        }
        let relayed = relay::relay(response.into_body(), events, &self.pen).await;
        match relayed.broken {
            Some(why) if !relayed.answered => Err(broken(link, &why)),
            _ => Ok(()),
        }
    }

    /// Over HTTP a refusal may name no id, because it answers its request anyway; over stdio it needs one.
    async fn bring_refusal(&self, response: Response<Body>, message: &Message) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Refusal {
            id: Option<serde_json::Value>,
            error: Told,
        }
        #[derive(Deserialize)]
        struct Told {
            code: i64,
            message: String,
        }
        let status = response.status();
        let body = link::whole(response).await.unwrap_or_default();
        let refusal: Option<Refusal> = serde_json::from_slice(&body).ok();
        match (refusal, &message.kind) {
            (_, Kind::Silent) => tracing::debug!(%status, "a notification was refused"),
            (Some(Refusal { id: None, error }), Kind::Request(_)) => {
                return Err(Failure { code: error.code, text: error.message });
            }
            (Some(_), _) => self.pen.line(&body).await,
            (None, _) => {
                let said = String::from_utf8_lossy(&body);
                let said: String = said.trim().chars().take(500).collect();
                return Err(Failure { code: REFUSED, text: format!("mcpproxy answered {status}: {said}") });
            }
        }
        Ok(())
    }
}

fn broken(link: &Link, why: &str) -> Failure {
    let holder = link.holder();
    let text = format!(
        "{holder}, which had this request, ended or broke off before its answer was complete ({why}): what was asked for \
         may have been done. Later requests are served again."
    );
    Failure { code: INTERNAL_ERROR, text }
}

fn given_up() -> Failure {
    Failure { code: REFUSED, text: "mcpproxy could not be reached: try again shortly".into() }
}

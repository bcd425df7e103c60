//! Who answers questions about saved files: the running gateway, or the record itself. Both give the same objects.

use std::time::Duration;

use gateway::outputs::Outputs;
use gateway::records::MAX_LIMIT;
use http::Method;
use serde_json::Value;

use crate::cli::place::{Failure, Place, place, told};
use crate::cli::remote::{Refused, Remote, segment};
use crate::cli::setup::{Configured, exit};
use crate::daemon::datadir::DataDir;
use crate::daemon::lock::Lock;
use crate::serve::rest::fault::Fault;
use crate::serve::rest::outputs::{self as routes, Page};

/// How long a file may take to be read or removed.
const PATIENCE: Duration = Duration::from_secs(600);
/// Most files that one command looks at.
const MOST: usize = 1_000_000;

/// Who is asked: the running gateway, or the record itself.
pub enum Desk {
    /// The running gateway.
    There(Remote),
    /// The record itself.
    Here {
        /// What is in it.
        outputs: Box<Outputs>,
        /// Let go last: the next process must find the record as this one left it.
        _held: Option<(DataDir, Lock)>,
    },
}

impl Desk {
    /// Finds who is asked. To remove without a gateway, this process holds the data directory meanwhile.
    ///
    /// # Errors
    /// The roots, the record or the data directory cannot be used.
    pub async fn open(configured: Configured, removes: bool) -> Result<Self, Failure> {
        let place = if removes {
            Some(place(&configured).await?)
        } else {
            Remote::find(configured.config())?.map(Place::Running)
        };
        if place.is_none() {
            configured.in_order()?;
        }
        let Configured { sources, loaded, .. } = configured;
        let (outputs, held) = match place {
            Some(Place::Running(remote)) => return Ok(Self::There(remote)),
            Some(Place::Free(dir, lock)) => (Outputs::alone(loaded.config, &sources.path), Some((dir, lock))),
            None => (Outputs::read_only(loaded.config, &sources.path), None),
        };
        let outputs = outputs.map_err(|problem| match problem {
            gateway::OpenProblem::Roots(_) => told(&problem, exit::CONFIG),
            _ => told(&problem, exit::GENERAL),
        })?;
        Ok(Self::Here { outputs: Box::new(outputs), _held: held })
    }

    /// A page of saved files.
    ///
    /// # Errors
    /// As the route of it, here and below.
    pub async fn page(&self, page: Page) -> Result<Value, Refused> {
        match self {
            Self::There(remote) => {
                let mut path = format!(
                    "/api/v1/outputs?limit={}&offset={}",
                    page.limit.unwrap_or(50),
                    page.offset.unwrap_or(0)
                );
                if let Some(root) = &page.root {
                    path.push_str(&format!("&root={}", segment(root)));
                }
                if let Some(until) = page.until_ms {
                    path.push_str(&format!("&until_ms={until}"));
                }
                data(remote, Method::GET, &path).await
            }
            Self::Here { outputs, .. } => routes::listed(outputs, page).map_err(refused),
        }
    }

    /// One of them.
    pub async fn one(&self, id: &str) -> Result<Value, Refused> {
        match self {
            Self::There(remote) => data(remote, Method::GET, &route(id)).await,
            Self::Here { outputs, .. } => routes::found(outputs, id).map_err(refused),
        }
    }

    /// Whether one still is what was saved.
    pub async fn verify(&self, id: &str) -> Result<Value, Refused> {
        match self {
            Self::There(remote) => data(remote, Method::POST, &format!("{}/verify", route(id))).await,
            Self::Here { outputs, .. } => {
                tokio::task::block_in_place(|| routes::verified(outputs, id)).map_err(refused)
            }
        }
    }

    /// Removes one that still is what was saved.
    pub async fn remove(&self, id: &str) -> Result<Value, Refused> {
        match self {
            Self::There(remote) => data(remote, Method::DELETE, &route(id)).await,
            Self::Here { outputs, .. } => {
                tokio::task::block_in_place(|| routes::removed(outputs, id)).map_err(refused)
            }
        }
    }

    /// All that fit, oldest last. They are gathered before anything is done to them, since that moves the pages.
    pub async fn all(&self, root: Option<&str>, until_ms: Option<i64>) -> Result<Vec<Value>, Refused> {
        let mut all = Vec::new();
        while all.len() < MOST {
            let page = Page {
                root: root.map(str::to_owned),
                until_ms,
                limit: Some(MAX_LIMIT),
                offset: Some(all.len()),
            };
            let mut page = self.page(page).await?;
            let Value::Array(mut found) = page["outputs"].take() else { break };
            if found.is_empty() {
                break;
            }
            all.append(&mut found);
        }
        Ok(all)
    }
}

async fn data(remote: &Remote, method: Method, path: &str) -> Result<Value, Refused> {
    Ok(remote.ask(method, path, PATIENCE).await?["data"].take())
}

fn route(id: &str) -> String {
    format!("/api/v1/outputs/{}", segment(id))
}

fn refused(fault: Fault) -> Refused {
    Refused { status: Some(fault.status), message: fault.message }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Text(refused.message)
    }
}

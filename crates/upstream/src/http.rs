//! Connecting to a server over streamable HTTP.

use config::Transport;
use wire::client::{Client, HttpOptions};

use crate::Context;

/// Makes the connection of an HTTP entry whose references are already resolved; nothing is sent yet.
pub fn connect(server: &config::Server, context: &Context) -> Result<Client, String> {
    let Transport::Http { url, headers } = &server.transport else {
        return Err("the entry names no url".into());
    };
    Client::http(HttpOptions {
        name: server.name.clone(),
        client_version: context.version.into(),
        url: url.clone(),
        headers: headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        max_message_bytes: server.upstream_max_message_bytes,
        spools: context.spools.clone(),
        socket: None,
    })
    .map_err(|e| e.to_string())
}

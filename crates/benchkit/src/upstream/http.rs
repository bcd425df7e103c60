//! The upstream over streamable HTTP: one JSON answer a POST, no streams.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::Server;

/// What it is started with.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Tools that it lists, `echo` and `big` among them
    #[arg(long, default_value_t = 3)]
    tools: usize,
    /// Ends by itself after so many seconds
    #[arg(long, default_value_t = 3600)]
    max_seconds: u64,
    /// Ends when its standard input does, so that it never outlives who started it
    #[arg(long)]
    until_stdin_closes: bool,
}

/// Serves until its time is over.
pub async fn serve(options: &Options) -> Result<(), String> {
    let server = Arc::new(Server::new(options.tools));
    let listener =
        TcpListener::bind(("127.0.0.1", options.port)).await.map_err(|e| format!("listen: {e}"))?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    writeln!(std::io::stdout(), "http://{address}/mcp").map_err(|e| format!("standard output: {e}"))?;
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(connection(Arc::clone(&server), stream))),
                // Out of file descriptors, most likely: others must end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = tokio::time::sleep(Duration::from_secs(options.max_seconds)) => {}
        () = stdin_closed(), if options.until_stdin_closes => {}
    }
    Ok(())
}

async fn stdin_closed() {
    let (closed, wait) = tokio::sync::oneshot::channel();
    // A thread of its own: tokio's would be waited for at the end.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = wait.await;
}

async fn connection(server: Arc<Server>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| respond(Arc::clone(&server), request));
    // A client that goes away is no matter for a bench's upstream.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(server: Arc<Server>, request: Request<Incoming>) -> Result<Response<Pieces>, hyper::Error> {
    let method = request.method().clone();
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Pieces::default());
    match method {
        Method::POST => match server.answer(&body) {
            None => *response.status_mut() = StatusCode::ACCEPTED,
            Some(answer) => {
                response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
                if answer.opens {
                    response.headers_mut().insert("mcp-session-id", HeaderValue::from_static("benchkit"));
                }
                *response.body_mut() = Pieces(answer.pieces.into());
            }
        },
        Method::DELETE => {}
        _ => *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED,
    }
    Ok(response)
}

/// A body of pieces whose length is known before it is sent.
#[derive(Default)]
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

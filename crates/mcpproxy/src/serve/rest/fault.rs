//! What a route answers: its data in the envelope, or why not. The request id comes in where all answers pass.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An id in a path, percent-decoded once.
pub type Id = Result<Path<String>, PathRejection>;
/// What stands after the `?`.
pub type Asked<T> = Result<Query<T>, QueryRejection>;

/// Why a route has no data.
#[derive(Debug)]
pub struct Fault {
    /// The status of the answer.
    pub status: StatusCode,
    /// What is wrong and what to do.
    pub message: String,
}

impl Fault {
    /// A fault with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request cannot be understood.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is no such thing.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
}

impl From<PathRejection> for Fault {
    fn from(_: PathRejection) -> Self {
        Self::bad("the id in the path cannot be decoded: percent-encode its UTF-8 bytes")
    }
}

impl From<QueryRejection> for Fault {
    fn from(error: QueryRejection) -> Self {
        Self::bad(format!("the query cannot be read: {}", error.body_text()))
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        error(self.status, &self.message)
    }
}

/// Data in the envelope.
pub fn success(data: Value) -> Json<Value> {
    let members = [("success".to_owned(), Value::Bool(true)), ("data".to_owned(), data)];
    Json(members.into_iter().collect())
}

/// The envelope of an error on its way out, while its request id is missing.
#[derive(Clone)]
pub struct Unsigned(Value);

/// The error envelope of all routes but MCP.
pub fn error(status: StatusCode, message: &str) -> Response {
    let envelope = json!({"success": false, "error": message});
    let mut response = (status, Json(envelope.clone())).into_response();
    response.extensions_mut().insert(Unsigned(envelope));
    response
}

/// Adds the request id to an error envelope; any other answer stays as it is.
pub fn signed(mut response: Response, request_id: &str) -> Response {
    let Some(Unsigned(mut envelope)) = response.extensions_mut().remove::<Unsigned>() else {
        return response;
    };
    envelope["request_id"] = json!(request_id);
    let text = envelope.to_string();
    if let Ok(length) = HeaderValue::from_str(&text.len().to_string()) {
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
    }
    *response.body_mut() = text.into();
    response
}
